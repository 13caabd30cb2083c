// Complex numbers, transforms of a few of them, and what launches say of a transform.
//
// T is float or double, V is T or a vector of T whose lanes are transforms of their own. Everything
// has internal linkage, for it is compiled once for each kind of processor (fourier_transforms.h).

#pragma once

#include <cstdint>

namespace functrax::library {
namespace {

using Index = std::int64_t;

template <typename V>
struct Number {
  V re, im;

  Number operator+(const Number& o) const { return {re + o.re, im + o.im}; }
  Number operator-(const Number& o) const { return {re - o.re, im - o.im}; }
  template <typename W>
  Number operator*(const Number<W>& o) const {
    return {re * o.re - im * o.im, re * o.im + im * o.re};
  }
  template <typename T>
  Number scaled(T factor) const {
    return {re * factor, im * factor};
  }
  Number turned() const { return {im, -re}; }  // times -i
  Number conjugate() const { return {re, -im}; }
};

template <typename T, typename V>
inline void small(Number<V> (&a)[2]) {
  const auto x = a[0], y = a[1];
  a[0] = x + y;
  a[1] = x - y;
}

template <typename T, typename V>
inline void small(Number<V> (&a)[3]) {
  const T half_root = T(0.86602540378443864676);  // sin(pi/3)
  const auto sum = a[1] + a[2], difference = (a[1] - a[2]).scaled(half_root).turned();
  const auto middle = a[0] - sum.scaled(T(0.5));
  a[0] = a[0] + sum;
  a[1] = middle + difference;
  a[2] = middle - difference;
}

template <typename T, typename V>
inline void small(Number<V> (&a)[4]) {
  const auto x = a[0] + a[2], y = a[0] - a[2], z = a[1] + a[3], w = (a[1] - a[3]).turned();
  a[0] = x + z;
  a[1] = y + w;
  a[2] = x - z;
  a[3] = y - w;
}

template <typename T, typename V>
inline void small(Number<V> (&a)[5]) {
  const T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);  // cos(2 pi k/5)
  const T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);   // sin(2 pi k/5)
  const auto x = a[1] + a[4], y = a[2] + a[3], z = a[1] - a[4], w = a[2] - a[3];
  const auto u = a[0] + x.scaled(c1) + y.scaled(c2), v = a[0] + x.scaled(c2) + y.scaled(c1);
  const auto p = (z.scaled(s1) + w.scaled(s2)).turned();
  const auto q = (z.scaled(s2) - w.scaled(s1)).turned();
  a[0] = a[0] + x + y;
  a[1] = u + p;
  a[2] = v + q;
  a[3] = v - q;
  a[4] = u - p;
}

template <typename T, typename V>
inline void small(Number<V> (&a)[8]) {
  const T root = T(0.70710678118654752440);  // sin(pi/4)
  Number<V> even[4] = {a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]};
  const auto x = a[1] - a[5], y = a[3] - a[7];
  Number<V> odd[4] = {a[0] - a[4], Number<V>{x.re + x.im, x.im - x.re}.scaled(root),
                      (a[2] - a[6]).turned(), Number<V>{y.im - y.re, -y.re - y.im}.scaled(root)};
  small<T>(even);
  small<T>(odd);
  for (int k = 0; k < 4; ++k) {
    a[2 * k] = even[k];
    a[2 * k + 1] = odd[k];
  }
}

// Calls `function` with a radix as a type.
template <typename Function>
inline void with_radix(Index radix, const Function& function) {
  switch (radix) {
    case 2:
      return function(std::integral_constant<int, 2>());
    case 3:
      return function(std::integral_constant<int, 3>());
    case 4:
      return function(std::integral_constant<int, 4>());
    case 5:
      return function(std::integral_constant<int, 5>());
    default:
      return function(std::integral_constant<int, 8>());
  }
}

// What is known of a transform; strides are in real numbers.
//
// The table is: what the result is multiplied by; of a halved transform the roots of its length
// from 0 to its half, real parts first; and the roots of each pass.
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
  // Complex numbers on the side of a real transform that has complex ones.
  Index half_points() const { return length / 2 + 1; }
  T scale() const { return table[0]; }
  const T* turns() const { return table + 1; }
  const T* roots() const { return turns() + (is_halved() ? length + 2 : 0); }
  // The inverse is the transform with its results in the opposite order.
  Index place(Index k) const { return is_inverse && k > 0 ? points() - k : k; }
};

// One operand: where its vectors begin, how far apart they and their elements are.
template <typename T>
struct Vectors {
  T* first;
  Index apart, step;

  T* operator()(Index vector, Index element) const {
    return first + vector * apart + element * step;
  }
  Vectors from(Index vector) const { return {first + vector * apart, apart, step}; }
};

// Number k of a halved transform, of the numbers a and b of the whole one at k and its mirror.
template <typename T, typename V>
inline Number<V> joined(Number<V> a, Number<V> b, const T* turns, Index k, Index half) {
  const auto last = b.conjugate();
  return (a + last) - ((a - last) * Number<T>{turns[k], -turns[half + 1 + k]}).turned();
}

// Number k of a whole transform, of those of a halved one at k and its mirror.
template <typename T, typename V>
inline Number<V> split(Number<V> a, Number<V> b, const T* turns, Index k, Index half) {
  const auto last = b.conjugate();
  return ((a + last) + ((a - last) * Number<T>{turns[k], turns[half + 1 + k]}).turned())
      .scaled(T(0.5));
}

}  // namespace
}  // namespace functrax::library
