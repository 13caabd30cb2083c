// Running what is recorded. What some operations need is cut out of the graph (eager_cut.h); if a
// program is known for such a cut it is run, else Python makes one (backends/eager/run.py).

#pragma once

#include <Python.h>

#include <vector>

#include "eager_node.h"

namespace functrax::eager {

// Computes results of operations that somebody looks at; false with an error set.
bool compute(const std::vector<Node*>& nodes);

// Runs operations whose values nobody asked for, perhaps while Python goes on; false with an error
// set. What was computed meanwhile counts for nothing.
bool run_unasked(const std::vector<NodeReference>& nodes);

// eager_compute(values): computes those of some arrays' buffers that are pending, together.
PyObject* compute_values(PyObject* self, PyObject* values);

// eager_pending(value) -> what would have to run for it, as Python's compute takes it.
PyObject* pending(PyObject* self, PyObject* value);

// eager_forget() -> None: forget the programs.
PyObject* forget_programs(PyObject* self, PyObject* unused);

// eager_counts() -> how many operations ran; how many of them ran again, though they were not
// deferred; how many another thread computed at the same time; how many are recorded and wait.
PyObject* counts(PyObject* self, PyObject* unused);

}  // namespace functrax::eager
