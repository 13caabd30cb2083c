// See eager_record.h. Start at call_operator and call_bind; both end in record.

#define PY_SSIZE_T_CLEAN
#include "eager_record.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pytree.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager_record {
namespace {

constexpr std::size_t kMostRemembered = 1 << 14;
constexpr Py_ssize_t kMostOperands = 16;

// What Python told: classes, the offsets of their slots, and functions.
struct {
  PyTypeObject *array = nullptr, *node, *part, *literal, *borrowed, *source_line;
  struct {
    Py_ssize_t signature, operands, source, size, begin, region, value, parts;
  } of_node;
  struct {
    Py_ssize_t node, value;
  } of_part;
  struct {
    Py_ssize_t code, offset;
  } of_source;
  struct {
    Py_ssize_t types, strict, holds, simplifies, literals_are_inputs, avals, counts;
  } of_signature;
  Py_ssize_t literal_aval, literal_val, region_next;
  PyObject *signatures, *mode, *hold, *region_class, *is_internal, *user_line, *scopes, *record;
  PyObject *simplify_name, *name_name, *merge_name;
  long most_nodes;
} python;

std::int64_t counter = 0;

PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

struct Mode {
  PyObject* value;  // None where operations are not recorded, else (strict, context)
  std::uint64_t epoch;
};
thread_local Mode local_mode = {};

// What decides how operations are recorded now; null with an error set.
PyObject* current_mode() {
  const std::uint64_t epoch = thread_state::epoch();
  if (local_mode.epoch == epoch) return local_mode.value;
  PyObject* mode = PyObject_CallNoArgs(python.mode);  // Python keeps all of them
  if (mode == nullptr) return nullptr;
  Py_DECREF(mode);
  local_mode = {mode, epoch};
  return mode;
}

// ---- the user's line ----------------------------------------------------------------------------

// Whether a frame is one of functrax's own; -1 with an error set.
int is_internal(PyObject* code) {
  static std::unordered_map<PyObject*, bool> known;  // keeps the code alive
  const auto found = known.find(code);
  if (found != known.end()) return found->second;
  Ref answer(PyObject_CallOneArg(python.is_internal, code));
  if (!answer) return -1;
  const bool internal = answer.get() == Py_True;
  if (known.size() < kMostRemembered) known.emplace(Py_NewRef(code), internal);
  return internal;
}

Ref user_line() {
  if (PyObject* given = thread_state::source(); given != nullptr && given != Py_None) {
    return Ref::share(given);
  }
#if PY_VERSION_HEX >= 0x030B0000
  Ref scope(PyObject_GetAttr(python.scopes, python.name_name));
  if (!scope) return Ref();
  if (PyUnicode_GET_LENGTH(scope.get()) != 0) return Ref(PyObject_CallNoArgs(python.user_line));
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    Ref held(reinterpret_cast<PyObject*>(frame));
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const int internal = is_internal(code.get());
    if (internal < 0) return Ref();
    if (internal == 0) {
      Ref offset(PyLong_FromLong(PyFrame_GetLasti(frame)));
      Ref line(python.source_line->tp_alloc(python.source_line, 0));
      if (!line || !offset) return Ref();
      slot(line.get(), python.of_source.code) = code.release();
      slot(line.get(), python.of_source.offset) = offset.release();
      return line;
    }
    frame = PyFrame_GetBack(frame);
  }
  return Ref::share(Py_None);
#else
  return Ref(PyObject_CallNoArgs(python.user_line));
#endif
}

// ---- recording ----------------------------------------------------------------------------------

enum class Outcome { kDone, kLeft, kError };  // kLeft: Python has to do it

// The operation that has to run for an operand of a node; null if it is known.
PyObject* producer_of(PyObject* x) {
  if (Py_IS_TYPE(x, python.node)) return slot(x, python.of_node.value) == Py_None ? x : nullptr;
  if (!Py_IS_TYPE(x, python.part) || slot(x, python.of_part.value) != Py_None) return nullptr;
  PyObject* node = slot(x, python.of_part.node);
  return node == Py_None ? nullptr : node;
}

