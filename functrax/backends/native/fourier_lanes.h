// Transforms of several vectors at once, one in each lane of the processor's vectors.
//
// Neighbours in memory (columns) need no transposition: the first pass reads them where they are,
// the last one writes them. Vectors one after the other (rows) are turned in registers, a square of
// as many rows as there are lanes at a time, on the way into scratch memory and out of it. A
// number of the scratch memory is a vector of real parts and one of imaginary parts.
//
// Start at transform_lanes.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fourier_points.h"

namespace functrax::library {
namespace {

template <typename T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};

template <typename T, int kBytes>
struct Lanes {
  using Vector = typename VectorOf<T, kBytes>::Type;
  using Complex = Number<Vector>;

  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  // Lanes of a block of 16 bytes, within which shuffles are cheap, and such blocks of a vector.
  static constexpr int kBlock = 16 / static_cast<int>(sizeof(T)), kBlocks = kBytes / 16;
  using All = std::make_index_sequence<kCount>;

  static Vector load(const T* from) {
    Vector x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static void store(T* to, const Vector& x) { std::memcpy(to, &x, sizeof x); }

  // ---- shuffles of two vectors: lanes from kCount on are the second one's ----------------------

  template <int... kLanes>
  static Vector lanes(const Vector& x, const Vector& y) {
#ifdef __clang__
    return __builtin_shufflevector(x, y, kLanes...);
#else
    using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    constexpr typename VectorOf<Integer, kBytes>::Type wanted = {kLanes...};
    return __builtin_shuffle(x, y, wanted);
#endif
  }

  // Of each block of both vectors the lanes with even, or odd, numbers.
  template <int kOdd, std::size_t... L>
  static Vector every_other(const Vector& x, const Vector& y, std::index_sequence<L...>) {
    constexpr int half = kBlock / 2;
    return lanes<(static_cast<int>(L) / kBlock * kBlock + static_cast<int>(L) % kBlock % half * 2 +
                  kOdd + static_cast<int>(L) % kBlock / half * kCount)...>(x, y);
  }
  // Lanes of both vectors in turns, of the first or second half of each block, so many at a time.
  template <int kHalf, int kWidth, std::size_t... L>
  static Vector in_turns(const Vector& x, const Vector& y, std::index_sequence<L...>) {
    constexpr int half = kBlock / 2;
    return lanes<(static_cast<int>(L) / kBlock * kBlock + kHalf * half +
                  static_cast<int>(L) % kBlock / (2 * kWidth) * kWidth +
                  static_cast<int>(L) % kWidth +
                  static_cast<int>(L) % kBlock / kWidth % 2 * kCount)...>(x, y);
  }
  // One half of the first vector, then that of the second one.
  template <int kHalf, std::size_t... L>
  static Vector halves(const Vector& x, const Vector& y, std::index_sequence<L...>) {
    constexpr int half = kCount / 2;
    return lanes<(kHalf * half + static_cast<int>(L) % half +
                  static_cast<int>(L) / half * kCount)...>(x, y);
  }
  // Blocks with even, or odd, numbers of the first vector, then of the second one.
  template <int kOdd, std::size_t... L>
  static Vector other_blocks(const Vector& x, const Vector& y, std::index_sequence<L...>) {
    constexpr int half = kCount / 2;
    return lanes<(static_cast<int>(L) % half / kBlock * 2 * kBlock + kOdd * kBlock +
                  static_cast<int>(L) % kBlock + static_cast<int>(L) / half * kCount)...>(x, y);
  }

  // ---- squares --------------------------------------------------------------------------------

  // Exchanges rows and columns of each block of some vectors.
  static void turn_blocks(Vector* v) {
    constexpr All all;
    if constexpr (kBlock == 2) {
      const Vector x = v[0], y = v[1];
      v[0] = in_turns<0, 1>(x, y, all);
      v[1] = in_turns<1, 1>(x, y, all);
    } else {
      const Vector a = in_turns<0, 1>(v[0], v[1], all), b = in_turns<1, 1>(v[0], v[1], all);
      const Vector c = in_turns<0, 1>(v[2], v[3], all), d = in_turns<1, 1>(v[2], v[3], all);
      v[0] = in_turns<0, 2>(a, c, all);
      v[1] = in_turns<1, 2>(a, c, all);
      v[2] = in_turns<0, 2>(b, d, all);
      v[3] = in_turns<1, 2>(b, d, all);
    }
  }

  // Exchanges rows and columns of a square.
  static void turn(Vector (&v)[kCount]) {
    constexpr All all;
    for (int i = 0; i < kCount; i += kBlock) turn_blocks(v + i);
    if constexpr (kBlocks == 2) {
      for (int c = 0; c < kBlock; ++c) {
        const Vector x = v[c], y = v[c + kBlock];
        v[c] = halves<0>(x, y, all);
        v[c + kBlock] = halves<1>(x, y, all);
      }
    } else if constexpr (kBlocks == 4) {
      for (int c = 0; c < kBlock; ++c) {
        Vector *const p = v + c, *const q = p + kBlock, *const r = q + kBlock,
                      *const s = r + kBlock;
        const Vector a = halves<0>(*p, *q, all), b = halves<1>(*p, *q, all);
        const Vector d = halves<0>(*r, *s, all), e = halves<1>(*r, *s, all);
        *p = other_blocks<0>(a, d, all);
        *q = other_blocks<1>(a, d, all);
        *r = other_blocks<0>(b, e, all);
        *s = other_blocks<1>(b, e, all);
      }
    }
  }

  // ---- neighbours in memory -------------------------------------------------------------------

  // Some complex numbers one after the other, each in a lane; others are 0. The order of the lanes
  // is what takes one shuffle for each vector, here and in `store_some`.
  static Complex load_some(const T* from, Index count) {
    constexpr All all;
    Vector x, y;
    if (count == kCount) {
      x = load(from);
      y = load(from + kCount);
    } else {
      T some[2 * kCount] = {};
      std::memcpy(some, from, 2 * count * sizeof(T));
      x = load(some);
      y = load(some + kCount);
    }
    return {every_other<0>(x, y, all), every_other<1>(x, y, all)};
  }
  static void store_some(T* to, const Complex& z, Index count) {
    constexpr All all;
    const Vector x = in_turns<0, 1>(z.re, z.im, all), y = in_turns<1, 1>(z.re, z.im, all);
    if (count == kCount) {
      store(to, x);
      store(to + kCount, y);
      return;
    }
    T some[2 * kCount];
    store(some, x);
    store(some + kCount, y);
    std::memcpy(to, some, 2 * count * sizeof(T));
  }
  // Which of them a lane has.
  static Index neighbour(Index lane) {
    constexpr Index half = kBlock / 2;
    return lane / kBlock * half + lane % half + lane % kBlock / half * (kCount / 2);
  }
};

// ---- passes -------------------------------------------------------------------------------------

// As the pass of fourier_alone.h; `read` and `write` get the number of an element.
template <int R, bool kIsLast, typename T, typename Read, typename Write>
inline void pass_lanes(Index m, Index s, const T* roots, const Read& read, const Write& write) {
  for (Index p = 0; p < m; ++p) {
    for (Index q = 0; q < s; ++q) {
      decltype(read(q)) a[R];
      for (int j = 0; j < R; ++j) a[j] = read(q + s * (p + m * j));
      small<T>(a);
      const Index to = q + s * p * R;
      write(to, a[0]);
      for (int k = 1; k < R; ++k) {
        if constexpr (kIsLast) {
          write(to + s * k, a[k]);
        } else {
          const Number<T> root{roots[(k - 1) * m + p], roots[(R - 2 + k) * m + p]};
          write(to + s * k, a[k] * root);
        }
      }
    }
  }
}

// All passes: the first one reads with `read`, the last one writes with `write`. The others go from
// one part of scratch memory to the other; the last one does not read the part that `result` tells.
template <typename T, int kBytes>
class Scratch {
 public:
  using Complex = typename Lanes<T, kBytes>::Complex;

