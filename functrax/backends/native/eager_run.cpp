// See eager_run.h. Start at run_cut.

#include "eager_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eager_cut.h"
#include "eager_parts.h"
#include "eager_state.h"
#include "eager_value.h"
#include "executable.h"
#include "pointer_map.h"
#include "program_join.h"
#include "reference.h"
#include "words.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostPrograms = 1 << 14;

// Programs by the words of cuts, and the objects whose addresses are in the words.
struct Program {
  Ref executable;
  std::vector<Ref> kept;
  std::vector<bool> shares;  // of a part, which instructions threads may share with others
};

// Never freed: Python ends before.
auto& programs = *new std::unordered_map<Words, Program, WordsHash>;

// Those of parts of wide cuts, and how many operations the programs have that were put together.
auto& part_programs = *new std::unordered_map<Words, std::shared_ptr<Program>, WordsHash>;
std::size_t joined_operations = 0;
constexpr std::size_t kMostJoined = 1 << 16;

std::uint64_t operations = 0, again = 0, raced = 0;

template <typename Item>
Ref list_of(std::size_t count, const Item& item) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; list && i < count; ++i) {
    PyObject* made = item(i);
    if (made == nullptr) return Ref();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), made);
  }
  return list;
}

// The values that go in, which the cut does not hold any more.
Ref take_inputs(Cut& cut) {
  return list_of(cut.inputs.size(),
                 [&](std::size_t i) { return std::exchange(cut.inputs[i].value, nullptr); });
}

// A cut for Python: signatures, lines, numbers of the operands, inputs, types of the inputs, and
// numbers of the outputs.
Ref described(const Cut& cut, Ref inputs) {
  const std::size_t count = cut.nodes.size();
  Ref signatures =
      list_of(count, [&](std::size_t n) { return Py_NewRef(cut.nodes[n].get()->signature); });
  Ref lines =
      list_of(count, [&](std::size_t n) { return Py_XNewRef(cut.nodes[n].get()->line.object()); });
  const Cut::Code* code = cut.codes.data();
  Ref operands = list_of(count, [&](std::size_t n) -> PyObject* {
    const Py_ssize_t size = facts_of(cut.nodes[n].get()->signature).operands;
    Ref all(PyTuple_New(size));
    for (Py_ssize_t i = 0; all && i < size; ++i, ++code) {
      PyObject* x =
          code->literal != nullptr ? Py_NewRef(code->literal) : PyLong_FromLongLong(code->number);
      if (x == nullptr) return nullptr;
      PyTuple_SET_ITEM(all.get(), i, x);
    }
    return all.release();
  });
  Ref avals =
      list_of(cut.inputs.size(), [&](std::size_t i) { return Py_NewRef(cut.inputs[i].aval); });
  Ref outputs = list_of(cut.outputs.size(),
                        [&](std::size_t i) { return PyLong_FromSize_t(cut.outputs[i].number); });
  if (!signatures || !lines || !operands || !inputs || !avals || !outputs) return Ref();
  return Ref(PyTuple_Pack(6, signatures.get(), lines.get(), operands.get(), inputs.get(),
                          avals.get(), outputs.get()));
}

// The program of a cut, to be remembered.
Program program_for(const Cut& cut, PyObject* executable) {
  if (programs.size() + part_programs.size() >= kMostPrograms) {
    Ref(forget_programs(nullptr, nullptr));
  }
  Program program = {Ref::share(executable), {}, {}};
  for (const NodeReference& node : cut.nodes) {
    program.kept.push_back(Ref::share(node.get()->signature));
  }
  for (const Ref& literal : cut.literals) program.kept.push_back(Ref::share(literal.get()));
  return program;
}

// The results of a cut whose operations Python runs one by one.
Ref compute_each(Cut& cut) {
  Ref fields = described(cut, take_inputs(cut));
  return fields ? Ref(PyObject_CallObject(python.compute_each, fields.get())) : Ref();
}

