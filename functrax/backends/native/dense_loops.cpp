// Factorisations and solutions of dense matrices of a few to some hundred rows, real numbers.
//
// A kernel's units are matrices, or strips of right sides, so threads share them; what LAPACK would
// do stays in LAPACK: complex numbers, and matrices of which one is more than a thread should do
// (functrax/backends/libraries/linear_algebra_calls.py).  Matrices lie by rows, and are computed a
// strip of columns at a time (strips.h): what is left of the strip is finished, and read where it
// is; then the strip's own columns are eliminated.  Start at cholesky.

#include <limits>

#include "library.h"
#include "row_order.h"
#include "strips.h"
#include "targets/native.h"

namespace functrax::library {

#ifdef FUNCTRAX_WIDEST_BEGIN
FUNCTRAX_WIDEST_BEGIN
namespace {

using namespace strips;

constexpr int kWide = 2;  // vectors of a row of a strip

// Calls `function` with the number of vectors that so many columns need.
template <typename T, typename Function>
void with_width(Index columns, const Function& function) {
  if (columns <= kLanes<T>) {
    function(std::integral_constant<int, 1>());
  } else {
    function(std::integral_constant<int, kWide>());
  }
}

// ---- cholesky -----------------------------------------------------------------------------------

// The rows `first` and the following of the factor `out`, of those of x: their turned strip solves
// the triangle above them, and its last rows are a small matrix to be factorised.  False if that is
// not positive definite.
template <typename T, int W>
bool factor_strip(const T* x, T* out, T* strip, Index n, Index first) {
  constexpr Index kWidth = W * kLanes<T>;
  const Index columns = std::min(kWidth, n - first), end = first + columns;
  clear_from<T, W>(strip, end, columns);
  turn(x + first * n, n, strip, kWidth, columns, end);
  solve_lower<T, W>(strip, {out, n, 1}, first, false);
  for (Index r = first; r < end; r += kHeight) {
    const Index count = std::min(kHeight, end - r);
    // Row t of the turned strip has the factor's column t: its element r is that of row r.
    subtract<T, W>(strip, r, count, {strip + (r - first), 1, kWidth}, 0, r);
    for (Index i = r; i < r + count; ++i) {
      if (i > r) subtract_rows<T, W, 1>(strip, i, {strip + (i - first), 1, kWidth}, r, i);
      T* const row = strip + i * kWidth;
      const T pivot = row[i - first];
      if (!(pivot > T(0))) return false;
      const T root = std::sqrt(pivot);
      divide<T, W>(row, root);
      row[i - first] = root;
    }
  }
  turn(strip, kWidth, out + first * n, n, end, columns);
  for (Index i = first; i < end; ++i) std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));
  return true;
}

// Buffers x, factor. Params: rows. NaN in the lower triangle where x is not positive definite.
template <typename T>
void cholesky(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0];
  with_width<T>(n, [&](auto width) {
    constexpr int W = decltype(width)::value;
    constexpr Index kWidth = W * kLanes<T>;
    const Memory<T> memory((n + kLanes<T>)*kWidth);
    for (Index u = begin; u < end; ++u) {
      const T* x = static_cast<const T*>(buffers[0]) + u * n * n;
      T* out = static_cast<T*>(buffers[1]) + u * n * n;
      bool is_positive = true;
      for (Index first = 0; first < n && is_positive; first += kWidth) {
        is_positive = factor_strip<T, W>(x, out, memory.data(), n, first);
      }
      for (Index i = 0; i < n && !is_positive; ++i) {
        std::fill(out + i * n, out + i * n + i + 1, std::numeric_limits<T>::quiet_NaN());
        std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));
      }
    }
  });
}

// ---- elimination --------------------------------------------------------------------------------

