// Derivatives of eager functions: the fast half of
// transforms/differentiation/cached_linearization.py.
//
// While `grad` calls a function outside of jit, a GradTrace is current, and what depends on the
// arguments is a GradTracer: an array, and the number of its tangent on a Tape. What an operation,
// or a library function with a recipe, records then, and how its cotangents are computed, follows
// from the types of its operands; it is a Fragment, which Python derives once from the rules of the
// primitives. Following one records its operations and puts an entry on the tape; the tape read
// backwards follows the entries' transposes. What has no fragment Python does, and puts an entry of
// its own on the tape.

#pragma once

#include <Python.h>

#include <cstddef>

#include "eager_node.h"
#include "growing_array.h"
#include "reference.h"

namespace functrax::eager {

struct Fragment;
using FragmentPointer = Shared<Fragment>;

constexpr std::size_t kNoNumber = static_cast<std::size_t>(-1);

// What was given as an array: the array, borrowed; of one with a tangent the tangent's number on
// the tape, and its type, borrowed.
struct Given {
  PyObject *array = nullptr, *tangent = nullptr;
  std::size_t number = kNoNumber;
};

using Givens = GrowingArray<Given, 4>;

// Reads an array, or a tracer of the interpreter `trace`; false for anything else.
bool read_given(PyObject* x, PyObject* trace, Given& given);

// Whether an object is a tracer of a tape, or of one interpreter's.
bool is_tracer(PyObject* x);
bool is_tracer_of(PyObject* x, PyObject* trace);

// The array that a tracer stands for, borrowed; any other object as it is.
PyObject* primal_of(PyObject* x);

// Of a tracer its type, borrowed, and the number of its tangent.
PyObject* aval_of_tracer(PyObject* tracer);
std::size_t tangent_number(PyObject* tracer);

// A new interpreter with an empty tape, above the bottom one; null with an error set.
Ref new_trace(PyObject* name);

// Marks the end of an interpreter, as Trace.end of core/tracing/trace.py; the tape goes on.
void end_trace(PyObject* trace);

struct Tape;
Tape* tape_of(PyObject* trace);

// An array with a new tangent; null with an error set.
Ref new_input(PyObject* trace, PyObject* array);

// What Python derived, as cached_linearization.py writes it; null for None, or with an error set.
FragmentPointer read_fragment(PyObject* given);

// Records what a fragment says, on the tape of the current interpreter.
Outcome follow_fragment(const FragmentPointer& fragment, const Givens& given, PyObject* mode,
                        Ref& result);

// Applies a primitive of which an operand has a tangent; operands are arrays, or literals, which
// are given as such.
Outcome apply_taped(PyObject* mode, PyObject* signature, const Givens& operands, Ref& result);

PyObject* make_tape_type();  // functrax._native.EagerTape

// eager_tape_configure(class of traces, class of tracers, fragment_of, add, bottom).
PyObject* configure_tape(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::eager
