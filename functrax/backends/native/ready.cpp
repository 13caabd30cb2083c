// See ready.h. This runs no Python, so no tree changes meanwhile.

#include "ready.h"

#include "buffer.h"
#include "numpy_arrays.h"
#include "reference.h"
#include "signature.h"

namespace functrax::ready {
namespace {

constexpr int kDeepest = 200;

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

// False with an error set.
bool collect(PyObject* x, int depth, PyObject* found) {
  if (signature::is_array(x) && is_ready(x)) return true;
  PyTypeObject* type = Py_TYPE(x);
  if (depth < kDeepest && (type == &PyTuple_Type || type == &PyList_Type)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
      if (!collect(PySequence_Fast_GET_ITEM(x, i), depth + 1, found)) return false;
    }
    return true;
  }
  if (depth < kDeepest && type == &PyDict_Type) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(x, &position, &key, &value)) {
      if (!PyUnicode_CheckExact(key)) return PyList_Append(found, x) == 0;
    }
    position = 0;
    while (PyDict_Next(x, &position, &key, &value)) {
      if (!collect(value, depth + 1, found)) return false;
    }
    return true;
  }
  return has_nothing_to_wait_for(x) || PyList_Append(found, x) == 0;
}

}  // namespace

PyObject* unready(PyObject*, PyObject* tree) {
  Ref found(PyList_New(0));
  if (!found || !collect(tree, 0, found.get())) return nullptr;
  return found.release();
}

}  // namespace functrax::ready
