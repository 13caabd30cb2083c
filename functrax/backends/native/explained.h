// Public functions, which explain arguments that do not fit their signature and leave functrax's
// frames out of tracebacks: the fast half of functrax/core/arguments.py.

#pragma once

#include <Python.h>

namespace functrax::explained {

// Makes the type ExplainedFunction(function, explain), whose objects call `function`. Where that
// raises TypeError at once, from no frame of its own, they call explain(function, args, kwargs,
// error) instead, which raises what is to be raised, unless it is None. A new reference, or null
// with an error set.
PyObject* make_type();

}  // namespace functrax::explained