// The results of a cut by a program that Python makes.
Ref compute_new(Cut& cut, bool is_known_mode) {
  Words words = cut.words;
  Ref fields = described(cut, take_inputs(cut));
  if (!fields) return Ref();
  Ref found(PyObject_CallObject(python.compute, fields.get()));
  if (!found) return Ref();
  PyObject *results, *executable;
  if (!PyArg_ParseTuple(found.get(), "O!O", &PyList_Type, &results, &executable)) return Ref();
  if (executable != Py_None && is_known_mode) {
    programs.try_emplace(std::move(words), program_for(cut, executable));
  }
  return Ref::share(results);
}

// The results of a cut whose program is known; where it fails Python sees to it.
Ref compute_known(Cut& cut, const Program& program, bool requested) {
  const Ref executable = Ref::share(program.executable.get());  // others may forget it meanwhile
  const Ref inputs = take_inputs(cut);
  if (!inputs) return Ref();
  Ref results(requested ? PyObject_CallOneArg(executable.get(), inputs.get())
                        : executable::start(executable.get(), inputs.get()));
  if (results || !PyErr_ExceptionMatches(PyExc_Exception)) return results;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  const Ref kinds[] = {Ref(type), Ref(traceback)};
  const Ref error(value), fields = described(cut, Ref::share(inputs.get()));
  if (!fields) return Ref();
  return Ref(PyObject_CallFunctionObjArgs(python.recover, error.get(), fields.get(), nullptr));
}

bool deliver(Cut& cut, PyObject* results) {
  if (!PyList_Check(results) ||
      PyList_GET_SIZE(results) != static_cast<Py_ssize_t>(cut.outputs.size())) {
    PyErr_SetString(PyExc_SystemError, "a recorded program has other results than its cut");
    return false;
  }
  for (std::size_t i = 0; i < cut.outputs.size(); ++i) {
    PyObject* raw = PyList_GET_ITEM(results, static_cast<Py_ssize_t>(i));
    PyObject*& known = cut.outputs[i].node->results[cut.outputs[i].place].known;
    if (known == nullptr) known = Py_NewRef(raw);  // else a faster thread gave the same bits
  }
  operations += cut.nodes.size();
  again += cut.again;
  for (const NodeReference& node : cut.nodes) raced += node.get()->ran;
  raced -= cut.ran;
  finish(cut);
  return true;
}

void leave_out_computed(std::vector<Node*>& nodes) {
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [](const Node* node) { return node->is_computed; }),
              nodes.end());
}

// The program of a part that Python makes: of so many that are alike, and now or if that pays. Null
// without an error set if it does not; one without executable if it cannot be made.
std::shared_ptr<Program> new_part(const Cut& cut, std::size_t alike, bool now) {
  const Ref fields = described(cut, Ref(PyList_New(0)));
  if (!fields) return nullptr;
  const Ref made(PyObject_CallFunction(python.prepare, "nOO", static_cast<Py_ssize_t>(alike),
                                       now ? Py_True : Py_False, fields.get()));
  if (!made || made.get() == Py_None) return nullptr;
  if (made.get() == Py_NotImplemented) return std::make_shared<Program>();
  PyObject *executable, *shares;
  if (!PyArg_ParseTuple(made.get(), "OO!", &executable, &PyList_Type, &shares)) return nullptr;
  auto program = std::make_shared<Program>(program_for(cut, executable));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(shares); ++i) {
    program->shares.push_back(PyList_GET_ITEM(shares, i) == Py_True);
  }
  part_programs.insert_or_assign(cut.words, program);
  return program;
}

