// Loops over small matrices that NumPy has no function for: triangular solutions, elimination with
// partial pivoting, cofactors, permutations of pivots, and parts of matrices.
//
// Each is a kernel whose units are matrices; buffers are its operands, then its results. Strides
// are in elements of rows and columns, so that transposed and reversed matrices are read where they
// are. The order of all sums follows from sizes and strides. Start at triangular_solve.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "library.h"
#include "row_order.h"
#include "small_array.h"

namespace functrax::library {
namespace {

using Index = std::int64_t;

template <typename T>
T times(T x, T y) {
  return x * y;
}
// Without the search for infinities that the operator makes.
template <typename T>
std::complex<T> times(std::complex<T> x, std::complex<T> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

template <typename T>
T conjugate(T x) {
  return x;
}
template <typename T>
std::complex<T> conjugate(std::complex<T> x) {
  return std::conj(x);
}

template <typename T>
struct Lower {
  const T* first;  // of the first pivot
  Index row, column;
  bool conjugated, unit;

  T operator()(Index i, Index j) const {
    const T x = first[i * row + j * column];
    return conjugated ? conjugate(x) : x;
  }
  T divided(T x, Index i) const { return unit ? x : x / (*this)(i, i); }
};

// One right side, whose elements are `step` apart: four sums at once, for each waits for itself.
template <typename T>
void solve_one(const Lower<T>& a, Index n, const T* b, T* x, Index step) {
  for (Index i = 0; i < n; ++i) {
    T sums[4] = {};
    Index j = 0;
    for (; j + 4 <= i; j += 4) {
      for (Index k = 0; k < 4; ++k) sums[k] += times(a(i, j + k), x[(j + k) * step]);
    }
    for (; j < i; ++j) sums[0] += times(a(i, j), x[j * step]);
    const T sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    x[i * step] = a.divided(b[i * step] - sum, i);
  }
}

// Right sides next to one another in rows, which are `step` apart.
template <typename T>
void solve_rows(const Lower<T>& a, Index n, Index count, const T* b, T* x, Index step) {
  for (Index i = 0; i < n; ++i) {
    T* row = x + i * step;
    std::copy(b + i * step, b + i * step + count, row);
    for (Index j = 0; j < i; ++j) {
      const T factor = a(i, j);
      const T* other = x + j * step;
      for (Index k = 0; k < count; ++k) row[k] -= times(factor, other[k]);
    }
    if (a.unit) continue;
    const T pivot = a(i, i);
    for (Index k = 0; k < count; ++k) row[k] = row[k] / pivot;
  }
}

// Buffers a, b, x. Params: n, right sides, elements of a matrix a and of b, then for the lower
// triangle that a is read as: first pivot, row stride, column stride, conjugated, unit; then of b
// and x: first element, stride along n, stride along right sides.
template <typename T>
void triangular_solve(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0], count = p[1], step = p[10], apart = p[11];
  for (Index u = begin; u < end; ++u) {
    const Lower<T> a{static_cast<const T*>(buffers[0]) + u * p[2] + p[4], p[5], p[6], p[7] != 0,
                     p[8] != 0};
    const T* b = static_cast<const T*>(buffers[1]) + u * p[3] + p[9];
    T* x = static_cast<T*>(buffers[2]) + u * p[3] + p[9];
    if (apart == 1 && count > 1) {
      solve_rows(a, n, count, b, x, step);
      continue;
    }
    for (Index k = 0; k < count; ++k) solve_one(a, n, b + k * apart, x + k * apart, step);
  }
}

// How large an element is, as LAPACK compares pivots; NaN is the largest.
template <typename T>
T magnitude(T x) {
  return std::isnan(x) ? std::numeric_limits<T>::infinity() : std::abs(x);
}
template <typename T>
T magnitude(std::complex<T> x) {
  return magnitude(std::abs(x.real()) + std::abs(x.imag()));
}

template <typename T>
void eliminate(T* a, std::int32_t* pivots, std::int32_t* order, Index m, Index n) {
  for (Index i = 0; i < m; ++i) order[i] = static_cast<std::int32_t>(i);
  for (Index j = 0; j < std::min(m, n); ++j) {
    Index best = j;
    for (Index i = j + 1; i < m; ++i) {
      if (magnitude(a[i * n + j]) > magnitude(a[best * n + j])) best = i;
    }
    pivots[j] = static_cast<std::int32_t>(best);
    if (best != j) {
      std::swap_ranges(a + j * n, a + (j + 1) * n, a + best * n);
      std::swap(order[j], order[best]);
    }
    const T pivot = a[j * n + j];
    const T* top = a + j * n;
    for (Index i = j + 1; i < m; ++i) {
      T* row = a + i * n;
      if (pivot != T(0)) row[j] = row[j] / pivot;  // a column of zeros stays
      const T factor = row[j];
      for (Index k = j + 1; k < n; ++k) row[k] -= times(factor, top[k]);
    }
  }
}

// Buffers x, lu, pivots, permutation. Params: rows, columns.
template <typename T>
void lu(void** buffers, const Index* p, Index begin, Index end) {
  const Index m = p[0], n = p[1], k = std::min(m, n);
  for (Index u = begin; u < end; ++u) {
    T* out = static_cast<T*>(buffers[1]) + u * m * n;
    std::memcpy(out, static_cast<const T*>(buffers[0]) + u * m * n, sizeof(T) * m * n);
    eliminate(out, static_cast<std::int32_t*>(buffers[2]) + u * k,
              static_cast<std::int32_t*>(buffers[3]) + u * m, m, n);
  }
}

// Exchanges rows and columns so that the largest of what is left is the pivot, and eliminates.
template <typename T>
bool eliminate_completely(T* a, Index* rows, Index* columns, Index n) {
  bool is_even = true;
  for (Index i = 0; i < n; ++i) rows[i] = columns[i] = i;
  for (Index j = 0; j < n; ++j) {
    Index row = j, column = j;
    for (Index i = j; i < n; ++i) {
      for (Index k = j; k < n; ++k) {
        if (magnitude(a[i * n + k]) > magnitude(a[row * n + column])) row = i, column = k;
      }
    }
    is_even = is_even == ((row != j) == (column != j));
    std::swap(rows[j], rows[row]);
    std::swap(columns[j], columns[column]);
    if (row != j) std::swap_ranges(a + j * n, a + (j + 1) * n, a + row * n);
    for (Index i = 0; i < n && column != j; ++i) std::swap(a[i * n + j], a[i * n + column]);
    const T pivot = a[j * n + j];
    for (Index i = j + 1; i < n; ++i) {
      T* line = a + i * n;
      if (pivot != T(0)) line[j] = line[j] / pivot;  // else all that is left is zero
      const T factor = line[j];
      for (Index k = j + 1; k < n; ++k) line[k] -= times(factor, a[j * n + k]);
    }
  }
  return is_even;
}

// The adjugate of an upper triangle u, without a division: that of its first k + 1 rows and columns
// is made of that of the first k, which `out` has already.
template <typename T>
void adjugate_of_upper(const T* u, T* out, Index n) {
  T det(1);
  for (Index k = 0; k < n; ++k) {
    const T pivot = u[k * n + k];
    for (Index i = 0; i < k; ++i) {
      T sum(0);
      for (Index j = i; j < k; ++j) {
        sum += times(out[i * n + j], u[j * n + k]);
        out[i * n + j] = times(out[i * n + j], pivot);
      }
      out[i * n + k] = -sum;
      out[k * n + i] = T(0);
    }
    out[k * n + k] = det;
    det = times(det, pivot);
  }
}

// Buffers x, cofactors. Params: n.
template <typename T>
void cofactor(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0];
  for (Index u = begin; u < end; ++u) {
    cofactors(static_cast<const T*>(buffers[0]) + u * n * n,
              static_cast<T*>(buffers[1]) + u * n * n, n);
  }
}

// x, in which rows were exchanged, is solved for right sides in rows: by the lower triangle of lu
// and then its upper one; or, transposed, by these the other way around.
template <typename T>
void substitute(const T* lu, Index n, Index count, bool transposed, const T* b, T* middle, T* x) {
  const Index last = (n - 1) * count;
  const Lower<T> first{lu, transposed ? 1 : n, transposed ? n : 1, false, !transposed};
  const Lower<T> second{lu + n * n - 1, -first.row, -first.column, false, transposed};
  if (count == 1) {
    solve_one(first, n, b, middle, 1);
    solve_one(second, n, middle + last, x + last, -1);
  } else {
    solve_rows(first, n, count, b, middle, count);
    solve_rows(second, n, count, middle + last, x + last, -count);
  }
}

// Buffers lu, permutation, b, x. Params: n, right sides, whether the transposed system is solved.
// NaN where a pivot is zero.
template <typename T>
void factored_solve(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0], count = p[1], size = n * count;
  const bool transposed = p[2] != 0;
  SmallArray<T, 512> scratch(2 * size);
  T *outer = scratch.data(), *middle = outer + size;
  for (Index u = begin; u < end; ++u) {
    const T* lu = static_cast<const T*>(buffers[0]) + u * n * n;
    const std::int32_t* order = static_cast<const std::int32_t*>(buffers[1]) + u * n;
    const T* b = static_cast<const T*>(buffers[2]) + u * size;
    T* x = static_cast<T*>(buffers[3]) + u * size;
    if (has_zero_pivot(lu, n)) {
      std::fill(x, x + size, T(std::numeric_limits<double>::quiet_NaN()));
    } else if (transposed) {
      substitute(lu, n, count, true, b, middle, outer);
      put_rows(outer, order, x, n, count);
    } else {
      take_rows(b, order, outer, n, count);
      substitute(lu, n, count, false, outer, middle, x);
    }
  }
}

