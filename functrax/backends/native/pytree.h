// Pytrees: the hot loops of functrax.core.pytree.python_twin, in C++.
//
// A tree goes in; a list of leaves and a structure come out, and the other way round. Structures
// are instances of the Python class PyTreeDef, whose slots are written directly. What a node is,
// and every error message, is decided in functrax/core/pytree/node.py: its registry is read here,
// and its functions are called where something is wrong.

#pragma once

#include <Python.h>

#include <cstdint>

#include "reference.h"

namespace functrax::pytree {

// The kinds of core/pytree/node.py.
enum Kind : long { kLeaf, kNone, kTuple, kList, kDict, kNamedTuple, kCustom, kKinds };

// The children and the data of a node.
struct Parts {
  Ref children;  // a tuple; null where an error is set
  Ref data;
};

// Guards a level of recursion: false, with RecursionError set, where the stack would run out.
class Level {
 public:
  Level() : entered_(Py_EnterRecursiveCall(" in a pytree") == 0) {}
  ~Level() {
    if (entered_) Py_LeaveRecursiveCall();
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

// configure(node_class, leaf, registry, hooks, handles_are_leaves) -> None; the hooks are
// sorted_keys, checked_children, wrong_count and rest_mismatch
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

// The kind of node that an object is, or -1 with an error set; handles (node.py) are nodes.
int kind_of(PyObject* tree);

// The kind of node that an object is where a tree is taken apart with is_leaf, or -1 with an error
// set; handles are leaves unless is_leaf is None.
int kind_of(PyObject* tree, PyObject* is_leaf);

// The parts of an object of a registered type.
Parts custom_parts(PyObject* tree);

// The number of leaves of a structure, or -1 with an error set where it is none.
Py_ssize_t num_leaves(PyObject* treedef);

// The tree of a structure whose leaves are borrowed; null with an error set.
PyObject* rebuild_tree(PyObject* treedef, PyObject* const* leaves);

// The keys of a dict in order, as a tuple; null with an error set.
Ref sorted_keys(PyObject* dict);

// A container from its children, which are given as a new tuple; null with an error set.
Ref rebuild(Kind kind, PyObject* type, PyObject* data, Ref children);

// Whether the auxiliary data of two nodes is the same; -1 with an error set.
inline int same_data(PyObject* left, PyObject* right) {
  return left == right ? 1 : PyObject_RichCompareBool(left, right, Py_EQ);
}

// Appends the leaves of a tree to a list; the structure, or null with an error set.
Ref flatten_into(PyObject* tree, PyObject* is_leaf, PyObject* leaves);

// Appends the subtrees at the structure's leaves to a list. 1: they are there; 0: the tree does not
// fit; -1: an error is set.
int flatten_up_to_into(PyObject* treedef, PyObject* tree, PyObject* subtrees);

// Sets the error of a tree, of this number among those of a function, that does not fit the first.
void set_rest_mismatch(const char* function, PyObject* treedef, Py_ssize_t number, PyObject* tree);

// The hash of an object: 0 for None, and for what cannot be hashed. False with an error set.
bool hash_object(PyObject* object, uint64_t& result);

// Where the instances of a class have a slot; false with an error set.
bool find_slot(PyObject* type, const char* name, Py_ssize_t& offset);

}  // namespace functrax::pytree
