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
#include "executable.h"
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

// What has to run for one operation, as eager_graph.cut has it. Nodes know their places in it until
// another is made, so it must not outlive the GIL being held.
struct Cut {
  std::vector<Node*> nodes;        // owned
  std::vector<std::size_t> first;  // the number of the first result of each node
  std::vector<Ref> inputs;
  PointerMap uses;                   // of parts: how often operands refer to them
  std::vector<PyObject*> outputs;    // owned: nodes, and parts of nodes
  std::vector<std::size_t> numbers;  // of the outputs
  Words words;

  ~Cut() {
    for (Node* node : nodes) Py_DECREF(as_object(node));
    for (PyObject* output : outputs) Py_DECREF(output);
  }
};

constexpr std::size_t kMostNodes = 4096;

bool is_part(PyObject* x) { return Py_IS_TYPE(x, python.part); }

// The number of a result of a cut that an operand stands for.
std::size_t number_of(const Cut& cut, PyObject* x) {
  if (!is_part(x)) return cut.first[as_node(x)->place];
  PyObject* number = slot(x, python.of_part.number);
  return cut.first[as_node(slot(x, python.of_part.node))->place] + PyLong_AsSize_t(number);
}

// The operations that have to run for some, each after its operands; false: Python's business.
bool collect(std::vector<Node*> stack, Cut& cut) {
  static std::uint64_t cuts = 0;
  ++cuts;
  std::size_t count = 0;
  while (!stack.empty()) {
    Node* node = stack.back();
    if (node->cut == cuts) {
      stack.pop_back();
      continue;
    }
    const std::size_t before = stack.size();
    for (Py_ssize_t i = Py_SIZE(node) - 1; i >= 0; --i) {
      Node* producer = producer_of(node->operands[i]);
      if (producer != nullptr && producer->cut != cuts) stack.push_back(producer);
    }
    if (stack.size() != before) continue;
    stack.pop_back();
    if (cut.nodes.size() == kMostNodes) return false;
    node->cut = cuts;
    node->place = cut.nodes.size();
    node->uses = 0;
    Py_INCREF(as_object(node));
    cut.nodes.push_back(node);
    cut.first.push_back(count);
    PyObject* types = slot(node->signature, python.of_signature.types);
    count += PyTuple_Check(types) ? PyTuple_GET_SIZE(types) : 1;
  }
  return true;
}

// Inputs of a cut by value and type.
struct Inputs {
  struct Input {
    PyObject* aval;
    std::int64_t before;  // another input of the same value, or -1
  };
  std::vector<Input> described;
  PointerMap known;  // the last input of a value

  // The number of an input, counted from 1, and whether it is new.
  std::pair<std::size_t, bool> number_of(PyObject* x, PyObject* aval, Cut& cut) {
    std::int64_t& last = known.at(x, -1);
    std::int64_t found = last;
    while (found >= 0 && described[static_cast<std::size_t>(found)].aval != aval) {
      found = described[static_cast<std::size_t>(found)].before;
    }
    if (found >= 0) return {static_cast<std::size_t>(found) + 1, false};
    cut.inputs.push_back(Ref::share(x));
    described.resize(cut.inputs.size());
    described.back() = {aval, last};
    last = static_cast<std::int64_t>(cut.inputs.size()) - 1;
    return {cut.inputs.size(), true};
  }
};

// Numbers operands and inputs; false: another thread computed an operation meanwhile.
bool wire(Cut& cut) {
  Inputs inputs;
  for (Node* node : cut.nodes) {
    PyObject* signature = node->signature;
    PyObject* avals = slot(signature, python.of_signature.avals);
    if (PyTuple_GET_SIZE(avals) != Py_SIZE(node)) return false;
    const bool numbers = slot(signature, python.of_signature.literals_are_inputs) == Py_True;
    cut.words.push_back(reinterpret_cast<std::uintptr_t>(signature));
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      PyObject* x = node->operands[i];
      if (Py_IS_TYPE(x, python.literal)) {
        if (numbers) {
          cut.inputs.push_back(Ref::share(slot(x, python.literal_val)));
          cut.words.push_back(2 * cut.inputs.size() + 1);
        } else {
          cut.words.push_back(reinterpret_cast<std::uintptr_t>(x));
        }
        continue;
      }
      if (producer_of(x) != nullptr) {
        if (is_part(x)) {
          ++cut.uses.at(x);
        } else {
          ++as_node(x)->uses;
        }
        cut.words.push_back(2 * number_of(cut, x));
        continue;
      }
      if (is_node(x)) x = as_node(x)->value;
      if (is_part(x)) x = slot(x, python.of_part.value);
      if (x == Py_None || PyTuple_Check(x)) return false;
      const auto [number, is_new] = inputs.number_of(x, PyTuple_GET_ITEM(avals, i), cut);
      // A product that was put off is summed in another order than an array.
      if (is_new) cut.words.push_back(reinterpret_cast<std::uintptr_t>(Py_TYPE(x)));
      cut.words.push_back(2 * number + 1);
    }
  }
  cut.words.push_back(0);
  return true;
}

