// Pytrees: the hot loops of functrax.core.pytree_python, in C++.
//
// A tree goes in; a list of leaves and a structure come out, and the other way round. Structures
// are instances of the Python class PyTreeDef, whose slots are written directly. What a node is,
// and every error message, is decided in functrax/core/pytree_node.py: its registry is read here,
// and its functions are called where something is wrong.

#pragma once

#include <Python.h>

namespace functrax::pytree {

// configure(node_class, leaf, registry, (sorted_keys, checked_children, wrong_count)) -> None
PyObject* configure(PyObject* self, PyObject* const* args, Py_ssize_t count);

// flatten(tree, is_leaf) -> (leaves, treedef)
PyObject* flatten(PyObject* self, PyObject* const* args, Py_ssize_t count);

// unflatten(treedef, leaves) -> tree
PyObject* unflatten(PyObject* self, PyObject* const* args, Py_ssize_t count);

// flatten_up_to(treedef, tree) -> subtrees, or None when the tree does not begin with the structure
PyObject* flatten_up_to(PyObject* self, PyObject* const* args, Py_ssize_t count);

// equal(treedef, treedef) -> bool
PyObject* equal(PyObject* self, PyObject* const* args, Py_ssize_t count);

// hash(treedef) -> int
PyObject* hash(PyObject* self, PyObject* treedef);

}  // namespace functrax::pytree