// An operand as a node holds it; null if Python has to see to it.
PyObject* operand_of(PyObject* x, PyObject* strict) {
  if (!Py_IS_TYPE(x, python.array)) return x;  // a literal
  PyObject* raw = signature::buffer_of(x);
  if (raw == nullptr || raw == Py_None || Py_IS_TYPE(raw, python.borrowed)) return nullptr;
  const bool is_node = Py_IS_TYPE(raw, python.node);
  if (!is_node && !Py_IS_TYPE(raw, python.part)) return raw;
  if (PyObject* node = producer_of(raw); node != nullptr) {
    PyObject* recorded = slot(node, python.of_node.signature);
    return slot(recorded, python.of_signature.strict) == strict ? raw : nullptr;
  }
  PyObject* value = slot(raw, is_node ? python.of_node.value : python.of_part.value);
  if (value == Py_None || PyTuple_Check(value)) return nullptr;
  signature::buffer_of(x) = Py_NewRef(value);
  Py_DECREF(raw);
  return value;
}

PyObject* region_of(PyObject* node) {
  PyObject*& region = slot(node, python.of_node.region);
  if (region != Py_None) return region;
  PyObject* made = PyObject_CallOneArg(python.region_class, slot(node, python.of_node.signature));
  if (made == nullptr) return nullptr;
  Py_SETREF(region, made);
  return made;
}

struct Extent {
  std::int64_t size = 0, begin;
  PyObject* region = nullptr;  // borrowed
};

// What has to run for a new operation, as `_extent` of eager.py.
Outcome extent_of(PyObject* const* operands, Py_ssize_t count, Extent& extent) {
  const std::int64_t number = counter++;
  extent.begin = number;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* node = producer_of(operands[i]);
    if (node == nullptr) continue;
    PyObject* region = region_of(node);
    if (region == nullptr) return Outcome::kError;
    extent.size += PyLong_AsLongLong(slot(node, python.of_node.size));
    const std::int64_t begin = PyLong_AsLongLong(slot(node, python.of_node.begin));
    if (begin < extent.begin) extent.begin = begin;
    if (extent.region == nullptr) {
      extent.region = region;
    } else if (extent.region != region) {
      Ref merged(PyObject_CallMethodOneArg(extent.region, python.merge_name, region));
      if (!merged) return Outcome::kError;
    }
  }
  if (extent.region == nullptr) {
    extent.size = 1;
    return Outcome::kDone;
  }
  if (extent.size > number - extent.begin) extent.size = number - extent.begin;
  ++extent.size;
  if (extent.size <= python.most_nodes / 2) return Outcome::kDone;
  const std::int64_t next = PyLong_AsLongLong(slot(extent.region, python.region_next));
  return number < next ? Outcome::kDone : Outcome::kLeft;
}

// Records an operation of a known signature; `operands` are as nodes hold them.
Outcome record(PyObject* signature, PyObject* const* operands, Py_ssize_t count, Ref& result) {
  PyObject* types = slot(signature, python.of_signature.types);
  if (PyTuple_Check(types)) return Outcome::kLeft;
  Ref held(PyTuple_New(count));
  if (!held) return Outcome::kError;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(held.get(), i, Py_NewRef(operands[i]));
  }
  Extent extent;
  const Outcome bounded = extent_of(operands, count, extent);
  if (bounded != Outcome::kDone) return bounded;
  Ref line = user_line();
  Ref size(PyLong_FromLongLong(extent.size)), begin(PyLong_FromLongLong(extent.begin));
  Ref parts(PyTuple_New(0));
  Ref node(python.node->tp_alloc(python.node, 0));
  if (!line || !size || !begin || !parts || !node) return Outcome::kError;
  const auto& at = python.of_node;
  PyObject* made = node.get();
  slot(made, at.signature) = Py_NewRef(signature);
  slot(made, at.operands) = held.release();
  slot(made, at.source) = line.release();
  slot(made, at.size) = size.release();
  slot(made, at.begin) = begin.release();
  slot(made, at.region) = Py_NewRef(extent.region == nullptr ? Py_None : extent.region);
  slot(made, at.value) = Py_NewRef(Py_None);
  slot(made, at.parts) = parts.release();
  const bool holds = slot(signature, python.of_signature.holds) == Py_True;
  result = Ref(signature::new_array(node.release(), types));
  if (!result) return Outcome::kError;
  if (holds && !Ref(PyObject_CallOneArg(python.hold, made))) return Outcome::kError;
  return Outcome::kDone;
}

