// See pytree.h. Every function follows its namesake in functrax/core/pytree/python_twin.py.
//
// Ref owns a reference and is null where a Python error is set; errors travel as null, as in the
// C API. Callbacks into Python may change any mutable container, so the children of a node are
// always taken as a tuple of our own first.

#include "pytree.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>

#include "reference.h"
#include "text_keys.h"

namespace functrax::pytree {
namespace {

constexpr Py_ssize_t kIsHandle = 3;  // the place of `is_handle` in a Registration

// Set once by configure, and kept for the life of the process.
struct {
  PyTypeObject* node_class = nullptr;
  PyObject* leaf = nullptr;
  PyObject* registry = nullptr;            // dict: type -> Registration
  PyObject* handles_are_leaves = nullptr;  // an is_leaf that is not called
  PyObject* sorted_keys = nullptr;         // dict -> tuple of keys, or the error
  PyObject* checked_children = nullptr;    // (type, result) -> (children, data), or the error
  PyObject* wrong_count = nullptr;         // (expected, got) -> the error
  PyObject* rest_mismatch = nullptr;       // (function, treedef, number, tree) -> the error
  PyObject* kinds[kKinds] = {};
  PyObject* fields_name = nullptr;                                     // "_fields"
  PyObject* empty = nullptr;                                           // ()
  Py_ssize_t kind, type, data, children, hash, num_leaves, num_nodes;  // offsets of the slots
} state;

PyObject*& slot(PyObject* node, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(node) + offset);
}

Kind kind_of_node(PyObject* node) {
  return static_cast<Kind>(PyLong_AsLong(slot(node, state.kind)));
}
Py_ssize_t count_of(PyObject* node, Py_ssize_t offset) {
  return PyLong_AsSsize_t(slot(node, offset));
}

bool check_node(PyObject* object) {
  if (state.node_class != nullptr && PyObject_TypeCheck(object, state.node_class)) return true;
  PyErr_Format(PyExc_TypeError, "expected a PyTreeDef, got %.200s", Py_TYPE(object)->tp_name);
  return false;
}

bool check_count(Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, count);
  return false;
}

// The registration of a type, borrowed; null without an error where there is none.
PyObject* registration(PyTypeObject* type) {
  return PyDict_GetItemWithError(state.registry, reinterpret_cast<PyObject*>(type));
}

}  // namespace

int kind_of(PyObject* tree) {
  if (PyTuple_CheckExact(tree)) return kTuple;
  if (PyDict_CheckExact(tree)) return kDict;
  if (PyList_CheckExact(tree)) return kList;
  if (tree == Py_None) return kNone;
  PyTypeObject* type = Py_TYPE(tree);
  if (registration(type) != nullptr) return kCustom;
  if (PyErr_Occurred()) return -1;
  if (!PyTuple_Check(tree)) return kLeaf;
  return PyObject_HasAttr(reinterpret_cast<PyObject*>(type), state.fields_name) ? kNamedTuple
                                                                                : kLeaf;
}

int kind_of(PyObject* tree, PyObject* is_leaf) {
  if (is_leaf == Py_None) return kind_of(tree);
  if (is_leaf != state.handles_are_leaves) {
    const Ref answer(PyObject_CallOneArg(is_leaf, tree));
    const int stop = answer ? PyObject_IsTrue(answer.get()) : -1;
    if (stop < 0) return -1;
    if (stop > 0) return kLeaf;
  }
  const int kind = kind_of(tree);
  if (kind != kCustom) return kind;
  PyObject* entry = registration(Py_TYPE(tree));
  if (entry == nullptr) return -1;  // no type is taken out again
  return PyTuple_GET_ITEM(entry, kIsHandle) == Py_True ? kLeaf : kCustom;
}

