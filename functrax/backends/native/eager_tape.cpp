// See eager_tape.h: forwards. Start at follow_fragment.

#include "eager_tape.h"

#include <unordered_map>
#include <utility>

#include "eager_fragment.h"
#include "eager_state.h"
#include "eager_value.h"
#include "free_list.h"
#include "growing_array.h"
#include "open_table.h"
#include "pytree.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {

namespace {

constexpr std::size_t kMostFragments = 1 << 14;
struct {
  PyTypeObject *trace = nullptr, *tracer;
  Py_ssize_t tape, alive, direct, name, parent, seen;
  Py_ssize_t of_trace, aval, primal, tangent, line, offset;
  PyObject *fragment_of, *add, *bottom;
} known;

struct Derived {
  std::size_t references = 0;
  FragmentPointer fragment;  // null where there is none
  Ref kept;                  // whose addresses are in the words
};
using Fragments = OpenTable<Words, Shared<Derived>, WordsHash>;

// By mode, signature, literals and types of tangents. Never freed: Python ends before.
auto& fragments = *new Fragments;
// How many fragments differ in literals alone.
auto& variants = *new std::unordered_map<Words, int, WordsHash>;

// ---- forwards -----------------------------------------------------------------------------------

FreeList<256> ended;  // tracers

// Ends a tracer as Python ends objects with slots. None refers to another one, so there is no chain
// of them to be watched.
void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_weak_references(self);
  for (const Py_ssize_t offset :
       {known.of_trace, known.aval, known.primal, known.tangent, known.line, known.offset}) {
    Py_CLEAR(slot(self, offset));
  }
  PyTypeObject* type = Py_TYPE(self);
  if (!ended.keep(self)) type->tp_free(self);
  Py_DECREF(type);
}

// A tracer with empty slots; null with an error set.
Ref empty_tracer() {
  auto* made = static_cast<PyObject*>(ended.take());
  if (made == nullptr) return Ref(known.tracer->tp_alloc(known.tracer, 0));
  PyObject_Init(made, known.tracer);
  PyObject_GC_Track(made);
  return Ref(made);
}

PyObject* new_tracer(PyObject* trace, PyObject* array, PyObject* aval, std::size_t number,
                     const Line& line) {
  Ref tracer = empty_tracer(), tangent(PyLong_FromSize_t(number)), offset = line.offset();
  if (!tracer || !tangent || !offset) return nullptr;
  slot(tracer.get(), known.of_trace) = Py_NewRef(trace);
  slot(tracer.get(), known.aval) = Py_NewRef(aval);
  slot(tracer.get(), known.primal) = Py_NewRef(array);
  slot(tracer.get(), known.tangent) = tangent.release();
  slot(tracer.get(), known.line) = Py_NewRef(line.origin());
  slot(tracer.get(), known.offset) = offset.release();
  return tracer.release();
}

// Adds tangents of types; their numbers follow one another, the first one is returned.
std::size_t add_tangents(Tape* tape, const std::vector<Ref>& types) {
  auto& avals = tape->written->avals;
  const std::size_t first = avals.size();
  for (const Ref& aval : types) avals.push_back(Ref::share(aval.get()));
  return first;
}

// Output `k` of a fragment as the user sees it; `first` is the number of its first new tangent.
Ref output(const Fragment& fragment, std::size_t k, const Results& values, const Givens& given,
           std::size_t first, PyObject* trace, const Line& line) {
  PyObject* aval = fragment.avals[k].get();
  Ref array = array_of(fragment.outputs[k].in(values), aval);
  const std::size_t place = fragment.tangents[k];
  if (!array || place == kNoNumber) return array;
  const std::size_t number =
      place < given.size() ? given[place].number : first + (place - given.size());
  return Ref(new_tracer(trace, array.get(), aval, number, line));
}

Ref outputs_of(const Fragment& fragment, const Results& values, const Givens& given,
               std::size_t first, PyObject* trace, const Line& line) {
  if (fragment.shape == Fragment::Shape::kSingle) {
    return output(fragment, 0, values, given, first, trace, line);
  }
  const auto count = static_cast<Py_ssize_t>(fragment.outputs.size());
  const bool list = fragment.shape == Fragment::Shape::kList;
  Ref all(list ? PyList_New(count) : PyTuple_New(count));
  for (Py_ssize_t k = 0; all && k < count; ++k) {
    Ref made = output(fragment, static_cast<std::size_t>(k), values, given, first, trace, line);
    if (!made) return Ref();
    if (list) {
      PyList_SET_ITEM(all.get(), k, made.release());
    } else {
      PyTuple_SET_ITEM(all.get(), k, made.release());
    }
  }
  return all;
}

Ref tuple_of(const Givens& operands, bool literals) {
  const auto count = static_cast<Py_ssize_t>(operands.size());
  Ref made(PyTuple_New(count));
  for (Py_ssize_t i = 0; made && i < count; ++i) {
    const Given& x = operands[static_cast<std::size_t>(i)];
    PyObject* item = literals ? x.array : x.tangent;
    if (item == nullptr || (literals && !Py_IS_TYPE(item, python.literal))) item = Py_None;
    PyTuple_SET_ITEM(made.get(), i, Py_NewRef(item));
  }
  return made;
}