// ---- primitives ---------------------------------------------------------------------------------

Ref find_signature(PyObject* primitive, PyObject* strict, PyObject* const* args, Py_ssize_t count,
                   PyObject* const* values, PyObject* names) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  Ref key(PyTuple_New(2 + count + named));
  if (!key) return Ref();
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(primitive));
  PyTuple_SET_ITEM(key.get(), 1, Py_NewRef(strict));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* aval = Py_IS_TYPE(args[i], python.array) ? signature::aval_of(args[i])
                                                       : slot(args[i], python.literal_aval);
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

// Applies a primitive; `args` are its operands, the values of the parameters behind them.
Outcome apply(PyObject* primitive, PyObject* const* args, Py_ssize_t count, PyObject* names,
              Ref& result) {
  if (python.array == nullptr || count > kMostOperands) return Outcome::kLeft;
  bool literals = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (Py_IS_TYPE(args[i], python.array)) continue;
    if (!Py_IS_TYPE(args[i], python.literal)) return Outcome::kLeft;
    literals = true;
  }
  PyObject* mode = current_mode();
  if (mode == nullptr) return Outcome::kError;
  if (mode == Py_None) return Outcome::kLeft;
  PyObject* strict = PyTuple_GET_ITEM(mode, 0);
  Ref signature = find_signature(primitive, strict, args, count, args + count, names);
  if (!signature) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (literals && slot(signature.get(), python.of_signature.simplifies) == Py_True) {
    PyObject* given[kMostOperands + 1 + kMostOperands];
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    if (named > kMostOperands) return Outcome::kLeft;
    given[0] = primitive;
    std::memcpy(given + 1, args, sizeof(PyObject*) * (count + named));
    Ref simpler(PyObject_VectorcallMethod(python.simplify_name, given, count + 1, names));
    if (!simpler) return Outcome::kError;
    if (simpler.get() != Py_None) return Outcome::kLeft;
  }
  PyObject* operands[kMostOperands];
  for (Py_ssize_t i = 0; i < count; ++i) {
    operands[i] = operand_of(args[i], strict);
    if (operands[i] == nullptr) return Outcome::kLeft;
  }
  return record(signature.get(), operands, count, result);
}

// ---- running ------------------------------------------------------------------------------------

// Programs by what they are made of: signatures, wiring, literals that are not inputs, outputs.
using Words = std::vector<std::uintptr_t>;

struct WordsHash {
  std::size_t operator()(const Words& words) const {
    std::uint64_t h = words.size();
    for (const std::uintptr_t word : words) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return h;
  }
};

// Owned: the program, and the objects whose addresses are in the words.
struct Program {
  PyObject *executable, *kept;
};

std::unordered_map<Words, Program, WordsHash> programs;

// What has to run for one operation, as eager_graph.cut has it. References are held to the nodes,
// so it must not outlive the GIL being held.
struct Cut {
  std::vector<PyObject*> nodes;   // owned
  std::vector<PyObject*> inputs;  // borrowed
  std::vector<PyObject*> outputs; // borrowed: nodes
  Words words;

  ~Cut() {
    for (PyObject* node : nodes) Py_DECREF(node);
  }
};

constexpr std::size_t kMostNodes = 1024;

