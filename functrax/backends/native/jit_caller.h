// The base class of jitted functions, which makes their calls; its Python twin is PythonCaller of
// functrax/transforms/staging/jit_caller.py.

#pragma once

#include <Python.h>

namespace functrax::jit_caller {

// Makes the type JitCaller; a new reference, or null with an error set.
PyObject* make_type();

// jit_configure(array_class, jitted_class, options_key) -> None
PyObject* configure(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::jit_caller