// Buffers pivots, permutation. Params: pivots of a matrix, rows of it. Pivots may be anybody's:
// those that are no rows are taken as gathers take them, from the end or as the nearest row.
template <typename T>
void permutation(void** buffers, const Index* p, Index begin, Index end) {
  for (Index u = begin; u < end; ++u) {
    const T* pivots = static_cast<const T*>(buffers[0]) + u * p[0];
    T* order = static_cast<T*>(buffers[1]) + u * p[1];
    for (Index i = 0; i < p[1]; ++i) order[i] = static_cast<T>(i);
    for (Index i = 0; i < p[0]; ++i) {
      const Index row = pivots[i] < 0 ? pivots[i] + p[1] : pivots[i];
      std::swap(order[i], order[std::clamp<Index>(row, 0, p[1] - 1)]);
    }
  }
}

// Buffers x, part. Params: rows and columns of the part, elements of a matrix x, its row stride,
// and whether what is below the diagonal becomes 0.
template <typename From, typename To>
void part(void** buffers, const Index* p, Index begin, Index end) {
  const Index rows = p[0], columns = p[1];
  for (Index u = begin; u < end; ++u) {
    const From* x = static_cast<const From*>(buffers[0]) + u * p[2];
    To* out = static_cast<To*>(buffers[1]) + u * rows * columns;
    for (Index i = 0; i < rows; ++i) {
      const Index zeros = p[4] != 0 ? std::min(i, columns) : 0;
      std::fill(out + i * columns, out + i * columns + zeros, To(0));
      for (Index j = zeros; j < columns; ++j) out[i * columns + j] = To(x[i * p[3] + j]);
    }
  }
}