Ref sorted_keys(PyObject* dict) {
  Ref keys = sorted_text_keys(dict);
  if (keys || PyErr_Occurred()) return keys;
  keys = Ref(PyDict_Keys(dict));
  if (!keys) return keys;
  if (PyList_Sort(keys.get()) == 0) return Ref(PyList_AsTuple(keys.get()));
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return Ref();
  PyErr_Clear();
  return Ref(PyObject_CallOneArg(state.sorted_keys, dict));
}

namespace {

Ref values_at(PyObject* dict, PyObject* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  Ref values(PyTuple_New(count));
  for (Py_ssize_t i = 0; values && i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value == nullptr) {
      if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
      return Ref();
    }
    Py_INCREF(value);
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values;
}

}  // namespace

Parts custom_parts(PyObject* tree) {
  Ref entry = Ref::share(registration(Py_TYPE(tree)));
  if (!entry) return {};
  Ref result(PyObject_CallOneArg(PyTuple_GET_ITEM(entry.get(), 0), tree));
  if (!result) return {};
  const bool usual = PyTuple_CheckExact(result.get()) && PyTuple_GET_SIZE(result.get()) == 2 &&
                     PyTuple_CheckExact(PyTuple_GET_ITEM(result.get(), 0));
  if (!usual) {
    PyObject* args[] = {reinterpret_cast<PyObject*>(Py_TYPE(tree)), result.get()};
    result = Ref(PyObject_Vectorcall(state.checked_children, args, 2, nullptr));
    if (!result) return {};
  }
  return {Ref::share(PyTuple_GET_ITEM(result.get(), 0)),
          Ref::share(PyTuple_GET_ITEM(result.get(), 1))};
}

namespace {

Parts one_level(Kind kind, PyObject* tree) {
  switch (kind) {
    case kTuple:
    case kNamedTuple:
      return {Ref::share(tree), Ref::share(Py_None)};
    case kList:
      return {Ref(PyList_AsTuple(tree)), Ref::share(Py_None)};
    case kDict: {
      Ref keys = sorted_keys(tree);
      if (!keys) return {};
      Ref values = values_at(tree, keys.get());
      return {std::move(values), std::move(keys)};
    }
    case kNone:
      return {Ref::share(state.empty), Ref::share(Py_None)};
    default:
      return custom_parts(tree);
  }
}

Ref new_node(Kind kind, PyTypeObject* type, Ref data, Ref children) {
  Py_ssize_t num_leaves = 0;
  Py_ssize_t num_nodes = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
    PyObject* child = PyTuple_GET_ITEM(children.get(), i);
    num_leaves += count_of(child, state.num_leaves);
    num_nodes += count_of(child, state.num_nodes);
  }
  Ref leaves(PyLong_FromSsize_t(num_leaves));
  Ref nodes(PyLong_FromSsize_t(num_nodes));
  if (!leaves || !nodes) return Ref();
  Ref node(state.node_class->tp_alloc(state.node_class, 0));
  if (!node) return node;
  slot(node.get(), state.kind) = Py_NewRef(state.kinds[kind]);
  slot(node.get(), state.type) = Py_NewRef(reinterpret_cast<PyObject*>(type));
  slot(node.get(), state.data) = data.release();
  slot(node.get(), state.children) = children.release();
  slot(node.get(), state.hash) = Py_NewRef(Py_None);
  slot(node.get(), state.num_leaves) = leaves.release();
  slot(node.get(), state.num_nodes) = nodes.release();
  return node;
}

Ref rebuild_dict(PyObject* keys, PyObject* const* values, Py_ssize_t count) {
  Ref dict(PyDict_New());
  for (Py_ssize_t i = 0; dict && i < count; ++i) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), values[i]) != 0) return Ref();
  }
  return dict;
}

}  // namespace

