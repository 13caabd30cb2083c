// Fourier transforms of lengths whose prime factors are 2, 3 and 5, by Stockham's algorithm.
//
// A kernel whose units are vectors, or groups of vectors side by side. A pass for each radix goes
// from one half of the scratch memory to the other; real and imaginary parts are apart, and several
// vectors next to one another, so that loops have contiguous operands. The roots of unity are an
// operand (functrax/backends/libraries/fourier_tables.py), so no call computes them. Each element
// is computed by the same operations however many vectors go together.
//
// Start at transform.

#include <algorithm>
#include <utility>

#include "library.h"
#include "small_array.h"
#include "targets/native.h"

namespace functrax::library {
namespace {

using Index = std::int64_t;

template <typename T>
struct Number {
  T re, im;

  Number operator+(Number o) const { return {re + o.re, im + o.im}; }
  Number operator-(Number o) const { return {re - o.re, im - o.im}; }
  Number operator*(Number o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  Number operator*(T o) const { return {re * o, im * o}; }
  Number turned() const { return {im, -re}; }  // times -i
  Number conjugate() const { return {re, -im}; }
};

// Numbers whose parts are apart.
template <typename T>
struct Parts {
  T *re, *im;

  Number<T> operator[](Index k) const { return {re[k], im[k]}; }
  void set(Index k, Number<T> x) const {
    re[k] = x.re;
    im[k] = x.im;
  }
};

// ---- transforms of R numbers --------------------------------------------------------------------

template <typename T>
void small(Number<T> (&a)[2]) {
  const auto x = a[0], y = a[1];
  a[0] = x + y;
  a[1] = x - y;
}

template <typename T>
void small(Number<T> (&a)[3]) {
  const T half_root = T(0.86602540378443864676);  // sin(pi/3)
  const auto sum = a[1] + a[2], difference = (a[1] - a[2]) * half_root;
  const auto middle = a[0] - sum * T(0.5);
  a[0] = a[0] + sum;
  a[1] = middle + difference.turned();
  a[2] = middle - difference.turned();
}

template <typename T>
void small(Number<T> (&a)[4]) {
  const auto x = a[0] + a[2], y = a[0] - a[2], z = a[1] + a[3], w = (a[1] - a[3]).turned();
  a[0] = x + z;
  a[1] = y + w;
  a[2] = x - z;
  a[3] = y - w;
}

template <typename T>
void small(Number<T> (&a)[5]) {
  const T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);  // cos(2 pi k/5)
  const T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);   // sin(2 pi k/5)
  const auto x = a[1] + a[4], y = a[2] + a[3], z = a[1] - a[4], w = a[2] - a[3];
  const auto u = a[0] + x * c1 + y * c2, v = a[0] + x * c2 + y * c1;
  const auto p = (z * s1 + w * s2).turned(), q = (z * s2 - w * s1).turned();
  a[0] = a[0] + x + y;
  a[1] = u + p;
  a[2] = v + q;
  a[3] = v - q;
  a[4] = u - p;
}

// ---- passes -------------------------------------------------------------------------------------

template <typename T, int R>
inline void point(Parts<T> x, Parts<T> y, Index from, Index apart, Index to, Index next,
                  const T* roots, Index m) {
  Number<T> a[R];
  for (int j = 0; j < R; ++j) a[j] = x[from + j * apart];
  small(a);
  y.set(to, a[0]);
  for (int k = 1; k < R; ++k) {
    y.set(to + k * next, a[k] * Number<T>{roots[(k - 1) * m], roots[(R - 2 + k) * m]});
  }
}

// From m times R groups of s numbers to m groups of R times s; roots are R - 1 rows of m real
// parts, then of imaginary ones.
template <typename T, int R>
void pass(Parts<T> x, Parts<T> y, Index m, Index s, const T* roots) {
  if (s == 1) {
#pragma GCC ivdep
    for (Index p = 0; p < m; ++p) point<T, R>(x, y, p, m, p * R, 1, roots + p, m);
    return;
  }
  for (Index p = 0; p < m; ++p) {
#pragma GCC ivdep
    for (Index q = 0; q < s; ++q) {
      point<T, R>(x, y, q + s * p, s * m, q + s * p * R, s, roots + p, m);
    }
  }
}

// What is known of a transform; strides are in real numbers.
template <typename T>
struct Plan {
  Plan(void** buffers, const Index* p)
      : x(static_cast<const T*>(buffers[p[0]])),
        table(static_cast<const T*>(buffers[p[1]])),
        out(static_cast<T*>(buffers[p[2]])),
        length(p[3]),
        is_inverse(p[4] != 0),
        is_real(p[5] != 0),
        inner(p[6]),
        x_unit(p[7]),
        x_inner(p[8]),
        x_step(p[9]),
        out_unit(p[10]),
        out_inner(p[11]),
        out_step(p[12]),
        radices(p + 14),
        passes(p[13]) {}