// Buffer x. Params: rows, bytes of an element: what is above the diagonal becomes 0.
void zero_upper(void** buffers, const Index* p, Index begin, Index end) {
  const Index n = p[0], size = p[1];
  for (Index u = begin; u < end; ++u) {
    char* x = static_cast<char*>(buffers[0]) + u * n * n * size;
    for (Index i = 0; i < n; ++i) std::memset(x + (i * n + i + 1) * size, 0, (n - i - 1) * size);
  }
}

}  // namespace

// A zero pivot comes last, so singular matrices have cofactors, too.
template <typename T>
void cofactors(const T* x, T* out, std::int64_t n) {
  SmallArray<T, 512> scratch(2 * n * n);
  SmallArray<Index, 32> order(2 * n);
  T *lu = scratch.data(), *adjugate = lu + n * n;
  Index *rows = order.data(), *columns = rows + n;
  std::copy(x, x + n * n, lu);
  const bool is_even = eliminate_completely(lu, rows, columns, n);
  adjugate_of_upper(lu, adjugate, n);
  for (Index i = 0; i < n; ++i) {
    T* line = adjugate + i * n;  // times the inverse of the lower triangle
    for (Index j = n - 1; j >= 0; --j) {
      T sum = line[j];
      for (Index k = j + 1; k < n; ++k) sum -= times(line[k], lu[k * n + j]);
      line[j] = sum;
      out[rows[j] * n + columns[i]] = is_even ? sum : -sum;
    }
  }
}

template void cofactors(const float* x, float* out, std::int64_t n);
template void cofactors(const double* x, double* out, std::int64_t n);

const std::vector<Named>& matrix_loops() {
  using F = std::complex<float>;
  using D = std::complex<double>;
  static const std::vector<Named> all = {
      {"triangular_solve_f", triangular_solve<float>},
      {"triangular_solve_d", triangular_solve<double>},
      {"triangular_solve_F", triangular_solve<F>},
      {"triangular_solve_D", triangular_solve<D>},
      {"cofactor_f", cofactor<float>},
      {"cofactor_d", cofactor<double>},
      {"cofactor_F", cofactor<F>},
      {"cofactor_D", cofactor<D>},
      {"factored_solve_f", factored_solve<float>},
      {"factored_solve_d", factored_solve<double>},
      {"factored_solve_F", factored_solve<F>},
      {"factored_solve_D", factored_solve<D>},
      {"lu_f", lu<float>},
      {"lu_d", lu<double>},
      {"lu_F", lu<F>},
      {"lu_D", lu<D>},
      {"permutation_i", permutation<std::int32_t>},
      {"permutation_l", permutation<std::int64_t>},
      {"part_fd", part<float, double>},
      {"part_FD", part<F, D>},
      {"part_df", part<double, float>},
      {"part_DF", part<D, F>},
      {"part_dd", part<double, double>},
      {"part_DD", part<D, D>},
      {"zero_upper", zero_upper},
  };
  return all;
}

}  // namespace functrax::library
