// See eager_run.h. Start at run.

#define PY_SSIZE_T_CLEAN
#include "eager_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "eager_state.h"
#include "pointer_map.h"
#include "reference.h"
#include "words.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostPrograms = 1 << 14;

// Programs by what they are made of: signatures, wiring, literals that are not inputs, outputs.
// Owned: the program, and the objects whose addresses are in the words.
struct Program {
  PyObject *executable, *kept;
};

std::unordered_map<Words, Program, WordsHash> programs;

// What has to run for one operation, as eager_graph.cut has it. References are held to the nodes,
// so it must not outlive the GIL being held.
struct Cut {
  std::vector<PyObject*> nodes;      // owned
  std::vector<PyObject*> operands;   // of the nodes, owned: others may drop them
  std::vector<std::size_t> first;    // the number of the first result of each node
  PointerMap places;                 // of the nodes
  std::vector<PyObject*> inputs;     // borrowed from the operands
  std::vector<PyObject*> outputs;    // owned: nodes, and parts of nodes
  std::vector<std::size_t> numbers;  // of the outputs
  Words words;

  ~Cut() {
    for (PyObject* node : nodes) Py_DECREF(node);
    for (PyObject* tuple : operands) Py_DECREF(tuple);
    for (PyObject* output : outputs) Py_DECREF(output);
  }
};

// How often operands of the operations of a cut refer to each of their results.
using Uses = PointerMap;

constexpr std::size_t kMostNodes = 4096;

PyObject* signature_of(PyObject* node) { return slot(node, python.of_node.signature); }

bool is_part(PyObject* x) { return Py_IS_TYPE(x, python.part); }

// The place of a node of a cut.
std::size_t place_of(const Cut& cut, PyObject* node) {
  return static_cast<std::size_t>(*cut.places.find(node));
}

// The number of a result of a cut that an operand stands for.
std::size_t number_of(const Cut& cut, PyObject* x) {
  if (!is_part(x)) return cut.first[place_of(cut, x)];
  PyObject* number = slot(x, python.of_part.number);
  return cut.first[place_of(cut, slot(x, python.of_part.node))] + PyLong_AsSize_t(number);
}

// The operations that have to run for some, each after its operands; false: Python's business.
bool collect(std::vector<PyObject*> stack, Cut& cut) {
  std::size_t count = 0;
  while (!stack.empty()) {
    PyObject* node = stack.back();
    if (cut.places.find(node) != nullptr) {
      stack.pop_back();
      continue;
    }
    PyObject* operands = slot(node, python.of_node.operands);
    const std::size_t before = stack.size();
    for (Py_ssize_t i = PyTuple_GET_SIZE(operands) - 1; i >= 0; --i) {
      PyObject* producer = producer_of(PyTuple_GET_ITEM(operands, i));
      if (producer != nullptr && cut.places.find(producer) == nullptr) stack.push_back(producer);
    }
    if (stack.size() != before) continue;
    stack.pop_back();
    if (cut.nodes.size() == kMostNodes) return false;
    cut.places.at(node) = static_cast<std::int64_t>(cut.nodes.size());
    cut.nodes.push_back(Py_NewRef(node));
    cut.operands.push_back(Py_NewRef(operands));
    cut.first.push_back(count);
    PyObject* types = slot(signature_of(node), python.of_signature.types);
    count += PyTuple_Check(types) ? PyTuple_GET_SIZE(types) : 1;
  }
  return true;
}

