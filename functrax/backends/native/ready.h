// Computing the arrays of a tree by one program, and waiting for them.

#pragma once

#include <Python.h>

namespace functrax::ready {

// block_until_ready(tree) -> the tree, once every array in it is computed. Leaves that are no
// arrays are waited for if they have a method block_until_ready.
PyObject* block_until_ready(PyObject* self, PyObject* tree);

}  // namespace functrax::ready
