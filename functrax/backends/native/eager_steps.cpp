// See eager_steps.h.

#include "eager_steps.h"

#include <utility>

#include "eager_state.h"
#include "eager_value.h"
#include "growing_array.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

bool read_step(PyObject* given, Step& step) {
  PyObject *signature, *operands;
  if (!PyArg_ParseTuple(given, "OO!", &signature, &PyTuple_Type, &operands)) return false;
  step.signature = Ref::share(signature);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    StepInput input;
    if (!read_step_input(PyTuple_GET_ITEM(operands, i), input)) return false;
    step.operands.push_back(std::move(input));
  }
  return true;
}

// What an array of a result holds.
bool add_result(PyObject* array, Results& values) {
  if (!Py_IS_TYPE(array, python.array)) {
    PyErr_SetString(PyExc_SystemError, "a step gave something that is no array");
    return false;
  }
  values.push_back(Held(operand_in(signature::buffer_of(array))));
  return true;
}

// A step as Python records it, or runs it at once.
bool run_in_python(const Step& step, Line& line, Results& values) {
  PyObject* signature = step.signature.get();
  PyObject* source = line.object();
  PyObject* avals = slot(signature, python.of_signature.avals);
  const auto count = static_cast<Py_ssize_t>(step.operands.size());
  Ref primitive(PyObject_GetAttrString(signature, "primitive"));
  Ref params(PyObject_GetAttrString(signature, "params"));
  Ref args(PyTuple_New(count));
  if (source == nullptr || !primitive || !params || !args) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const StepInput& input = step.operands[static_cast<std::size_t>(i)];
    Ref value = input.literal ? Ref::share(input.literal.get())
                              : array_of(values[input.place], PyTuple_GET_ITEM(avals, i));
    if (!value) return false;
    PyTuple_SET_ITEM(args.get(), i, value.release());
  }
  const thread_state::Source as(source);
  Ref result(PyObject_CallFunctionObjArgs(python.record, primitive.get(), args.get(), params.get(),
                                          nullptr));
  if (!result) return false;
  if (!PyList_Check(result.get())) return add_result(result.get(), values);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result.get()); ++i) {
    if (!add_result(PyList_GET_ITEM(result.get(), i), values)) return false;
  }
  return true;
}

}  // namespace

bool read_step_input(PyObject* given, StepInput& input) {
  if (Py_IS_TYPE(given, python.literal)) {
    input.literal = Ref::share(given);
    return true;
  }
  input.place = PyLong_AsSize_t(given);
  return !PyErr_Occurred();
}

bool read_steps(PyObject* constants, PyObject* steps, Steps& out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    out.constants.push_back(Ref::share(PyTuple_GET_ITEM(constants, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
    Step step;
    if (!read_step(PyTuple_GET_ITEM(steps, i), step)) return false;
    out.steps.push_back(std::move(step));
  }
  return true;
}

bool run_steps(const Steps& steps, Line& line, bool records, Results& values) {
  values.reserve(values.size() + steps.constants.size() + steps.steps.size());
  for (const Ref& constant : steps.constants) values.push_back(Held::share(constant.get()));
  GrowingArray<Operand, 16> operands;
  for (const Step& step : steps.steps) {
    if (!records) {
      if (!run_in_python(step, line, values)) return false;
      continue;
    }
    operands.clear();
    for (const StepInput& input : step.operands) operands.push_back(input.in(values));
    const bool first = &step == &steps.steps.front();
    PyObject* signature = step.signature.get();
    if (facts_of(signature).results == 1) {
      values.push_back(
          record_single(signature, operands.data(), operands.size(), line.share(), first));
      if (!values.back()) return false;
    } else if (!record_node(signature, operands.data(), operands.size(), line, values, first)) {
      return false;
    }
  }
  return true;
}

}  // namespace functrax::eager
