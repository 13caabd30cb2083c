// AArch64: relocations, which are fields of instructions, and what C++ asks of the processor.

#pragma once

#include <cstring>

#include "targets/relocations.h"

namespace functrax::targets::aarch64 {

// Types of relocations: ADR_PREL_PG_HI21, LDST64_ABS_LO12_NC, ADR_GOT_PAGE, LD64_GOT_LO12_NC.
constexpr std::uint32_t kPage = 275, kLow64 = 286, kGotPage = 311, kGotLow = 312;
constexpr std::uint32_t kJump26 = 282, kCall26 = 283;

inline bool calls(std::uint32_t type) { return type == kJump26 || type == kCall26; }

inline std::uint32_t in_table(std::uint32_t type) {
  return type == kGotPage ? kPage : type == kGotLow ? kLow64 : 0;
}

// The low 12 bits of an address, which are the image's own since it lies at whole pages.
inline std::uint32_t with_low(std::uint32_t code, std::int64_t there, int shift) {
  const std::uint32_t low = static_cast<std::uint32_t>(there & 0xfff);
  need((low & ((1u << shift) - 1)) == 0, "a relocation is not aligned");
  return (code & 0xffc003ff) | ((low >> shift) << 10);
}

inline std::uint32_t word(std::uint32_t type, std::uint32_t code, std::int64_t here,
                          std::int64_t there) {
  const std::int64_t distance = there - here;
  switch (type) {
    case 261:  // PREL32
      return signed_field(distance, 32, 0);
    case kPage: {
      const std::uint32_t field = signed_field((there >> 12) - (here >> 12), 21, 0);
      return (code & 0x9f00001f) | ((field & 3) << 29) | ((field >> 2) << 5);
    }
    case 277:  // ADD_ABS_LO12_NC
    case 278:  // LDST8_ABS_LO12_NC
      return with_low(code, there, 0);
    case 284:  // LDST16_ABS_LO12_NC
      return with_low(code, there, 1);
    case 285:  // LDST32_ABS_LO12_NC
      return with_low(code, there, 2);
    case kLow64:
      return with_low(code, there, 3);
    case 299:  // LDST128_ABS_LO12_NC
      return with_low(code, there, 4);
    case 280:  // CONDBR19
      return (code & 0xff00001f) | (signed_field(distance, 19, 2) << 5);
    case 279:  // TSTBR14
      return (code & 0xfff8001f) | (signed_field(distance, 14, 2) << 5);
    case kJump26:
    case kCall26:
      return (code & 0xfc000000) | signed_field(distance, 26, 2);
    default:
      refuse("a relocation is of an unknown type");
  }
}

inline void stub(std::uint8_t* code, std::int64_t here, std::int64_t slot) {
  const std::uint32_t words[kStub / 4] = {
      word(kPage, 0x90000010, here, slot),       // adrp x16, slot
      word(kLow64, 0xf9400210, here + 4, slot),  // ldr x16, [x16, slot]
      0xd61f0200,                                // br x16
      0,
  };
  std::memcpy(code, words, kStub);
}

constexpr Relocations kRelocations{183, calls, in_table, word, stub};

#if defined(__aarch64__) && defined(__AARCH64EL__)
#define FUNCTRAX_HOST aarch64

inline void pause() { asm volatile("yield"); }

// FPCR.FZ: subnormal operands and results of float32 and float64 become 0.
constexpr std::uint64_t kFlushes = std::uint64_t{1} << 24;

inline std::uint64_t float_mode() {
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
  return mode;
}
inline void set_float_mode(std::uint64_t mode) {
  asm volatile("msr fpcr, %0" ::"r"(mode) : "memory");
}
#endif

}  // namespace functrax::targets::aarch64
