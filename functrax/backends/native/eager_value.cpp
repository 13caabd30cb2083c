// See eager_value.h.

#include "eager_value.h"

#include <cstddef>

#include "buffer.h"
#include "cuda_array.h"
#include "eager_run.h"
#include "eager_state.h"
#include "growing_array.h"
#include "signature.h"

namespace functrax::eager {
namespace {

// No array holds a result any more.
void let_go(PyObject* self) {
  Result* result = as_result(self);
  result->is_in_arrays = false;
  disown(result);
}

// The raw value, computed the first time.
PyObject* result(PyObject* self, PyObject*) {
  const Result* result = as_result(self);
  if (result->known == nullptr && !compute({result->node})) return nullptr;
  if (result->known != nullptr) return Py_NewRef(result->known);
  PyErr_SetString(PyExc_SystemError, "a recorded value was not given by the run that was for it");
  return nullptr;
}

PyObject* get_value(PyObject* self, void*) {
  PyObject* known = as_result(self)->known;
  return Py_NewRef(known == nullptr ? Py_None : known);
}

PyObject* get_setting(PyObject* self, void*) {
  return Py_NewRef(slot(as_result(self)->node->signature, python.of_signature.setting));
}

PyObject* get_size(PyObject* self, void*) {
  return PyLong_FromLongLong(as_result(self)->node->size);
}

PyMethodDef methods[] = {
    {"result", result, METH_NOARGS, "The raw value, computed the first time."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"value", get_value, nullptr, "The raw value, or None while it is not computed.", nullptr},
    {"setting", get_setting, nullptr, "How and where the operation is recorded.", nullptr},
    {"size", get_size, nullptr, "An upper bound of the operations that have to run.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject made_type() {
  PyTypeObject type = {};
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
  type.tp_name = "functrax._native.EagerValue";
  type.tp_basicsize = sizeof(Result);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = let_go;
  type.tp_methods = methods;
  type.tp_getset = properties;
  type.tp_doc = "What arrays hold of a result that is recorded.";
  return type;
}

// Whether operations of a setting read a raw value as it is: arrays of the host, which a GPU's
// programs copy, and for these its own.
bool takes(PyObject* setting, PyObject* raw) {
  if (buffer::is_plain(raw)) return true;
  return cuda::is_array(raw) && slot(setting, python.setting_on_host) == Py_False;
}

// An operand of an operation that Python records; false with an error set.
bool read_operand_of(PyObject* x, PyObject* setting, Results& operands) {
  if (Operand found = operand_of(x, setting); found) {
    operands.push_back(Held(found));
    return true;
  }
  // What is pending with another setting is computed, and deleted arrays say so.
  const bool is_array = Py_IS_TYPE(x, python.array);
  const Ref raw(PyObject_GetAttrString(x, is_array ? "buffer" : "val"));
  if (!raw) return false;
  operands.push_back(Held::share(raw.get()));
  return true;
}

}  // namespace

Operand operand_of(PyObject* x, PyObject* setting) {
  if (Py_IS_TYPE(x, python.literal)) return Operand(x);
  if (!Py_IS_TYPE(x, python.array)) return {};
  PyObject* raw = signature::buffer_of(x);
  if (raw == nullptr || raw == Py_None) return {};
  if (!is_result(raw)) return takes(setting, raw) ? Operand(raw) : Operand();
  PyObject* known = as_result(raw)->known;
  PyObject* own = slot(as_result(raw)->node->signature, python.of_signature.setting);
  if (known == nullptr) return own == setting ? Operand(raw) : Operand();
  if (own != setting && !takes(setting, known)) return {};
  signature::buffer_of(x) = Py_NewRef(known);
  Py_DECREF(raw);
  return Operand(known);
}

Ref buffer_for(const Operand& x) {
  if (PyObject* known = x.known(); known != nullptr) return Ref::share(known);
  Result* result = x.result();
  auto* object = reinterpret_cast<PyObject*>(result);
  if (result->is_in_arrays) return Ref::share(object);
  Py_SET_REFCNT(object, 1);  // there was none, and a type that is static is not counted
  result->is_in_arrays = true;
  ++result->node->references;
  return Ref(object);
}

Ref array_of(const Operand& x, PyObject* aval) {
  return Ref(signature::new_array(buffer_for(x).release(), aval));
}

Ref array_of(Held x, PyObject* aval) {
  Result* result = x.operand().result();
  if (!x.become_array()) return array_of(x.operand(), aval);
  auto* object = reinterpret_cast<PyObject*>(result);
  Py_SET_REFCNT(object, 1);
  return Ref(signature::new_array(object, aval));
}

PyTypeObject value_type = made_type();

PyObject* make_value_type() {
  if (PyType_Ready(&value_type) != 0) return nullptr;
  return Py_NewRef(reinterpret_cast<PyObject*>(&value_type));
}

PyObject* node_of(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (python.array == nullptr || count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected a signature, operands and a line");
    return nullptr;
  }
  const Ref given(PySequence_Fast(args[1], "operands are a sequence"));
  if (!given) return nullptr;
  PyObject* setting = slot(args[0], python.of_signature.setting);
  Results operands, results;
  GrowingArray<Operand, 16> views;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.get()); ++i) {
    if (!read_operand_of(PySequence_Fast_GET_ITEM(given.get(), i), setting, operands))
      return nullptr;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) views.push_back(operands[i]);
  const Line line(Ref::share(args[2]));
  if (!record_node(args[0], views.data(), views.size(), line, results)) return nullptr;
  Ref all(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (std::size_t i = 0; all && i < results.size(); ++i) {
    PyList_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), buffer_for(results[i]).release());
  }
  return all.release();
}

}  // namespace functrax::eager
