// See eager_record.h. Start at call_operator and call_bind; both end in record.
//
// Whatever makes a Python object may collect garbage, so run Python, and let another thread compute
// the operands meanwhile and drop what led to them: what is used after that is held.

#include "eager_record.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "eager_state.h"
#include "eager_steps.h"
#include "eager_tape.h"
#include "eager_value.h"
#include "function_type.h"
#include "open_table.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostRemembered = 1 << 14;

constexpr Py_ssize_t kMostOperands = 16;

// Operators of more operations are not remembered.
constexpr std::size_t kMostSteps = 8;

// Records an operation of a known signature. Operands are borrowed, so no Python may run between
// reading them and this: the line is found before.
Outcome record(PyObject* signature, const Operand* operands, std::size_t count, Line&& line,
               Ref& result) {
  PyObject* types = slot(signature, python.of_signature.types);
  if (facts_of(signature).single) {
    Held made = record_single(signature, operands, count, std::move(line));
    if (made) result = array_of(std::move(made), types);
    return result ? Outcome::kDone : Outcome::kError;
  }
  Results results;
  if (!record_node(signature, operands, count, line, results)) return Outcome::kError;
  result = Ref(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (std::size_t i = 0; result && i < results.size(); ++i) {
    const auto place = static_cast<Py_ssize_t>(i);
    Ref array = array_of(results[i], PyTuple_GET_ITEM(types, place));
    if (!array) return Outcome::kError;
    PyList_SET_ITEM(result.get(), place, array.release());
  }
  return result ? Outcome::kDone : Outcome::kError;
}

// ---- primitives ---------------------------------------------------------------------------------

// The signature of an operation on arrays and literals that are operands; null if it is not known.
Ref find_signature(PyObject* primitive, PyObject* setting, const Givens& operands,
                   PyObject* const* values, PyObject* names) {
  const auto count = static_cast<Py_ssize_t>(operands.size());
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  Ref key(PyTuple_New(2 + count + named));
  if (!key) return Ref();
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(primitive));
  PyTuple_SET_ITEM(key.get(), 1, Py_NewRef(setting));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* x = operands[static_cast<std::size_t>(i)].array;
    PyObject* aval =
        Py_IS_TYPE(x, python.array) ? signature::aval_of(x) : slot(x, python.literal_aval);
    if (aval == nullptr) return Ref();
    PyTuple_SET_ITEM(key.get(), 2 + i, Py_NewRef(aval));
  }
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* item = PyTuple_Pack(2, PyTuple_GET_ITEM(names, i), values[i]);
    if (item == nullptr) return Ref();
    PyTuple_SET_ITEM(key.get(), 2 + count + i, item);
  }
  return Ref::share(PyDict_GetItemWithError(python.signatures, key.get()));
}

// What is applied: arrays, tracers of the current tape, and literals, which stand for themselves.
bool read_operands(PyObject* const* args, Py_ssize_t count, Givens& operands, bool& literals,
                   bool& traced) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    Given operand;
    if (Py_IS_TYPE(args[i], python.literal)) {
      operand.array = args[i];
      literals = true;
    } else if (!read_given(args[i], thread_state::trace(), operand)) {
      return false;
    }
    traced = traced || operand.tangent != nullptr;
    operands.push_back(operand);
  }
  return true;
}

// Applies a primitive; `args` are its operands, the values of the parameters behind them.
Outcome apply(PyObject* primitive, PyObject* const* args, Py_ssize_t count, PyObject* names,
              Ref& result) {
  if (python.array == nullptr || count > kMostOperands) return Outcome::kLeft;
  Givens given;
  bool literals = false, traced = false;
  if (!read_operands(args, count, given, literals, traced)) return Outcome::kLeft;
  PyObject* mode = current_mode();
  if (mode == nullptr) return Outcome::kError;
  if (mode == Py_None) return Outcome::kLeft;
  PyObject* setting = PyTuple_GET_ITEM(mode, 0);
  Ref signature = find_signature(primitive, setting, given, args + count, names);
  if (!signature) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (traced) return apply_taped(mode, signature.get(), given, result);
  if (literals && slot(signature.get(), python.of_signature.simplifies) == Py_True) {
    PyObject* all[kMostOperands + 1 + kMostOperands];
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    if (named > kMostOperands) return Outcome::kLeft;
    all[0] = primitive;
    std::memcpy(all + 1, args, sizeof(PyObject*) * (count + named));
    Ref simpler(PyObject_VectorcallMethod(python.simplify_name, all, count + 1, names));
    if (!simpler) return Outcome::kError;
    if (simpler.get() != Py_None) return Outcome::kLeft;
  }
  Line line;
  if (!user_line(line)) return Outcome::kError;
  Operand operands[kMostOperands];
  for (Py_ssize_t i = 0; i < count; ++i) {
    operands[i] = operand_of(args[i], setting);
    if (!operands[i]) return Outcome::kLeft;
  }
  return record(signature.get(), operands, static_cast<std::size_t>(count), std::move(line),
                result);
}

