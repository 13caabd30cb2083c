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

// What an array is like; all parts are borrowed.
struct Form {
  PyObject* dtype;
  int rank;
  const Py_ssize_t* sizes;
};
Form form_of(PyObject* array);

// Numbers that are held in C types: 'b' truth value, 'i' integer, 'u' unsigned, 'f', 'c' complex.
struct ScalarForm {
  char kind;
  int nbytes;
};

// What the scalars of a type are, of the types that NumPy itself has; null for all other types.
const ScalarForm* scalar_form(PyTypeObject* type);

// What the elements of a dtype are; kind is 0 where they are no such number. False with an error.
bool element_form(PyObject* dtype, ScalarForm& form);

// The array as a dense, row-major one of this dtype, a copy if it must be; null with an error set.
PyObject* converted(PyObject* array, PyObject* dtype, bool copy);

// An array over `data`, which `owner` (borrowed) keeps alive; null with an error set.
PyObject* make_array(PyObject* dtype, int rank, const Py_ssize_t* shape, void* data,
                     PyObject* owner, bool writable);

}  // namespace functrax::numpy_arrays
