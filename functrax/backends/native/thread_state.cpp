// See thread_state.h. A thread that ends leaves its references behind: they are to the defaults,
// which live as long as the process, for whoever changes a value puts the old one back.

#include "thread_state.h"

#include <atomic>
#include <cstdint>

#include "pytree.h"

namespace functrax::thread_state {
namespace {

struct Local {
  PyObject* trace;     // null for the bottom
  PyObject* source;    // null for None
  PyObject* axis_env;  // null for ()
  PyObject* scope;     // null for ""
  PyObject* options;   // the options' key as it was at `epoch`
  std::uint64_t epoch;
  bool asynchronous;
};

thread_local Local local = {};

PyObject* bottom = nullptr;
PyObject* key_function = nullptr;
PyTypeObject* trace_class = nullptr;
Py_ssize_t direct_offset = 0, seen_offset = 0;
std::atomic<std::uint64_t> current_epoch{1};

int replace(PyObject*& place, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "the state of a thread cannot be deleted");
    return -1;
  }
  PyObject* before = place;
  place = Py_NewRef(value);
  Py_XDECREF(before);
  return 0;
}

PyObject* get_trace(PyObject*, void*) {
  return Py_NewRef(local.trace == nullptr ? bottom : local.trace);
}
int set_trace(PyObject*, PyObject* value, void*) { return replace(local.trace, value); }

PyObject* get_source(PyObject*, void*) {
  return Py_NewRef(local.source == nullptr ? Py_None : local.source);
}
int set_source(PyObject*, PyObject* value, void*) { return replace(local.source, value); }

PyObject* get_axis_env(PyObject*, void*) {
  return local.axis_env == nullptr ? PyTuple_New(0) : Py_NewRef(local.axis_env);
}
int set_axis_env(PyObject*, PyObject* value, void*) {
  if (value == nullptr || PyTuple_Check(value)) return replace(local.axis_env, value);
  PyErr_SetString(PyExc_TypeError, "axis_env is a tuple");
  return -1;
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* given;
  if (!PyArg_ParseTuple(args, "O", &given)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr && replace(bottom, given) != 0) Py_CLEAR(self);
  return self;
}

PyObject* get_scope(PyObject*, void*) {
  return local.scope == nullptr ? PyUnicode_FromString("") : Py_NewRef(local.scope);
}
int set_scope(PyObject*, PyObject* value, void*) {
  if (value == nullptr || PyUnicode_Check(value)) return replace(local.scope, value);
  PyErr_SetString(PyExc_TypeError, "the name of a scope is text");
  return -1;
}

PyGetSetDef properties[] = {
    {"trace", get_trace, set_trace, "The current interpreter.", nullptr},
    {"source", get_source, set_source, "The line that new equations belong to.", nullptr},
    {"axis_env", get_axis_env, set_axis_env, "The named axes, outermost first.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("What the running thread is doing.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.ThreadState", 0, 0, Py_TPFLAGS_DEFAULT, slots};

PyGetSetDef scopes_properties[] = {
    {"name", get_scope, set_scope, "The names of the scopes, with slashes between.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot scopes_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_getset, scopes_properties},
    {Py_tp_doc, const_cast<char*>("The scopes that the running thread is in.")},
    {0, nullptr},
};

PyType_Spec scopes_spec = {"functrax._native.Scopes", 0, 0, Py_TPFLAGS_DEFAULT, scopes_slots};

}  // namespace

PyObject* make_type() { return PyType_FromSpec(&spec); }

PyObject* make_scopes_type() { return PyType_FromSpec(&scopes_spec); }

bool in_scope() { return local.scope != nullptr && PyUnicode_GET_LENGTH(local.scope) != 0; }

bool evaluates() { return (local.trace == nullptr || local.trace == bottom) && no_axes(); }

bool passes_concrete() {
  if (evaluates()) return true;
  if (!no_axes()) return false;
  if (trace_class == nullptr || !PyObject_TypeCheck(local.trace, trace_class)) return false;
  const auto at = [](Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(local.trace) + offset);
  };
  return at(direct_offset) == Py_True && at(seen_offset) == Py_None;
}

bool set_trace_class(PyObject* given) {
  if (!pytree::find_slot(given, "direct", direct_offset) ||
      !pytree::find_slot(given, "seen", seen_offset)) {
    return false;
  }
  trace_class = reinterpret_cast<PyTypeObject*>(Py_NewRef(given));
  return true;
}

PyObject* source() { return local.source; }

Source::Source(PyObject* line) : before_(local.source) { local.source = Py_NewRef(line); }

Source::~Source() {
  PyObject* mine = local.source;
  local.source = before_;
  Py_XDECREF(mine);
}

Interpreter::Interpreter(PyObject* trace) : before_(local.trace) { local.trace = Py_NewRef(trace); }

Interpreter::~Interpreter() {
  PyObject* mine = local.trace;
  local.trace = before_;
  Py_XDECREF(mine);
}

PyObject* trace() { return local.trace; }

bool no_axes() { return local.axis_env == nullptr || PyTuple_GET_SIZE(local.axis_env) == 0; }

std::uint64_t epoch() { return current_epoch.load(std::memory_order_acquire); }

PyObject* options_key() {
  const std::uint64_t epoch = current_epoch.load(std::memory_order_acquire);
  if (local.epoch == epoch) return local.options;
  if (key_function == nullptr) return Py_None;
  PyObject* key = PyObject_CallNoArgs(key_function);
  if (key == nullptr) return nullptr;
  PyObject* before = local.options;
  local.options = key;
  local.asynchronous =
      PyTuple_Check(key) && PyTuple_GET_ITEM(key, PyTuple_GET_SIZE(key) - 1) == Py_True;
  local.epoch = epoch;  // as of before the call: a change in between makes it stale, not wrong
  Py_XDECREF(before);
  return key;
}

bool asynchronous() { return local.asynchronous; }

PyObject* set_options_key(PyObject*, PyObject* function) {
  if (replace(key_function, function) != 0) return nullptr;
  return options_changed(nullptr, nullptr);
}

PyObject* options_changed(PyObject*, PyObject*) {
  current_epoch.fetch_add(1, std::memory_order_acq_rel);
  Py_RETURN_NONE;
}

}  // namespace functrax::thread_state