Ref flatten_into(PyObject* tree, PyObject* is_leaf, PyObject* leaves) {
  const int kind = kind_of(tree, is_leaf);
  if (kind < 0) return Ref();
  if (kind == kLeaf) {
    return PyList_Append(leaves, tree) == 0 ? Ref::share(state.leaf) : Ref();
  }

  Level level;
  if (!level) return Ref();
  Parts parts = one_level(static_cast<Kind>(kind), tree);
  if (!parts.children) return Ref();
  const Py_ssize_t count = PyTuple_GET_SIZE(parts.children.get());
  Ref below(PyTuple_New(count));
  for (Py_ssize_t i = 0; below && i < count; ++i) {
    Ref child = flatten_into(PyTuple_GET_ITEM(parts.children.get(), i), is_leaf, leaves);
    if (!child) return Ref();
    PyTuple_SET_ITEM(below.get(), i, child.release());
  }
  if (!below) return Ref();
  return new_node(static_cast<Kind>(kind), Py_TYPE(tree), std::move(parts.data), std::move(below));
}

Ref rebuild(Kind kind, PyObject* type, PyObject* data, Ref children) {
  switch (kind) {
    case kTuple:
      return children;
    case kDict:
      return rebuild_dict(data, PySequence_Fast_ITEMS(children.get()),
                          PyTuple_GET_SIZE(children.get()));
    case kNamedTuple:
      return Ref(PyObject_Call(type, children.get(), nullptr));
    default: {
      Ref entry = Ref::share(registration(reinterpret_cast<PyTypeObject*>(type)));
      if (!entry) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, type);
        return Ref();
      }
      PyObject* args[] = {data, children.get()};
      return Ref(PyObject_Vectorcall(PyTuple_GET_ITEM(entry.get(), 1), args, 2, nullptr));
    }
  }
}

namespace {

// Takes leaves from `next` on, and moves it.
Ref unflatten_from(PyObject* node, PyObject* const*& next) {
  const Kind kind = kind_of_node(node);
  if (kind == kLeaf) return Ref::share(*next++);
  if (kind == kNone) return Ref::share(Py_None);
  Level level;
  if (!level) return Ref();
  PyObject* below = slot(node, state.children);
  const Py_ssize_t count = PyTuple_GET_SIZE(below);
  Ref children(kind == kList ? PyList_New(count) : PyTuple_New(count));
  for (Py_ssize_t i = 0; children && i < count; ++i) {
    PyObject* node_below = PyTuple_GET_ITEM(below, i);
    const bool is_leaf = slot(node_below, state.kind) == state.kinds[kLeaf];
    Ref child = is_leaf ? Ref::share(*next++) : unflatten_from(node_below, next);
    if (!child) return Ref();
    if (kind == kList) {
      PyList_SET_ITEM(children.get(), i, child.release());
    } else {
      PyTuple_SET_ITEM(children.get(), i, child.release());
    }
  }
  if (!children || kind == kList) return children;
  return rebuild(kind, slot(node, state.type), slot(node, state.data), std::move(children));
}

// Whether a dict has exactly these keys; -1 with an error set.
int has_keys(PyObject* dict, PyObject* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (PyDict_GET_SIZE(dict) != count) return 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int found = PyDict_Contains(dict, PyTuple_GET_ITEM(keys, i));
    if (found != 1) return found;
  }
  return 1;
}

// Puts the children of `tree` into `children` when its top level is that of `node`.
// 1: they are there; 0: the levels differ; -1: an error is set.
int matching_children(PyObject* node, Kind kind, PyObject* tree, Ref& children) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(tree)) != slot(node, state.type)) return 0;
  PyObject* data = slot(node, state.data);
  if (kind == kDict) {
    const int same = has_keys(tree, data);
    if (same != 1) return same;
    children = values_at(tree, data);
    return children ? 1 : -1;
  }
  Parts parts = one_level(kind, tree);
  if (!parts.children) return -1;
  children = std::move(parts.children);
  if (PyTuple_GET_SIZE(children.get()) != PyTuple_GET_SIZE(slot(node, state.children))) return 0;
  return same_data(data, parts.data.get());
}

}  // namespace

