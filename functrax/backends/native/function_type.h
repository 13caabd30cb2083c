// What the types have in common whose objects stand for functions of Python.

#pragma once

#include <Python.h>

namespace functrax {

// Py_tp_descr_get: as an attribute of a class such an object is a method, as a function is.
inline PyObject* bind_to(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

}  // namespace functrax
