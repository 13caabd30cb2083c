// Gradients of functions that Python calls outside of jit: the fast half of `value_and_grad` in
// transforms/differentiation/derivatives.py. The user's function is called with tracers of a tape
// in the place of arrays, and the tape is read backwards from its result. What is unusual before
// that call is left to Python, which is the twin; what is wrong after it, Python's functions say.

#pragma once

#include <Python.h>

namespace functrax::eager {

// eager_gradient(wanted, args, kwargs) -> (value, auxiliary part or None, gradients by the chosen
// arguments), or NotImplemented where nothing was done yet and Python has to do it. `wanted` is
// (function, positions, has_aux, holomorphic, allow_int).
PyObject* gradient(PyObject* self, PyObject* const* args, Py_ssize_t count);

// eager_gradient_configure(functions): see derivatives.py.
PyObject* configure_gradient(PyObject* self, PyObject* functions);

}  // namespace functrax::eager
