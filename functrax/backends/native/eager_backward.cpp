// See eager_tape.h: backwards, and the tape itself. Start at backward.

#include <memory>
#include <utility>
#include <vector>

#include "eager_fragment.h"
#include "eager_state.h"
#include "eager_value.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

std::shared_ptr<Backward> read_backward(PyObject* given, PyObject* kept) {
  PyObject *constants, *steps, *contributions;
  if (!PyArg_ParseTuple(given, "O!O!O!", &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &PyTuple_Type, &contributions)) {
    return nullptr;
  }
  auto made = std::make_shared<Backward>();
  if (!read_steps(constants, steps, made->steps)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(contributions); ++i) {
    Py_ssize_t position;
    PyObject *value, *aval;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(contributions, i), "nOO", &position, &value, &aval)) {
      return nullptr;
    }
    StepInput input;
    if (!read_step_input(value, input)) return nullptr;
    made->contributions.push_back(
        {static_cast<std::size_t>(position), std::move(input), Ref::share(aval)});
  }
  made->kept = Ref::share(kept);
  return made;
}

// The other way round; false with an error set.
bool from_value(PyObject* value, Cotangent& x) {
  x = {};
  if (value == Py_None) return true;
  const bool literal = Py_IS_TYPE(value, python.literal);
  if (!literal && !Py_IS_TYPE(value, python.array)) {
    PyErr_SetString(PyExc_SystemError, "a cotangent is neither an array nor a literal");
    return false;
  }
  x.value = literal ? Held::share(value) : Held(operand_in(signature::buffer_of(value)));
  x.aval = Ref::share(literal ? slot(value, python.literal_aval) : signature::aval_of(value));
  return true;
}

// A cotangent added to what is there.
bool accumulate(Cotangent& total, Cotangent more, Line& line) {
  if (!total.value) {
    total = std::move(more);
    return true;
  }
  PyObject* source = line.object();
  Ref x(value_of(total)), y(value_of(more));
  if (source == nullptr || !x || !y) return false;
  const thread_state::Source as(source);
  Ref sum = sum_of(x.get(), y.get());
  return sum && from_value(sum.get(), total);
}

// A residual as a node may read it now; empty with an error set.
Held readable(const Operand& residual, PyObject* setting) {
  const Ref array = array_of(residual, Py_None);
  if (!array) return Held();
  if (const Operand operand = operand_of(array.get(), setting); operand) return Held(operand);
  const Ref raw(PyObject_GetAttrString(array.get(), "buffer"));
  return raw ? Held::share(raw.get()) : Held();
}

// A residual as an operation of a mode takes it: as it is, if it is still to be computed in the
// same mode, as most are.
Held settled(const Held& residual, PyObject* mode) {
  if (mode == Py_None) return residual.share();
  PyObject* setting = PyTuple_GET_ITEM(mode, 0);
  const Node* node = residual.operand().producer();
  const bool as_it_is =
      node != nullptr && slot(node->signature, python.of_signature.setting) == setting;
  return as_it_is ? residual.share() : readable(residual.operand(), setting);
}

// The tape that is read backwards, and what was found so far.
struct Reading {
  Written& written;
  Cotangents& cts;
  PyObject* mode;
  std::vector<Cotangent> given;  // of the entry at hand
  Words words;                   // what is known of them

  Cotangent& ct_of(std::size_t place) { return cts[written.numbers[place]]; }
};

// A list of values as Python has them, of cotangents from one place to another.
Ref list_of(Reading& reading, std::size_t begin, std::size_t end, bool take) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(end - begin)));
  for (std::size_t i = begin; list && i < end; ++i) {
    PyObject* value = value_of(reading.ct_of(i));
    if (value == nullptr) return Ref();
    if (take) const Cotangent taken = std::move(reading.ct_of(i));
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i - begin), value);
  }
  return list;
}

