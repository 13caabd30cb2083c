// Where calls of users enter functrax: the fast half of functrax/core/boundaries/tracebacks.py.

#pragma once

#include <Python.h>

namespace functrax::boundary {

// boundary_configure(shorten): what is called with the exception of a call that failed.
PyObject* configure(PyObject*, PyObject* shorten);

// Hands the exception that is set to `shorten`, which may change its traceback. It stays set.
void on_error();

}  // namespace functrax::boundary
