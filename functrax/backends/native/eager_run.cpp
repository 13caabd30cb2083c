// See eager_run.h. Start at run.

#define PY_SSIZE_T_CLEAN
#include "eager_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
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
  // An input by its value and type.
  struct Input {
    PyObject* aval;
    std::int64_t before;  // another input of the same value, or -1
  };

  std::vector<Node*> nodes;       // owned
  std::size_t results = 0;        // of the nodes
  bool large = false;             // whether any of the results is
  std::vector<PyObject*> inputs;  // owned
  std::vector<Input> described;
  PointerMap known;                  // the last input of a value
  PointerMap uses;                   // of parts: how often operands refer to them
  std::vector<PyObject*> outputs;    // owned: nodes, and parts of nodes
  std::vector<std::size_t> numbers;  // of the outputs
  Words words;

  // Whatever ends may run Python. The last nodes first, which need the others.
  void clear() {
    for (; !nodes.empty(); nodes.pop_back()) Py_DECREF(as_object(nodes.back()));
    for (; !inputs.empty(); inputs.pop_back()) Py_DECREF(inputs.back());
    for (; !outputs.empty(); outputs.pop_back()) Py_DECREF(outputs.back());
    results = 0;
    large = false;
    described.clear();
    known.clear();
    uses.clear();
    numbers.clear();
    words.clear();
  }
};

// A cut that is empty, and whose memory is used again.
class NewCut {
 public:
  NewCut() : cut_(spare_ ? std::move(spare_) : std::make_unique<Cut>()) {}
  NewCut(const NewCut&) = delete;
  NewCut& operator=(const NewCut&) = delete;
  ~NewCut() {
    cut_->clear();
    spare_ = std::move(cut_);
  }
  Cut& operator*() const { return *cut_; }

 private:
  static std::unique_ptr<Cut> spare_;
  std::unique_ptr<Cut> cut_;
};

std::unique_ptr<Cut> NewCut::spare_;

constexpr std::size_t kMostNodes = 4096;

bool is_part(PyObject* x) { return Py_IS_TYPE(x, python.part); }

// The number of a result of a cut that an operand stands for.
std::size_t number_of(PyObject* x) {
  if (!is_part(x)) return as_node(x)->first;
  PyObject* number = slot(x, python.of_part.number);
  return as_node(slot(x, python.of_part.node))->first + PyLong_AsSize_t(number);
}

// Puts the operations that have to run for some into a cut, each after its operands, and calls
// `add` with each; false: Python's business.
template <typename Add>
bool collect(const std::vector<Node*>& roots, Cut& cut, const Add& add) {
  static std::uint64_t cuts = 0;
  ++cuts;
  struct Visit {
    Node* node;
    Py_ssize_t operand;  // the next one to be looked at
  };
  std::vector<Visit> stack;
  for (Node* root : roots) {
    if (root->cut != cuts) stack.push_back({root, 0});
    while (!stack.empty()) {
      const auto [node, at] = stack.back();
      if (at < Py_SIZE(node)) {
        ++stack.back().operand;
        Node* producer = producer_of(node->operands[at]);
        if (producer != nullptr && producer->cut != cuts) stack.push_back({producer, 0});
        continue;
      }
      stack.pop_back();
      if (cut.nodes.size() == kMostNodes) return false;
      node->cut = cuts;
      node->place = cut.nodes.size();
      node->first = cut.results;
      node->uses = 0;
      cut.results += static_cast<std::size_t>(facts_of(node->signature).results);
      Py_INCREF(as_object(node));
      cut.nodes.push_back(node);
      if (!add(node)) return false;
    }
  }
  return true;
}

// Adds a raw operand to the words: an input by value and type.
void add_input(Cut& cut, PyObject* x, PyObject* aval) {
  std::int64_t& last = cut.known.at(x, -1);
  std::int64_t found = last;
  while (found >= 0 && cut.described[static_cast<std::size_t>(found)].aval != aval) {
    found = cut.described[static_cast<std::size_t>(found)].before;
  }
  if (found < 0) {
    found = static_cast<std::int64_t>(cut.inputs.size());
    cut.inputs.push_back(Py_NewRef(x));
    cut.described.resize(cut.inputs.size());
    cut.described.back() = {aval, last};
    last = found;
    // A product that was put off is summed in another order than an array.
    cut.words.push_back(reinterpret_cast<std::uintptr_t>(Py_TYPE(x)));
  }
  cut.words.push_back(2 * static_cast<std::uintptr_t>(found) + 3);
}

// Adds an operation to the words: its signature, and its operands by the numbers of the results and
// inputs that they are; false: another thread computed it meanwhile.
bool wire(Cut& cut, Node* node) {
  const Facts& facts = facts_of(node->signature);
  if (facts.operands != Py_SIZE(node)) return false;
  cut.large = cut.large || facts.out_bytes > python.small_bytes;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(node->signature));
  for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
    PyObject* x = node->operands[i];
    if (producer_of(x) != nullptr) {
      if (is_part(x)) {
        ++cut.uses.at(x);
      } else {
        ++as_node(x)->uses;
      }
      cut.words.push_back(2 * number_of(x));
      continue;
    }
    if (Py_IS_TYPE(x, python.literal)) {
      if (facts.literals_are_inputs) {
        cut.inputs.push_back(Py_NewRef(slot(x, python.literal_val)));
        cut.words.push_back(2 * cut.inputs.size() + 1);
      } else {
        cut.words.push_back(reinterpret_cast<std::uintptr_t>(x));
      }
      continue;
    }
    if (is_node(x)) x = as_node(x)->value;
    if (is_part(x)) x = slot(x, python.of_part.value);
    if (x == Py_None || PyTuple_Check(x)) return false;
    PyObject* avals = slot(node->signature, python.of_signature.avals);
    add_input(cut, x, PyTuple_GET_ITEM(avals, i));
  }
  return true;
}