// The operations that have to run for `root`, each after its operands; false: Python's business.
bool collect(PyObject* root, Cut& cut, std::unordered_map<PyObject*, int>& places) {
  std::vector<PyObject*> stack = {root};
  while (!stack.empty()) {
    PyObject* node = stack.back();
    if (places.count(node) != 0) {
      stack.pop_back();
      continue;
    }
    PyObject* signature = slot(node, python.of_node.signature);
    if (slot(signature, python.of_signature.counts) != Py_True) return false;
    PyObject* operands = slot(node, python.of_node.operands);
    const std::size_t before = stack.size();
    for (Py_ssize_t i = PyTuple_GET_SIZE(operands) - 1; i >= 0; --i) {
      PyObject* x = PyTuple_GET_ITEM(operands, i);
      if (Py_IS_TYPE(x, python.part)) return false;
      PyObject* producer = producer_of(x);
      if (producer != nullptr && places.count(producer) == 0) stack.push_back(producer);
    }
    if (stack.size() != before) continue;
    stack.pop_back();
    places.emplace(node, static_cast<int>(cut.nodes.size()));
    cut.nodes.push_back(Py_NewRef(node));
    if (cut.nodes.size() > kMostNodes) return false;
  }
  return true;
}

// Numbers operands and inputs, and finds what is held outside.
void wire(Cut& cut, const std::unordered_map<PyObject*, int>& places, PyObject* root) {
  std::vector<Py_ssize_t> uses(cut.nodes.size(), 0);
  std::unordered_map<PyObject*, std::vector<std::pair<PyObject*, int>>> known;
  for (PyObject* node : cut.nodes) {
    PyObject* signature = slot(node, python.of_node.signature);
    PyObject* operands = slot(node, python.of_node.operands);
    PyObject* avals = slot(signature, python.of_signature.avals);
    const bool numbers = slot(signature, python.of_signature.literals_are_inputs) == Py_True;
    cut.words.push_back(reinterpret_cast<std::uintptr_t>(signature));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
      PyObject* x = PyTuple_GET_ITEM(operands, i);
      if (Py_IS_TYPE(x, python.literal)) {
        if (numbers) {
          cut.inputs.push_back(slot(x, python.literal_val));
          cut.words.push_back(2 * cut.inputs.size() + 1);
        } else {
          cut.words.push_back(reinterpret_cast<std::uintptr_t>(x));
        }
        continue;
      }
      if (Py_IS_TYPE(x, python.node)) {
        if (slot(x, python.of_node.value) == Py_None) {
          const int place = places.at(x);
          ++uses[place];
          cut.words.push_back(2 * static_cast<std::uintptr_t>(place));
          continue;
        }
        x = slot(x, python.of_node.value);
      }
      PyObject* aval = PyTuple_GET_ITEM(avals, i);
      auto& numbers_of = known[x];
      int found = -1;
      for (const auto& [type, number] : numbers_of) {
        if (type == aval) found = number;
      }
      if (found < 0) {
        cut.inputs.push_back(x);
        found = static_cast<int>(cut.inputs.size());
        numbers_of.emplace_back(aval, found);
      }
      cut.words.push_back(2 * static_cast<std::uintptr_t>(found) + 1);
    }
  }
  cut.words.push_back(0);
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* node = cut.nodes[n];
    if (node != root && Py_REFCNT(node) - 1 <= uses[n]) continue;
    cut.outputs.push_back(node);
    cut.words.push_back(2 * n);
  }
}

// A cut for Python: its words, the number of its inputs, the places of its outputs, and the objects
// whose addresses are in the words.
PyObject* description(const Cut& cut, const std::unordered_map<PyObject*, int>& places) {
  Ref outputs(PyList_New(0)), kept(PyList_New(0));
  if (!outputs || !kept) return nullptr;
  for (PyObject* node : cut.outputs) {
    Ref number(PyLong_FromLong(places.at(node)));
    if (!number || PyList_Append(outputs.get(), number.get()) != 0) return nullptr;
  }
  for (PyObject* node : cut.nodes) {
    PyObject* operands = slot(node, python.of_node.operands);
    if (PyList_Append(kept.get(), slot(node, python.of_node.signature)) != 0) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
      PyObject* x = PyTuple_GET_ITEM(operands, i);
      if (Py_IS_TYPE(x, python.literal) && PyList_Append(kept.get(), x) != 0) return nullptr;
    }
  }
  const auto size = static_cast<Py_ssize_t>(cut.words.size() * sizeof(std::uintptr_t));
  return Py_BuildValue("(y#nOO)", reinterpret_cast<const char*>(cut.words.data()), size,
                       static_cast<Py_ssize_t>(cut.inputs.size()), outputs.get(), kept.get());
}