// Numbers operands and inputs; false: another thread computed an operation meanwhile.
bool wire(Cut& cut, Uses& uses) {
  struct Input {
    PyObject* aval;
    std::int64_t before;  // another input of the same value, or -1
  };
  std::vector<Input> described(cut.inputs.size());
  PointerMap known;  // the last input of a value
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* signature = signature_of(cut.nodes[n]);
    PyObject* operands = cut.operands[n];
    PyObject* avals = slot(signature, python.of_signature.avals);
    if (PyTuple_GET_SIZE(operands) != PyTuple_GET_SIZE(avals)) return false;
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
      if (producer_of(x) != nullptr) {
        ++uses.at(x);
        cut.words.push_back(2 * number_of(cut, x));
        continue;
      }
      if (Py_IS_TYPE(x, python.node)) x = slot(x, python.of_node.value);
      if (is_part(x)) x = slot(x, python.of_part.value);
      if (x == Py_None || PyTuple_Check(x)) return false;
      PyObject* aval = PyTuple_GET_ITEM(avals, i);
      std::int64_t& last = known.at(x, -1);
      std::int64_t found = last;
      while (found >= 0 && described[static_cast<std::size_t>(found)].aval != aval) {
        found = described[static_cast<std::size_t>(found)].before;
      }
      if (found < 0) {
        cut.inputs.push_back(x);
        described.resize(cut.inputs.size());
        found = static_cast<std::int64_t>(cut.inputs.size()) - 1;
        described.back() = {aval, last};
        last = found;
        // A product that was put off is summed in another order than an array.
        cut.words.push_back(reinterpret_cast<std::uintptr_t>(Py_TYPE(x)));
      }
      cut.words.push_back(2 * static_cast<std::uintptr_t>(found + 1) + 1);
    }
  }
  cut.words.push_back(0);
  return true;
}

long long bytes_of(PyObject* number) { return PyLong_AsLongLong(number); }

// The operations whose results are much larger than what they are made of: `_grown`.
std::vector<bool> grown(const Cut& cut) {
  const auto& at = python.of_signature;
  std::vector<bool> found(cut.nodes.size(), false);
  bool any = false;
  for (PyObject* node : cut.nodes) {
    any = any || bytes_of(slot(signature_of(node), at.out_bytes)) > python.small_bytes;
  }
  if (!any) return found;
  struct MadeOf {
    long long bytes;
    long steps;
  };
  std::vector<MadeOf> made(cut.nodes.size());
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* signature = signature_of(cut.nodes[n]);
    const long long out = bytes_of(slot(signature, at.out_bytes));
    made[n] = {out, 0};
    if (slot(signature, at.spreads) != Py_True) continue;
    PyObject* operands = slot(cut.nodes[n], python.of_node.operands);
    PyObject* sizes = slot(signature, at.operand_bytes);
    MadeOf total = {0, 1};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
      PyObject* producer = producer_of(PyTuple_GET_ITEM(operands, i));
      const MadeOf operand = producer == nullptr ? MadeOf{bytes_of(PyTuple_GET_ITEM(sizes, i)), 0}
                                                 : made[place_of(cut, producer)];
      total.bytes += operand.bytes;
      total.steps += operand.steps;
    }
    const long long most = std::max(python.small_bytes, python.most_growth * total.bytes);
    if (total.steps > python.most_repeated || out <= most) continue;
    found[n] = true;
    made[n] = total;
  }
  return found;
}

// A part that somebody refers to, or null; it is owned.
PyObject* alive(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* part = nullptr;
  return PyWeakref_GetRef(reference, &part) == 1 ? part : nullptr;
#else
  PyObject* part = PyWeakref_GetObject(reference);
  return part == Py_None ? nullptr : Py_NewRef(part);
#endif
}

// What must come out, as `_wanted`: results that somebody outside refers to, and the root. One that
// has grown stays recorded, and what it is made of comes out instead.
void choose(Cut& cut, const Uses& uses, PyObject* root) {
  const std::vector<bool> large = grown(cut);
  std::unordered_set<PyObject*> forced;
  std::vector<std::vector<std::pair<std::size_t, PyObject*>>> chosen(cut.nodes.size());
  const auto is_held = [&](PyObject* x) {  // the cut, or its caller, holds one reference
    const std::int64_t* known = uses.find(x);
    return Py_REFCNT(x) - 1 > (known == nullptr ? 0 : *known);
  };
  for (std::size_t n = cut.nodes.size(); n-- > 0;) {
    PyObject* node = cut.nodes[n];
    PyObject* parts = slot(node, python.of_node.parts);
    auto& found = chosen[n];
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
      PyObject* part = alive(PyTuple_GET_ITEM(parts, i));
      if (part == nullptr) continue;
      if (forced.count(part) != 0 || is_held(part)) {
        found.emplace_back(number_of(cut, part), Py_NewRef(part));
      }
      Py_DECREF(part);
    }
    if (PyTuple_GET_SIZE(parts) == 0 && (node == root || forced.count(node) || is_held(node))) {
      found.emplace_back(cut.first[n], Py_NewRef(node));
    }
    if (found.empty() || !large[n] || node == root) continue;
    PyObject* operands = slot(node, python.of_node.operands);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
      PyObject* x = PyTuple_GET_ITEM(operands, i);
      if (producer_of(x) != nullptr) forced.insert(x);
    }
    for (auto& [number, output] : found) Py_DECREF(output);
    found.clear();
  }
  for (const auto& found : chosen) {
    for (const auto& [number, output] : found) {
      cut.numbers.push_back(number);
      cut.outputs.push_back(output);
      cut.words.push_back(2 * number);
    }
  }
}