// Derives the fragment of a primitive; false with an error set. A null one is remembered, too.
bool derive_fragment(PyObject* signature, const Givens& operands, Words words,
                     FragmentPointer& fragment) {
  Words general = words;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (Py_IS_TYPE(operands[i].array, python.literal)) general[2 + i] = 1;
  }
  if (++variants[general] > kMostVariants) return true;
  Ref literals = tuple_of(operands, true), tangents = tuple_of(operands, false);
  if (!literals || !tangents) return false;
  Ref made(PyObject_CallFunctionObjArgs(known.fragment_of, signature, literals.get(),
                                        tangents.get(), nullptr));
  if (!made) return false;
  fragment = read_fragment(made.get());
  if (PyErr_Occurred()) return false;
  if (fragments.size() >= kMostFragments) {
    Fragments dropped;
    std::swap(dropped, fragments);  // for what ends now may run Python
    variants.clear();
  }
  Ref kept(PyTuple_Pack(3, signature, literals.get(), tangents.get()));
  if (!kept) return false;
  Shared<Derived> derived(new Derived);
  derived->fragment = fragment;
  derived->kept = std::move(kept);
  fragments.add(std::move(words), std::move(derived));
  return true;
}

}  // namespace

bool read_places(PyObject* given, std::vector<std::size_t>& places) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    PyObject* x = PyTuple_GET_ITEM(given, i);
    places.push_back(x == Py_None ? kNoNumber : PyLong_AsSize_t(x));
  }
  return !PyErr_Occurred();
}

Ref sum_of(PyObject* x, PyObject* y) {
  return Ref(PyObject_CallFunctionObjArgs(known.add, x, y, nullptr));
}

bool is_tracer(PyObject* x) { return known.trace != nullptr && Py_IS_TYPE(x, known.tracer); }

bool is_tracer_of(PyObject* x, PyObject* trace) {
  return is_tracer(x) && slot(x, known.of_trace) == trace;
}

PyObject* primal_of(PyObject* x) { return is_tracer(x) ? slot(x, known.primal) : x; }

PyObject* aval_of_tracer(PyObject* tracer) { return slot(tracer, known.aval); }

std::size_t tangent_number(PyObject* tracer) {
  return PyLong_AsSize_t(slot(tracer, known.tangent));
}

Ref new_trace(PyObject* name) {
  Ref tape = new_tape();
  Ref trace(known.trace->tp_alloc(known.trace, 0));
  if (!tape || !trace) return Ref();
  slot(trace.get(), known.tape) = tape.release();
  slot(trace.get(), known.alive) = Py_NewRef(Py_True);
  slot(trace.get(), known.direct) = Py_NewRef(Py_True);
  slot(trace.get(), known.name) = Py_NewRef(name);
  slot(trace.get(), known.parent) = Py_NewRef(known.bottom);
  slot(trace.get(), known.seen) = Py_NewRef(Py_None);
  return trace;
}

void end_trace(PyObject* trace) {
  Py_SETREF(slot(trace, known.alive), Py_NewRef(Py_False));
  Py_SETREF(slot(trace, known.seen), Py_NewRef(Py_None));
}

Tape* tape_of(PyObject* trace) { return as_tape(slot(trace, known.tape)); }

Ref new_input(PyObject* trace, PyObject* array) {
  PyObject* aval = signature::aval_of(array);
  auto& avals = tape_of(trace)->written->avals;
  avals.push_back(Ref::share(aval));
  return Ref(new_tracer(trace, array, aval, avals.size() - 1, Line()));
}

bool read_given(PyObject* x, PyObject* trace, Given& given) {
  if (Py_IS_TYPE(x, python.array)) {
    given = {x, nullptr, kNoNumber};
    return true;
  }
  if (!is_tracer(x) || slot(x, known.of_trace) != trace || trace == nullptr) return false;
  PyObject* array = slot(x, known.primal);
  if (!Py_IS_TYPE(array, python.array)) return false;
  const std::size_t number = tangent_number(x);
  const auto& avals = tape_of(trace)->written->avals;
  if (number >= avals.size()) return false;  // the tape has come to its end
  given = {array, avals[number].get(), number};
  return true;
}

