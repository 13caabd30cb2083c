// The few things that functrax needs of NumPy's C API, without NumPy's headers: it looks at arrays
// and makes arrays over memory that something else owns.

#pragma once

#include <Python.h>

#include <cstdint>

namespace functrax::numpy_arrays {

// Loads the API: false, with an error set, where NumPy is missing. Later calls cost nothing.
bool load();

bool is_array(PyObject* object);  // a numpy.ndarray, not of a subclass

// What a dense, row-major array with aligned elements, of this dtype and shape, holds; null without
// an error where the array is any other. Arrays without elements hold a place nobody looks at.
void* dense_data(PyObject* array, PyObject* dtype, int rank, const Py_ssize_t* shape);

// Copies the value of a NumPy scalar; only of those whose C type is part of NumPy itself.
void read_scalar(PyObject* scalar, void* value);

// An array over `data`, which `owner` (borrowed) keeps alive; null with an error set.
PyObject* make_array(PyObject* dtype, int rank, const Py_ssize_t* shape, void* data,
                     PyObject* owner, bool writable);

}  // namespace functrax::numpy_arrays