// An entry that Python put on the tape.
bool pull(const Entry& entry, Reading& reading) {
  const auto inputs = static_cast<Py_ssize_t>(entry.outputs - entry.inputs);
  Ref given = list_of(reading, entry.outputs, entry.end, true);
  Ref so_far = list_of(reading, entry.inputs, entry.outputs, false);
  if (!given || !so_far) return false;
  Ref found(PyObject_CallFunctionObjArgs(entry.pull.get(), given.get(), so_far.get(), nullptr));
  if (!found) return false;
  if (!PyList_Check(found.get()) || PyList_GET_SIZE(found.get()) != inputs) {
    PyErr_SetString(PyExc_SystemError, "an entry gave another number of cotangents");
    return false;
  }
  for (Py_ssize_t i = 0; i < inputs; ++i) {
    Cotangent& ct = reading.ct_of(entry.inputs + static_cast<std::size_t>(i));
    if (!from_value(PyList_GET_ITEM(found.get(), i), ct)) return false;
  }
  return true;
}

// How the cotangents of an entry's operands follow from those of its results; null with an error.
std::shared_ptr<Backward> backward_of(Entry& entry, Reading& reading) {
  Fragment& fragment = *entry.fragment;
  const std::vector<Cotangent>& given = reading.given;
  Words& words = reading.words;
  words.assign(1, reinterpret_cast<std::uintptr_t>(reading.mode));
  for (const Cotangent& ct : given) {
    PyObject* known = ct.is_literal() ? ct.value.operand().known() : ct.aval.get();
    words.push_back(reinterpret_cast<std::uintptr_t>(known));
  }
  for (const auto& [known, rule] : fragment.backward) {
    if (known == words) return rule;
  }
  Ref kinds(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  if (!kinds) return nullptr;
  for (std::size_t i = 0; i < given.size(); ++i) {
    PyObject* kind = given[i].is_literal() ? given[i].value.operand().known()
                     : given[i].aval       ? given[i].aval.get()
                                           : Py_None;
    PyTuple_SET_ITEM(kinds.get(), static_cast<Py_ssize_t>(i), Py_NewRef(kind));
  }
  PyObject* source = entry.line.object();
  if (source == nullptr) return nullptr;
  const thread_state::Source as(source);
  Ref derived(PyObject_CallOneArg(fragment.derive.get(), kinds.get()));
  if (!derived) return nullptr;
  std::shared_ptr<Backward> made = read_backward(derived.get(), kinds.get());
  if (made && fragment.backward.size() < kMostVariants) {
    fragment.backward.emplace_back(words, made);
  }
  return made;
}

bool transpose(Entry& entry, Reading& reading) {
  bool any = false;
  for (std::size_t i = entry.outputs; i < entry.end; ++i) any = any || reading.ct_of(i).value;
  if (!any) return true;
  if (!entry.fragment) return pull(entry, reading);
  reading.given.clear();
  for (std::size_t i = entry.outputs; i < entry.end; ++i) {
    reading.given.push_back(std::move(reading.ct_of(i)));
  }
  const std::shared_ptr<Backward> rule = backward_of(entry, reading);
  if (!rule) return false;
  PyObject* mode = reading.mode;
  const bool records = mode != Py_None;
  const std::size_t residuals = entry.fragment->residuals.size();
  Results values;
  values.reserve(residuals + reading.given.size() + rule->steps.constants.size() +
                 rule->steps.steps.size());
  for (std::size_t i = 0; i < residuals; ++i) {
    values.push_back(settled(reading.written.residuals[entry.residuals + i], mode));
    if (!values.back()) return false;
  }
  for (Cotangent& ct : reading.given) {
    if (!ct.value || ct.is_literal()) continue;
    values.push_back(std::move(ct.value));
  }
  if (!run_steps(rule->steps, entry.line, records, values)) return false;
  for (const auto& contribution : rule->contributions) {
    Cotangent more = {Held(contribution.value.in(values)), Ref::share(contribution.aval.get())};
    Cotangent& total = reading.ct_of(entry.inputs + contribution.position);
    if (!accumulate(total, std::move(more), entry.line)) return false;
  }
  return true;
}

// ---- the type -----------------------------------------------------------------------------------

PyTypeObject* tape_type = nullptr;

// Lists that were used and are empty now: they have the memory that the next tape needs.
auto& spare = *new std::vector<std::unique_ptr<Written>>;
constexpr std::size_t kMostSpare = 4, kMostKept = 1 << 12;

std::unique_ptr<Written> empty_lists() {
  if (spare.empty()) return std::make_unique<Written>();
  std::unique_ptr<Written> taken = std::move(spare.back());
  spare.pop_back();
  return taken;
}

// Empties lists, which may run Python.
void empty(std::unique_ptr<Written> written) {
  written->entries.clear();
  written->residuals.clear();
  written->numbers.clear();
  written->avals.clear();
  if (spare.size() < kMostSpare && written->numbers.capacity() <= kMostKept) {
    spare.push_back(std::move(written));
  }
}

// Takes what is on a tape off it.
std::unique_ptr<Written> take(Tape* tape) {
  return std::unique_ptr<Written>(std::exchange(tape->written, empty_lists().release()));
}

// new_tangent(aval) -> its number.
PyObject* new_tangent(PyObject* self, PyObject* aval) {
  auto& avals = as_tape(self)->written->avals;
  avals.push_back(Ref::share(aval));
  return PyLong_FromSize_t(avals.size() - 1);
}

// aval_of(number) -> the type of a tangent.
PyObject* tangent_type(PyObject* self, PyObject* given) {
  const std::size_t number = PyLong_AsSize_t(given);
  const auto& avals = as_tape(self)->written->avals;
  if (number < avals.size()) return Py_NewRef(avals[number].get());
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "the tape has no such tangent");
  return nullptr;
}

