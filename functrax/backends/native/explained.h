// Public functions, which explain arguments that do not fit their signature and leave functrax's
// frames out of tracebacks: the fast half of functrax/core/boundaries/arguments.py.

#pragma once

#include <Python.h>

namespace functrax::explained {

// Makes the type ExplainedFunction(function, explain), whose objects call `function`. Where that
// raises TypeError at once, from no frame of its own, they call explain(function, args, kwargs,
// error) instead, unless it is None; that raises what is to be raised, or returns the result of
// the call. The same where it raises the error of handles. A new reference, or null with an error
// set.
PyObject* make_type();

// configure(class of the error of handles) -> None
PyObject* configure(PyObject* self, PyObject* handle_error_class);

}  // namespace functrax::explained
