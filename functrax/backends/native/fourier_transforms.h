// Fourier transforms of lengths whose prime factors are 2, 3 and 5, by Stockham's algorithm.
//
// A kernel whose units are vectors, or groups of vectors side by side. A pass for each radix goes
// from one half of the scratch memory to the other. Several vectors are transformed in the lanes of
// the processor's vectors (fourier_lanes.h), few of them alone (fourier_alone.h), long ones as many
// short ones (fourier_long.h). The roots of unity are an operand
// (functrax/backends/libraries/fourier_tables.py), so no call computes them. Each element is
// computed by the same operations however many vectors go together, and whatever processor runs
// them.
//
// This is included by a translation unit for each length of the processors' vectors, kBytes.
//
// Start at transform.

#pragma once

#include "fourier_alone.h"
#include "fourier_lanes.h"
#include "fourier_long.h"

namespace functrax::library {
namespace {

// Buffers and params as Plan reads them.
template <typename T, int kBytes>
void transform(void** buffers, const Index* params, Index begin, Index end) {
  constexpr Index lanes = Lanes<T, kBytes>::kCount;
  const Plan<T> plan(buffers, params);
  const bool at_once = plan.inner == 1;
  const Index vectors = at_once ? end - begin : plan.inner;
  // Fewer vectors than a quarter of the lanes go one after the other.
  const auto is_alone = [&](Index count) { return 4 * count <= lanes || plan.passes == 0; };
  const Index size =
      is_alone(vectors) ? 4 * plan.points() : Scratch<T, kBytes>::numbers(plan) * 2 * lanes;
  const AlignedMemory<T> memory(size);
  for (Index unit = begin; unit < (at_once ? begin + 1 : end); ++unit) {
    const Vectors<const T> x{plan.x + unit * plan.x_unit, at_once ? plan.x_unit : plan.x_inner,
                             plan.x_step};
    const Vectors<T> out{plan.out + unit * plan.out_unit, at_once ? plan.out_unit : plan.out_inner,
                         plan.out_step};
    for (Index first = 0; first < vectors; first += lanes) {
      const Index count = std::min(lanes, vectors - first);
      if (!is_alone(count)) {
        transform_lanes<T, kBytes>(plan, x.from(first), out.from(first), count, memory.data());
        continue;
      }
      for (Index v = first; v < first + count; ++v) {
        transform_alone(plan, x.from(v), out.from(v), memory.data());
      }
    }
  }
}

}  // namespace
}  // namespace functrax::library