// add_entry(pull, inputs, outputs): an entry whose cotangents Python computes.
PyObject* add_entry(PyObject* self, PyObject* args) {
  PyObject *pull, *inputs, *outputs;
  if (!PyArg_ParseTuple(args, "OO!O!", &pull, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs)) {
    return nullptr;
  }
  Written& written = *as_tape(self)->written;
  Entry entry;
  entry.pull = Ref::share(pull);
  entry.inputs = written.numbers.size();
  if (!read_places(inputs, written.numbers)) return nullptr;
  entry.outputs = written.numbers.size();
  if (!read_places(outputs, written.numbers)) return nullptr;
  entry.end = written.numbers.size();
  entry.residuals = written.residuals.size();
  written.entries.push_back(std::move(entry));
  Py_RETURN_NONE;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  empty(std::unique_ptr<Written>(as_tape(self)->written));
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"new_tangent", new_tangent, METH_O, "The number of a new tangent of a type."},
    {"tangent_type", tangent_type, METH_O, "The type of a tangent."},
    {"add_entry", add_entry, METH_VARARGS, "Add an entry of Python's."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("What a function did with what depends on its arguments.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerTape", sizeof(Tape), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* value_of(const Cotangent& x) {
  if (!x.value) Py_RETURN_NONE;
  if (x.is_literal()) return Py_NewRef(x.value.operand().known());
  return array_of(x.value.operand(), x.aval.get()).release();
}

void forget(Tape* tape) { empty(take(tape)); }

bool read_backwards(Tape* tape, std::size_t number, PyObject* ct, Cotangents& cts) {
  std::unique_ptr<Written> written = take(tape);
  cts.resize(written->avals.size());
  if (number >= cts.size()) {
    PyErr_SetString(PyExc_ValueError, "the tape has no such tangent");
    return false;
  }
  PyObject* mode = current_mode();
  if (mode == nullptr || !from_value(ct, cts[number])) return false;
  Reading reading = {*written, cts, mode, {}, {}};
  auto& entries = written->entries;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!transpose(*entry, reading)) return false;
  }
  empty(std::move(written));
  return true;
}

Ref new_tape() {
  Ref tape(tape_type->tp_alloc(tape_type, 0));
  if (tape) as_tape(tape.get())->written = empty_lists().release();
  return tape;
}

PyObject* make_tape_type() {
  PyObject* made = PyType_FromSpec(&spec);
  tape_type = reinterpret_cast<PyTypeObject*>(Py_XNewRef(made));
  return made;
}

}  // namespace functrax::eager