// Runs what a node needs, and returns True, if the program is known; else what it is made of, or
// False where Python alone can tell; null with an error set.
PyObject* run_known(PyObject* root) {
  Cut cut;
  std::unordered_map<PyObject*, int> places;
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  if (mode == Py_None || !collect(root, cut, places)) Py_RETURN_FALSE;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(mode));
  wire(cut, places, root);
  const auto found = programs.find(cut.words);
  if (found == programs.end()) return description(cut, places);
  Ref executable = Ref::share(found->second.executable);
  Ref values(PyList_New(static_cast<Py_ssize_t>(cut.inputs.size())));
  if (!values) return nullptr;
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    PyList_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(cut.inputs[i]));
  }
  Ref results(PyObject_CallOneArg(executable.get(), values.get()));
  if (!results) return nullptr;
  if (!PyList_Check(results.get()) ||
      PyList_GET_SIZE(results.get()) != static_cast<Py_ssize_t>(cut.outputs.size())) {
    PyErr_SetString(PyExc_SystemError, "a recorded program has other results than its cut");
    return nullptr;
  }
  for (std::size_t i = 0; i < cut.outputs.size(); ++i) {
    PyObject*& value = slot(cut.outputs[i], python.of_node.value);
    if (value != Py_None) continue;  // another thread was faster, with the same bits
    PyObject* result = PyList_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
    value = Py_NewRef(result);
    Py_DECREF(Py_None);
    PyObject* operands = slot(cut.outputs[i], python.of_node.operands);
    slot(cut.outputs[i], python.of_node.operands) = PyTuple_New(0);
    Py_DECREF(operands);
  }
  Py_RETURN_TRUE;
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

// What an operator records: owned references; no literal for two arrays.
struct Recorded {
  PyObject *signature, *literal;
};

struct Method {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* function;
  PyObject* primitive;  // null for `bind`
  bool reflected;
  std::unordered_map<Key, Recorded, Hash>* known;
};

PyObject* call_bind(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  auto* method = reinterpret_cast<Method*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  Ref result;
  if (count > 0 && thread_state::evaluates()) {
    switch (apply(args[0], args + 1, count - 1, names, result)) {
      case Outcome::kDone:
        return result.release();
      case Outcome::kError:
        return nullptr;
      case Outcome::kLeft:
        break;
    }
  }
  return PyObject_Vectorcall(method->function, args, flags, names);
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
  for (auto& [key, value] : *method->known) {
    Py_DECREF(value.signature);
    Py_XDECREF(value.literal);
  }
  method->known->clear();
}

// Remembers what Python recorded for operands, where it is this one operation on just them.
void learn(Method* method, const Key& key, PyObject* x, PyObject* y, PyObject* result) {
  if (!Py_IS_TYPE(result, python.array)) return;
  PyObject* node = signature::buffer_of(result);
  if (node == nullptr || !Py_IS_TYPE(node, python.node)) return;
  PyObject* operands = slot(node, python.of_node.operands);
  PyObject* signature = slot(node, python.of_node.signature);
  Ref primitive(PyObject_GetAttrString(signature, "primitive"));
  if (!primitive) return PyErr_Clear();
  if (primitive.get() != method->primitive || PyTuple_GET_SIZE(operands) != 2) return;
  PyObject* left = PyTuple_GET_ITEM(operands, method->reflected ? 1 : 0);
  PyObject* right = PyTuple_GET_ITEM(operands, method->reflected ? 0 : 1);
  PyObject* literal = nullptr;
  if (left != signature::buffer_of(x)) return;
  if (Py_IS_TYPE(right, python.literal)) {
    literal = right;
    if (Py_IS_TYPE(y, python.array)) return;
  } else if (!Py_IS_TYPE(y, python.array) || right != signature::buffer_of(y)) {
    return;
  }
  if (method->known->size() >= kMostRemembered) forget(method);
  const Recorded made = {Py_NewRef(signature), Py_XNewRef(literal)};
  const auto [place, added] = method->known->try_emplace(key, made);
  if (!added) {
    Py_DECREF(made.signature);
    Py_XDECREF(made.literal);
  }
}

