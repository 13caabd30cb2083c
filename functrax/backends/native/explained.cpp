// See explained.h. A call that succeeds costs nothing but the call of the function.

#include "explained.h"

#include <structmember.h>

#include <cstddef>

#include "boundary.h"
#include "function_type.h"
#include "reference.h"

namespace functrax::explained {
namespace {

struct Explained {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *explain;  // `explain` may be None
  PyObject *attributes, *weak_references;
};

Explained* as_explained(PyObject* self) { return reinterpret_cast<Explained*>(self); }

// The keyword arguments of a vectorcall as a dict; null with an error set.
Ref keywords_of(PyObject* const* values, PyObject* names) {
  Ref keywords(PyDict_New());
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; keywords && i < count; ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), values[i]) != 0) return Ref();
  }
  return keywords;
}

PyObject* handle_error = nullptr;  // the class of errors that `explain` may answer with a result

// Raises what explains a TypeError, which is set, if the arguments did not fit the function; or the
// result of a function that was given handles (functrax/core/boundaries/arguments.py).
PyObject* explain(const Explained* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // What was raised inside of the function has a traceback, or had one that another boundary left
  // out; then it is of a class of functrax's own.
  const bool handles = type == handle_error;
  if (!handles && (traceback != nullptr || type != PyExc_TypeError)) {
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref held_type(type), error(value), held_traceback(traceback);
  Ref positional(PyTuple_New(count));
  for (Py_ssize_t i = 0; positional && i < count; ++i) {
    PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  }
  const Ref keywords = keywords_of(args + count, names);
  if (!positional || !keywords) return nullptr;
  if (handles && traceback != nullptr) PyException_SetTraceback(error.get(), traceback);
  PyObject* given[] = {self->function, positional.get(), keywords.get(), error.get()};
  return PyObject_Vectorcall(self->explain, given, 4, nullptr);
}

PyObject* call(PyObject* object, PyObject* const* args, std::size_t flags, PyObject* names) {
  const Explained* self = as_explained(object);
  PyObject* result = PyObject_Vectorcall(self->function, args, flags, names);
  if (result != nullptr) return result;
  if (self->explain != Py_None && PyErr_ExceptionMatches(PyExc_TypeError)) {
    result = explain(self, args, PyVectorcall_NARGS(flags), names);
    if (result != nullptr) return result;
  }
  boundary::on_error();
  return nullptr;
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *explain;
  if (!PyArg_ParseTuple(args, "OO", &function, &explain)) return nullptr;
  auto* self = as_explained(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->function = Py_NewRef(function);
  self->explain = Py_NewRef(explain);
  self->call = call;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_explained(self)->function);
  Py_VISIT(as_explained(self)->explain);
  Py_VISIT(as_explained(self)->attributes);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_explained(self)->function);
  Py_CLEAR(as_explained(self)->explain);
  Py_CLEAR(as_explained(self)->attributes);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_explained(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* text(PyObject* self) {
  const Ref name(PyObject_GetAttrString(self, "__qualname__"));
  return name ? PyUnicode_FromFormat("<function %U at %p>", name.get(), self) : nullptr;
}

// A copy is the function itself, and it is pickled by its name.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, "Its name."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Explained, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Explained, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Explained, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_to)},
    {Py_tp_repr, reinterpret_cast<void*>(text)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("A function that explains arguments that do not fit.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.ExplainedFunction", sizeof(Explained), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

}  // namespace

PyObject* configure(PyObject*, PyObject* handle_error_class) {
  Py_XSETREF(handle_error, Py_NewRef(handle_error_class));
  Py_RETURN_NONE;
}

PyObject* make_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::explained
