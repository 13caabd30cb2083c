// See eager_run.h. Start at run.

#define PY_SSIZE_T_CLEAN
#include "eager_run.h"

#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eager_state.h"
#include "reference.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostPrograms = 1 << 14;

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
  std::vector<PyObject*> nodes;     // owned
  std::vector<PyObject*> operands;  // of the nodes, owned: others may compute a node and drop them
  std::vector<PyObject*> inputs;    // borrowed from the operands
  std::vector<PyObject*> outputs;   // borrowed: nodes
  Words words;

  ~Cut() {
    for (PyObject* node : nodes) Py_DECREF(node);
    for (PyObject* tuple : operands) Py_DECREF(tuple);
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
    cut.operands.push_back(Py_NewRef(operands));
    if (cut.nodes.size() > kMostNodes) return false;
  }
  return true;
}

// Numbers operands and inputs, and finds what is held outside.
void wire(Cut& cut, const std::unordered_map<PyObject*, int>& places, PyObject* root) {
  std::vector<Py_ssize_t> uses(cut.nodes.size(), 0);
  std::unordered_map<PyObject*, std::vector<std::pair<PyObject*, int>>> known;
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* signature = slot(cut.nodes[n], python.of_node.signature);
    PyObject* operands = cut.operands[n];
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
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    PyObject* operands = cut.operands[n];
    PyObject* signature = slot(cut.nodes[n], python.of_node.signature);
    if (PyList_Append(kept.get(), signature) != 0) return nullptr;
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

}  // namespace

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
  if (programs.size() >= kMostPrograms) Ref(forget_programs(nullptr, nullptr));
  PyObject* kept = PyTuple_GET_ITEM(args[0], 3);
  if (programs.try_emplace(std::move(words), Program{args[1], kept}).second) {
    Py_INCREF(args[1]);
    Py_INCREF(kept);
  }
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