  const T *x, *table;
  T* out;
  Index length;
  bool is_inverse, is_real;
  Index inner, x_unit, x_inner, x_step, out_unit, out_inner, out_step;
  const Index* radices;
  Index passes;

  // A real transform of even length is a complex one of half of it.
  bool is_halved() const { return is_real && length % 2 == 0; }
  Index points() const { return is_halved() ? length / 2 : length; }
};

// Transforms `count` vectors that lie side by side in `x`; says where the result is, in x or in y.
template <typename T>
Parts<T> passes(const Plan<T>& plan, const T* roots, Parts<T> x, Parts<T> y, Index count) {
  Index m = plan.points(), s = count;
  for (Index n = 0; n < plan.passes; ++n) {
    const Index radix = plan.radices[n];
    m /= radix;
    if (radix == 2) pass<T, 2>(x, y, m, s, roots);
    if (radix == 3) pass<T, 3>(x, y, m, s, roots);
    if (radix == 4) pass<T, 4>(x, y, m, s, roots);
    if (radix == 5) pass<T, 5>(x, y, m, s, roots);
    roots += 2 * (radix - 1) * m;
    s *= radix;
    std::swap(x, y);
  }
  return x;
}

// One operand: where its vectors begin, how far apart they and their elements are.
template <typename T>
struct Vectors {
  T* first;
  Index apart, step;