// ---- methods ------------------------------------------------------------------------------------

struct Key {
  PyObject *mode, *left, *right;  // the right one is a type, of arrays or of Python numbers
  std::uint64_t number;
  bool operator==(const Key& other) const {
    return mode == other.mode && left == other.left && right == other.right &&
           number == other.number;
  }
};

struct Hash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = reinterpret_cast<std::uintptr_t>(key.mode);
    for (const std::uint64_t word : {reinterpret_cast<std::uint64_t>(key.left),
                                     reinterpret_cast<std::uint64_t>(key.right), key.number}) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;
      h ^= h >> 32;
    }
    return h;
  }
};

// What an operator records: one operation, with no literal for two arrays, or several, which have
// no signature here. The values that they begin with are the left operand, and the right one if it
// is an array.
struct Recorded {
  Ref signature, literal;
  Steps steps;
  std::size_t output = 0;
  Ref aval;
  mutable std::size_t references = 0;
};
using RecordedPointer = Shared<const Recorded>;
using Table = OpenTable<Key, RecordedPointer, Hash>;

struct Method {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* primitive;  // null for `bind`
  bool reflected;
  Table* known;
};

PyObject* call_bind(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  auto* method = reinterpret_cast<Method*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  Ref result;
  Outcome outcome = Outcome::kLeft;
  if (count > 0 && thread_state::passes_concrete()) {
    outcome = apply(args[0], args + 1, count - 1, names, result);
  }
  return result_or(outcome, result,
                   [&] { return PyObject_Vectorcall(method->function, args, flags, names); });
}

// Whether an operator's operands are of a kind that is remembered, and the key.
bool read_key(PyObject* x, PyObject* y, PyObject* mode, Key& key) {
  key = {mode, signature::aval_of(x), nullptr, 0};
  if (key.left == nullptr) return false;
  if (Py_IS_TYPE(y, python.array)) {
    key.right = signature::aval_of(y);
    return key.right != nullptr;
  }
  key.right = reinterpret_cast<PyObject*>(Py_TYPE(y));
  if (PyFloat_CheckExact(y)) {
    const double value = PyFloat_AS_DOUBLE(y);
    std::memcpy(&key.number, &value, sizeof value);
    return true;
  }
  if (!PyLong_CheckExact(y) && !PyBool_Check(y)) return false;
  int overflow = 0;
  key.number = static_cast<std::uint64_t>(PyLong_AsLongLongAndOverflow(y, &overflow));
  return overflow == 0;
}

void forget(Method* method) {
  Table dropped;
  std::swap(dropped, *method->known);  // for what ends now may run Python
}

// Writes the operations since number `first` that a value comes of as steps, each once; false where
// it comes of anything else than the values that are given.
bool write_steps(const Operand& x, std::int64_t first, std::vector<Operand>& values, Steps& steps) {
  if (std::find(values.begin(), values.end(), x) != values.end()) return true;
  const Node* node = x.producer();
  if (node == nullptr || node->number < first || node->num_results != 1) return false;
  Step step;
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    const Operand& operand = node->operands[i];
    step.operands.emplace_back();
    if (operand.is_literal()) {
      step.operands.back().literal = Ref::share(operand.known());
      continue;
    }
    if (!write_steps(operand, first, values, steps)) return false;
    const auto place = std::find(values.begin(), values.end(), operand);
    step.operands.back().place = static_cast<std::size_t>(place - values.begin());
  }
  step.signature = Ref::share(node->signature);
  steps.steps.push_back(std::move(step));
  values.push_back(x);
  return true;
}

void remember(Method* method, const Key& key, RecordedPointer made) {
  if (method->known->size() >= kMostRemembered) forget(method);
  method->known->add(key, std::move(made));
}