// The operations whose results are much larger than what they are made of: `_grown`. Empty where
// there are none.
std::vector<bool> grown(const Cut& cut) {
  if (!cut.large) return {};
  std::vector<bool> found(cut.nodes.size(), false);
  struct MadeOf {
    long long bytes;
    long steps;
  };
  std::vector<MadeOf> made(cut.nodes.size());
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    const Node* node = cut.nodes[n];
    const Facts& facts = facts_of(node->signature);
    made[n] = {facts.out_bytes, 0};
    if (!facts.spreads) continue;
    PyObject* sizes = slot(node->signature, python.of_signature.operand_bytes);
    MadeOf total = {0, 1};
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      const Node* producer = producer_of(node->operands[i]);
      const MadeOf operand = producer == nullptr
                                 ? MadeOf{PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)), 0}
                                 : made[producer->place];
      total.bytes += operand.bytes;
      total.steps += operand.steps;
    }
    const long long most = std::max(python.small_bytes, python.most_growth * total.bytes);
    if (total.steps > python.most_repeated || facts.out_bytes <= most) continue;
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
  constexpr Py_ssize_t kRequested = -1;  // in the place of the uses
  for (Node* root : requested) root->uses = kRequested;
  const std::vector<bool> large = grown(cut);
  std::unordered_set<PyObject*> forced;
  // The cut, or its caller, holds one reference.
  const auto is_wanted = [&](PyObject* x, Py_ssize_t uses) {
    return Py_REFCNT(x) - 1 > uses || (!forced.empty() && forced.count(x) != 0);
  };
  const auto add = [&](PyObject* x) {
    cut.outputs.push_back(Py_NewRef(x));
    cut.numbers.push_back(number_of(x));
  };
  for (std::size_t n = cut.nodes.size(); n-- > 0;) {
    Node* node = cut.nodes[n];
    const bool is_root = node->uses == kRequested;
    const std::size_t before = cut.outputs.size();
    const Py_ssize_t parts = node->parts == nullptr ? 0 : PyTuple_GET_SIZE(node->parts);
    for (Py_ssize_t i = parts - 1; i >= 0; --i) {
      const Ref part(alive(PyTuple_GET_ITEM(node->parts, i)));
      if (!part) continue;
      const std::int64_t* uses = cut.uses.find(part.get());
      if (is_wanted(part.get(), uses == nullptr ? 0 : *uses)) add(part.get());
    }
    if (node->parts == nullptr && is_wanted(as_object(node), node->uses)) add(as_object(node));
    if (cut.outputs.size() == before || large.empty() || !large[n] || is_root) continue;
    for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
      if (producer_of(node->operands[i]) != nullptr) forced.insert(node->operands[i]);
    }
    for (; cut.outputs.size() != before; cut.outputs.pop_back()) {
      Py_DECREF(cut.outputs.back());
      cut.numbers.pop_back();
    }
  }
  std::reverse(cut.outputs.begin(), cut.outputs.end());
  std::reverse(cut.numbers.begin(), cut.numbers.end());
  for (const std::size_t number : cut.numbers) cut.words.push_back(2 * number);
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
PyObject* run_known(const std::vector<Node*>& roots, bool requested) {
  PyObject* mode = current_mode();
  if (mode == nullptr) return nullptr;
  if (mode == Py_None) Py_RETURN_FALSE;
  const NewCut owner;
  Cut& cut = *owner;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(mode));
  if (!collect(roots, cut, [&](Node* node) { return wire(cut, node); })) Py_RETURN_FALSE;
  cut.words.push_back(0);
  choose(cut, requested ? roots : std::vector<Node*>());
  const auto found = programs.find(cut.words);
  if (found == programs.end()) return description(cut);
  Ref executable = Ref::share(found->second.executable);
  Ref values(PyList_New(static_cast<Py_ssize_t>(cut.inputs.size())));
  if (!values) return nullptr;
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    PyList_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), cut.inputs[i]);
  }
  cut.inputs.clear();  // which they came from
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
  std::vector<Node*> roots;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i) {
    Node* node = producer_of(PySequence_Fast_GET_ITEM(given, i));
    if (node != nullptr) roots.push_back(node);
  }
  if (roots.empty()) Py_RETURN_TRUE;
  return run_known(roots, requested);
}

std::size_t count_of(PyObject* const* operands, std::size_t count) {
  const NewCut cut;
  std::vector<Node*> roots;
  for (std::size_t i = 0; i < count; ++i) {
    Node* node = producer_of(operands[i]);
    if (node != nullptr) roots.push_back(node);
  }
  const auto any = [](Node*) { return true; };
  return collect(roots, *cut, any) ? (*cut).nodes.size() : kMostNodes;
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