int flatten_up_to_into(PyObject* node, PyObject* tree, PyObject* subtrees) {
  const Kind kind = kind_of_node(node);
  if (kind == kLeaf) return PyList_Append(subtrees, tree) == 0 ? 1 : -1;
  Level level;
  if (!level) return -1;
  Ref children;
  const int same = matching_children(node, kind, tree, children);
  if (same != 1) return same;
  PyObject* below = slot(node, state.children);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(below); ++i) {
    const int fits = flatten_up_to_into(PyTuple_GET_ITEM(below, i),
                                        PyTuple_GET_ITEM(children.get(), i), subtrees);
    if (fits != 1) return fits;
  }
  return 1;
}

namespace {

// 1, 0, or -1 with an error set.
int equal_nodes(PyObject* left, PyObject* right) {
  if (left == right) return 1;
  if (kind_of_node(left) != kind_of_node(right)) return 0;
  if (slot(left, state.type) != slot(right, state.type)) return 0;
  for (Py_ssize_t offset : {state.num_leaves, state.num_nodes}) {
    if (count_of(left, offset) != count_of(right, offset)) return 0;
  }
  PyObject* left_children = slot(left, state.children);
  PyObject* right_children = slot(right, state.children);
  const Py_ssize_t count = PyTuple_GET_SIZE(left_children);
  if (count != PyTuple_GET_SIZE(right_children)) return 0;
  int same = same_data(slot(left, state.data), slot(right, state.data));
  Level level;
  if (!level) return -1;
  for (Py_ssize_t i = 0; same == 1 && i < count; ++i) {
    same = equal_nodes(PyTuple_GET_ITEM(left_children, i), PyTuple_GET_ITEM(right_children, i));
  }
  return same;
}

uint64_t mix(uint64_t seed, uint64_t value) {
  constexpr uint64_t kPrime = 1099511628211u;
  constexpr uint64_t kMask = (uint64_t{1} << 60) - 1;
  return ((seed ^ value) * kPrime) & kMask;
}

}  // namespace

bool hash_object(PyObject* object, uint64_t& result) {
  result = 0;
  if (object == Py_None) return true;
  const Py_hash_t value = PyObject_Hash(object);
  if (value == -1 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    return true;
  }
  result = static_cast<uint64_t>(value);
  return true;
}

namespace {

// False where an error is set.
bool hash_node(PyObject* node, uint64_t& result) {
  PyObject* known = slot(node, state.hash);
  if (known != Py_None) {
    result = PyLong_AsUnsignedLongLong(known);
    return true;
  }
  Level level;
  uint64_t type_hash, data_hash, child_hash;
  if (!level || !hash_object(slot(node, state.type), type_hash) ||
      !hash_object(slot(node, state.data), data_hash)) {
    return false;
  }
  result = mix(mix(mix(0, kind_of_node(node)), type_hash), data_hash);
  PyObject* children = slot(node, state.children);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); ++i) {
    if (!hash_node(PyTuple_GET_ITEM(children, i), child_hash)) return false;
    result = mix(result, child_hash);
  }
  PyObject* number = PyLong_FromUnsignedLongLong(result);
  if (number == nullptr) return false;
  Py_SETREF(slot(node, state.hash), number);
  return true;
}

}  // namespace

bool find_slot(PyObject* node_class, const char* name, Py_ssize_t& offset) {
  Ref descriptor(PyObject_GetAttrString(node_class, name));
  if (!descriptor) return false;
  if (!Py_IS_TYPE(descriptor.get(), &PyMemberDescr_Type)) {
    PyErr_Format(PyExc_TypeError, "%s is not a slot", name);
    return false;
  }
  offset = reinterpret_cast<PyMemberDescrObject*>(descriptor.get())->d_member->offset;
  return true;
}

Py_ssize_t num_leaves(PyObject* treedef) {
  return check_node(treedef) ? count_of(treedef, state.num_leaves) : -1;
}

PyObject* rebuild_tree(PyObject* treedef, PyObject* const* leaves) {
  return unflatten_from(treedef, leaves).release();
}

