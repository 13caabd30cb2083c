// Transforms of long vectors, as many of two short lengths: of A times B numbers those of the B
// columns, each of A numbers a distance of B apart; then, times a root of unity each, those of the
// A rows that these make, whose numbers end a distance of A apart.
//
// Both are kernels, whose units are kGroup columns, or rows, of one vector. The first one writes
// the rows into a temporary array. The inverse is the transform with real and imaginary parts
// exchanged.
//
// Start at transform_long_columns.

#pragma once

#include "fourier_lanes.h"

namespace functrax::library {
namespace {

constexpr Index kGroup = 16;  // whatever the number of lanes, so that the roots are the same

// What follows the params of a plan.
struct Long {
  explicit Long(const Index* p) : p_(p + 14 + p[13]) {}

  bool is_inverse() const { return p_[0] != 0; }
  bool is_real() const { return p_[1] != 0; }
  Index vectors() const { return p_[2]; }  // columns, or rows, of one long vector
  Index operand() const { return p_[3]; }  // the place of the roots among the buffers
  Index wanted() const { return p_[4]; }   // how many numbers of the result
  Index groups() const { return (vectors() + kGroup - 1) / kGroup; }

 private:
  const Index* p_;
};

template <typename V>
inline Number<V> exchanged(const Number<V>& z, bool is_inverse) {
  return is_inverse ? Number<V>{z.im, z.re} : z;
}

// The transforms of columns, times the roots of unity of the whole length: of each element those
// of kGroup columns, and those of the first column of each group.
template <typename T, int kBytes>
void transform_long_columns(void** buffers, const Index* params, Index begin, Index end) {
  using L = Lanes<T, kBytes>;
  constexpr Index n = L::kCount;
  const Plan<T> plan(buffers, params);
  const Long whole(params);
  const T* const near = static_cast<const T*>(buffers[whole.operand()]);
  const T* const far = near + plan.length * kGroup * 2;
  const bool is_inverse = whole.is_inverse(), is_real = whole.is_real();
  const Index groups = whole.groups();
  const AlignedMemory<T> memory(Scratch<T, kBytes>::numbers(plan) * 2 * n);
  const Scratch<T, kBytes> scratch(plan, memory.data());
  for (Index unit = begin; unit < end; ++unit) {
    const Index vector = unit / groups, group = unit % groups;
    const Index last = std::min(whole.vectors(), (group + 1) * kGroup);
    for (Index first = group * kGroup; first < last; first += n) {
      const Index count = std::min(n, last - first);
      const T* const x = plan.x + vector * plan.x_unit + first * plan.x_inner;
      T* const out = plan.out + vector * plan.out_unit + first * plan.out_inner;
      const T* const near_first = near + 2 * (first % kGroup);
      const auto read = [=, &plan](Index k) {
        const T* const place = x + k * plan.x_step;
        if (!is_real) return exchanged(L::load_some(place, count), is_inverse);
        T some[2 * n] = {};
        for (Index v = 0; v < count; ++v) some[2 * v] = place[v];
        return L::load_some(some, n);
      };
      const auto write = [=, &plan](Index k, const typename L::Complex& z) {
        const T* const root = far + 2 * (k * groups + group);
        const auto turn = L::load_some(near_first + k * kGroup * 2, n);
        L::store_some(out + k * plan.out_step, z * (turn * Number<T>{root[0], root[1]}), count);
      };
      scratch.passes(read, write);
    }
  }
}

// The transforms of the rows; of a real operand the first half is wanted.
template <typename T, int kBytes>
void transform_long_rows(void** buffers, const Index* params, Index begin, Index end) {
  using L = Lanes<T, kBytes>;
  constexpr Index n = L::kCount;
  const Plan<T> plan(buffers, params);
  const Long whole(params);
  const bool is_inverse = whole.is_inverse();
  const Index groups = whole.groups(), wanted = whole.wanted(), rows = whole.vectors();
  const T scale = plan.scale();
  const AlignedMemory<T> memory(Scratch<T, kBytes>::numbers(plan) * 2 * n);
  const Scratch<T, kBytes> scratch(plan, memory.data());
  const auto operand = scratch.operand();
  for (Index unit = begin; unit < end; ++unit) {
    const Index vector = unit / groups, group = unit % groups;
    const Index last = std::min(rows, (group + 1) * kGroup);
    T* const out = plan.out + vector * plan.out_unit;
    for (Index first = group * kGroup; first < last; first += n) {
      const Index count = std::min(n, last - first);
      const Vectors<const T> x{plan.x + vector * plan.x_unit, plan.x_inner, plan.x_step};
      turn_in<true, T, kBytes>(x.from(first), count, plan.length, operand);
      const auto read = [=](Index k) { return operand[k]; };
      const auto write = [=](Index k, const typename L::Complex& z) {
        const Index place = first + k * rows;
        const Index some = std::min(count, wanted - place);
        if (some <= 0) return;
        const auto result = exchanged(z.scaled(scale), is_inverse);
        L::store_some(out + 2 * place, result, some);
      };
      scratch.passes(read, write);
      // Of a real operand the first element is real, and the last one of an even length.
      if (!whole.is_real()) continue;
      for (const Index k : {Index(0), rows * plan.length / 2}) {
        const bool is_real = 2 * k % (rows * plan.length) == 0;
        if (is_real && first <= k % rows && k % rows < first + count) out[2 * k + 1] = T(0);
      }
    }
  }
}

}  // namespace
}  // namespace functrax::library