  Scratch(const Plan<T>& plan, T* memory)
      : plan_(plan),
        first_(reinterpret_cast<Complex*>(memory)),
        second_(first_ + numbers(plan) / 2) {}

  static Index numbers(const Plan<T>& plan) { return 2 * (plan.points() + 1); }

  // What the first pass may read, and what the last one may write; and each time the other part.
  Complex* operand() const { return second_; }
  Complex* unused() const { return first_; }  // by the operand
  Complex* result() const { return plan_.passes % 2 == 0 ? second_ : first_; }
  Complex* spare() const { return plan_.passes % 2 == 0 ? first_ : second_; }

  template <typename Read, typename Write>
  void passes(const Read& read, const Write& write) const {
    const T* roots = plan_.roots();
    Index m = plan_.points(), s = 1;
    Complex *x = second_, *y = first_;
    for (Index n = 0; n < plan_.passes; ++n) {
      const Index radix = plan_.radices[n];
      m /= radix;
      with_radix(radix, [&](auto r) {
        constexpr int R = decltype(r)::value;
        const auto from = [x](Index k) { return x[k]; };
        const auto to = [y](Index k, const Complex& z) { y[k] = z; };
        const bool is_last = n + 1 == plan_.passes;
        if (n == 0 && is_last) return pass_lanes<R, true>(m, s, roots, read, write);
        if (n == 0) return pass_lanes<R, false>(m, s, roots, read, to);
        if (is_last) return pass_lanes<R, true>(m, s, roots, from, write);
        pass_lanes<R, false>(m, s, roots, from, to);
      });
      roots += 2 * (radix - 1) * m;
      s *= radix;
      std::swap(x, y);
    }
  }

