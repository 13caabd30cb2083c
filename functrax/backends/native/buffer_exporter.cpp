// What enters: an object with `__array__`, which returns a read-only NumPy array.  What leaves:
// that array's buffer, so `memoryview(x)` needs no copy.  It has no twin: before Python 3.12 only a
// type made in C can have the buffer protocol, and since then NumPy asks a `__buffer__` that is
// written in Python before it asks `__array__`, for each look at a value.

#include "buffer_exporter.h"

namespace functrax::buffer_exporter {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  PyObject* array = PyObject_CallMethod(self, "__array__", nullptr);
  if (array == nullptr) {
    view->obj = nullptr;
    return -1;
  }
  // The view belongs to the NumPy array, which it keeps alive and which releases it.
  const int result = PyObject_GetBuffer(array, view, flags);
  Py_DECREF(array);
  return result;
}

PyType_Slot slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_tp_doc, const_cast<char*>("Gives subclasses the buffer protocol.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.BufferExporter", 0, 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PyObject* make_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::buffer_exporter
