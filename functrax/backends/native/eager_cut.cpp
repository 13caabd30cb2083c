// See eager_cut.h. Start at make_cut.

#include "eager_cut.h"

#include <algorithm>

#include "eager_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostCounted = 4096;

// Of all walks: the nodes that one has visited have its number.
std::uint64_t walks = 0;

// Visits the operations that have to run for some, each after its operands, once; `visit` says
// whether to go on.
template <typename Visitor>
void walk(const std::vector<Node*>& roots, const Visitor& visitor) {
  const std::uint64_t mark = ++walks;
  struct Visit {
    Node* node;
    std::uint32_t operand;  // the next one to be looked at
  };
  std::vector<Visit> stack;
  for (Node* root : roots) {
    if (root->cut != mark) stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [node, operand] = stack.back();
      if (operand < node->num_operands) {
        Node* producer = node->operands[operand++].producer();
        if (producer != nullptr && producer->cut != mark) stack.push_back({producer, 0});
        continue;
      }
      Node* visited = node;
      stack.pop_back();
      if (visited->cut == mark) continue;
      visited->cut = mark;
      if (!visitor(visited)) return;
    }
  }
}

void add_node(Cut& cut, Node* node) {
  node->place = cut.nodes.size();
  node->first = cut.results;
  for (std::uint32_t k = 0; k < node->num_results; ++k) {
    node->results[k].uses = 0;
    node->results[k].forced = false;
  }
  cut.results += node->num_results;
  cut.ran += node->ran;
  cut.again += node->ran && !node->is_deferred;
  cut.nodes.emplace_back(node);
}

// The number of an input, by value and type.
std::int64_t add_input(Cut& cut, PyObject* value, PyObject* aval) {
  std::int64_t& last = cut.known.at(value, -1);
  std::int64_t found = last;
  while (found >= 0 && cut.inputs[static_cast<std::size_t>(found)].aval != aval) {
    found = cut.inputs[static_cast<std::size_t>(found)].before;
  }
  if (found < 0) {
    found = static_cast<std::int64_t>(cut.inputs.size());
    cut.inputs.push_back({Py_NewRef(value), aval, last});
    last = found;
    // A product that was deferred is summed in another order than an array.
    cut.words.push_back(reinterpret_cast<std::uintptr_t>(Py_TYPE(value)));
  }
  return -1 - found;
}

// Writes an operation down: its signature, and its operands by their numbers. False where operands
// are missing, which is an error of ours.
bool wire(Cut& cut, Node* node) {
  const Facts& facts = facts_of(node->signature);
  if (node->is_computed || facts.operands != static_cast<Py_ssize_t>(node->num_operands))
    return false;
  PyObject* avals = slot(node->signature, python.of_signature.avals);
  cut.large = cut.large || facts.out_bytes > python.small_bytes;
  cut.words.push_back(reinterpret_cast<std::uintptr_t>(node->signature));
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    const Operand& x = node->operands[i];
    if (const Node* producer = x.producer(); producer != nullptr) {
      Result* result = x.result();
      ++result->uses;
      const std::size_t number =
          producer->first + static_cast<std::size_t>(result - producer->results);
      cut.codes.push_back({nullptr, static_cast<std::int64_t>(number)});
      cut.words.push_back(2 * number);
      continue;
    }
    PyObject* value = x.known();
    if (Py_IS_TYPE(value, python.literal)) {
      if (!facts.literals_are_inputs) {
        cut.codes.push_back({value, 0});
        cut.literals.push_back(Ref::share(value));
        cut.words.push_back(reinterpret_cast<std::uintptr_t>(value));
        continue;
      }
      PyObject* number = slot(value, python.literal_val);
      cut.inputs.push_back({Py_NewRef(number), slot(value, python.literal_aval), -1});
      cut.codes.push_back({nullptr, -static_cast<std::int64_t>(cut.inputs.size())});
    } else {
      PyObject* aval = PyTuple_GET_ITEM(avals, static_cast<Py_ssize_t>(i));
      cut.codes.push_back({nullptr, add_input(cut, value, aval)});
    }
    cut.words.push_back(2 * static_cast<std::uintptr_t>(-cut.codes.back().number) + 1);
  }
  return true;
}