PyObject* call_operator(PyObject* self, PyObject* const* args, std::size_t flags,
                        PyObject* names) {
  auto* method = reinterpret_cast<Method*>(self);
  if (PyVectorcall_NARGS(flags) != 2 || names != nullptr || python.array == nullptr ||
      !Py_IS_TYPE(args[0], python.array) || !thread_state::evaluates()) {
    return PyObject_Vectorcall(method->function, args, flags, names);
  }
  PyObject *x = args[0], *y = args[1];
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  Key key;
  if (mode == Py_None || !read_key(x, y, mode, key)) {
    return PyObject_Vectorcall(method->function, args, flags, names);
  }
  const auto found = method->known->find(key);
  if (found == method->known->end()) {
    PyObject* result = PyObject_Vectorcall(method->function, args, flags, names);
    if (result != nullptr) learn(method, key, x, y, result);
    return result;
  }
  const Recorded known = found->second;
  PyObject* strict = PyTuple_GET_ITEM(mode, 0);
  PyObject* left = operand_of(x, strict);
  PyObject* right = known.literal != nullptr ? known.literal : operand_of(y, strict);
  Ref result;
  Outcome outcome = Outcome::kLeft;
  if (left != nullptr && right != nullptr) {
    PyObject* operands[] = {method->reflected ? right : left, method->reflected ? left : right};
    const Ref kept = Ref::share(known.signature), literal = Ref::share(known.literal);
    outcome = record(kept.get(), operands, 2, result);
  }
  if (outcome == Outcome::kDone) return result.release();
  if (outcome == Outcome::kError) return nullptr;
  return PyObject_Vectorcall(method->function, args, flags, names);
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
  self->known = new std::unordered_map<Key, Recorded, Hash>;
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

PyObject* bind_to(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
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

PyTypeObject* class_at(PyObject* classes, Py_ssize_t n) {
  return reinterpret_cast<PyTypeObject*>(Py_NewRef(PyTuple_GET_ITEM(classes, n)));
}

struct Slot {
  Py_ssize_t owner;
  const char* name;
  Py_ssize_t* offset;
};

}  // namespace

PyObject* make_type() { return PyType_FromSpec(&spec); }

PyObject* execute(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || python.array == nullptr || !PyDict_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "expected a primitive, operands and a dict");
    return nullptr;
  }
  PyObject* given[2 * kMostOperands];
  Ref operands(PySequence_Fast(args[1], "operands are a sequence"));
  if (!operands) return nullptr;
  const Py_ssize_t inputs = PySequence_Fast_GET_SIZE(operands.get());
  const Py_ssize_t named = PyDict_GET_SIZE(args[2]);
  Ref result;
  Outcome outcome = Outcome::kLeft;
  if (inputs <= kMostOperands && named <= kMostOperands) {
    Ref names(PyTuple_New(named));
    if (!names) return nullptr;
    std::memcpy(given, PySequence_Fast_ITEMS(operands.get()), sizeof(PyObject*) * inputs);
    PyObject *name, *value;
    Py_ssize_t position = 0;
    for (Py_ssize_t k = 0; PyDict_Next(args[2], &position, &name, &value); ++k) {
      PyTuple_SET_ITEM(names.get(), k, Py_NewRef(name));
      given[inputs + k] = value;
    }
    outcome = apply(args[0], given, inputs, names.get(), result);
  }
  if (outcome == Outcome::kDone) return result.release();
  if (outcome == Outcome::kError) return nullptr;
  return PyObject_Vectorcall(python.record, args, 3, nullptr);
}

PyObject* run(PyObject*, PyObject* root) {
  if (python.array == nullptr || !Py_IS_TYPE(root, python.node)) Py_RETURN_FALSE;
  return run_known(root);
}