// Remembers several operations that Python recorded since number `first`.
void learn_steps(Method* method, const Key& key, PyObject* x, PyObject* y, PyObject* result,
                 std::int64_t first) {
  std::vector<Operand> values = {operand_in(signature::buffer_of(x))};
  if (Py_IS_TYPE(y, python.array)) values.push_back(operand_in(signature::buffer_of(y)));
  if (values.front() == values.back() && values.size() == 2) return;  // which of the two it is
  auto made = std::make_unique<Recorded>();
  const Operand output = operand_in(signature::buffer_of(result));
  if (!write_steps(output, first, values, made->steps)) return;
  if (made->steps.steps.empty() || made->steps.steps.size() > kMostSteps) return;
  made->output = values.size() - 1;
  made->aval = Ref::share(signature::aval_of(result));
  remember(method, key, RecordedPointer(made.release()));
}

// Whether an operand is what an array holds.
bool is_operand(const Operand& operand, PyObject* array) {
  PyObject* buffer = signature::buffer_of(array);
  return buffer != nullptr && buffer != Py_None && operand == operand_in(buffer);
}

// Remembers what Python recorded for operands since number `first`: this one operation on just
// them, of which a derivative has a fragment, or several.
void learn(Method* method, const Key& key, PyObject* x, PyObject* y, PyObject* given,
           std::int64_t first) {
  PyObject* result = primal_of(given);
  if (!Py_IS_TYPE(result, python.array)) return;
  PyObject* buffer = signature::buffer_of(result);
  if (buffer == nullptr || buffer == Py_None) return;
  const Node* node = operand_in(buffer).producer();
  if (node == nullptr) return;
  const Operand* operands = node->operands;
  PyObject* signature = node->signature;
  Ref primitive(PyObject_GetAttrString(signature, "primitive"));
  if (!primitive) return PyErr_Clear();
  if (primitive.get() != method->primitive || node->num_operands != 2) return;
  const auto several = [&] {
    if (given == result) learn_steps(method, key, x, y, result, first);
  };
  const Operand& left = operands[method->reflected ? 1 : 0];
  const Operand& right = operands[method->reflected ? 0 : 1];
  PyObject* literal = nullptr;
  if (!is_operand(left, x)) return several();
  if (right.is_literal()) {
    literal = right.known();
    if (Py_IS_TYPE(y, python.array)) return;
  } else if (!Py_IS_TYPE(y, python.array) || !is_operand(right, y)) {
    return several();
  }
  auto made = std::make_unique<Recorded>();
  made->signature = Ref::share(signature);
  made->literal = Ref::share(literal);
  remember(method, key, RecordedPointer(made.release()));
}

// Records several operations.
Outcome record_steps(const Recorded& recorded, PyObject* setting, const Given& left,
                     const Given& right, Ref& result) {
  Results values;
  for (const Given& x : {left, right}) {
    if (!Py_IS_TYPE(x.array, python.array)) continue;
    const Operand operand = operand_of(x.array, setting);
    if (!operand) return Outcome::kLeft;
    values.push_back(Held(operand));
  }
  Line line;
  if (!user_line(line) || !run_steps(recorded.steps, line, true, values)) return Outcome::kError;
  result = array_of(values.take(recorded.output), recorded.aval.get());
  return result ? Outcome::kDone : Outcome::kError;
}

// What an operator records for operands that were met before; `right` may be a Python number.
Outcome record_operator(const Method* method, PyObject* mode, const Recorded& recorded,
                        const Given& left, const Given& right, Ref& result) {
  PyObject* literal = recorded.literal.get();
  PyObject* setting = PyTuple_GET_ITEM(mode, 0);
  const bool traced = left.tangent != nullptr || right.tangent != nullptr;
  if (!recorded.signature) {
    return traced ? Outcome::kLeft : record_steps(recorded, setting, left, right, result);
  }
  if (traced) {
    const Given second = literal != nullptr ? Given{literal} : right;
    Givens operands;
    operands.push_back(method->reflected ? second : left);
    operands.push_back(method->reflected ? left : second);
    return apply_taped(mode, recorded.signature.get(), operands, result);
  }
  Line line;
  if (!user_line(line)) return Outcome::kError;
  Operand operands[] = {operand_of(left.array, setting),
                        literal != nullptr ? Operand(literal) : operand_of(right.array, setting)};
  if (!operands[0] || !operands[1]) return Outcome::kLeft;
  if (method->reflected) std::swap(operands[0], operands[1]);
  return record(recorded.signature.get(), operands, 2, std::move(line), result);
}

