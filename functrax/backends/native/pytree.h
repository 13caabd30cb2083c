// Pytrees: the hot loops of functrax.core.pytree_python, in C++.
//
// A tree goes in; a list of leaves and a structure come out, and the other way round. Structures
// are instances of the Python class PyTreeDef, whose slots are written directly. What a node is,
// and every error message, is decided in functrax/core/pytree_node.py: its registry is read here,
// and its functions are called where something is wrong.

#pragma once

#include <Python.h>

#include <cstdint>

#include "reference.h"

namespace functrax::pytree {

// The kinds of pytree_node.py.
enum Kind : long { kLeaf, kNone, kTuple, kList, kDict, kNamedTuple, kCustom, kKinds };

// The children and the data of a node.
struct Parts {
  Ref children;  // a tuple; null where an error is set
  Ref data;
};

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

// The kind of node that an object is, or -1 with an error set.
int kind_of(PyObject* tree);

// The parts of an object of a registered type.
Parts custom_parts(PyObject* tree);

// The number of leaves of a structure, or -1 with an error set where it is none.
Py_ssize_t num_leaves(PyObject* treedef);

// The tree of a structure whose leaves are borrowed; null with an error set.
PyObject* rebuild_tree(PyObject* treedef, PyObject* const* leaves);

// Appends the leaves of a tree to a list; false with an error set.
bool append_leaves(PyObject* tree, PyObject* leaves);

// The hash of an object: 0 for None, and for what cannot be hashed. False with an error set.
bool hash_object(PyObject* object, uint64_t& result);

// Where the instances of a class have a slot; false with an error set.
bool find_slot(PyObject* type, const char* name, Py_ssize_t& offset);

}  // namespace functrax::pytree
