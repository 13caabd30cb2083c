// Operations that are known beforehand, and recorded one after the other: what the recipe of a
// library function and a derivative consist of.

#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "eager_node.h"
#include "reference.h"

namespace functrax::eager {

// What a step is applied to, or a result: a literal, or the place of a value.
struct StepInput {
  Ref literal;
  std::size_t place = 0;

  Operand in(const Results& values) const {
    return literal ? Operand(literal.get()) : values[place];
  }
};

struct Step {
  Ref signature;
  std::vector<StepInput> operands;
};

// Values are numbered: those that are given, then the constants, then the results of the steps.
struct Steps {
  std::vector<Ref> constants;
  std::vector<Step> steps;
};

// A literal or a place; false with an error set.
bool read_step_input(PyObject* given, StepInput& input);

// As cached_traces.py writes them: a tuple of constants, and one of pairs (signature, operands).
bool read_steps(PyObject* constants, PyObject* steps, Steps& out);

// Records steps on `values`, those that are given, behind which everything else is put. Where
// `records` is false Python runs them. False with an error set.
bool run_steps(const Steps& steps, Line& line, bool records, Results& values);

}  // namespace functrax::eager