PyObject* call_operator(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  auto* method = reinterpret_cast<Method*>(self);
  Given left, right;
  if (PyVectorcall_NARGS(flags) != 2 || names != nullptr || python.array == nullptr ||
      !thread_state::passes_concrete() || !read_given(args[0], thread_state::trace(), left)) {
    return PyObject_Vectorcall(method->function, args, flags, names);
  }
  if (!read_given(args[1], thread_state::trace(), right)) right.array = args[1];
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  Key key;
  if (mode == Py_None || !read_key(left.array, right.array, mode, key)) {
    return PyObject_Vectorcall(method->function, args, flags, names);
  }
  const RecordedPointer* found = method->known->find(key);
  if (found == nullptr) {
    const std::int64_t first = next_number();
    PyObject* result = PyObject_Vectorcall(method->function, args, flags, names);
    if (result != nullptr) learn(method, key, left.array, right.array, result, first);
    return result;
  }
  const RecordedPointer recorded = *found;  // others may forget it meanwhile
  Ref result;
  const Outcome outcome = record_operator(method, mode, *recorded, left, right, result);
  return result_or(outcome, result,
                   [&] { return PyObject_Vectorcall(method->function, args, flags, names); });
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *primitive = Py_None;
  int reflected = 0;
  if (!PyArg_ParseTuple(args, "O|Op", &function, &primitive, &reflected)) return nullptr;
  auto* self = reinterpret_cast<Method*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->function = Py_NewRef(function);
  self->primitive = primitive == Py_None ? nullptr : Py_NewRef(primitive);
  self->reflected = reflected != 0;
  self->known = new Table;
  self->call = self->primitive == nullptr ? call_bind : call_operator;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* method = reinterpret_cast<Method*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(method->function);
  Py_VISIT(method->primitive);
  return 0;
}

int clear(PyObject* self) {
  auto* method = reinterpret_cast<Method*>(self);
  Py_CLEAR(method->function);
  Py_CLEAR(method->primitive);
  return 0;
}

void destroy(PyObject* self) {
  auto* method = reinterpret_cast<Method*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  forget(method);
  delete method->known;
  type->tp_free(self);
  Py_DECREF(type);
}

// Its name, its documentation and the like are those of the Python function.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* function = reinterpret_cast<Method*>(self)->function;
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) return Py_NewRef(function);
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
    return PyObject_GenericGetAttr(self, name);
  }
  return PyObject_GetAttr(function, name);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_to)},
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("A method that records operations on concrete arrays.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerMethod", sizeof(Method), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

}  // namespace

PyObject* make_type() { return PyType_FromSpec(&spec); }

namespace {

// Applies a primitive as Python has it: `args` are the primitive, its operands and a dict.
Outcome apply_to(PyObject* const* args, Py_ssize_t count, Ref& result) {
  if (count != 3 || python.array == nullptr || !PyDict_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "expected a primitive, operands and a dict");
    return Outcome::kError;
  }
  PyObject* given[2 * kMostOperands];
  Ref operands(PySequence_Fast(args[1], "operands are a sequence"));
  if (!operands) return Outcome::kError;
  const Py_ssize_t inputs = PySequence_Fast_GET_SIZE(operands.get());
  const Py_ssize_t named = PyDict_GET_SIZE(args[2]);
  if (inputs > kMostOperands || named > kMostOperands) return Outcome::kLeft;
  Ref names(PyTuple_New(named));
  if (!names) return Outcome::kError;
  std::copy_n(PySequence_Fast_ITEMS(operands.get()), inputs, given);
  PyObject *name, *value;
  Py_ssize_t position = 0;
  for (Py_ssize_t k = 0; PyDict_Next(args[2], &position, &name, &value); ++k) {
    PyTuple_SET_ITEM(names.get(), k, Py_NewRef(name));
    given[inputs + k] = value;
  }
  return apply(args[0], given, inputs, names.get(), result);
}

}  // namespace

PyObject* execute(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Ref result;
  const Outcome outcome = apply_to(args, count, result);
  return result_or(outcome, result,
                   [&] { return PyObject_Vectorcall(python.record, args, 3, nullptr); });
}

PyObject* apply_on_tape(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Ref result;
  const Outcome outcome = apply_to(args, count, result);
  return result_or(outcome, result, [] { return Py_NewRef(Py_NotImplemented); });
}

}  // namespace functrax::eager
