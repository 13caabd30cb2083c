// See eager_tape.h: backwards, and the tape itself. Start at backward.

#include <memory>
#include <utility>
#include <vector>

#include "eager_fragment.h"
#include "eager_state.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

struct Cotangent {
  Ref value;  // what nodes hold, or a literal; null for zero
  Ref aval;
};

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
    Operand operand;
    if (!read_operand(value, operand)) return nullptr;
    made->contributions.push_back(
        {static_cast<std::size_t>(position), std::move(operand), Ref::share(aval)});
  }
  made->kept = Ref::share(kept);
  return made;
}

// A cotangent as Python has it, or a residual; null with an error set.
PyObject* as_value(const Cotangent& x) {
  if (!x.value) Py_RETURN_NONE;
  if (Py_IS_TYPE(x.value.get(), python.literal)) return Py_NewRef(x.value.get());
  return signature::new_array(Py_NewRef(x.value.get()), x.aval.get());
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
  x.value = Ref::share(literal ? value : signature::buffer_of(value));
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
  Ref x(as_value(total)), y(as_value(more));
  if (source == nullptr || !x || !y) return false;
  const thread_state::Source as(source);
  Ref sum = sum_of(x.get(), y.get());
  return sum && from_value(sum.get(), total);
}

// A residual as a node may hold it now; null with an error set.
Ref settled(PyObject* raw, PyObject* strict) {
  Ref array(signature::new_array(Py_NewRef(raw), Py_None));
  if (!array) return Ref();
  if (PyObject* operand = operand_of(array.get(), strict); operand != nullptr) {
    return Ref::share(operand);
  }
  return Ref(PyObject_GetAttrString(array.get(), "buffer"));
}

using Cotangents = std::vector<Cotangent>;

// An entry that Python put on the tape.
bool pull(const Entry& entry, Cotangents& cts) {
  const auto outputs = static_cast<Py_ssize_t>(entry.outputs.size());
  const auto inputs = static_cast<Py_ssize_t>(entry.inputs.size());
  Ref given(PyList_New(outputs)), so_far(PyList_New(inputs));
  if (!given || !so_far) return false;
  for (Py_ssize_t i = 0; i < outputs; ++i) {
    const Cotangent ct = std::move(cts[entry.outputs[static_cast<std::size_t>(i)]]);
    PyObject* value = as_value(ct);
    if (value == nullptr) return false;
    PyList_SET_ITEM(given.get(), i, value);
  }
  for (Py_ssize_t i = 0; i < inputs; ++i) {
    PyObject* value = as_value(cts[entry.inputs[static_cast<std::size_t>(i)]]);
    if (value == nullptr) return false;
    PyList_SET_ITEM(so_far.get(), i, value);
  }
  Ref found(PyObject_CallFunctionObjArgs(entry.pull.get(), given.get(), so_far.get(), nullptr));
  if (!found) return false;
  if (!PyList_Check(found.get()) || PyList_GET_SIZE(found.get()) != inputs) {
    PyErr_SetString(PyExc_SystemError, "an entry gave another number of cotangents");
    return false;
  }
  for (Py_ssize_t i = 0; i < inputs; ++i) {
    Cotangent& ct = cts[entry.inputs[static_cast<std::size_t>(i)]];
    if (!from_value(PyList_GET_ITEM(found.get(), i), ct)) return false;
  }
  return true;
}

// How the cotangents of an entry's operands follow from those of its results; null with an error.
std::shared_ptr<Backward> backward_of(Entry& entry, PyObject* mode,
                                      const std::vector<Cotangent>& given) {
  Fragment& fragment = *entry.fragment;
  Words words = {reinterpret_cast<std::uintptr_t>(mode)};
  for (const Cotangent& ct : given) {
    const bool literal = ct.value && Py_IS_TYPE(ct.value.get(), python.literal);
    words.push_back(reinterpret_cast<std::uintptr_t>(literal ? ct.value.get() : ct.aval.get()));
  }
  const auto found = fragment.backward.find(words);
  if (found != fragment.backward.end()) return found->second;
  Ref kinds(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  if (!kinds) return nullptr;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool literal = given[i].value && Py_IS_TYPE(given[i].value.get(), python.literal);
    PyObject* kind = literal ? given[i].value.get() : given[i].aval ? given[i].aval.get() : Py_None;
    PyTuple_SET_ITEM(kinds.get(), static_cast<Py_ssize_t>(i), Py_NewRef(kind));
  }
  PyObject* source = entry.line.object();
  if (source == nullptr) return nullptr;
  const thread_state::Source as(source);
  Ref derived(PyObject_CallOneArg(fragment.derive.get(), kinds.get()));
  if (!derived) return nullptr;
  std::shared_ptr<Backward> made = read_backward(derived.get(), kinds.get());
  if (made && fragment.backward.size() < kMostVariants) {
    fragment.backward.try_emplace(std::move(words), made);
  }
  return made;
}