// Where the largest element of a column is from `first` on, as LAPACK compares: NaN is the largest.
template <typename T>
Index largest_of(const T* column, Integer<T> first, Integer<T> count) {
  constexpr Index n = kLanes<T>;
  Integers<T> index, where = {};
  Vector<T> best = Vector<T>{} - T(1);
  for (Index l = 0; l < n; ++l) index[l] = static_cast<Integer<T>>(first / n * n + l);
  for (Index i = first / n * n; i < count; i += n) {
    const Vector<T> x = load(column + i);
    Vector<T> size = x < T(0) ? -x : x;
    size = x != x ? Vector<T>{} + std::numeric_limits<T>::infinity() : size;
    const Integers<T> larger = (size > best) & (index >= first) & (index < count);
    best = larger ? size : best;
    where = larger ? index : where;
    index += n;
  }
  Index found = 0;
  for (Index l = 1; l < n; ++l) {
    const bool earlier = best[l] == best[found] && where[l] < where[found];
    if (best[l] > best[found] || earlier) found = l;
  }
  return where[found];
}

// Eliminates a turned panel: row c of it is a column of `count` rows, and `apart` long. Rows of the
// panel, and of what is left of it in `out`, are exchanged; of columns to come in the vectors that
// are changed anyhow, for a vector that was written in parts is read slowly.
template <typename T, Index kWidth>
void eliminate_panel(T* panel, Index apart, Index columns, Index count, T* out, Index n,
                     Index first, std::int32_t* pivots, std::int32_t* order) {
  constexpr Index lanes = kLanes<T>;
  T upper[kWidth], lower[kWidth];  // what comes to the pivot's row, and what was there
  for (Index c = 0; c < std::min(columns, count); ++c) {
    T* const column = panel + c * apart;
    const Index best = largest_of<T>(column, c, count), row = first + c, other = first + best;
    pivots[row] = static_cast<std::int32_t>(other);
    if (best != c) {
      for (Index k = 0; k < c; ++k) std::swap(panel[k * apart + c], panel[k * apart + best]);
      std::swap_ranges(out + row * n, out + row * n + first, out + other * n);
      std::swap(order[row], order[other]);
    }
    for (Index k = c; k < columns; ++k) {
      upper[k] = panel[k * apart + best];
      lower[k] = panel[k * apart + c];
    }
    const T pivot = upper[c], reciprocal = T(1) / pivot;
    const bool is_plain = std::isfinite(reciprocal), is_zero = pivot == T(0);
    if (is_zero) continue;  // a column of zeros stays: its first is its largest
    Integers<T> index;
    for (Index l = 0; l < lanes; ++l) index[l] = static_cast<Integer<T>>(c / lanes * lanes + l);
    for (Index i = c / lanes * lanes; i < count; i += lanes) {
      const Integers<T> below = index > static_cast<Integer<T>>(c);
      const Integers<T> here = index == static_cast<Integer<T>>(c);
      const Integers<T> there = index == static_cast<Integer<T>>(best);
      const bool is_exchanged = i == c / lanes * lanes || i == best / lanes * lanes;
      const auto exchanged = [&](const Vector<T>& x, Index k) {
        if (!is_exchanged) return x;
        const Vector<T> y = there ? Vector<T>{} + lower[k] : x;
        return here ? Vector<T>{} + upper[k] : y;
      };
      const Vector<T> x = exchanged(load(column + i), c);
      const Vector<T> factor = is_plain ? x * reciprocal : x / pivot;
      store<T>(column + i, below ? factor : x);
      for (Index k = c + 1; k < columns; ++k) {
        T* const next = panel + k * apart + i;
        const Vector<T> y = exchanged(load(next), k);
        store<T>(next, below ? y - factor * upper[k] : y);
      }
      index += lanes;
    }
  }
}

