// See boundary.h. Calls that succeed never come here.

#include "boundary.h"

#include "reference.h"

namespace functrax::boundary {
namespace {

PyObject* shorten_error = nullptr;

}  // namespace

PyObject* configure(PyObject*, PyObject* shorten) {
  Py_XSETREF(shorten_error, Py_NewRef(shorten));
  Py_RETURN_NONE;
}

void on_error() {
  if (shorten_error == nullptr) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (traceback == nullptr) {  // no frame to leave out
    PyErr_Restore(type, value, traceback);
    return;
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback);
  Py_DECREF(traceback);
  const Ref done(PyObject_CallOneArg(shorten_error, value));
  if (!done && PyErr_ExceptionMatches(PyExc_RecursionError)) {
    PyErr_Clear();  // a boundary further out shortens it, where there is room on the stack
  } else if (!done) {
    PyErr_WriteUnraisable(shorten_error);
  }
  PyErr_Restore(type, value, PyException_GetTraceback(value));
}

}  // namespace functrax::boundary
