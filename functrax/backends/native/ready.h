// Waiting for the arrays of a tree, where most are computed already.

#pragma once

#include <Python.h>

namespace functrax::ready {

// unready(tree) -> a list of all parts of a tree that Python has to look at: leaves that are not
// computed yet, or none of the usual ones, and nodes that are neither list nor tuple nor a dict
// with strings as keys. The tree is ready if the list is empty.
PyObject* unready(PyObject* self, PyObject* tree);

}  // namespace functrax::ready