PyObject* forget_programs(PyObject*, PyObject*) {
  std::unordered_map<Words, Program, WordsHash> dropped;
  dropped.swap(programs);
  for (auto& [words, program] : dropped) {
    Py_DECREF(program.executable);
    Py_DECREF(program.kept);
  }
  Py_RETURN_NONE;
}

PyObject* remember(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != 4 ||
      !PyBytes_Check(PyTuple_GET_ITEM(args[0], 0))) {
    PyErr_SetString(PyExc_TypeError, "expected what eager_run returned, and a program");
    return nullptr;
  }
  PyObject* bytes = PyTuple_GET_ITEM(args[0], 0);
  Words words(PyBytes_GET_SIZE(bytes) / sizeof(std::uintptr_t));
  std::memcpy(words.data(), PyBytes_AS_STRING(bytes), words.size() * sizeof(std::uintptr_t));
  if (programs.size() >= kMostRemembered) Ref(forget_programs(nullptr, nullptr));
  PyObject* kept = PyTuple_GET_ITEM(args[0], 3);
  if (programs.try_emplace(std::move(words), Program{args[1], kept}).second) {
    Py_INCREF(args[1]);
    Py_INCREF(kept);
  }
  Py_RETURN_NONE;
}

PyObject* now(PyObject*, PyObject*) { return PyLong_FromLongLong(counter++); }

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != 8 ||
      !PyDict_Check(args[1]) || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) != 6) {
    PyErr_SetString(PyExc_TypeError, "expected 8 classes, a dict, 6 functions and a number");
    return nullptr;
  }
  auto& p = python;
  const Slot found[] = {
      {1, "signature", &p.of_node.signature}, {1, "operands", &p.of_node.operands},
      {1, "source", &p.of_node.source},       {1, "size", &p.of_node.size},
      {1, "begin", &p.of_node.begin},         {1, "region", &p.of_node.region},
      {1, "value", &p.of_node.value},         {1, "parts", &p.of_node.parts},
      {2, "node", &p.of_part.node},           {2, "value", &p.of_part.value},
      {3, "aval", &p.literal_aval},           {5, "code", &p.of_source.code},
      {5, "offset", &p.of_source.offset},     {6, "types", &p.of_signature.types},
      {6, "strict", &p.of_signature.strict},  {6, "holds", &p.of_signature.holds},
      {6, "simplifies", &p.of_signature.simplifies},
      {6, "literals_are_inputs", &p.of_signature.literals_are_inputs},
      {6, "avals", &p.of_signature.avals},    {6, "counts", &p.of_signature.counts},
      {3, "val", &p.literal_val},             {7, "next_count", &p.region_next},
  };
  for (const Slot& s : found) {
    if (!pytree::find_slot(PyTuple_GET_ITEM(args[0], s.owner), s.name, *s.offset)) return nullptr;
  }
  if (!signature::set_array_class(PyTuple_GET_ITEM(args[0], 0))) return nullptr;
  p.most_nodes = PyLong_AsLong(args[3]);
  if (PyErr_Occurred()) return nullptr;
  p.node = class_at(args[0], 1);
  p.part = class_at(args[0], 2);
  p.literal = class_at(args[0], 3);
  p.borrowed = class_at(args[0], 4);
  p.source_line = class_at(args[0], 5);
  p.region_class = Py_NewRef(PyTuple_GET_ITEM(args[0], 7));
  p.signatures = Py_NewRef(args[1]);
  PyObject** functions[] = {&p.mode, &p.hold, &p.is_internal, &p.user_line, &p.scopes,
                             &p.record};
  for (Py_ssize_t i = 0; i < 6; ++i) *functions[i] = Py_NewRef(PyTuple_GET_ITEM(args[2], i));
  p.simplify_name = PyUnicode_InternFromString("simplify");
  p.name_name = PyUnicode_InternFromString("name");
  p.merge_name = PyUnicode_InternFromString("merge");
  p.array = class_at(args[0], 0);
  Py_RETURN_NONE;
}

}  // namespace functrax::eager_record
