// See ready.h. Start at block_until_ready. What is ready is passed over without running Python; the
// rest is collected as leaves.

#include "ready.h"

#include <unordered_set>
#include <vector>

#include "buffer.h"
#include "eager_run.h"
#include "eager_value.h"
#include "numpy_arrays.h"
#include "pytree.h"
#include "recorder.h"
#include "reference.h"
#include "signature.h"

namespace functrax::ready {
namespace {

constexpr int kDeepest = 200;  // deeper trees are flattened, which sees to the stack

bool is_ready(PyObject* array) {
  PyObject* value = signature::buffer_of(array);
  if (value == nullptr) return false;
  if (buffer::is_buffer(value)) return reinterpret_cast<buffer::Buffer*>(value)->pending == nullptr;
  return numpy_arrays::is_array(value);
}

bool has_nothing_to_wait_for(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  return x == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type;
}

bool has_keys_of_text(PyObject* dict) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

bool flatten(PyObject* tree, PyObject* leaves) {
  return static_cast<bool>(pytree::flatten_into(tree, Py_None, leaves));
}

// Appends the leaves of a tree that may have to be waited for; false with an error set.
bool collect(PyObject* x, int depth, PyObject* leaves) {
  if (signature::is_array(x)) return is_ready(x) || PyList_Append(leaves, x) == 0;
  if (has_nothing_to_wait_for(x)) return true;
  PyTypeObject* type = Py_TYPE(x);
  if (depth >= kDeepest) return flatten(x, leaves);
  if (type == &PyTuple_Type || type == &PyList_Type) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
      const Ref child = Ref::share(PySequence_Fast_GET_ITEM(x, i));
      if (!collect(child.get(), depth + 1, leaves)) return false;
    }
    return true;
  }
  if (type == &PyDict_Type && has_keys_of_text(x)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(x, &position, &key, &value)) {
      const Ref child = Ref::share(value);
      if (!collect(child.get(), depth + 1, leaves)) return false;
    }
    return true;
  }
  const int kind = pytree::kind_of(x);
  if (kind == pytree::kLeaf) return PyList_Append(leaves, x) == 0;
  if (kind != pytree::kNamedTuple) return kind >= 0 && flatten(x, leaves);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) {
    if (!collect(PyTuple_GET_ITEM(x, i), depth + 1, leaves)) return false;
  }
  return true;
}

// Computes the arrays of a list that are pending by one program; false with an error set.
bool compute(PyObject* leaves) {
  std::vector<eager::Node*> nodes;
  std::unordered_set<eager::Node*> met;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    PyObject* leaf = PyList_GET_ITEM(leaves, i);
    PyObject* raw = signature::is_array(leaf) ? signature::buffer_of(leaf) : nullptr;
    eager::Node* node = raw == nullptr ? nullptr : eager::operand_in(raw).producer();
    if (node != nullptr && met.insert(node).second) nodes.push_back(node);
  }
  return eager::compute(nodes);
}

// Waits for a leaf; false with an error set.
bool wait_for(PyObject* leaf) {
  if (signature::is_array(leaf) && !recorder::is_on()) {
    // What an operation has given, which the array holds from now on.
    const eager::Operand operand = eager::operand_of(leaf, Py_None);
    const Ref value = Ref::share(operand ? operand.known() : nullptr);
    if (value && numpy_arrays::is_array(value.get())) return true;
    if (value && buffer::is_buffer(value.get())) {
      return buffer::wait(reinterpret_cast<buffer::Buffer*>(value.get()));
    }
  }
  Ref method(PyObject_GetAttrString(leaf, "block_until_ready"));
  if (method) return static_cast<bool>(Ref(PyObject_CallNoArgs(method.get())));
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

PyObject* block_until_ready(PyObject*, PyObject* tree) {
  Ref leaves(PyList_New(0));
  if (!leaves || !collect(tree, 0, leaves.get()) || !compute(leaves.get())) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves.get()); ++i) {
    if (!wait_for(PyList_GET_ITEM(leaves.get(), i))) return nullptr;
  }
  return Py_NewRef(tree);
}

}  // namespace functrax::ready
