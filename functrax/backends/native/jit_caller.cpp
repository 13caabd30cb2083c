// See jit_caller.h. Start at make_call: a signature that was seen before runs here from the
// arguments to the results; everything else (the first call of a signature, traced arguments,
// unusual leaves, debugging) is left to two methods of the subclass:
//
//   _call_in_python(*args, **kwargs) -> results
//   _call_and_prepare(args, kwargs) -> (results, what Entry::make needs, or None)

#include "jit_caller.h"

#include <structmember.h>

#include <cstddef>
#include <new>

#include "boundary.h"
#include "jit_cache.h"
#include "jit_call.h"
#include "numpy_arrays.h"
#include "recorder.h"
#include "reference.h"
#include "signature.h"
#include "small_array.h"
#include "thread_state.h"

namespace functrax::jit_caller {
namespace {

using jit_cache::Cache;
using jit_cache::Entry;
using jit_cache::Hold;
using signature::Outcome;
using signature::Role;
using signature::Signature;

struct State {
  Cache cache;
  Role statics, donated;
};

struct Caller {
  PyObject ob_base;
  vectorcallfunc call;
  State* state;  // null until the roles are set
  unsigned long long hits;
};

PyObject *in_python_name = nullptr, *prepare_name = nullptr;

Caller* as_caller(PyObject* object) { return reinterpret_cast<Caller*>(object); }

PyObject* call_in_python(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  SmallArray<PyObject*, 16> with_self(static_cast<std::size_t>(all) + 1);
  with_self[0] = self;
  for (Py_ssize_t k = 0; k < all; ++k) with_self[k + 1] = args[k];
  return PyObject_VectorcallMethod(in_python_name, with_self.data(),
                                   static_cast<std::size_t>(count) + 1, names);
}

Ref keywords(PyObject* const* values, PyObject* names) {
  Ref dict(PyDict_New());
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t k = 0; dict && k < count; ++k) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names, k), values[k]) != 0) return Ref();
  }
  return dict;
}

// The first call of a signature: Python runs it, and tells what the next one needs.
PyObject* first_call(PyObject* self, const Signature& signature, PyObject* const* args,
                     Py_ssize_t count, PyObject* names) {
  Ref positional(PyTuple_New(count));
  Ref named = keywords(args + count, names);
  if (!positional || !named) return nullptr;
  for (Py_ssize_t k = 0; k < count; ++k) PyTuple_SET_ITEM(positional.get(), k, Py_NewRef(args[k]));
  Ref pair(PyObject_CallMethodObjArgs(self, prepare_name, positional.get(), named.get(), nullptr));
  if (!pair) return nullptr;
  PyObject *result, *prepared;
  if (!PyArg_ParseTuple(pair.get(), "OO", &result, &prepared)) return nullptr;
  State* state = as_caller(self)->state;
  if (prepared != Py_None) {
    Entry* entry = Entry::make(signature, state->donated, prepared);
    if (entry == nullptr || !state->cache.add(signature, entry)) PyErr_Clear();  // only slower
  }
  return Py_NewRef(result);
}

PyObject* make_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  State* state = as_caller(self)->state;
  if (state == nullptr || !thread_state::evaluates()) {
    return call_in_python(self, args, count, names);
  }
  PyObject* key = thread_state::options_key();
  if (key == nullptr) return nullptr;
  if (key == Py_None) return call_in_python(self, args, count, names);

  Signature signature;
  Outcome outcome = signature::read(key, args, count, names, state->statics, signature);
  if (outcome == Outcome::kError) return nullptr;
  if (outcome == Outcome::kUnknown) return call_in_python(self, args, count, names);
  bool failed;
  const Hold entry = state->cache.find(signature, failed);
  if (failed) return nullptr;
  if (!entry) return first_call(self, signature, args, count, names);

  PyObject* result = nullptr;
  outcome = jit_call::run(*entry.get(), signature, result);
  if (outcome == Outcome::kUnknown) return call_in_python(self, args, count, names);
  if (outcome == Outcome::kRead) ++as_caller(self)->hits;
  return result;
}