bool transpose(Entry& entry, PyObject* mode, Cotangents& cts) {
  std::vector<Cotangent> given;
  bool any = false;
  for (const std::size_t number : entry.outputs) {
    given.push_back(std::move(cts[number]));
    any = any || given.back().value;
  }
  if (!any) return true;
  if (!entry.fragment) {
    for (std::size_t i = 0; i < given.size(); ++i) cts[entry.outputs[i]] = std::move(given[i]);
    return pull(entry, cts);
  }
  const std::shared_ptr<Backward> rule = backward_of(entry, mode, given);
  if (!rule) return false;
  const bool records = mode != Py_None;
  Results values;
  for (const Ref& residual : entry.residuals) {
    values.push_back(records ? settled(residual.get(), PyTuple_GET_ITEM(mode, 0))
                             : Ref::share(residual.get()));
    if (!values.back()) return false;
  }
  for (Cotangent& ct : given) {
    if (!ct.value || Py_IS_TYPE(ct.value.get(), python.literal)) continue;
    values.push_back(std::move(ct.value));
  }
  if (!run_steps(rule->steps, entry.line, records, values)) return false;
  for (const auto& contribution : rule->contributions) {
    Cotangent more = {Ref::share(contribution.value.in(values)),
                      Ref::share(contribution.aval.get())};
    Cotangent& total = cts[entry.inputs[contribution.position]];
    if (!accumulate(total, std::move(more), entry.line)) return false;
  }
  return true;
}

// ---- the type -----------------------------------------------------------------------------------

// backward(number, ct, count) -> the cotangents of the first tangents, or None, given that of one.
PyObject* backward(PyObject* self, PyObject* args) {
  Py_ssize_t number, count;
  PyObject* ct;
  if (!PyArg_ParseTuple(args, "nOn", &number, &ct, &count)) return nullptr;
  std::vector<Entry> entries = std::move(*as_tape(self)->entries);
  as_tape(self)->entries->clear();
  Cotangents cts(as_tape(self)->avals->size());
  if (static_cast<std::size_t>(number) >= cts.size() ||
      static_cast<std::size_t>(count) > cts.size()) {
    PyErr_SetString(PyExc_ValueError, "the tape has no such tangent");
    return nullptr;
  }
  if (!from_value(ct, cts[static_cast<std::size_t>(number)])) return nullptr;
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!transpose(*entry, mode, cts)) return nullptr;
  }
  Ref found(PyList_New(count));
  for (Py_ssize_t i = 0; found && i < count; ++i) {
    PyObject* value = as_value(cts[static_cast<std::size_t>(i)]);
    if (value == nullptr) return nullptr;
    PyList_SET_ITEM(found.get(), i, value);
  }
  return found.release();
}

// new_tangent(aval) -> its number.
PyObject* new_tangent(PyObject* self, PyObject* aval) {
  auto& avals = *as_tape(self)->avals;
  avals.push_back(Ref::share(aval));
  return PyLong_FromSize_t(avals.size() - 1);
}

// aval_of(number) -> the type of a tangent.
PyObject* tangent_type(PyObject* self, PyObject* given) {
  const std::size_t number = PyLong_AsSize_t(given);
  const auto& avals = *as_tape(self)->avals;
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
  Entry entry;
  entry.pull = Ref::share(pull);
  if (!read_places(inputs, entry.inputs) || !read_places(outputs, entry.outputs)) return nullptr;
  as_tape(self)->entries->push_back(std::move(entry));
  Py_RETURN_NONE;
}

PyObject* clear_tape(PyObject* self, PyObject*) {
  std::vector<Entry> entries;
  std::vector<Ref> avals;
  entries.swap(*as_tape(self)->entries);  // for what ends now may run Python
  avals.swap(*as_tape(self)->avals);
  Py_RETURN_NONE;
}

PyObject* construct(PyTypeObject* type, PyObject*, PyObject*) {
  Tape* self = as_tape(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->entries = new std::vector<Entry>;
  self->avals = new std::vector<Ref>;
  return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Ref(clear_tape(self, nullptr));
  delete as_tape(self)->entries;
  delete as_tape(self)->avals;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"new_tangent", new_tangent, METH_O, "The number of a new tangent of a type."},
    {"tangent_type", tangent_type, METH_O, "The type of a tangent."},
    {"add_entry", add_entry, METH_VARARGS, "Add an entry of Python's."},
    {"backward", backward, METH_VARARGS, "Cotangents of the first tangents; the tape is used up."},
    {"clear", clear_tape, METH_NOARGS, "Forget everything."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("What a function did with what depends on its arguments.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerTape", sizeof(Tape), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyObject* make_tape_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::eager