// The operations whose results are much larger than all that they are made of, only where few
// operations make them, for these run again wherever the result is used. Empty where there are
// none.
std::vector<bool> grown(const Cut& cut) {
  if (!cut.large) return {};
  std::vector<bool> found(cut.nodes.size(), false);
  struct MadeOf {
    long long bytes;
    long steps;
  };
  std::vector<MadeOf> made(cut.nodes.size());
  for (std::size_t n = 0; n < cut.nodes.size(); ++n) {
    const Node* node = cut.nodes[n].get();
    const Facts& facts = facts_of(node->signature);
    made[n] = {facts.out_bytes, 0};
    if (!facts.spreads) continue;
    PyObject* sizes = slot(node->signature, python.of_signature.operand_bytes);
    MadeOf total = {0, 1};
    for (std::uint32_t i = 0; i < node->num_operands; ++i) {
      const Node* producer = node->operands[i].producer();
      PyObject* size = PyTuple_GET_ITEM(sizes, static_cast<Py_ssize_t>(i));
      const MadeOf operand =
          producer == nullptr ? MadeOf{PyLong_AsLongLong(size), 0} : made[producer->place];
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

// Whether somebody outside of a cut may ask for a result: arrays, what is held, and operations that
// are no part of the cut.
bool is_wanted(const Result& result) {
  return result.is_in_arrays || result.held != 0 || result.readers > result.uses || result.forced;
}

// Chooses what comes out.
void choose(Cut& cut, const std::vector<Node*>& requested) {
  const std::vector<bool> large = grown(cut);
  for (std::size_t n = cut.nodes.size(); n-- > 0;) {
    Node* node = cut.nodes[n].get();
    const std::size_t before = cut.outputs.size();
    for (std::uint32_t k = node->num_results; k-- > 0;) {
      if (is_wanted(node->results[k])) cut.outputs.push_back({node, k, node->first + k});
    }
    if (cut.outputs.size() == before || large.empty() || !large[n]) continue;
    if (std::find(requested.begin(), requested.end(), node) != requested.end()) continue;
    node->is_deferred = true;
    cut.outputs.resize(before);
    for (std::uint32_t i = 0; i < node->num_operands; ++i) {
      const Operand& x = node->operands[i];
      if (x.producer() != nullptr) x.result()->forced = true;
    }
  }
  std::reverse(cut.outputs.begin(), cut.outputs.end());
  for (const Cut::Output& output : cut.outputs) cut.words.push_back(2 * output.number);
}

}  // namespace

std::unique_ptr<Cut> NewCut::spare_;

void Cut::clear() {
  for (; !nodes.empty(); nodes.pop_back()) const NodeReference ended = std::move(nodes.back());
  for (; !inputs.empty(); inputs.pop_back()) const Ref ended(inputs.back().value);
  codes.clear();
  for (; !literals.empty(); literals.pop_back()) const Ref ended = std::move(literals.back());
  outputs.clear();
  words.clear();
  known.clear();
  results = ran = again = 0;
  large = false;
}

bool make_cut(const std::vector<Node*>& roots, bool requested, std::uintptr_t first, Cut& cut) {
  cut.words.push_back(first);
  bool complete = true;
  walk(roots, [&](Node* node) {
    add_node(cut, node);
    return complete = wire(cut, node);
  });
  if (!complete) {
    PyErr_SetString(PyExc_SystemError, "a recorded operation that is not computed has no operands");
    return false;
  }
  cut.words.push_back(0);
  choose(cut, requested ? roots : std::vector<Node*>());
  return true;
}

void finish(Cut& cut) {
  for (std::size_t n = cut.nodes.size(); n-- > 0;) {  // what reads a result before what gives it
    Node* node = cut.nodes[n].get();
    node->ran = true;
    node->is_computed = true;
    for (std::uint32_t k = 0; k < node->num_results; ++k) {
      const Result& result = node->results[k];
      if (result.known == nullptr && result.is_owned()) node->is_computed = false;
    }
    if (node->is_computed) drop_operands(node);
  }
}

std::size_t count_of(const Operand* operands, std::size_t count) {
  std::vector<Node*> roots;
  for (std::size_t i = 0; i < count; ++i) {
    Node* node = operands[i].producer();
    if (node != nullptr) roots.push_back(node);
  }
  std::size_t found = 0;
  walk(roots, [&](Node*) { return ++found < kMostCounted; });
  return found;
}

}  // namespace functrax::eager