PyObject* safe_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  try {
    return make_call(self, args, flags, names);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  if (!recorder::is_on()) {
    PyObject* result = safe_call(self, args, flags, names);
    if (result == nullptr) boundary::on_error();
    return result;
  }
  const std::int64_t begin = recorder::now();
  PyObject* result = safe_call(self, args, flags, names);
  recorder::add_call(self, begin);
  if (result == nullptr) boundary::on_error();
  return result;
}

bool set_role(PyObject* positions, PyObject* names, Role& role) {
  Ref list(PySequence_List(positions));
  if (!list || !PyFrozenSet_Check(names)) {
    if (list) PyErr_SetString(PyExc_TypeError, "names are a frozenset");
    return false;
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list.get()); ++k) {
    const Py_ssize_t position = PyLong_AsSsize_t(PyList_GET_ITEM(list.get(), k));
    if (position == -1 && PyErr_Occurred()) return false;
    role.positions.push_back(position);
  }
  if (PySet_GET_SIZE(names) > 0) role.names = Py_NewRef(names);
  return true;
}

void drop_state(PyObject* self) {
  State* state = std::exchange(as_caller(self)->state, nullptr);
  if (state == nullptr) return;
  Py_XDECREF(state->statics.names);
  Py_XDECREF(state->donated.names);
  delete state;
}

// _set_roles(static_nums, static_names, donate_nums, donate_names) -> None
PyObject* set_roles(PyObject* self, PyObject* args) {
  PyObject *static_nums, *static_names, *donate_nums, *donate_names;
  if (!PyArg_ParseTuple(args, "OOOO", &static_nums, &static_names, &donate_nums, &donate_names)) {
    return nullptr;
  }
  if (as_caller(self)->state != nullptr) {  // a call may be looking at it
    PyErr_SetString(PyExc_TypeError, "the roles of arguments are set once");
    return nullptr;
  }
  auto* state = new State;
  as_caller(self)->state = state;
  if (!set_role(static_nums, static_names, state->statics) ||
      !set_role(donate_nums, donate_names, state->donated)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* forget(PyObject* self, PyObject*) {
  if (as_caller(self)->state != nullptr) as_caller(self)->state->cache.clear();
  Py_RETURN_NONE;
}

PyObject* drop_unused(PyObject* self, PyObject*) {
  Ref kept(PyList_New(0));
  State* state = as_caller(self)->state;
  if (!kept || (state != nullptr && !state->cache.drop_unused(kept.get()))) return nullptr;
  return kept.release();
}

PyObject* construct(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) as_caller(self)->call = call;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const State* state = as_caller(self)->state;
  return state == nullptr ? 0 : state->cache.traverse(visit, arg);
}

int clear(PyObject* self) {
  drop_state(self);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  drop_state(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"_set_roles", set_roles, METH_VARARGS, "Which arguments are static, and which donated."},
    {"_drop_unused", drop_unused, METH_NOARGS,
     "Leave calls of signatures that were not used lately to Python; the executables of others."},
    {"_forget", forget, METH_NOARGS, "Leave all calls to Python again."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Caller, call), READONLY, nullptr},
    {"_direct_hits", T_ULONGLONG, offsetof(Caller, hits), READONLY, "Calls without Python."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("Makes the calls of a jitted function.")},
    {0, nullptr},
};

PyType_Spec spec = {
    "functrax._native.JitCaller", sizeof(Caller), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    slots};

}  // namespace

PyObject* make_type() { return PyType_FromSpec(&spec); }

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyType_Check(args[0]) || !PyType_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "expected two classes and a function");
    return nullptr;
  }
  if (!numpy_arrays::load() || !signature::set_array_class(args[0])) return nullptr;
  in_python_name = PyUnicode_InternFromString("_call_in_python");
  prepare_name = PyUnicode_InternFromString("_call_and_prepare");
  if (in_python_name == nullptr || prepare_name == nullptr) return nullptr;
#if PY_VERSION_HEX < 0x030C0000
  // A class made in Python inherits the function, but from 3.12 on only, that it may be used.
  auto* jitted = reinterpret_cast<PyTypeObject*>(args[1]);
  jitted->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Modified(jitted);
#endif
  return thread_state::set_options_key(nullptr, args[2]);
}

}  // namespace functrax::jit_caller
