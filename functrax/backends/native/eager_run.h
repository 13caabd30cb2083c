// Running what is recorded: the fast half of backends/eager_run.py.
//
// What a node needs is walked, numbered and described by words: signatures, wiring, and the places
// of the results that somebody outside refers to. If a program is known for these words it is run;
// else Python makes one, from the same walk, and tells it.

#pragma once

#include <Python.h>

#include <cstddef>

namespace functrax::eager {

// eager_run(nodes) -> True if the program of all that some nodes need was known, and ran; else what
// identifies that program (words, number of inputs, places of the outputs, objects), or False. They
// are a list of nodes whose values are wanted, or a tuple of those that nobody asked for.
PyObject* run(PyObject* self, PyObject* nodes);

// The number of operations that have to run for those that produce operands; many if they are many.
std::size_t count_of(PyObject* const* operands, std::size_t count);

// eager_remember(description, program) -> None: the program of what eager_run described.
PyObject* remember(PyObject* self, PyObject* const* args, Py_ssize_t count);

// eager_forget() -> None: forget these programs.
PyObject* forget_programs(PyObject* self, PyObject* unused);

}  // namespace functrax::eager