long long bytes_of(PyObject* number) { return PyLong_AsLongLong(number); }

// The operations whose results are much larger than what they are made of: `_grown`. Empty where
// there are none.
std::vector<bool> grown(const Cut& cut) {
  const auto& at = python.of_signature;
  const bool any = std::any_of(cut.nodes.begin(), cut.nodes.end(), [&](const Node* node) {
    return bytes_of(slot(node->signature, at.out_bytes)) > python.small_bytes;
  });
  if (!any) return {};
  std::vector<bool> found(cut.nodes.size(), false);
  struct MadeOf {
    long long bytes;
    long steps;
  };
  std::vector<MadeOf> made(cut.nodes.size());
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    const Node* node = cut.nodes[n];
    const long long out = bytes_of(slot(node->signature, at.out_bytes));
    made[n] = {out, 0};
    if (slot(node->signature, at.spreads) != Py_True) continue;
    PyObject* sizes = slot(node->signature, at.operand_bytes);
    MadeOf total = {0, 1};
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      const Node* producer = producer_of(node->operands[i]);
      const MadeOf operand = producer == nullptr ? MadeOf{bytes_of(PyTuple_GET_ITEM(sizes, i)), 0}
                                                 : made[producer->place];
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

// What must come out, as `_wanted`: results that somebody outside refers to, and those that are
// `requested`. Another one that has grown stays recorded, and what it is made of comes out instead.
void choose(Cut& cut, const std::vector<Node*>& requested) {
  const std::vector<bool> large = grown(cut);
  std::unordered_set<PyObject*> forced;
  const std::unordered_set<const Node*> roots(requested.begin(), requested.end());
  // The cut, or its caller, holds one reference.
  const auto is_wanted = [&](PyObject* x, Py_ssize_t uses) {
    return Py_REFCNT(x) - 1 > uses || (!forced.empty() && forced.count(x) != 0);
  };
  std::vector<std::pair<std::size_t, PyObject*>> found;  // the last first
  for (std::size_t n = cut.nodes.size(); n-- > 0;) {
    Node* node = cut.nodes[n];
    PyObject* itself = as_object(node);
    const bool is_root = roots.count(node) != 0;
    const std::size_t before = found.size();
    const Py_ssize_t parts = node->parts == nullptr ? 0 : PyTuple_GET_SIZE(node->parts);
    for (Py_ssize_t i = parts - 1; i >= 0; --i) {
      const Ref part(alive(PyTuple_GET_ITEM(node->parts, i)));
      if (!part) continue;
      const std::int64_t* uses = cut.uses.find(part.get());
      if (!is_wanted(part.get(), uses == nullptr ? 0 : *uses)) continue;
      found.emplace_back(number_of(cut, part.get()), Py_NewRef(part.get()));
    }
    if (node->parts == nullptr && (is_root || is_wanted(itself, node->uses))) {
      found.emplace_back(cut.first[n], Py_NewRef(itself));
    }
    if (found.size() == before || large.empty() || !large[n] || is_root) continue;
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      if (producer_of(node->operands[i]) != nullptr) forced.insert(node->operands[i]);
    }
    for (; found.size() != before; found.pop_back()) Py_DECREF(found.back().second);
  }
  for (auto output = found.rbegin(); output != found.rend(); ++output) {
    cut.numbers.push_back(output->first);
    cut.outputs.push_back(output->second);
    cut.words.push_back(2 * output->first);
  }
}

// Gives a result to the node or part that it is of.
void deliver(PyObject* output, PyObject* result) {
  if (!is_part(output)) {  // where another thread was faster, it has the same bits
    if (as_node(output)->value == nullptr) as_node(output)->value = Py_NewRef(result);
    return;
  }
  PyObject*& value = slot(output, python.of_part.value);
  if (value == Py_None) Py_SETREF(value, Py_NewRef(result));
}

