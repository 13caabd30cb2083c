// Strips of matrices: some columns of a matrix side by side, in rows of one or two vectors.
//
// All of dense_loops.cpp is the one operation `subtract`: rows of a strip, less a sum of other rows
// of it, each times an element of a matrix.  It keeps four rows in registers, so that what it reads
// and multiplies, and not what it stores, takes the time.  A strip of some hundred rows stays in
// the first cache.  Order of all sums follows from sizes alone.
//
// Start at subtract.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "aligned_memory.h"
#include "targets/native.h"

#ifdef FUNCTRAX_WIDEST_BEGIN
FUNCTRAX_WIDEST_BEGIN
namespace functrax::strips {

using Index = std::int64_t;

constexpr Index kVectorBytes = 64;
constexpr Index kHeight = 4;  // rows that are computed together

template <typename T>
constexpr Index kLanes = kVectorBytes / static_cast<Index>(sizeof(T));

template <typename T>
struct Vectors {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <typename T>
using Vector = typename Vectors<T>::Type;

// Integers of the size of T, of which there are as many in a vector.
template <typename T>
using Integer = std::conditional_t<sizeof(T) == sizeof(std::int32_t), std::int32_t, std::int64_t>;
template <typename T>
using Integers = Vector<Integer<T>>;

template <typename T>
Vector<T> load(const T* from) {
  Vector<T> x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <typename T>
void store(T* to, const Vector<T>& x) {
  std::memcpy(to, &x, sizeof x);
}

// Memory for a strip.
template <typename T>
using Memory = AlignedMemory<T>;

// A matrix where it lies: element [i, j] is `first[i * row + j * column]`.
template <typename T>
struct Matrix {
  const T* first;
  Index row, column;

  T operator()(Index i, Index j) const { return first[i * row + j * column]; }
};

// ---- the operation ------------------------------------------------------------------------------

// Rows `r` and the following of a strip, less `a[i, t]` times row t for t from `begin` to `end`;
// a's row 0 is the strip's row r.
template <typename T, int W, int H>
void subtract_rows(T* strip, Index r, const Matrix<T>& a, Index begin, Index end) {
  constexpr Index kWidth = W * kLanes<T>;
  Vector<T> sums[H][W];
  T* const rows = strip + r * kWidth;
  for (int i = 0; i < H; ++i) {
    for (int w = 0; w < W; ++w) sums[i][w] = load(rows + i * kWidth + w * kLanes<T>);
  }
  for (Index t = begin; t < end; ++t) {
    Vector<T> other[W];
    for (int w = 0; w < W; ++w) other[w] = load(strip + t * kWidth + w * kLanes<T>);
    for (int i = 0; i < H; ++i) {
      const T factor = a(i, t);
      for (int w = 0; w < W; ++w) sums[i][w] -= factor * other[w];
    }
  }
  for (int i = 0; i < H; ++i) {
    for (int w = 0; w < W; ++w) store(rows + i * kWidth + w * kLanes<T>, sums[i][w]);
  }
}

template <typename T, int W>
void subtract(T* strip, Index r, Index count, const Matrix<T>& a, Index begin, Index end) {
  if (count == kHeight) {
    subtract_rows<T, W, kHeight>(strip, r, a, begin, end);
    return;
  }
  for (Index i = 0; i < count; ++i) {
    const Matrix<T> row{a.first + i * a.row, a.row, a.column};
    subtract_rows<T, W, 1>(strip, r + i, row, begin, end);
  }
}

// A row divided by a pivot: times its reciprocal, unless that is no number while the pivot is.
template <typename T, int W>
void divide(T* row, T pivot) {
  const T reciprocal = T(1) / pivot;
  const bool is_plain = std::isfinite(reciprocal) || !std::isfinite(pivot) || pivot == T(0);
  for (int w = 0; w < W; ++w) {
    const Vector<T> x = load(row + w * kLanes<T>);
    store<T>(row + w * kLanes<T>, is_plain ? x * reciprocal : x / pivot);
  }
}

// ---- triangles ----------------------------------------------------------------------------------

// The first n rows of a strip become the solution for a lower triangle.
template <typename T, int W>
void solve_lower(T* strip, const Matrix<T>& a, Index n, bool unit) {
  constexpr Index kWidth = W * kLanes<T>;
  for (Index r = 0; r < n; r += kHeight) {
    const Index count = std::min(kHeight, n - r);
    subtract<T, W>(strip, r, count, {a.first + r * a.row, a.row, a.column}, 0, r);
    for (Index i = r; i < r + count; ++i) {
      if (i > r) {
        subtract_rows<T, W, 1>(strip, i, {a.first + i * a.row, a.row, a.column}, r, i);
      }
      if (!unit) divide<T, W>(strip + i * kWidth, a(i, i));
    }
  }
}

// The same for an upper triangle.
template <typename T, int W>
void solve_upper(T* strip, const Matrix<T>& a, Index n, bool unit) {
  constexpr Index kWidth = W * kLanes<T>;
  for (Index end = n; end > 0;) {
    const Index count = std::min(kHeight, end), r = end - count;
    subtract<T, W>(strip, r, count, {a.first + r * a.row, a.row, a.column}, end, n);
    for (Index i = end - 1; i >= r; --i) {
      if (i < end - 1) {
        subtract_rows<T, W, 1>(strip, i, {a.first + i * a.row, a.row, a.column}, i + 1, end);
      }
      if (!unit) divide<T, W>(strip + i * kWidth, a(i, i));
    }
    end = r;
  }
}

// ---- to and from memory -------------------------------------------------------------------------

// Exchanges lanes of pairs of vectors that are S apart, which is a step of a transposition.
template <typename T, Index S, std::size_t... L>
void exchange(Vector<T>* v, std::index_sequence<L...>) {
  constexpr Index n = kLanes<T>;
  const Integers<T> low = {((L & S) == 0 ? L : n + L - S)...};
  const Integers<T> high = {((L & S) == 0 ? L + S : n + L)...};
  for (Index i = 0; i < n; ++i) {
    if ((i & S) != 0) continue;
    const Vector<T> x = v[i], y = v[i + S];
    v[i] = __builtin_shuffle(x, y, low);
    v[i + S] = __builtin_shuffle(x, y, high);
  }
}

// A square of as many rows as a vector has lanes, with rows and columns exchanged.
template <typename T>
void turn_square(const T* from, Index apart, T* to, Index to_apart) {
  constexpr Index n = kLanes<T>;
  Vector<T> v[n];
  for (Index i = 0; i < n; ++i) v[i] = load(from + i * apart);
  const auto lanes = std::make_index_sequence<n>();
  if constexpr (n == 16) exchange<T, 8>(v, lanes);
  exchange<T, 4>(v, lanes);
  exchange<T, 2>(v, lanes);
  exchange<T, 1>(v, lanes);
  for (Index i = 0; i < n; ++i) store(to + i * to_apart, v[i]);
}

// to[j, i] = from[i, j] for some rows and columns.
template <typename T>
void turn(const T* from, Index apart, T* to, Index to_apart, Index rows, Index columns) {
  constexpr Index n = kLanes<T>;
  const Index whole_rows = rows / n * n, whole = columns / n * n;
  for (Index i = 0; i < whole_rows; i += n) {
    for (Index j = 0; j < whole; j += n) {
      turn_square(from + i * apart + j, apart, to + j * to_apart + i, to_apart);
    }
  }
  for (Index i = 0; i < rows; ++i) {
    for (Index j = i < whole_rows ? whole : 0; j < columns; ++j) {
      to[j * to_apart + i] = from[i * apart + j];
    }
  }
}

// The first columns of rows, of which the rest becomes 0.
template <typename T, int W>
void clear_from(T* strip, Index n, Index columns) {
  constexpr Index kWidth = W * kLanes<T>;
  if (columns == kWidth) return;
  for (Index i = 0; i < n; ++i)
    std::fill(strip + i * kWidth + columns, strip + (i + 1) * kWidth, T(0));
}

// A strip of so many columns: those of rows of b, or where b is turned, of which each row is one.
template <typename T, int W>
void read(T* strip, const T* b, Index apart, Index n, Index columns, bool turned) {
  constexpr Index kWidth = W * kLanes<T>;
  clear_from<T, W>(strip, n, columns);
  if (turned) {
    turn(b, apart, strip, kWidth, columns, n);
    return;
  }
  for (Index i = 0; i < n; ++i)
    std::copy(b + i * apart, b + i * apart + columns, strip + i * kWidth);
}

template <typename T, int W>
void write(const T* strip, T* x, Index apart, Index n, Index columns, bool turned) {
  constexpr Index kWidth = W * kLanes<T>;
  if (turned) {
    turn(strip, kWidth, x, apart, n, columns);
    return;
  }
  for (Index i = 0; i < n; ++i) {
    std::copy(strip + i * kWidth, strip + i * kWidth + columns, x + i * apart);
  }
}

}  // namespace functrax::strips
FUNCTRAX_WIDEST_END
#endif
