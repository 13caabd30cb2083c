// Recording of operations outside of jit: the fast half of backends/eager.py.
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

// eager_line() -> the line that a new operation belongs to, as current_source of core/trace.py.
PyObject* line(PyObject* self, PyObject* unused);

PyObject* now(PyObject* self, PyObject* unused);  // the number of the next operation

// eager_last_look() -> the number of the operation before which somebody last looked at a value that
// had to be run for; note_look() notes such a look.
PyObject* last_look(PyObject* self, PyObject* unused);
void note_look();

}  // namespace functrax::eager