// The program of a wide cut, put together from those of its parts. Null without an error set where
// it has none; `each` are operations then whose parts do not pay a program yet.
Ref join_parts(const Cut& whole, std::vector<Node*>& each) {
  const Parts parts(whole);
  if (parts.size() == 0) return Ref();
  struct Kind {
    std::shared_ptr<Program> program;
    std::vector<int> constants;  // the results, where it has no inputs
  };
  std::vector<program::Part> found;
  std::unordered_map<Words, Kind, WordsHash> met;
  const auto inputs = static_cast<int>(whole.inputs.size());
  std::vector<int> same(inputs + whole.results);  // another value that each is, or itself
  std::iota(same.begin(), same.end(), 0);
  const NewCut owner;
  Cut& cut = *owner;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    cut.clear();
    program::Part part;
    parts.describe(k, cut, part.inputs, part.outputs);
    for (int& value : part.inputs) value = same[value];
    auto kind = met.find(cut.words);
    if (kind == met.end()) {
      const auto known = part_programs.find(cut.words);
      std::shared_ptr<Program> program = known != part_programs.end()
                                             ? known->second
                                             : new_part(cut, parts[k].alike, !parts.are_separate());
      if (PyErr_Occurred() || (program && !program->executable)) return Ref();
      kind = met.emplace(cut.words, Kind{std::move(program), {}}).first;
    }
    auto& [program, constants] = kind->second;
    if (!program) {
      for (const Cut::Output& output : cut.outputs) each.push_back(output.node);
      continue;
    }
    if (part.inputs.empty()) {
      if (constants.empty()) constants = part.outputs;
      for (std::size_t i = 0; i < constants.size(); ++i) same[part.outputs[i]] = constants[i];
      if (constants != part.outputs) continue;
    }
    part.program = executable::program_of(program->executable.get());
    part.shares = &program->shares;
    part.stage = parts[k].stage;
    found.push_back(std::move(part));
  }
  if (!each.empty()) return Ref();
  Ref used(PyList_New(0));
  for (const auto& [words, kind] : met) {
    if (!used || PyList_Append(used.get(), kind.program->executable.get()) != 0) return Ref();
  }
  std::vector<int> results;
  for (const Cut::Output& output : whole.outputs) {
    results.push_back(same[inputs + static_cast<int>(output.number)]);
  }
  const auto values = static_cast<int>(same.size());
  auto joined = program::join(found, values, inputs, results, python.small_bytes);
  return joined ? executable::joined(std::move(joined), std::move(used)) : Ref();
}

// How what is new is run: by a program of its own or of its parts, or operation by operation.
enum class How { kProgram, kEach };

// Runs what some operations need; leaves those in `roots` that it runs.
bool run_cut(std::vector<Node*>& roots, bool requested, How how) {
  PyObject* mode = current_mode();
  if (mode == nullptr) return false;
  // Python ran since these were asked for, and so perhaps another thread that computed them.
  leave_out_computed(roots);
  if (roots.empty()) return true;
  const NewCut owner;
  Cut& cut = *owner;
  if (!make_cut(roots, requested, reinterpret_cast<std::uintptr_t>(mode), cut)) return false;
  const bool is_known_mode = mode != Py_None;
  if (how == How::kEach) {
    const Ref results = compute_each(cut);
    return results && deliver(cut, results.get());
  }
  auto found = is_known_mode ? programs.find(cut.words) : programs.end();
  if (found == programs.end() && is_known_mode) {
    std::vector<Node*> each;
    const Ref joined = join_parts(cut, each);
    if (!each.empty()) {
      return run_cut(each, requested, How::kEach) && run_cut(roots, requested, How::kProgram);
    }
    if (joined) {
      joined_operations += cut.nodes.size();
      if (joined_operations > kMostJoined) Ref(forget_programs(nullptr, nullptr));
      found = programs.try_emplace(cut.words, program_for(cut, joined.get())).first;
    } else if (PyErr_Occurred()) {
      return false;
    }
  }
  const Ref results = found == programs.end() ? compute_new(cut, is_known_mode)
                                              : compute_known(cut, found->second, requested);
  return results && deliver(cut, results.get());
}

