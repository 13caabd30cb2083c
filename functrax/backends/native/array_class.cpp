// See array_class.h.

#include "array_class.h"

#include <cstddef>

#include "free_list.h"
#include "pytree.h"

namespace functrax::signature {

ArrayClass array_class;

namespace {

FreeList<1024> ended;

// Ends an array as Python ends objects with slots. Nothing that an array refers to refers to
// arrays, so there is no chain of them to be watched.
void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  clear_weak_references(self);
  Py_CLEAR(buffer_of(self));
  Py_CLEAR(aval_of(self));
  if (type != array_class.type || !ended.keep(self)) type->tp_free(self);
  Py_DECREF(type);
}

}  // namespace

bool set_array_class(PyObject* given) {
  if (!pytree::find_slot(given, "aval", array_class.aval)) return false;
  if (!pytree::find_slot(given, "_buffer", array_class.buffer)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(Py_NewRef(given));
  const std::size_t slots = 2 + weak_reference_slots(type);
  const std::size_t size = sizeof(PyObject) + slots * sizeof(PyObject*);
  if (type->tp_basicsize != static_cast<Py_ssize_t>(size) || type->tp_weaklistoffset == 0) {
    PyErr_SetString(PyExc_TypeError, "arrays have a buffer, a type, and weak references");
    return false;
  }
  type->tp_dealloc = destroy;
  array_class.type = type;
  return true;
}

PyObject* new_array(PyObject* buffer, PyObject* aval) {
  auto* made = static_cast<PyObject*>(ended.take());
  if (made != nullptr) {
    PyObject_Init(made, array_class.type);
    PyObject_GC_Track(made);
  } else {
    made = array_class.type->tp_alloc(array_class.type, 0);
  }
  if (made == nullptr) {
    Py_DECREF(buffer);
    return nullptr;
  }
  buffer_of(made) = buffer;
  aval_of(made) = Py_NewRef(aval);
  return made;
}

}  // namespace functrax::signature