FragmentPointer read_fragment(PyObject* given) {
  if (given == Py_None) return {};
  PyObject *constants, *steps, *outputs, *avals, *tangents, *new_tangents, *residuals, *derive;
  const char* shape;
  if (!PyArg_ParseTuple(given, "O!O!O!O!sO!O!O!O", &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &avals, &shape, &PyTuple_Type,
                        &tangents, &PyTuple_Type, &new_tangents, &PyTuple_Type, &residuals,
                        &derive)) {
    return {};
  }
  FragmentPointer made(new Fragment);
  if (!read_steps(constants, steps, made->steps)) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
    StepInput output;
    if (!read_step_input(PyTuple_GET_ITEM(outputs, i), output)) return {};
    made->outputs.push_back(std::move(output));
    made->avals.push_back(Ref::share(PyTuple_GET_ITEM(avals, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(new_tangents); ++i) {
    made->new_tangents.push_back(Ref::share(PyTuple_GET_ITEM(new_tangents, i)));
  }
  if (!read_places(tangents, made->tangents) || !read_places(residuals, made->residuals)) {
    return {};
  }
  made->derive = Ref::share(derive);
  made->shape = *shape == 's'   ? Fragment::Shape::kSingle
                : *shape == 'l' ? Fragment::Shape::kList
                                : Fragment::Shape::kTuple;
  return made;
}

Outcome follow_fragment(const FragmentPointer& fragment, const Givens& given, PyObject* mode,
                        Ref& result) {
  const Ref trace = Ref::share(thread_state::trace());
  PyObject* setting = PyTuple_GET_ITEM(mode, 0);
  Line line;
  if (!user_line(line)) return Outcome::kError;
  Results values;
  values.reserve(given.size() + fragment->steps.constants.size() + fragment->steps.steps.size());
  for (const Given& x : given) {
    const Operand raw = operand_of(x.array, setting);
    if (!raw) return Outcome::kLeft;
    values.push_back(Held(raw));
  }
  if (!run_steps(fragment->steps, line, true, values)) return Outcome::kError;
  const std::size_t first = add_tangents(tape_of(trace.get()), fragment->new_tangents);
  result = outputs_of(*fragment, values, given, first, trace.get(), line);
  if (!result) return Outcome::kError;
  if (fragment->new_tangents.empty()) return Outcome::kDone;
  Written& written = *tape_of(trace.get())->written;
  Entry entry;
  entry.inputs = written.numbers.size();
  for (const Given& x : given) written.numbers.push_back(x.number);
  entry.outputs = written.numbers.size();
  for (std::size_t k = 0; k < fragment->new_tangents.size(); ++k) {
    written.numbers.push_back(first + k);
  }
  entry.end = written.numbers.size();
  entry.residuals = written.residuals.size();
  for (const std::size_t place : fragment->residuals) {
    written.residuals.push_back(Held(values[place]));
  }
  entry.fragment = fragment;
  entry.line = std::move(line);
  written.entries.push_back(std::move(entry));
  return Outcome::kDone;
}

Outcome apply_taped(PyObject* mode, PyObject* signature, const Givens& operands, Ref& result) {
  GrowingArray<std::uintptr_t, 16> words;
  words.push_back(reinterpret_cast<std::uintptr_t>(mode));
  words.push_back(reinterpret_cast<std::uintptr_t>(signature));
  Givens arrays;
  for (const Given& x : operands) {
    const bool literal = Py_IS_TYPE(x.array, python.literal);
    words.push_back(reinterpret_cast<std::uintptr_t>(literal ? x.array : x.tangent));
    if (!literal) arrays.push_back(x);
  }
  const Shared<Derived>* found = fragments.find(WordsView{words.data(), words.size()});
  FragmentPointer fragment;
  if (found != nullptr) {
    fragment = (*found)->fragment;
  } else if (!derive_fragment(signature, operands, Words(words.begin(), words.end()), fragment)) {
    return Outcome::kError;
  }
  return fragment ? follow_fragment(fragment, arrays, mode, result) : Outcome::kLeft;
}

PyObject* configure_tape(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 5 || !PyType_Check(args[0]) || !PyType_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "expected two classes, two functions and an interpreter");
    return nullptr;
  }
  struct {
    PyObject* owner;
    const char* name;
    Py_ssize_t* offset;
  } found[] = {
      {args[0], "tape", &known.tape},       {args[0], "alive", &known.alive},
      {args[0], "direct", &known.direct},   {args[0], "name", &known.name},
      {args[0], "parent", &known.parent},   {args[0], "seen", &known.seen},
      {args[1], "_trace", &known.of_trace}, {args[1], "aval", &known.aval},
      {args[1], "primal", &known.primal},   {args[1], "tangent", &known.tangent},
      {args[1], "line", &known.line},       {args[1], "offset", &known.offset},
  };
  for (const auto& s : found) {
    if (!pytree::find_slot(s.owner, s.name, *s.offset)) return nullptr;
  }
  known.tracer = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[1]));
  const std::size_t slots = 6 + weak_reference_slots(known.tracer);
  if (known.tracer->tp_weaklistoffset == 0 ||
      known.tracer->tp_basicsize !=
          static_cast<Py_ssize_t>(sizeof(PyObject) + slots * sizeof(PyObject*))) {
    PyErr_SetString(PyExc_TypeError, "tracers have other slots than those that are known");
    return nullptr;
  }
  known.tracer->tp_dealloc = destroy;
  known.fragment_of = Py_NewRef(args[2]);
  known.add = Py_NewRef(args[3]);
  known.bottom = Py_NewRef(args[4]);
  known.trace = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
