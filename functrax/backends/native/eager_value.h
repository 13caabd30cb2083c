// What arrays hold of a result that is recorded: the result itself, as a Python object.

#pragma once

#include <Python.h>

#include <cstdint>

#include "eager_node.h"
#include "reference.h"

namespace functrax::eager {

inline Result* as_result(PyObject* x) { return reinterpret_cast<Result*>(x); }

// What an array's buffer is, borrowed.
inline Operand operand_in(PyObject* buffer) {
  if (is_result(buffer) && as_result(buffer)->known != nullptr) {
    return Operand(as_result(buffer)->known);
  }
  return Operand(buffer);
}

// An operand as a node may read it, borrowed, of an array or a literal; empty if Python has to see
// to it.
Operand operand_of(PyObject* x, PyObject* setting);

// What the buffer of an array of an operand is.
Ref buffer_for(const Operand& x);

// An array of an operand; null with an error set.
Ref array_of(const Operand& x, PyObject* aval);
Ref array_of(Held x, PyObject* aval);

PyObject* make_value_type();  // null with an error set

// eager_node(signature, operands, line) -> a list of arrays' buffers, of the operation's results.
// Operands are arrays and literals.
PyObject* node_of(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::eager
