// Functions that launches call beside the compiler's kernels: loops of NumPy, loops over small
// matrices, Fourier transforms, selection, and sorting.
//
// Each has the form of a kernel (program.h), so the executor knows nothing of them. Their names and
// addresses go out; functrax/backends/libraries looks them up, and writes their params. Their
// Python twin is the NumPy reference of the primitive.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program.h"

namespace functrax::library {

using Named = std::pair<const char*, program::Kernel>;

// The loops over matrices (matrix_loops.cpp).
const std::vector<Named>& matrix_loops();
// The cofactors of one matrix of any rank, slowly (matrix_loops.cpp).
template <typename T>
void cofactors(const T* x, T* out, std::int64_t n);
// Factorisations and solutions of a few to some hundred rows (dense_loops.cpp); none where vectors
// are too short for them.
std::vector<Named> dense_loops();
// Fourier transforms (fourier_loops.cpp).
const std::vector<Named>& fourier_loops();
// Factorisations and solutions by LAPACK (lapack_loops.cpp).
const std::vector<Named>& lapack_loops();
// The largest elements (selection_loops.cpp).
const std::vector<Named>& selection_loops();
// Arrays sorted together (sorting_loops.cpp).
const std::vector<Named>& sorting_loops();

// Names and addresses of all functions.
pybind11::dict functions();

}  // namespace functrax::library
