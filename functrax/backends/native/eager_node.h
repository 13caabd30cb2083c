// Nodes of the graph of recorded operations, as backends/eager_graph.py has them: how one is made.

#pragma once

#include <Python.h>

#include <vector>

#include "reference.h"

namespace functrax::eager {

enum class Outcome { kDone, kLeft, kError };  // kLeft: Python has to do it

// What arrays of an operation's results hold, and later operations take: the node itself, or one
// part for each of several results.
using Results = std::vector<Ref>;

// The line that a new operation belongs to; null with an error set.
Ref user_line();

// An operand as a node holds it, borrowed; null if Python has to see to it.
PyObject* operand_of(PyObject* x, PyObject* strict);

// Records an operation; `operands` is a tuple of what nodes hold. Its results are appended. Where
// too much waits, what waits for it is run before; but not between the operations of one function,
// which then share kernels.
Outcome new_node(PyObject* signature, Ref operands, PyObject* line, Results& results,
                 bool may_run = true);

// eager_line() -> the line that a new operation belongs to, as current_source of core/trace.py.
PyObject* line(PyObject* self, PyObject* unused);

PyObject* now(PyObject* self, PyObject* unused);  // the number of the next operation

// eager_last_look() -> the number of the operation before which somebody last looked at a value
// that had to be run for; note_look() notes such a look.
PyObject* last_look(PyObject* self, PyObject* unused);
void note_look();

}  // namespace functrax::eager
