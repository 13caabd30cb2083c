// What the C++ half knows of machines: a file in the folder of each target, of which one is of the
// machine that this is built for.
//
// That one defines FUNCTRAX_HOST, its namespace, with `kRelocations`, `pause` and the register that
// says whether a thread flushes subnormal numbers to zero (`float_mode`, `set_float_mode`,
// `kFlushes`), and may define FUNCTRAX_WIDE, which stands before functions that processors with
// wider vectors run in another translation of the same operations; and FUNCTRAX_WIDER_BEGIN and
// _END, and FUNCTRAX_WIDEST_BEGIN and _END, which stand around functions that only processors with
// vectors of 32, or 64, bytes run, those with `has_wider`, or `has_widest`.

#pragma once

#include "targets/aarch64/native.h"
#include "targets/relocations.h"
#include "targets/x86_64/native.h"

#ifndef FUNCTRAX_WIDE
#define FUNCTRAX_WIDE
#endif

namespace functrax::targets {

// Nanoseconds of work below which it does not pay to wake another thread: `wake_ns` of targets.
constexpr std::int64_t kWakeNs = 7'000;

// And to wake one that sleeps: it comes 7 to 50 microseconds later, and to call it takes 2 to 6.
constexpr std::int64_t kAsleepNs = 25'000;

// Bytes for which a nanosecond of work must be saved, if one thread wrote them just before and
// several read them: another core reads 8 of them in a nanosecond, and the first then writes 10.
constexpr std::int64_t kHandedBytes = 3;

// Bytes that a thread copies in a nanosecond, and at most writes into its caches.
constexpr std::int64_t kCopiedBytes = 10, kCachedBytes = 64;

// All that there are.
inline const Relocations* const kAll[] = {&aarch64::kRelocations, &x86_64::kRelocations};

// Those of a machine by its number in ELF files; null if it is none of these.
inline const Relocations* relocations_of(std::uint16_t machine) {
  for (const Relocations* found : kAll) {
    if (found->machine == machine) return found;
  }
  return nullptr;
}

#ifdef FUNCTRAX_HOST
constexpr std::uint16_t kHost = FUNCTRAX_HOST::kRelocations.machine;

// Tells the processor that this thread looks for something again and again.
inline void pause() { FUNCTRAX_HOST::pause(); }

// The register of the running thread that says how floats are computed, and its bits that flush
// subnormal numbers to zero.
constexpr std::uint64_t kFlushes = FUNCTRAX_HOST::kFlushes;
inline std::uint64_t float_mode() { return FUNCTRAX_HOST::float_mode(); }
inline void set_float_mode(std::uint64_t mode) { FUNCTRAX_HOST::set_float_mode(mode); }
#else
constexpr std::uint16_t kHost = 0;  // what is compiled for it is not loaded

inline void pause() {}

constexpr std::uint64_t kFlushes = 0;
inline std::uint64_t float_mode() { return 0; }
inline void set_float_mode(std::uint64_t) {}
#endif

}  // namespace functrax::targets
