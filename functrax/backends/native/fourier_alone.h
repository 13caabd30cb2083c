// Transforms of one vector: real and imaginary parts are apart, so that loops have contiguous
// operands, which compilers vectorize. What a transform of several vectors (fourier_lanes.h)
// computes of an element is computed here by the same operations.
//
// Start at transform_alone.

#pragma once

#include "fourier_points.h"

namespace functrax::library {
namespace {

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

template <int R, bool kIsLast, typename T>
inline void point(Parts<T> x, Parts<T> y, Index from, Index apart, Index to, Index next,
                  const T* roots, Index m) {
  Number<T> a[R];
  for (int j = 0; j < R; ++j) a[j] = x[from + j * apart];
  small<T>(a);
  y.set(to, a[0]);
  for (int k = 1; k < R; ++k) {
    if constexpr (kIsLast) {
      y.set(to + k * next, a[k]);
    } else {
      y.set(to + k * next, a[k] * Number<T>{roots[(k - 1) * m], roots[(R - 2 + k) * m]});
    }
  }
}

// From m times R groups of s numbers to m groups of R times s; roots are R - 1 rows of m real
// parts, then of imaginary ones. Those of the last pass are 1, and are not read.
template <int R, typename T>
void pass_alone(Parts<T> x, Parts<T> y, Index m, Index s, const T* roots) {
  if (s == 1 && m > 1) {
#pragma GCC ivdep
    for (Index p = 0; p < m; ++p) point<R, false>(x, y, p, m, p * R, 1, roots + p, m);
    return;
  }
  if (m == 1) {
#pragma GCC ivdep
    for (Index q = 0; q < s; ++q) point<R, true>(x, y, q, s, q, s, roots, 1);
    return;
  }
  for (Index p = 0; p < m; ++p) {
#pragma GCC ivdep
    for (Index q = 0; q < s; ++q) {
      point<R, false>(x, y, q + s * p, s * m, q + s * p * R, s, roots + p, m);
    }
  }
}

template <typename T>
void load_half_alone(const Plan<T>& plan, Vectors<const T> x, Parts<T> to) {
  const Index length = plan.length, half = length / 2;
  // Of the first element, and of the last one of an even length, the real part counts alone.
  if (!plan.is_halved()) {
    to.set(0, {*x(0, 0), T(0)});
    for (Index k = 1; k <= half; ++k) {
      const Number<T> z{x(0, k)[0], x(0, k)[1]};
      to.set(k, z);
      to.set(length - k, z.conjugate());
    }
    return;
  }
  const T first = *x(0, 0), last = *x(0, half);
  const T* const turns = plan.turns();
  to.set(0, {first + last, first - last});
#pragma GCC ivdep
  for (Index k = 1; k < half; ++k) {
    const T *a = x(0, k), *b = x(0, half - k);
    to.set(k, joined<T>(Number<T>{a[0], a[1]}, Number<T>{b[0], b[1]}, turns, k, half));
  }
}

template <typename T>
void load_alone(const Plan<T>& plan, Vectors<const T> x, Parts<T> to) {
  if (plan.is_real && plan.is_inverse) return load_half_alone(plan, x, to);
  if (plan.is_real && !plan.is_halved()) {
    for (Index k = 0; k < plan.length; ++k) to.set(k, {*x(0, k), T(0)});
  } else if (plan.is_real) {
    for (Index k = 0; k < plan.points(); ++k) to.set(k, {*x(0, 2 * k), *x(0, 2 * k + 1)});
  } else if (x.step == 2) {
    for (Index k = 0; k < plan.points(); ++k) to.set(k, {x.first[2 * k], x.first[2 * k + 1]});
  } else {
    for (Index k = 0; k < plan.points(); ++k) to.set(k, {x(0, k)[0], x(0, k)[1]});
  }
}

template <typename T>
void store_half_alone(const Plan<T>& plan, Parts<T> from, Vectors<T> out) {
  const Index half = plan.length / 2;
  const auto write = [=](Index k, Number<T> z) {
    T* const place = out(0, k);
    place[0] = z.re;
    place[1] = z.im;
  };
  const auto z = from[0];
  if (!plan.is_halved()) {
    write(0, {z.re, T(0)});
    for (Index k = 1; k <= half; ++k) write(k, from[k]);
    return;
  }
  const T* const turns = plan.turns();
  write(0, {z.re + z.im, T(0)});
  write(half, {z.re - z.im, T(0)});
#pragma GCC ivdep
  for (Index k = 1; k < half; ++k) write(k, split<T>(from[k], from[half - k], turns, k, half));
}

template <typename T>
void store_alone(const Plan<T>& plan, Parts<T> from, Vectors<T> out) {
  if (plan.is_real && !plan.is_inverse) return store_half_alone(plan, from, out);
  const T scale = plan.scale();
  const auto each = [&](const auto& write) {
    write(0, from[0].scaled(scale));
    if (plan.is_inverse) {
      for (Index k = 1, last = plan.points(); k < last; ++k) write(k, from[last - k].scaled(scale));
    } else {
      for (Index k = 1; k < plan.points(); ++k) write(k, from[k].scaled(scale));
    }
  };
  if (plan.is_halved()) {
    each([=](Index k, Number<T> z) { *out(0, 2 * k) = z.re, *out(0, 2 * k + 1) = z.im; });
  } else if (plan.is_real) {
    each([=](Index k, Number<T> z) { *out(0, k) = z.re; });
  } else if (out.step == 2) {
    each([=](Index k, Number<T> z) {
      out.first[2 * k] = z.re;
      out.first[2 * k + 1] = z.im;
    });
  } else {
    each([=](Index k, Number<T> z) { out(0, k)[0] = z.re, out(0, k)[1] = z.im; });
  }
}

// The transform of the first vector of `x`, with memory for four times its points.
template <typename T>
void transform_alone(const Plan<T>& plan, Vectors<const T> x, Vectors<T> out, T* memory) {
  const Index points = plan.points();
  Parts<T> a{memory, memory + points}, b{memory + 2 * points, memory + 3 * points};
  load_alone(plan, x, a);
  const T* roots = plan.roots();
  Index m = points, s = 1;
  for (Index n = 0; n < plan.passes; ++n) {
    const Index radix = plan.radices[n];
    m /= radix;
    with_radix(radix, [&](auto r) { pass_alone<decltype(r)::value>(a, b, m, s, roots); });
    roots += 2 * (radix - 1) * m;
    s *= radix;
    std::swap(a, b);
  }
  store_alone(plan, a, out);
}

}  // namespace
}  // namespace functrax::library
