// What users give as arrays: the fast half of as_value in core/tracing/inputs.py. Arrays are
// themselves, and dense NumPy arrays of a dtype and shape that were met before are copied here;
// everything else Python sees to, which is the twin.

#pragma once

#include <Python.h>

namespace functrax::inputs {

// as_value(x[, what]) -> an array of the language
PyObject* as_value(PyObject* self, PyObject* const* args, Py_ssize_t count);

// as_value_configure(class of arrays, as_value, dtypes): the Python function, and a set of the
// dtypes that arrays have as they are, whatever the options.
PyObject* configure(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::inputs
