// Concrete arrays as C++ sees them: ConcreteArray of core/arrays/array.py, its slots, and how one
// is made and ends. A training step makes hundreds, so their memory is kept for the next ones.

#pragma once

#include <Python.h>

namespace functrax::signature {

// What is known of the class.
struct ArrayClass {
  PyTypeObject* type = nullptr;
  Py_ssize_t aval, buffer;  // offsets of the slots
};
extern ArrayClass array_class;

// Tells the class of arrays: set_array_class(ConcreteArray); false with an error set.
bool set_array_class(PyObject* type);

// Whether an object is of that class, not of a subclass.
inline bool is_array(PyObject* object) { return Py_TYPE(object) == array_class.type; }

// The parts of an array, borrowed; they may be null.
inline PyObject*& aval_of(PyObject* array) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(array) + array_class.aval);
}
inline PyObject*& buffer_of(PyObject* array) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(array) + array_class.buffer);
}

PyObject* new_array(PyObject* buffer, PyObject* aval);  // takes `buffer`; null with an error set

}  // namespace functrax::signature
