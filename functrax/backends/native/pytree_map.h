// Functions of the leaves of pytrees: the rest of functrax.core.pytree.python_twin, in C++.

#pragma once

#include <Python.h>

namespace functrax::pytree {

// map(f, tree, rest, is_leaf) -> the tree of what f gives for the leaves of a tree, and for what
// each tree of the tuple `rest` has in their places
PyObject* map(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::pytree
