// A mode for tests: what is recorded is cut at other places than usual, as often as may be, so that
// what is wrong about who owns a result shows.

#pragma once

#include <Python.h>

namespace functrax::eager::stress {

extern bool is_on;

bool cut();  // false with an error set

// To be called when an operation has been recorded; false with an error set.
inline bool after_operation() { return !is_on || cut(); }

// eager_stress(every, seed, collect): from now on cuts after every so many operations, or at random
// where there is a seed; collects garbage before each. Zeros: as usual.
PyObject* configure(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::eager::stress
