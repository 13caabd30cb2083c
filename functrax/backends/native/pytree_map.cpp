// See pytree_map.h. Start at map.
//
// All trees are taken apart together, before the function is called: into rows, each a leaf of the
// first tree and what the others have in its place, and a plan of the result. Callbacks into Python
// may change any mutable container, so what is taken out of one is held from then on.

#include "pytree_map.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "growing_array.h"
#include "pytree.h"
#include "reference.h"

namespace functrax::pytree {
namespace {

// A node of the result, in the order from the root: its children follow it.
struct Step {
  Kind kind;
  Py_ssize_t count = 0;  // of the children
  Ref type, data;        // as a structure has them
};

class Walk {
 public:
  Walk(PyObject* tree, PyObject* rest, PyObject* is_leaf)
      : width_(static_cast<std::size_t>(PyTuple_GET_SIZE(rest)) + 1), is_leaf_(is_leaf) {
    hold(tree);
    for (std::size_t k = 1; k < width_; ++k) hold(PyTuple_GET_ITEM(rest, k - 1));
  }
  ~Walk() {
    for (PyObject* x : held_) Py_DECREF(x);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // 1: done; 0: a tree does not fit the first; -1: an error is set.
  int take_apart() { return take(0); }

  // What f gives for each row: a tuple; null with an error set.
  Ref call(PyObject* f) const;

  // The tree of the results.
  Ref build(PyObject* results) const {
    std::size_t at = 0;
    PyObject* const* next = PySequence_Fast_ITEMS(results);
    return build_from(at, next);
  }

 private:
  void hold(PyObject* borrowed) { held_.push_back(Py_NewRef(borrowed)); }
  int take(std::size_t first);
  int hold_children(std::size_t first, Step& step);
  int hold_sequences(std::size_t first, Step& step);
  int hold_dicts(std::size_t first, Step& step);
  int hold_customs(std::size_t first, Step& step);
  Ref build_from(std::size_t& at, PyObject* const*& next) const;

  std::size_t width_;  // how many trees there are
  PyObject* is_leaf_;
  GrowingArray<PyObject*, 64> held_;    // owned; the trees of one place stand side by side
  GrowingArray<std::size_t, 16> rows_;  // where they begin
  std::vector<Step> plan_;
};

int Walk::hold_sequences(std::size_t first, Step& step) {
  step.count = PySequence_Fast_GET_SIZE(held_[first]);
  for (std::size_t k = 1; k < width_; ++k) {
    if (PySequence_Fast_GET_SIZE(held_[first + k]) != step.count) return 0;
  }
  for (Py_ssize_t i = 0; i < step.count; ++i) {
    for (std::size_t k = 0; k < width_; ++k) hold(PySequence_Fast_GET_ITEM(held_[first + k], i));
  }
  return 1;
}

int Walk::hold_dicts(std::size_t first, Step& step) {
  step.data = sorted_keys(held_[first]);
  if (!step.data) return -1;
  step.count = PyTuple_GET_SIZE(step.data.get());
  for (std::size_t k = 1; k < width_; ++k) {
    if (PyDict_GET_SIZE(held_[first + k]) != step.count) return 0;
  }
  for (Py_ssize_t i = 0; i < step.count; ++i) {
    for (std::size_t k = 0; k < width_; ++k) {
      PyObject* key = PyTuple_GET_ITEM(step.data.get(), i);
      PyObject* value = PyDict_GetItemWithError(held_[first + k], key);
      if (value == nullptr) return PyErr_Occurred() ? -1 : 0;
      hold(value);
    }
  }
  return 1;
}

int Walk::hold_customs(std::size_t first, Step& step) {
  std::vector<Parts> all;
  for (std::size_t k = 0; k < width_; ++k) {
    all.push_back(custom_parts(held_[first + k]));
    if (!all.back().children) return -1;
    if (PyTuple_GET_SIZE(all.back().children.get()) !=
        PyTuple_GET_SIZE(all.front().children.get())) {
      return 0;
    }
    const int same = k == 0 ? 1 : same_data(all.front().data.get(), all.back().data.get());
    if (same != 1) return same;
  }
  step.count = PyTuple_GET_SIZE(all.front().children.get());
  for (Py_ssize_t i = 0; i < step.count; ++i) {
    for (const Parts& parts : all) hold(PyTuple_GET_ITEM(parts.children.get(), i));
  }
  step.data = std::move(all.front().data);
  return 1;
}

int Walk::hold_children(std::size_t first, Step& step) {
  switch (step.kind) {
    case kNone:
      return 1;
    case kDict:
      return hold_dicts(first, step);
    case kCustom:
      return hold_customs(first, step);
    default:
      return hold_sequences(first, step);
  }
}

// Takes the trees of one place apart.
int Walk::take(std::size_t first) {
  PyObject* tree = held_[first];
  const int kind = kind_of(tree, is_leaf_);
  if (kind < 0) return -1;
  plan_.push_back({static_cast<Kind>(kind), 0, Ref(), Ref()});
  if (kind == kLeaf) {
    rows_.push_back(first);
    return 1;
  }
  for (std::size_t k = 1; k < width_; ++k) {
    if (Py_TYPE(held_[first + k]) != Py_TYPE(tree)) return 0;
  }
  const Level level;
  if (!level) return -1;
  const std::size_t children = held_.size();
  Step step = std::move(plan_.back());
  const int fits = hold_children(first, step);
  if (fits != 1) return fits;
  step.type = Ref::share(reinterpret_cast<PyObject*>(Py_TYPE(tree)));
  const auto count = static_cast<std::size_t>(step.count);
  plan_.back() = std::move(step);
  for (std::size_t i = 0; i < count; ++i) {
    const int below = take(children + i * width_);
    if (below != 1) return below;
  }
  return 1;
}

Ref Walk::call(PyObject* f) const {
  Ref results(PyTuple_New(static_cast<Py_ssize_t>(rows_.size())));
  for (std::size_t i = 0; results && i < rows_.size(); ++i) {
    PyObject* result = PyObject_Vectorcall(f, held_.data() + rows_[i], width_, nullptr);
    if (result == nullptr) return Ref();
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), result);
  }
  return results;
}

// Takes steps from `at` and results from `next` on, and moves both.
Ref Walk::build_from(std::size_t& at, PyObject* const*& next) const {
  const Step& step = plan_[at++];
  if (step.kind == kLeaf) return Ref::share(*next++);
  if (step.kind == kNone) return Ref::share(Py_None);
  const Level level;
  if (!level) return Ref();
  Ref made(step.kind == kList   ? PyList_New(step.count)
           : step.kind == kDict ? PyDict_New()
                                : PyTuple_New(step.count));
  for (Py_ssize_t i = 0; made && i < step.count; ++i) {
    Ref child = build_from(at, next);
    if (!child) return Ref();
    if (step.kind == kList) {
      PyList_SET_ITEM(made.get(), i, child.release());
    } else if (step.kind != kDict) {
      PyTuple_SET_ITEM(made.get(), i, child.release());
    } else if (PyDict_SetItem(made.get(), PyTuple_GET_ITEM(step.data.get(), i), child.get()) != 0) {
      return Ref();
    }
  }
  if (step.kind != kNamedTuple && step.kind != kCustom) return made;
  return made ? rebuild(step.kind, step.type.get(), step.data.get(), std::move(made)) : Ref();
}

// Sets the error of the first tree that does not fit.
void set_mismatch(PyObject* tree, PyObject* rest, PyObject* is_leaf) {
  Ref leaves(PyList_New(0));
  const Ref treedef = leaves ? flatten_into(tree, is_leaf, leaves.get()) : Ref();
  if (!treedef) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rest); ++i) {
    PyObject* other = PyTuple_GET_ITEM(rest, i);
    const int fits = flatten_up_to_into(treedef.get(), other, leaves.get());
    if (fits == 0) set_rest_mismatch("tree_map", treedef.get(), i + 2, other);
    if (fits != 1) return;
  }
  PyErr_SetString(PyExc_RuntimeError, "tree_map: a tree changed while it was looked at");
}

}  // namespace

PyObject* map(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "expected a function, a tree, a tuple of trees, and is_leaf");
    return nullptr;
  }
  Walk walk(args[1], args[2], args[3]);
  const int fits = walk.take_apart();
  if (fits == 0) set_mismatch(args[1], args[2], args[3]);
  if (fits != 1) return nullptr;
  const Ref results = walk.call(args[0]);
  return results ? walk.build(results.get()).release() : nullptr;
}

}  // namespace functrax::pytree
