// Rows of a matrix in another order, and factors that solve no system.

#pragma once

#include <algorithm>
#include <cstdint>

namespace functrax::library {

// Row i of `out` is row order[i] of x.
template <typename T>
void take_rows(const T* x, const std::int32_t* order, T* out, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(x + order[i] * columns, columns, out + i * columns);
  }
}

// Row order[i] of `out` is row i of x.
template <typename T>
void put_rows(const T* x, const std::int32_t* order, T* out, std::int64_t rows,
              std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(x + i * columns, columns, out + order[i] * columns);
  }
}

// Whether the upper triangle in `lu` is singular.
template <typename T>
bool has_zero_pivot(const T* lu, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (lu[i * n + i] == T(0)) return true;
  }
  return false;
}

}  // namespace functrax::library