// Runs an operation that is little work and needs no other, without a cut: 1 if it is one, 0 if it
// is none, -1 with an error set.
int run_single(Node* node) {
  const Facts& facts = facts_of(node->signature);
  if (!facts.is_brief || slot(node->signature, python.of_signature.alone) == Py_True) return 0;
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    if (node->operands[i].producer() != nullptr) return 0;
  }
  const NodeReference alive(node);
  const bool ran = node->ran;
  std::vector<Ref> held;  // before a list is made, which may let another thread run the node
  held.reserve(node->num_operands);
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    held.push_back(Ref::share(node->operands[i].known()));
  }
  Ref operands = list_of(held.size(), [&](std::size_t i) { return held[i].release(); });
  PyObject* source = node->line.object();
  if (!operands || source == nullptr) return -1;
  const Ref line = Ref::share(source);
  const Ref result(PyObject_CallFunctionObjArgs(python.compute_single, node->signature,
                                                operands.get(), line.get(), nullptr));
  if (!result) return -1;
  if (result.get() == Py_NotImplemented) return 0;
  if (node->results[0].known == nullptr) node->results[0].known = Py_NewRef(result.get());
  drop_operands(node);
  node->is_computed = true;
  ++operations;
  again += ran && !node->is_deferred;
  node->ran = true;
  return 1;
}

// Runs what operations of one mode need that are not computed.
bool run(std::vector<Node*> roots, bool requested) {
  for (;;) {
    leave_out_computed(roots);
    if (roots.empty()) return true;
    // Operations of another mode of rounding are another program's.
    PyObject* setting = slot(roots.front()->signature, python.of_signature.setting);
    const auto others = std::stable_partition(roots.begin(), roots.end(), [&](const Node* node) {
      return slot(node->signature, python.of_signature.setting) == setting;
    });
    const std::vector<Node*> rest(others, roots.end());
    roots.erase(others, roots.end());
    const int single = requested && roots.size() == 1 ? run_single(roots.front()) : 0;
    if (single < 0) return false;
    if (single == 0) {
      if (requested) note_look();
      if (!run_cut(roots, requested, How::kProgram)) return false;
    }
    roots = rest;
  }
}

}  // namespace

bool compute(const std::vector<Node*>& nodes) {
  const std::vector<NodeReference> alive(nodes.begin(), nodes.end());
  return run(nodes, true);
}

bool run_unasked(const std::vector<NodeReference>& nodes) {
  std::vector<Node*> roots;
  for (const NodeReference& node : nodes) roots.push_back(node.get());
  return run(std::move(roots), false);
}

PyObject* compute_values(PyObject*, PyObject* values) {
  const Ref given(PySequence_Fast(values, "expected a sequence of arrays' buffers"));
  if (!given) return nullptr;
  std::vector<Node*> nodes;
  PointerMap met;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.get()); ++i) {
    Node* node = operand_in(PySequence_Fast_GET_ITEM(given.get(), i)).producer();
    if (node != nullptr && met.at(node)++ == 0) nodes.push_back(node);
  }
  if (!compute(nodes)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* pending(PyObject*, PyObject* value) {
  Node* node = operand_in(value).producer();
  if (node == nullptr) Py_RETURN_NONE;
  const NewCut owner;
  if (!make_cut({node}, true, 0, *owner)) return nullptr;
  Ref inputs = take_inputs(*owner);
  return inputs ? described(*owner, std::move(inputs)).release() : nullptr;
}

PyObject* forget_programs(PyObject*, PyObject*) {
  std::unordered_map<Words, Program, WordsHash> dropped;
  std::unordered_map<Words, std::shared_ptr<Program>, WordsHash> dropped_parts;
  dropped.swap(programs);  // for what ends now may run Python
  dropped_parts.swap(part_programs);
  joined_operations = 0;
  Py_RETURN_NONE;
}

PyObject* counts(PyObject*, PyObject*) {
  Py_ssize_t waiting = 0;
  for (const Node* node = newest_node(); node != nullptr; node = node->after) ++waiting;
  return Py_BuildValue("KKKn", static_cast<unsigned long long>(operations),
                       static_cast<unsigned long long>(again),
                       static_cast<unsigned long long>(raced), waiting);
}

}  // namespace functrax::eager
