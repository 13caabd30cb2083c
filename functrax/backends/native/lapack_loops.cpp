// Factorisations and solutions of matrices of more than a few rows, by functions of LAPACK and BLAS
// that NumPy brings.
//
// Those count elements by columns: a matrix that lies here by rows is its own transpose to them. So
// almost nothing is copied into their order: a lower triangle is their upper one, and a system is
// solved with the transpose of what they eliminated. Their addresses are the first params, and
// integers have 64 bits; then come the number of matrices, and whether LAPACK is to have one
// thread. A failure gives NaN. Start at cholesky.

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "blas_threads.h"
#include "library.h"
#include "row_order.h"

namespace functrax::library {
namespace {

using Index = std::int64_t;
using blas_threads::OneThread;

// Fortran passes the lengths of strings after all arguments.
using Potrf = void (*)(const char* uplo, const Index* n, void* a, const Index* lda, Index* info,
                       std::size_t);
using Getrf = void (*)(const Index* m, const Index* n, void* a, const Index* lda, Index* pivots,
                       Index* info);
using Geqrf = void (*)(const Index* m, const Index* n, void* a, const Index* lda, void* tau,
                       void* work, const Index* lwork, Index* info);
using Orgqr = void (*)(const Index* m, const Index* n, const Index* k, void* a, const Index* lda,
                       const void* tau, void* work, const Index* lwork, Index* info);
using Trsm = void (*)(const char* side, const char* uplo, const char* trans, const char* diag,
                      const Index* m, const Index* n, const void* alpha, const void* a,
                      const Index* lda, void* b, const Index* ldb, std::size_t, std::size_t,
                      std::size_t, std::size_t);
using Trsv = void (*)(const char* uplo, const char* trans, const char* diag, const Index* n,
                      const void* a, const Index* lda, void* x, const Index* step, std::size_t,
                      std::size_t, std::size_t);

using Syevd = void (*)(const char* jobz, const char* uplo, const Index* n, void* a,
                       const Index* lda, void* w, void* work, const Index* lwork, Index* iwork,
                       const Index* liwork, Index* info, std::size_t, std::size_t);

template <typename Function>
Function function(Index address) {
  return reinterpret_cast<Function>(address);
}

template <typename T>
T* matrix(void* buffer, Index number, Index size) {
  return static_cast<T*>(buffer) + number * size;
}

// Buffers x, factor. Params: potrf, matrices, alone, rows. What is above the diagonal becomes 0.
template <typename T>
void cholesky(void** buffers, const Index* p, Index, Index) {
  const OneThread alone(p[2] != 0);
  const Index n = p[3];
  for (Index u = 0; u < p[1]; ++u) {
    T* out = matrix<T>(buffers[1], u, n * n);
    std::memcpy(out, matrix<T>(buffers[0], u, n * n), sizeof(T) * n * n);
    Index info = 0;
    function<Potrf>(p[0])("U", &n, out, &n, &info, 1);
    for (Index i = 0; i < n; ++i) {
      T* row = out + i * n;
      if (info != 0) std::fill(row, row + i + 1, T(std::numeric_limits<double>::quiet_NaN()));
      std::fill(row + i + 1, row + n, T(0));
    }
  }
}

// The first columns of row-major a, m times n, one after the other.
template <typename T>
void turn(const T* a, T* out, Index m, Index n, Index columns) {
  constexpr Index kTile = 16;
  for (Index first = 0; first < m; first += kTile) {
    const Index end = std::min(first + kTile, m);
    for (Index j = 0; j < columns; ++j) {
      for (Index i = first; i < end; ++i) out[j * m + i] = a[i * n + j];
    }
  }
}

// Buffers x, then lu, pivots, permutation, and scratch for lu and pivots. Params: getrf, matrices,
// alone, rows, columns.
template <typename T>
void lu(void** buffers, const Index* p, Index, Index) {
  const OneThread alone(p[2] != 0);
  const Index m = p[3], n = p[4], k = std::min(m, n);
  T* scratch = static_cast<T*>(buffers[4]);
  Index* found = static_cast<Index*>(buffers[5]);
  for (Index u = 0; u < p[1]; ++u) {
    turn(matrix<T>(buffers[0], u, m * n), scratch, m, n, n);
    Index info = 0;  // a pivot of zero is no failure: what is left is the factor
    function<Getrf>(p[0])(&m, &n, scratch, &m, found, &info);
    turn(scratch, matrix<T>(buffers[1], u, m * n), n, m, m);
    auto* pivots = matrix<std::int32_t>(buffers[2], u, k);
    auto* order = matrix<std::int32_t>(buffers[3], u, m);
    for (Index i = 0; i < m; ++i) order[i] = static_cast<std::int32_t>(i);
    for (Index i = 0; i < k; ++i) {
      pivots[i] = static_cast<std::int32_t>(found[i] - 1);
      std::swap(order[i], order[pivots[i]]);
    }
  }
}

// Buffers x, perhaps q, r, and scratch of each unit for a factor by columns, scalars of
// reflections, and work. Params: geqrf, orgqr, matrices, alone, rows and columns of x, columns of
// q, whether there is a q, elements of work, units, which share the matrices.
template <typename T>
void qr(void** buffers, const Index* p, Index begin, Index end) {
  const OneThread alone(p[3] != 0);
  const Index m = p[4], n = p[5], columns = p[6], k = std::min(m, n), lwork = p[8], units = p[9];
  const bool has_q = p[7] != 0;
  void** after = buffers + (has_q ? 2 : 1);
  for (Index unit = begin; unit < end; ++unit) {
    T *a = matrix<T>(after[1], unit, m * std::max(n, columns)), *tau = matrix<T>(after[2], unit, k);
    T* work = matrix<T>(after[3], unit, lwork);
    for (Index u = unit * p[2] / units; u < (unit + 1) * p[2] / units; ++u) {
      turn(matrix<T>(buffers[0], u, m * n), a, m, n, n);
      Index info = 0;
      function<Geqrf>(p[0])(&m, &n, a, &m, tau, work, &lwork, &info);
      T* r = matrix<T>(after[0], u, columns * n);
      turn(a, r, n, m, columns);
      for (Index i = 0; i < columns; ++i) std::fill(r + i * n, r + i * n + std::min(i, n), T(0));
      if (!has_q) continue;
      function<Orgqr>(p[1])(&m, &columns, &k, a, &m, tau, work, &lwork, &info);
      turn(a, matrix<T>(buffers[1], u, m * columns), columns, m, m);
    }
  }
}

// How a triangle that lies by rows is to be read by functions that count by columns.
struct Triangle {
  const char *uplo, *trans, *diag;
};

// b, where x op(a) = b or, from the left, op(a) x = b, becomes x.
template <typename T>
void substitute(const Index* addresses, const Triangle& how, bool left, const T* a, T* b,
                Index rows, Index columns) {
  const Index n = left ? rows : columns, count = left ? columns : rows, one = 1;
  const T alpha(1);
  if (count == 1 && *how.trans != 'C') {
    const char* trans = (*how.trans == 'T') == left ? "N" : "T";
    function<Trsv>(addresses[1])(how.uplo, trans, how.diag, &n, a, &n, b, &one, 1, 1, 1);
    return;
  }
  function<Trsm>(addresses[0])(left ? "R" : "L", how.uplo, how.trans, how.diag, &columns, &rows,
                               &alpha, a, &n, b, &columns, 1, 1, 1, 1);
}

// Buffers a, b, x. Params: trsm, trsv, matrices, alone, rows and columns of b; whether a is on the
// left, is a lower triangle, is transposed, is conjugated then, and has a diagonal of ones.
template <typename T>
void triangular_solve(void** buffers, const Index* p, Index, Index) {
  const OneThread alone(p[3] != 0);
  const Index rows = p[4], columns = p[5];
  const bool left = p[6] != 0;
  const char* trans = p[8] == 0 ? "N" : p[9] == 0 ? "T" : "C";
  const Triangle how{p[7] != 0 ? "U" : "L", trans, p[10] != 0 ? "U" : "N"};
  const Index n = left ? rows : columns, size = rows * columns;
  for (Index u = 0; u < p[2]; ++u) {
    T* x = matrix<T>(buffers[2], u, size);
    std::memcpy(x, matrix<T>(buffers[1], u, size), sizeof(T) * size);
    substitute<T>(p, how, left, matrix<T>(buffers[0], u, n * n), x, rows, columns);
  }
}

// Buffers a, b, then x and scratch for a and pivots. Params: trsm, trsv, getrf, matrices, alone,
// rows, columns of b. What is eliminated is the transpose of a, so its rows, a's columns, are
// exchanged.
template <typename T>
void linear_solve(void** buffers, const Index* p, Index, Index) {
  const OneThread alone(p[4] != 0);
  const Index n = p[5], columns = p[6], size = n * columns;
  T* a = static_cast<T*>(buffers[3]);
  Index* pivots = static_cast<Index*>(buffers[4]);
  for (Index u = 0; u < p[3]; ++u) {
    T* x = matrix<T>(buffers[2], u, size);
    std::memcpy(a, matrix<T>(buffers[0], u, n * n), sizeof(T) * n * n);
    Index info = 0;
    function<Getrf>(p[2])(&n, &n, a, &n, pivots, &info);
    if (info != 0) {
      std::fill(x, x + size, T(std::numeric_limits<double>::quiet_NaN()));
      continue;
    }
    std::memcpy(x, matrix<T>(buffers[1], u, size), sizeof(T) * size);
    substitute<T>(p, {"U", "N", "N"}, true, a, x, n, columns);
    substitute<T>(p, {"L", "N", "U"}, true, a, x, n, columns);
    for (Index i = n - 1; i >= 0; --i) {
      T *row = x + i * columns, *other = x + (pivots[i] - 1) * columns;
      if (row != other) std::swap_ranges(row, row + columns, other);
    }
  }
}

// Buffers lu, permutation, b, x, and scratch for b with rows exchanged. Params: trsm, trsv,
// matrices, alone, rows, columns of b, whether the transposed system is solved. NaN where a pivot
// is zero.
template <typename T>
void factored_solve(void** buffers, const Index* p, Index, Index) {
  const OneThread alone(p[3] != 0);
  const Index n = p[4], columns = p[5], size = n * columns;
  T* scratch = static_cast<T*>(buffers[4]);
  for (Index u = 0; u < p[2]; ++u) {
    const T* lu = matrix<T>(buffers[0], u, n * n);
    const auto* order = matrix<std::int32_t>(buffers[1], u, n);
    const T* b = matrix<T>(buffers[2], u, size);
    T* x = matrix<T>(buffers[3], u, size);
    if (has_zero_pivot(lu, n)) {
      std::fill(x, x + size, T(std::numeric_limits<double>::quiet_NaN()));
    } else if (p[6] != 0) {
      std::memcpy(scratch, b, sizeof(T) * size);
      substitute<T>(p, {"L", "T", "N"}, true, lu, scratch, n, columns);
      substitute<T>(p, {"U", "T", "U"}, true, lu, scratch, n, columns);
      put_rows(scratch, order, x, n, columns);
    } else {
      take_rows(b, order, x, n, columns);
      substitute<T>(p, {"U", "N", "U"}, true, lu, x, n, columns);
      substitute<T>(p, {"L", "N", "N"}, true, lu, x, n, columns);
    }
  }
}

// Buffers x, values, vectors, and scratch of each unit for vectors by columns and work of two
// kinds. Params: syevd, matrices, alone, rows, whether the lower triangle is read, elements of work
// of both kinds, units, which share the matrices. NaN where it does not converge.
//
// In single precision OpenBLAS takes 4 to 6 % longer with the upper triangle than with the lower
// one, which a turned matrix has in its place; in double precision neither is faster.
template <typename T>
void eigh(void** buffers, const Index* p, Index begin, Index end) {
  constexpr bool kPrefersLower = std::is_same<T, float>::value;
  const OneThread alone(p[2] != 0);
  const Index n = p[3], lwork = p[5], liwork = p[6], units = p[7];
  const bool is_lower = p[4] != 0, is_turned = kPrefersLower && is_lower;
  const char* uplo = is_turned || !is_lower ? "L" : "U";
  for (Index unit = begin; unit < end; ++unit) {
    T *a = matrix<T>(buffers[3], unit, n * n), *work = matrix<T>(buffers[4], unit, lwork);
    Index* integers = matrix<Index>(buffers[5], unit, liwork);
    for (Index u = unit * p[1] / units; u < (unit + 1) * p[1] / units; ++u) {
      const T* x = matrix<T>(buffers[0], u, n * n);
      T *w = matrix<T>(buffers[1], u, n), *v = matrix<T>(buffers[2], u, n * n);
      if (is_turned) {
        turn(x, a, n, n, n);
      } else {
        std::memcpy(a, x, sizeof(T) * n * n);
      }
      Index info = 0;
      function<Syevd>(p[0])("V", uplo, &n, a, &n, w, work, &lwork, integers, &liwork, &info, 1, 1);
      if (info == 0) {
        turn(a, v, n, n, n);
      } else {
        std::fill(w, w + n, std::numeric_limits<T>::quiet_NaN());
        std::fill(v, v + n * n, std::numeric_limits<T>::quiet_NaN());
      }
    }
  }
}

}  // namespace

const std::vector<Named>& lapack_loops() {
  using F = std::complex<float>;
  using D = std::complex<double>;
  static const std::vector<Named> all = {
      {"lapack_cholesky_f", cholesky<float>},
      {"lapack_cholesky_d", cholesky<double>},
      {"lapack_cholesky_F", cholesky<F>},
      {"lapack_cholesky_D", cholesky<D>},
      {"lapack_eigh_f", eigh<float>},
      {"lapack_eigh_d", eigh<double>},
      {"lapack_factored_solve_f", factored_solve<float>},
      {"lapack_factored_solve_d", factored_solve<double>},
      {"lapack_factored_solve_F", factored_solve<F>},
      {"lapack_factored_solve_D", factored_solve<D>},
      {"lapack_lu_f", lu<float>},
      {"lapack_lu_d", lu<double>},
      {"lapack_lu_F", lu<F>},
      {"lapack_lu_D", lu<D>},
      {"lapack_qr_f", qr<float>},
      {"lapack_qr_d", qr<double>},
      {"lapack_qr_F", qr<F>},
      {"lapack_qr_D", qr<D>},
      {"lapack_triangular_solve_f", triangular_solve<float>},
      {"lapack_triangular_solve_d", triangular_solve<double>},
      {"lapack_triangular_solve_F", triangular_solve<F>},
      {"lapack_triangular_solve_D", triangular_solve<D>},
      {"lapack_linear_solve_f", linear_solve<float>},
      {"lapack_linear_solve_d", linear_solve<double>},
      {"lapack_linear_solve_F", linear_solve<F>},
      {"lapack_linear_solve_D", linear_solve<D>},
  };
  return all;
}

}  // namespace functrax::library