  T* operator()(Index vector, Index element) const {
    return first + vector * apart + element * step;
  }
};

// What an element of the first vectors of the scratch memory is made of, and the elements of the
// result: `read` and `write` get a vector and an element.
template <typename T, typename Read>
inline void fill(Parts<T> to, Index points, Index count, const Read& read) {
  for (Index k = 0; k < points; ++k) {
    for (Index v = 0; v < count; ++v) to.set(k * count + v, read(v, k));
  }
}

template <typename Write>
inline void each(Index elements, Index count, const Write& write) {
  for (Index k = 0; k < elements; ++k) {
    for (Index v = 0; v < count; ++v) write(v, k, k * count + v);
  }
}

template <typename T>
void load_real(const Plan<T>& plan, Vectors<const T> x, Parts<T> to, Index count) {
  if (plan.is_halved()) {
    fill(to, plan.points(), count,
         [=](Index v, Index k) { return Number<T>{*x(v, 2 * k), *x(v, 2 * k + 1)}; });
  } else {
    fill(to, plan.points(), count, [=](Index v, Index k) { return Number<T>{*x(v, k), T(0)}; });
  }
}

// Of the first element, and of the last one of an even length, the real part counts alone.
template <typename T>
void load_half(const Plan<T>& plan, Vectors<const T> x, Parts<T> to, Index count, const T* turns) {
  const Index length = plan.length, half = length / 2;
  if (!plan.is_halved()) {
    return fill(to, length, count, [=](Index v, Index k) {
      const bool is_first = k <= half;
      const T* place = x(v, is_first ? k : length - k);
      return Number<T>{place[0], k == 0 ? T(0) : is_first ? place[1] : -place[1]};
    });
  }
  const auto number = [=](const T* a, const T* b, Index k) {
    const Number<T> first{a[0], a[1]}, last{b[0], -b[1]};
    const Number<T> turn{turns[k], -turns[half + 1 + k]};
    return (first + last) - ((first - last) * turn).turned();
  };
  for (Index v = 0; v < count; ++v) {
    const T first = *x(v, 0), last = *x(v, half);
    to.set(v, {first + last, first - last});
    if (count == 1 && x.step == 2) {
      const T* place = x(v, 0);
#pragma GCC ivdep
      for (Index k = 1; k < half; ++k) {
        to.set(k, number(place + 2 * k, place + 2 * (half - k), k));
      }
      continue;
    }
    for (Index k = 1; k < half; ++k) {
      to.set(k * count + v, number(x(v, k), x(v, half - k), k));
    }
  }
}

template <typename T>
void load(const Plan<T>& plan, Vectors<const T> x, Parts<T> to, Index count, const T* turns) {
  if (plan.is_real && plan.is_inverse) return load_half(plan, x, to, count, turns);
  if (plan.is_real) return load_real(plan, x, to, count);
  if (count == 1 && plan.x_step == 2) {
    const T* place = x(0, 0);
    return fill(to, plan.points(), 1,
                [=](Index, Index k) { return Number<T>{place[2 * k], place[2 * k + 1]}; });
  }
  if (x.apart == 2) {  // neighbours in memory
    return fill(to, plan.points(), count, [=](Index v, Index k) {
      const T* place = x(0, k) + 2 * v;
      return Number<T>{place[0], place[1]};
    });
  }
  fill(to, plan.points(), count,
       [=](Index v, Index k) { return Number<T>{x(v, k)[0], x(v, k)[1]}; });
}

template <typename T>
void store_half(const Plan<T>& plan, Parts<T> from, Vectors<T> out, Index count, const T* turns) {
  const Index half = plan.length / 2;
  if (!plan.is_halved()) {
    return each(half + 1, count, [=](Index v, Index k, Index n) {
      out(v, k)[0] = from.re[n];
      out(v, k)[1] = k == 0 ? T(0) : from.im[n];
    });
  }
  const auto write = [=](T* place, Index n, Index mirrored, Index k) {
    const auto a = from[n], b = from[mirrored].conjugate();
    const auto z = (a + b) + ((a - b) * Number<T>{turns[k], turns[half + 1 + k]}).turned();
    place[0] = z.re * T(0.5);
    place[1] = z.im * T(0.5);
  };
  for (Index v = 0; v < count; ++v) {
    const auto z = from[v];
    out(v, 0)[0] = z.re + z.im;
    out(v, half)[0] = z.re - z.im;
    out(v, 0)[1] = out(v, half)[1] = T(0);
    if (count == 1 && out.step == 2) {
      T* const place = out(v, 0);
#pragma GCC ivdep
      for (Index k = 1; k < half; ++k) write(place + 2 * k, k, half - k, k);
      continue;
    }
    for (Index k = 1; k < half; ++k) write(out(v, k), k * count + v, (half - k) * count + v, k);
  }
}

template <typename T>
void store_real(const Plan<T>& plan, Parts<T> from, Vectors<T> out, Index count, T scale) {
  if (plan.is_halved() && count == 1 && plan.out_step == 1) {
    T* const place = out(0, 0);
    each(plan.points(), 1, [=](Index, Index k, Index n) {
      place[2 * k] = from.re[n] * scale;
      place[2 * k + 1] = from.im[n] * scale;
    });
  } else if (plan.is_halved()) {
    each(plan.points(), count, [=](Index v, Index k, Index n) {
      *out(v, 2 * k) = from.re[n] * scale;
      *out(v, 2 * k + 1) = from.im[n] * scale;
    });
  } else {
    each(plan.points(), count, [=](Index v, Index k, Index n) { *out(v, k) = from.re[n] * scale; });
  }
}

template <typename T>
void store(const Plan<T>& plan, Parts<T> from, Vectors<T> out, Index count, T scale,
           const T* turns) {
  if (plan.is_real && plan.is_inverse) return store_real(plan, from, out, count, scale);
  if (plan.is_real) return store_half(plan, from, out, count, turns);
  if (count == 1 && plan.out_step == 2) {
    T* const place = out(0, 0);
    return each(plan.points(), 1, [=](Index, Index k, Index n) {
      place[2 * k] = from.re[n] * scale;
      place[2 * k + 1] = from.im[n] * scale;
    });
  }
  if (out.apart == 2) {
    return each(plan.points(), count, [=](Index v, Index k, Index n) {
      T* const place = out(0, k) + 2 * v;
      place[0] = from.re[n] * scale;
      place[1] = from.im[n] * scale;
    });
  }
  each(plan.points(), count, [=](Index v, Index k, Index n) {
    out(v, k)[0] = from.re[n] * scale;
    out(v, k)[1] = from.im[n] * scale;
  });
}

// So many numbers of several vectors are transformed together, in the first cache; more of vectors
// that lie side by side, each of whose lines in memory has numbers of eight of them. Few vectors go
// one after the other, for loops over them would be too short.
constexpr Index kTogether = 1024, kSideBySide = 32 * kTogether;
constexpr Index kMostVectors = 16, kFewVectors = 4;

// Buffers and params as Plan reads them. The table is: 1, or what the result is multiplied by; of a
// halved transform the roots of its length from 0 to its half, real parts first; and the roots of
// each pass.
template <typename T>
void transform(void** buffers, const Index* params, Index begin, Index end) {
  const Plan<T> plan(buffers, params);
  const Index points = plan.points();
  const T scale = plan.table[0];
  const T* const turns = plan.table + 1;
  const T* const roots = turns + (plan.is_halved() ? plan.length + 2 : 0);
  const bool at_once = plan.inner == 1;
  const Index vectors = at_once ? end - begin : plan.inner;
  const bool beside = (at_once ? plan.x_unit : plan.x_inner) <= 2;
  const Index room = (beside ? kSideBySide : kTogether) / points;
  const Index most = at_once && room < kFewVectors
                         ? 1
                         : std::clamp<Index>(room, 1, std::min(vectors, kMostVectors));
  SmallArray<T, 4 * kTogether> scratch(4 * points * most);
  T* const s = scratch.data();
  const Index size = points * most;
  for (Index unit = begin; unit < (at_once ? begin + 1 : end); ++unit) {
    const Vectors<const T> x{plan.x + unit * plan.x_unit, at_once ? plan.x_unit : plan.x_inner,
                             plan.x_step};
    const Vectors<T> out{plan.out + unit * plan.out_unit, at_once ? plan.out_unit : plan.out_inner,
                         plan.out_step};
    for (Index first = 0; first < vectors; first += most) {
      const Index count = std::min(most, vectors - first);
      Parts<T> a{s, s + size}, b{s + 2 * size, s + 3 * size};
      load(plan, {x(first, 0), x.apart, x.step}, a, count, turns);
      // The inverse is the transform with real and imaginary parts exchanged.
      if (plan.is_inverse) {
        std::swap(a.re, a.im);
        std::swap(b.re, b.im);
      }
      Parts<T> result = passes(plan, roots, a, b, count);
      if (plan.is_inverse) std::swap(result.re, result.im);
      store(plan, result, {out(first, 0), out.apart, out.step}, count, scale, turns);
    }
  }
}

FUNCTRAX_WIDE void transform_f(void** buffers, const Index* p, Index begin, Index end) {
  transform<float>(buffers, p, begin, end);
}

FUNCTRAX_WIDE void transform_d(void** buffers, const Index* p, Index begin, Index end) {
  transform<double>(buffers, p, begin, end);
}

}  // namespace

const std::vector<Named>& fourier_loops() {
  static const std::vector<Named> all = {
      {"transform_f", transform_f},
      {"transform_d", transform_d},
  };
  return all;
}

}  // namespace functrax::library
