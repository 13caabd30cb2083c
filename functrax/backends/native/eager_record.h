// Recording of operations outside of jit: the fast half of backends/eager/__init__.py.
//
// An EagerMethod stands in the place of Primitive.bind, or of an operator of arrays. Where it can
// tell at once what the Python function would record (operands that are concrete arrays and
// literals, a signature that was met before) it makes the node and the array of its result itself;
// everything else it leaves to the Python function, which also is its twin.

#pragma once

#include <Python.h>

namespace functrax::eager {

PyObject* make_type();  // functrax._native.EagerMethod

// eager_execute(primitive, operands, parameters): what the bottom interpreter does.
PyObject* execute(PyObject* self, PyObject* const* args, Py_ssize_t count);

// eager_tape_apply(primitive, operands, parameters): what an interpreter with a tape does, of whose
// tracers some operands are; NotImplemented where that is Python's business.
PyObject* apply_on_tape(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::eager
