// The Python object that is a compiled program: takes raw values, returns Buffers. Its twin is the
// class of the same name in functrax/backends/runtime/executor.py.

#pragma once

#include <Python.h>

#include <memory>

#include "program.h"
#include "reference.h"

namespace functrax::executable {

// Makes the type `Executable(encoded, program)`; a new reference, or null with an error set.
PyObject* make_type();

// What an Executable runs; null for any other object.
const program::Program* program_of(PyObject* object);

// What calling an object with a list of values gives. Where it is an Executable that is worth it,
// its program may run while Python goes on; nobody may write to the values afterwards.
PyObject* start(PyObject* object, PyObject* values);

// An Executable of a program that was put together from those of others, which it keeps alive; null
// with an error set.
Ref joined(std::unique_ptr<program::Program> program, Ref others);

}  // namespace functrax::executable