// Gives a result to the node or part that it is of.
void deliver(PyObject* output, PyObject* result) {
  const bool part = is_part(output);
  PyObject*& value = slot(output, part ? python.of_part.value : python.of_node.value);
  if (value != Py_None) return;  // another thread was faster, with the same bits
  Py_SETREF(value, Py_NewRef(result));
}

// Forgets what a node was made of, if nobody needs to compute it any more: `_let_go`.
void let_go(PyObject* node) {
  PyObject* parts = slot(node, python.of_node.parts);
  PyObject*& value = slot(node, python.of_node.value);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    Ref part(alive(PyTuple_GET_ITEM(parts, i)));
    if (part) Py_SETREF(slot(part.get(), python.of_part.node), Py_NewRef(Py_None));
  }
  if (PyTuple_GET_SIZE(parts) != 0) Py_SETREF(value, PyTuple_New(0));
  if (value != Py_None) Py_SETREF(slot(node, python.of_node.operands), PyTuple_New(0));
}

// A cut for Python: its words, the number of its inputs, the numbers of its outputs, and the
// objects whose addresses are in the words.
PyObject* description(const Cut& cut) {
  Ref outputs(PyList_New(0)), kept(PyList_New(0));
  if (!outputs || !kept) return nullptr;
  for (const std::size_t output : cut.numbers) {
    Ref number(PyLong_FromSize_t(output));
    if (!number || PyList_Append(outputs.get(), number.get()) != 0) return nullptr;
  }
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* operands = cut.operands[n];
    if (PyList_Append(kept.get(), signature_of(cut.nodes[n])) != 0) return nullptr;
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
// Without a root nobody asked for a value.
PyObject* run_known(std::vector<PyObject*> roots, PyObject* root) {
  Cut cut;
  Uses uses;
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  if (mode == Py_None || !collect(std::move(roots), cut)) Py_RETURN_FALSE;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(mode));
  if (!wire(cut, uses)) Py_RETURN_FALSE;
  choose(cut, uses, root);
  const auto found = programs.find(cut.words);
  if (found == programs.end()) return description(cut);
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
    deliver(cut.outputs[i], PyList_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i)));
  }
  for (PyObject* node : cut.nodes) let_go(node);
  Py_RETURN_TRUE;
}

}  // namespace

PyObject* run(PyObject*, PyObject* given) {
  if (python.array == nullptr) Py_RETURN_FALSE;
  if (Py_IS_TYPE(given, python.node)) {
    note_look();
    return run_known({given}, given);
  }
  if (!PyTuple_Check(given)) Py_RETURN_FALSE;
  std::vector<PyObject*> roots;  // the first one on top of the stack
  for (Py_ssize_t i = PyTuple_GET_SIZE(given) - 1; i >= 0; --i) {
    PyObject* node = producer_of(PyTuple_GET_ITEM(given, i));
    if (node != nullptr) roots.push_back(node);
  }
  if (roots.empty()) Py_RETURN_TRUE;
  return run_known(std::move(roots), nullptr);
}

std::size_t count_of(PyObject* operands) {
  Cut cut;
  std::vector<PyObject*> roots;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    PyObject* node = producer_of(PyTuple_GET_ITEM(operands, i));
    if (node != nullptr) roots.push_back(node);
  }
  return collect(std::move(roots), cut) ? cut.nodes.size() : kMostNodes;
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
  if (programs.size() >= kMostPrograms) Ref(forget_programs(nullptr, nullptr));
  PyObject* kept = PyTuple_GET_ITEM(args[0], 3);
  if (programs.try_emplace(std::move(words), Program{args[1], kept}).second) {
    Py_INCREF(args[1]);
    Py_INCREF(kept);
  }
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