// Forgets what a node was made of, if nobody needs to compute it any more: `_let_go`.
void let_go(Node* node) {
  if (node->parts != nullptr) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node->parts); ++i) {
      Ref part(alive(PyTuple_GET_ITEM(node->parts, i)));
      if (part) Py_SETREF(slot(part.get(), python.of_part.node), Py_NewRef(Py_None));
    }
    Py_XSETREF(node->value, PyTuple_New(0));
  }
  if (node->value != nullptr) drop_operands(node);
}

// A cut for Python: its words, the number of its inputs, the numbers of its outputs, and the
// objects whose addresses are in the words.
PyObject* description(const Cut& cut) {
  std::vector<Ref> held;  // by itself: a list that is made may run Python, which drops operands
  for (Node* node : cut.nodes) {
    held.push_back(Ref::share(node->signature));
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      PyObject* x = node->operands[i];
      if (Py_IS_TYPE(x, python.literal)) held.push_back(Ref::share(x));
    }
  }
  Ref outputs(PyList_New(static_cast<Py_ssize_t>(cut.numbers.size())));
  Ref kept(PyList_New(static_cast<Py_ssize_t>(held.size())));
  if (!outputs || !kept) return nullptr;
  for (std::size_t i = 0; i < held.size(); ++i) {
    PyList_SET_ITEM(kept.get(), static_cast<Py_ssize_t>(i), held[i].release());
  }
  for (std::size_t i = 0; i < cut.numbers.size(); ++i) {
    PyObject* number = PyLong_FromSize_t(cut.numbers[i]);
    if (number == nullptr) return nullptr;
    PyList_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i), number);
  }
  const auto size = static_cast<Py_ssize_t>(cut.words.size() * sizeof(std::uintptr_t));
  return Py_BuildValue("(y#nOO)", reinterpret_cast<const char*>(cut.words.data()), size,
                       static_cast<Py_ssize_t>(cut.inputs.size()), outputs.get(), kept.get());
}

// Runs what a node needs, and returns True, if the program is known; else what it is made of, or
// False where Python alone can tell; null with an error set.
// Without a root nobody asked for a value.
PyObject* run_known(std::vector<Node*> roots, bool requested) {
  Cut cut;
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  const std::vector<Node*> wanted = requested ? roots : std::vector<Node*>();
  if (mode == Py_None || !collect(std::move(roots), cut)) Py_RETURN_FALSE;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(mode));
  if (!wire(cut)) Py_RETURN_FALSE;
  choose(cut, wanted);
  const auto found = programs.find(cut.words);
  if (found == programs.end()) return description(cut);
  Ref executable = Ref::share(found->second.executable);
  Ref values(PyList_New(static_cast<Py_ssize_t>(cut.inputs.size())));
  if (!values) return nullptr;
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    PyList_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), cut.inputs[i].release());
  }
  Ref results(requested ? PyObject_CallOneArg(executable.get(), values.get())
                        : executable::start(executable.get(), values.get()));
  if (!results) return nullptr;
  if (!PyList_Check(results.get()) ||
      PyList_GET_SIZE(results.get()) != static_cast<Py_ssize_t>(cut.outputs.size())) {
    PyErr_SetString(PyExc_SystemError, "a recorded program has other results than its cut");
    return nullptr;
  }
  for (std::size_t i = 0; i < cut.outputs.size(); ++i) {
    deliver(cut.outputs[i], PyList_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i)));
  }
  for (Node* node : cut.nodes) let_go(node);
  Py_RETURN_TRUE;
}

}  // namespace

PyObject* run(PyObject*, PyObject* given) {
  if (python.array == nullptr) Py_RETURN_FALSE;
  const bool requested = PyList_Check(given);
  if (!requested && !PyTuple_Check(given)) Py_RETURN_FALSE;
  if (requested) note_look();
  std::vector<Node*> roots;  // the first one on top of the stack
  for (Py_ssize_t i = PySequence_Fast_GET_SIZE(given) - 1; i >= 0; --i) {
    Node* node = producer_of(PySequence_Fast_GET_ITEM(given, i));
    if (node != nullptr) roots.push_back(node);
  }
  if (roots.empty()) Py_RETURN_TRUE;
  return run_known(std::move(roots), requested);
}

std::size_t count_of(PyObject* const* operands, std::size_t count) {
  Cut cut;
  std::vector<Node*> roots;
  for (std::size_t i = 0; i < count; ++i) {
    Node* node = producer_of(operands[i]);
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