 private:
  const Plan<T>& plan_;
  Complex *first_, *second_;
};

// ---- columns ------------------------------------------------------------------------------------

template <typename T, int kBytes>
void transform_columns(const Plan<T>& plan, Vectors<const T> x, Vectors<T> out, Index count,
                       const Scratch<T, kBytes>& scratch) {
  using L = Lanes<T, kBytes>;
  const T scale = plan.scale();
  const auto read = [=](Index k) { return L::load_some(x(0, k), count); };
  const auto write = [=, &plan](Index k, const typename L::Complex& z) {
    L::store_some(out(0, plan.place(k)), z.scaled(scale), count);
  };
  scratch.passes(read, write);
}

// ---- rows ---------------------------------------------------------------------------------------

// Complex numbers of some rows become those of scratch memory; there are no fewer than fill a
// vector, or each is moved alone. The last ones may be turned twice. The lanes are in the order of
// the rows, or in that of neighbours.
template <bool kBeside, typename T, int kBytes>
void turn_in(Vectors<const T> x, Index count, Index numbers,
             typename Lanes<T, kBytes>::Complex* to) {
  using L = Lanes<T, kBytes>;
  constexpr Index n = L::kCount, square = n / 2;
  const auto row = [=](Index lane) {
    return x(std::min(kBeside ? L::neighbour(lane) : lane, count - 1), 0);
  };
  if (numbers < square) {
    for (Index k = 0; k < numbers; ++k) {
      for (Index r = 0; r < n; ++r) {
        to[k].re[r] = row(r)[2 * k];
        to[k].im[r] = row(r)[2 * k + 1];
      }
    }
    return;
  }
  for (Index next = 0; next < numbers; next += square) {
    const Index k = std::min(next, numbers - square);
    typename L::Vector v[n];
    for (Index r = 0; r < n; ++r) v[r] = L::load(row(r) + 2 * k);
    L::turn(v);
    for (Index i = 0; i < square; ++i) to[k + i] = {v[2 * i], v[2 * i + 1]};
  }
}

template <typename T, int kBytes>
void turn_out(const typename Lanes<T, kBytes>::Complex* from, Vectors<T> out, Index count,
              Index numbers) {
  using L = Lanes<T, kBytes>;
  constexpr Index n = L::kCount, square = n / 2;
  if (numbers < square) {
    for (Index k = 0; k < numbers; ++k) {
      for (Index r = 0; r < count; ++r) {
        T* const place = out(r, 0) + 2 * k;
        place[0] = from[k].re[r];
        place[1] = from[k].im[r];
      }
    }
    return;
  }
  for (Index next = 0; next < numbers; next += square) {
    const Index k = std::min(next, numbers - square);
    typename L::Vector v[n];
    for (Index i = 0; i < square; ++i) {
      v[2 * i] = from[k + i].re;
      v[2 * i + 1] = from[k + i].im;
    }
    L::turn(v);
    for (Index r = 0; r < count; ++r) L::store(out(r, 0) + 2 * k, v[r]);
  }
}

// The operand of the passes, in scratch memory; as load_alone.
template <typename T, int kBytes>
void load_rows(const Plan<T>& plan, Vectors<const T> x, Index count,
               const Scratch<T, kBytes>& scratch, typename Lanes<T, kBytes>::Complex* other) {
  using L = Lanes<T, kBytes>;
  const auto to = scratch.operand();
  const typename L::Vector zero = {};
  if (plan.is_real && plan.is_inverse) {
    turn_in<false, T, kBytes>(x, count, plan.half_points(), other);
    const Index half = plan.length / 2;
    if (!plan.is_halved()) {
      to[0] = {other[0].re, zero};
      for (Index k = 1; k <= half; ++k) {
        to[k] = other[k];
        to[plan.length - k] = other[k].conjugate();
      }
      return;
    }
    to[0] = {other[0].re + other[half].re, other[0].re - other[half].re};
    for (Index k = 1; k < half; ++k) {
      to[k] = joined<T>(other[k], other[half - k], plan.turns(), k, half);
    }
  } else if (plan.is_real && !plan.is_halved()) {
    for (Index k = 0; k < plan.length; ++k) {
      for (Index r = 0; r < L::kCount; ++r) to[k].re[r] = *x(std::min(r, count - 1), k);
      to[k].im = zero;
    }
  } else {
    turn_in<false, T, kBytes>(x, count, plan.points(), to);
  }
}

// As store_alone.
template <typename T, int kBytes>
void store_rows(const Plan<T>& plan, typename Lanes<T, kBytes>::Complex* from, Vectors<T> out,
                Index count, typename Lanes<T, kBytes>::Complex* other) {
  const Index half = plan.length / 2;
  if (plan.is_real && plan.is_inverse && !plan.is_halved()) {
    for (Index r = 0; r < count; ++r) {
      for (Index k = 0; k < plan.length; ++k) *out(r, k) = from[k].re[r];
    }
  } else if (!plan.is_real || plan.is_inverse) {
    turn_out<T, kBytes>(from, out, count, plan.points());
  } else if (!plan.is_halved()) {
    from[0].im = typename Lanes<T, kBytes>::Vector{};
    turn_out<T, kBytes>(from, out, count, plan.half_points());
  } else {
    const typename Lanes<T, kBytes>::Vector zero = {};
    other[0] = {from[0].re + from[0].im, zero};
    other[half] = {from[0].re - from[0].im, zero};
    for (Index k = 1; k < half; ++k) {
      other[k] = split<T>(from[k], from[half - k], plan.turns(), k, half);
    }
    turn_out<T, kBytes>(other, out, count, plan.half_points());
  }
}

template <typename T, int kBytes>
void transform_rows(const Plan<T>& plan, Vectors<const T> x, Vectors<T> out, Index count,
                    const Scratch<T, kBytes>& scratch) {
  using Complex = typename Lanes<T, kBytes>::Complex;
  const Complex* const operand = scratch.operand();
  Complex* const result = scratch.result();
  load_rows<T, kBytes>(plan, x, count, scratch, scratch.unused());
  const T scale = plan.scale();
  const auto read = [=](Index k) { return operand[k]; };
  const auto write = [=, &plan](Index k, const Complex& z) {
    result[plan.place(k)] = z.scaled(scale);
  };
  scratch.passes(read, write);
  store_rows<T, kBytes>(plan, result, out, count, scratch.spare());
}

// The transform of the first vectors of `x`, no more than there are lanes.
template <typename T, int kBytes>
void transform_lanes(const Plan<T>& plan, Vectors<const T> x, Vectors<T> out, Index count,
                     T* memory) {
  const Scratch<T, kBytes> scratch(plan, memory);
  if (!plan.is_real && x.apart == 2) {
    transform_columns<T, kBytes>(plan, x, out, count, scratch);
  } else {
    transform_rows<T, kBytes>(plan, x, out, count, scratch);
  }
}

}  // namespace
}  // namespace functrax::library
