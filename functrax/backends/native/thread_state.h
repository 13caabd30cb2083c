// What the running thread is doing, where C++ can read it: which interpreter is current, and which
// options hold. Its twin is the class _State of functrax/core/tracing/trace.py.

#pragma once

#include <Python.h>

#include <cstdint>

namespace functrax::thread_state {

// Makes the type ThreadState(bottom), whose attributes `trace`, `source` and `axis_env` are the
// running thread's own; a new reference, or null with an error set.
PyObject* make_type();

// Whether operations are computed at once: the bottom interpreter is current, and no axis is named.
bool evaluates();

// Whether the current interpreter hands operations on concrete arrays down to the bottom as they
// are.
bool passes_concrete();

// Tells the class of interpreters, and where its instances say whether they do, and what they
// share.
bool set_trace_class(PyObject* trace_class);

// The line that new equations belong to, borrowed; null or None where it has to be looked for.
PyObject* source();

// Makes the type Scopes(), whose attribute `name` is the running thread's own: the names of the
// scopes that it is in. Its twin is the class _Scopes of functrax/core/errors/source.py.
PyObject* make_scopes_type();

// Whether the running thread is in a scope.
bool in_scope();

// Makes a line the one that new equations belong to, as long as it lives.
class Source {
 public:
  explicit Source(PyObject* line);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

 private:
  PyObject* before_;
};

// The current interpreter, borrowed; null for the bottom one.
PyObject* trace();

// Makes an interpreter the current one, as long as it lives.
class Interpreter {
 public:
  explicit Interpreter(PyObject* trace);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

 private:
  PyObject* before_;
};

// Whether no axis is named.
bool no_axes();

// Changes whenever options may have changed.
std::uint64_t epoch();

// What the options of this thread amount to for a call, borrowed and never freed: None where calls
// are Python's business, null with an error set.
PyObject* options_key();

// Whether this thread's programs may run while Python goes on; after options_key.
bool asynchronous();

// set_options_key(function) -> None: `function()` returns the key above, one object for equal keys.
PyObject* set_options_key(PyObject* self, PyObject* function);

// options_changed() -> None: every thread asks for its key again.
PyObject* options_changed(PyObject* self, PyObject* unused);

}  // namespace functrax::thread_state
