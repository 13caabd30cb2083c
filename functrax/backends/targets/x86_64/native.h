// x86-64: relocations, and what C++ asks of the processor.

#pragma once

#include <cstring>

#include "targets/relocations.h"

namespace functrax::targets::x86_64 {

// Types of relocations.
constexpr std::uint32_t kPc32 = 2, kPlt32 = 4, kGot = 9, kGotRelaxed = 41, kGotOf64 = 42;

inline bool calls(std::uint32_t type) { return type == kPlt32; }

inline std::uint32_t in_table(std::uint32_t type) {
  return type == kGot || type == kGotRelaxed || type == kGotOf64 ? kPc32 : 0;
}

inline std::uint32_t word(std::uint32_t type, std::uint32_t, std::int64_t here,
                          std::int64_t there) {
  need(type == kPc32 || type == kPlt32, "a relocation is of an unknown type");
  return signed_field(there - here, 32, 0);
}

inline void stub(std::uint8_t* code, std::int64_t here, std::int64_t slot) {
  static constexpr std::uint8_t kJump[kStub] = {0xff, 0x25, 0,    0,    0,    0,
                                                0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
                                                0xcc, 0xcc, 0xcc, 0xcc};  // jmp *slot(%rip)
  std::memcpy(code, kJump, kStub);
  const std::uint32_t distance = signed_field(slot - (here + 6), 32, 0);
  std::memcpy(code + 2, &distance, sizeof distance);
}

constexpr Relocations kRelocations{62, calls, in_table, word, stub};

#if defined(__x86_64__)
#define FUNCTRAX_HOST x86_64

inline void pause() { __builtin_ia32_pause(); }

// MXCSR: subnormal operands count as 0 (DAZ), subnormal results become 0 (FTZ).
constexpr std::uint64_t kFlushes = 0x8040;

inline std::uint64_t float_mode() { return __builtin_ia32_stmxcsr(); }
inline void set_float_mode(std::uint64_t mode) {
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode));
}

#if defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FUNCTRAX_WIDE __attribute__((flatten, target_clones("arch=x86-64-v3", "default")))
#define FUNCTRAX_WIDER_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"arch=x86-64-v3\")")
#define FUNCTRAX_WIDER_END _Pragma("GCC pop_options")
#define FUNCTRAX_WIDEST_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"arch=x86-64-v4\")")
#define FUNCTRAX_WIDEST_END _Pragma("GCC pop_options")

inline bool has_wider() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

inline bool has_widest() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}
#endif
#endif

}  // namespace functrax::targets::x86_64