// x[order] = L U, both in `out`.
template <typename T, int W>
void eliminate(const T* x, T* out, std::int32_t* pivots, std::int32_t* order, T* strip, T* panel,
               Index m, Index n) {
  constexpr Index kWidth = W * kLanes<T>;
  for (Index i = 0; i < m; ++i) order[i] = static_cast<std::int32_t>(i);
  for (Index first = 0; first < n; first += kWidth) {
    const Index columns = std::min(kWidth, n - first), done = std::min(first, m), left = m - done;
    clear_from<T, W>(strip, m, columns);
    for (Index i = 0; i < m; ++i) {
      const T* row = x + order[i] * n + first;
      std::copy(row, row + columns, strip + i * kWidth);
    }
    solve_lower<T, W>(strip, {out, n, 1}, done, true);
    for (Index r = done; r < m; r += kHeight) {
      subtract<T, W>(strip, r, std::min(kHeight, m - r), {out + r * n, n, 1}, 0, done);
    }
    write<T, W>(strip, out + first, n, done, columns, false);
    const Index apart = (left + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    turn(strip + done * kWidth, kWidth, panel, apart, left, columns);
    eliminate_panel<T, kWidth>(panel, apart, columns, left, out, n, first, pivots, order);
    turn(panel, apart, out + done * n + first, n, columns, left);
  }
}

// Buffers x, lu, pivots, permutation. Params: rows, columns.
template <typename T>
void lu(void** buffers, const Index* p, Index begin, Index end) {
  const Index m = p[0], n = p[1], k = std::min(m, n);
  with_width<T>(n, [&](auto width) {
    constexpr int W = decltype(width)::value;
    constexpr Index kWidth = W * kLanes<T>;
    const Memory<T> strip(m * kWidth), panel((m + kLanes<T>)*kWidth);
    std::fill_n(panel.data(), (m + kLanes<T>)*kWidth, T(0));
    for (Index u = begin; u < end; ++u) {
      eliminate<T, W>(
          static_cast<const T*>(buffers[0]) + u * m * n, static_cast<T*>(buffers[1]) + u * m * n,
          static_cast<std::int32_t*>(buffers[2]) + u * k,
          static_cast<std::int32_t*>(buffers[3]) + u * m, strip.data(), panel.data(), m, n);
    }
  });
}

// ---- solutions ----------------------------------------------------------------------------------

// How a launch's units are strips of right sides of matrices.
template <typename T>
struct Strips {
  Index n, count, columns, each;

  Strips(Index n, Index count)
      : n(n),
        count(count),
        columns(count <= kLanes<T> ? kLanes<T> : kWide * kLanes<T>),
        each((count + columns - 1) / columns) {}
  Index first(Index unit) const { return unit % each * columns; }
  Index columns_of(Index unit) const { return std::min(columns, count - first(unit)); }
};

// Buffers a, b, x. Params: n, right sides; of the triangle that a is read as, its stride of rows,
// of columns, whether it is a lower one, whether its diagonal counts as ones; and whether right
// sides are rows of b.
template <typename T>
void triangular_solve(void** buffers, const Index* p, Index begin, Index end) {
  const Strips<T> strips(p[0], p[1]);
  const Index n = p[0], size = n * p[1];
  const bool is_lower = p[4] != 0, unit = p[5] != 0, turned = p[6] != 0;
  const Index apart = turned ? n : p[1];
  with_width<T>(p[1], [&](auto width) {
    constexpr int W = decltype(width)::value;
    const Memory<T> memory(n * W * kLanes<T>);
    T* const strip = memory.data();
    for (Index u = begin; u < end; ++u) {
      const Index number = u / strips.each, columns = strips.columns_of(u);
      const Index place = number * size + strips.first(u) * (turned ? n : 1);
      const Matrix<T> a{static_cast<const T*>(buffers[0]) + number * n * n, p[2], p[3]};
      read<T, W>(strip, static_cast<const T*>(buffers[1]) + place, apart, n, columns, turned);
      if (is_lower) {
        solve_lower<T, W>(strip, a, n, unit);
      } else {
        solve_upper<T, W>(strip, a, n, unit);
      }
      write<T, W>(strip, static_cast<T*>(buffers[2]) + place, apart, n, columns, turned);
    }
  });
}

// The sum of products of neighbours.
template <typename T>
T dot(const T* a, const T* x, Index count) {
  Vector<T> sums = {};
  Index i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) sums += load(a + i) * load(x + i);
  T sum = 0;
  for (; i < count; ++i) sum += a[i] * x[i];
  for (Index half = kLanes<T> / 2; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sum + sums[0];
}

// x becomes the solution of one right side.
template <typename T>
void solve_one(const T* lu, T* x, Index n, bool transposed) {
  if (!transposed) {
    for (Index i = 1; i < n; ++i) x[i] -= dot(lu + i * n, x, i);
    for (Index i = n - 1; i >= 0; --i) {
      const T* row = lu + i * n;
      x[i] = (x[i] - dot(row + i + 1, x + i + 1, n - i - 1)) / row[i];
    }
    return;
  }
  for (Index i = 0; i < n; ++i) {
    const T* row = lu + i * n;
    const T found = x[i] = x[i] / row[i];
    for (Index j = i + 1; j < n; ++j) x[j] -= row[j] * found;
  }
  for (Index i = n - 1; i > 0; --i) {
    const T* row = lu + i * n;
    const T found = x[i];
    for (Index j = 0; j < i; ++j) x[j] -= row[j] * found;
  }
}

// Buffers lu, permutation, b, x. Params: n, right sides, whether the transposed system is solved.
// NaN where a pivot is zero.
template <typename T>
void lu_solve(void** buffers, const Index* p, Index begin, Index end) {
  const Strips<T> strips(p[0], p[1]);
  const Index n = p[0], count = p[1];
  const bool transposed = p[2] != 0;
  with_width<T>(count, [&](auto width) {
    constexpr int W = decltype(width)::value;
    constexpr Index kWidth = W * kLanes<T>;
    const Memory<T> memory(n * kWidth);
    T* const strip = memory.data();
    for (Index u = begin; u < end; ++u) {
      const Index number = u / strips.each, columns = strips.columns_of(u);
      const T* lu = static_cast<const T*>(buffers[0]) + number * n * n;
      const std::int32_t* order = static_cast<const std::int32_t*>(buffers[1]) + number * n;
      const Index place = number * n * count + strips.first(u);
      const T* b = static_cast<const T*>(buffers[2]) + place;
      T* x = static_cast<T*>(buffers[3]) + place;
      if (has_zero_pivot(lu, n)) {
        for (Index i = 0; i < n; ++i) {
          std::fill(x + i * count, x + i * count + columns, std::numeric_limits<T>::quiet_NaN());
        }
        continue;
      }
      if (count == 1) {
        for (Index i = 0; i < n; ++i) strip[i] = b[transposed ? i : order[i]];
        solve_one(lu, strip, n, transposed);
        for (Index i = 0; i < n; ++i) x[transposed ? order[i] : i] = strip[i];
        continue;
      }
      clear_from<T, W>(strip, n, columns);
      for (Index i = 0; i < n; ++i) {
        const T* row = b + (transposed ? i : order[i]) * count;
        std::copy(row, row + columns, strip + i * kWidth);
      }
      if (transposed) {
        solve_lower<T, W>(strip, {lu, 1, n}, n, false);
        solve_upper<T, W>(strip, {lu, 1, n}, n, true);
      } else {
        solve_lower<T, W>(strip, {lu, n, 1}, n, true);
        solve_upper<T, W>(strip, {lu, n, 1}, n, false);
      }
      for (Index i = 0; i < n; ++i) {
        const T* row = strip + i * kWidth;
        std::copy(row, row + columns, x + (transposed ? order[i] : i) * count);
      }
    }
  });
}

// ---- cofactors ----------------------------------------------------------------------------------

// A product of many numbers, which may be beyond the range of T while what it multiplies is not.
template <typename T>
class Product {
 public:
  void multiply(T x) {
    int exponent;
    mantissa_ = std::frexp(mantissa_ * x, &exponent);
    exponent_ += exponent;
  }
  // Multiplies the n elements of a row by it.
  void scale(T* row, Index n) const {
    constexpr Index kStep = -std::numeric_limits<T>::min_exponent, kMost = 3 * kStep;
    Index left = std::clamp(exponent_, -kMost, kMost);
    T factor = mantissa_;
    do {
      const Index step = std::clamp(left, -kStep, kStep);
      factor = std::ldexp(factor, static_cast<int>(step));
      for (Index i = 0; i < n; ++i) row[i] *= factor;
      factor = T(1);
      left -= step;
    } while (left != 0);
  }

 private:
  T mantissa_ = 1;
  Index exponent_ = 0;
};

// Whether all pivots but the last are far from zero, so that no more than one dimension is lost.
template <typename T>
bool has_rank(const T* lu, Index n) {
  T largest = 0, smallest = std::numeric_limits<T>::max();
  for (Index i = 0; i < n; ++i) {
    const T size = std::abs(lu[i * n + i]);
    if (!std::isfinite(size)) return false;
    largest = std::max(largest, size);
    if (i < n - 1) smallest = std::min(smallest, size);
  }
  return std::isfinite(T(1) / smallest) &&
         smallest >= largest * static_cast<T>(n) * std::numeric_limits<T>::epsilon();
}

// Buffers x, its lu, pivots, permutation; cofactors, which are det(x) times the transposed inverse.
// Params: n. The last pivot, which may be zero, is multiplied by where the determinant would have
// it and the inverse would divide by it. If others are near zero, the first unit of a matrix
// computes all by complete pivoting.
template <typename T>
void cofactor(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0];
  const Strips<T> strips(n, n);
  with_width<T>(n, [&](auto width) {
    constexpr int W = decltype(width)::value;
    constexpr Index kWidth = W * kLanes<T>;
    const Memory<T> memory(n * kWidth);
    T* const strip = memory.data();
    for (Index u = begin; u < end; ++u) {
      const Index number = u / strips.each, columns = strips.columns_of(u), first = strips.first(u);
      const T* lu = static_cast<const T*>(buffers[1]) + number * n * n;
      T* out = static_cast<T*>(buffers[4]) + number * n * n;
      if (!has_rank(lu, n)) {
        if (first == 0) cofactors(static_cast<const T*>(buffers[0]) + number * n * n, out, n);
        continue;
      }
      const std::int32_t* pivots = static_cast<const std::int32_t*>(buffers[2]) + number * n;
      const std::int32_t* order = static_cast<const std::int32_t*>(buffers[3]) + number * n;
      Product<T> product;
      for (Index i = 0; i < n; ++i) {
        if (i < n - 1) product.multiply(lu[i * n + i]);
        if (pivots[i] != i) product.multiply(T(-1));
      }
      std::fill_n(strip, n * kWidth, T(0));
      for (Index i = 0; i < columns; ++i) strip[(first + i) * kWidth + i] = T(1);
      const Matrix<T> rest{lu + first * (n + 1), 1, n};  // what is above stays zero
      const Index last = n - 1;
      solve_lower<T, W>(strip + first * kWidth, rest, last - first, false);
      subtract_rows<T, W, 1>(strip, last, {lu + last, 1, n}, first, last);
      const T pivot = lu[last * n + last];
      for (Index i = first * kWidth; i < last * kWidth; ++i) strip[i] *= pivot;
      product.scale(strip + first * kWidth, (n - first) * kWidth);
      solve_upper<T, W>(strip, {lu, 1, n}, n, true);
      for (Index i = 0; i < n; ++i) {
        const T* row = strip + i * kWidth;
        std::copy(row, row + columns, out + order[i] * n + first);
      }
    }
  });
}

const std::vector<Named> kAll = {
    {"dense_cofactor_f", cofactor<float>},
    {"dense_cofactor_d", cofactor<double>},
    {"dense_cholesky_f", cholesky<float>},
    {"dense_cholesky_d", cholesky<double>},
    {"dense_lu_f", lu<float>},
    {"dense_lu_d", lu<double>},
    {"dense_triangular_solve_f", triangular_solve<float>},
    {"dense_triangular_solve_d", triangular_solve<double>},
    {"dense_lu_solve_f", lu_solve<float>},
    {"dense_lu_solve_d", lu_solve<double>},
};

}  // namespace
FUNCTRAX_WIDEST_END
#endif

std::vector<Named> dense_loops() {
#ifdef FUNCTRAX_WIDEST_BEGIN
  if (targets::FUNCTRAX_HOST::has_widest()) return kAll;
#endif
  return {};
}

}  // namespace functrax::library