void set_rest_mismatch(const char* function, PyObject* treedef, Py_ssize_t number, PyObject* tree) {
  Ref(PyObject_CallFunction(state.rest_mismatch, "sOnO", function, treedef, number, tree));
}

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!check_count(count, 5)) return nullptr;
  if (!PyType_Check(args[0]) || !PyDict_Check(args[2]) || !PyTuple_Check(args[3]) ||
      PyTuple_GET_SIZE(args[3]) != 4) {
    PyErr_SetString(PyExc_TypeError, "expected a class, a leaf, a dict and four functions");
    return nullptr;
  }
  const std::pair<const char*, Py_ssize_t*> slots[] = {
      {"_kind", &state.kind},          {"_type", &state.type}, {"_data", &state.data},
      {"_children", &state.children},  {"_hash", &state.hash}, {"num_leaves", &state.num_leaves},
      {"num_nodes", &state.num_nodes},
  };
  for (const auto& [name, offset] : slots) {
    if (!find_slot(args[0], name, *offset)) return nullptr;
  }
  for (long kind = 0; kind < kKinds; ++kind) state.kinds[kind] = PyLong_FromLong(kind);
  state.fields_name = PyUnicode_InternFromString("_fields");
  state.empty = PyTuple_New(0);
  state.leaf = Py_NewRef(args[1]);
  state.registry = Py_NewRef(args[2]);
  state.handles_are_leaves = Py_NewRef(args[4]);
  state.sorted_keys = Py_NewRef(PyTuple_GET_ITEM(args[3], 0));
  state.checked_children = Py_NewRef(PyTuple_GET_ITEM(args[3], 1));
  state.wrong_count = Py_NewRef(PyTuple_GET_ITEM(args[3], 2));
  state.rest_mismatch = Py_NewRef(PyTuple_GET_ITEM(args[3], 3));
  state.node_class = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
  Py_RETURN_NONE;
}

PyObject* flatten(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!check_count(count, 2)) return nullptr;
  Ref leaves(PyList_New(0));
  if (!leaves) return nullptr;
  Ref node = flatten_into(args[0], args[1], leaves.get());
  return node ? PyTuple_Pack(2, leaves.get(), node.get()) : nullptr;
}

PyObject* unflatten(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!check_count(count, 2) || !check_node(args[0])) return nullptr;
  Ref leaves(PySequence_Tuple(args[1]));
  if (!leaves) return nullptr;
  if (PyTuple_GET_SIZE(leaves.get()) != count_of(args[0], state.num_leaves)) {
    Ref got(PyLong_FromSsize_t(PyTuple_GET_SIZE(leaves.get())));
    if (!got) return nullptr;
    PyObject* numbers[] = {slot(args[0], state.num_leaves), got.get()};
    return PyObject_Vectorcall(state.wrong_count, numbers, 2, nullptr);
  }
  PyObject* const* next = PySequence_Fast_ITEMS(leaves.get());
  return unflatten_from(args[0], next).release();
}

PyObject* flatten_up_to(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!check_count(count, 2) || !check_node(args[0])) return nullptr;
  Ref subtrees(PyList_New(0));
  if (!subtrees) return nullptr;
  const int fits = flatten_up_to_into(args[0], args[1], subtrees.get());
  if (fits < 0) return nullptr;
  return fits == 1 ? subtrees.release() : Py_NewRef(Py_None);
}

PyObject* equal(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!check_count(count, 2) || !check_node(args[0]) || !check_node(args[1])) return nullptr;
  const int same = equal_nodes(args[0], args[1]);
  return same < 0 ? nullptr : PyBool_FromLong(same);
}

PyObject* hash(PyObject*, PyObject* treedef) {
  uint64_t result = 0;
  if (!check_node(treedef) || !hash_node(treedef, result)) return nullptr;
  return PyLong_FromUnsignedLongLong(result);
}

}  // namespace functrax::pytree
