// Functions whose operations follow from the types of their arguments: the fast half of
// backends/eager/cached_traces.py.
//
// An EagerFunction stands in the place of such a function. From the second call with arguments of
// the same types on it knows the operations that the function records, its recipe, and records them
// without calling it. Whatever it cannot tell at once is left to the function, which is its twin.

#pragma once

#include <Python.h>

namespace functrax::eager {

PyObject* make_function_type();  // functrax._native.EagerFunction

// eager_forget_recipes() -> None: of all functions.
PyObject* forget_recipes(PyObject* self, PyObject*);

}  // namespace functrax::eager
