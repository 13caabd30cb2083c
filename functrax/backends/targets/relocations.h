// What object files for a kind of processor leave open: the twin of targets/dialect.py.
//
// A relocation changes one word.  Both of its places are offsets in an image, which lies at whole
// pages.  A function of a library is called by way of a stub, which jumps to an address in a table.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace functrax::targets {

constexpr std::size_t kStub = 16;  // bytes of a stub

struct Relocations {
  std::uint16_t machine;  // e_machine of ELF

  // Whether a type of relocation is one of calls, which may lead to stubs.
  bool (*calls)(std::uint32_t type);
  // The type that is like a type of places in the table of addresses; 0 if it is none of these.
  std::uint32_t (*in_table)(std::uint32_t type);
  // From a type, the word that is there, its place and where it leads to the word that comes there.
  std::uint32_t (*word)(std::uint32_t type, std::uint32_t word, std::int64_t here,
                        std::int64_t there);
  // Writes the stub at a place, which jumps to the address at another.
  void (*stub)(std::uint8_t* code, std::int64_t here, std::int64_t slot);
};

[[noreturn]] inline void refuse(const char* why) {
  throw std::invalid_argument(std::string("object code refused: ") + why);
}

inline void need(bool condition, const char* why) {
  if (!condition) refuse(why);
}

// A field of an instruction: a number of so many bits, counted in units of 1 << shift.
inline std::uint32_t signed_field(std::int64_t value, int bits, int shift) {
  need((value & ((std::int64_t{1} << shift) - 1)) == 0, "a relocation is not aligned");
  const std::int64_t scaled = value >> shift;
  const std::int64_t bound = std::int64_t{1} << (bits - 1);
  need(scaled >= -bound && scaled < bound, "a relocation is out of range");
  return static_cast<std::uint32_t>(scaled & ((std::int64_t{1} << bits) - 1));
}

}  // namespace functrax::targets
