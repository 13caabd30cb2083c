// See cuda_graph.h. Start at GraphPart::ask.

#include "cuda_graph.h"

#include <algorithm>
#include <utility>

#include "cuda_graph_order.h"
#include "cuda_run.h"
#include "interpreter_exit.h"
#include "program_walk.h"
#include "reference.h"
#include "small_array.h"

namespace functrax::cuda {
namespace {

using executor::Frame;
using program::Instruction;
using program::Op;
using program::Program;
using program::Slot;

// A run, as program_walk.h has it, that writes down what is to be done.
class Recording {
 public:
  explicit Recording(PartWork& found) : found_(found) {
    found_.works.clear();
    found_.places.clear();
  }

  bool program(const Program& p, Frame& frame) {
    for (int slot : p.sharing) frame.slots[slot] = frame.slots[p.slots[slot].shares];
    return part(p, frame, 0, static_cast<int>(p.instructions.size()));
  }
  bool part(const Program& p, Frame& frame, int begin, int end) {
    for (int k = begin; k < end; ++k) {
      if (!instruction(p, p.instructions[k], frame)) return false;
    }
    return true;
  }
  bool copy(void* target, const void* source, std::int64_t nbytes) {
    if (target == source || nbytes == 0) return true;
    found_.works.push_back({nullptr, nullptr, found_.places.size(), nbytes});
    found_.places.push_back(target);
    found_.places.push_back(const_cast<void*>(source));
    return true;
  }
  bool read(const void*, void*, std::int64_t) { return refused(); }
  bool poll(std::int64_t) { return true; }

 private:
  bool instruction(const Program& p, const Instruction& x, Frame& frame) {
    switch (x.op) {
      case Op::kLaunch:
        return launch(p, x, frame);
      case Op::kCopy: {
        const int source = x.inputs[0];
        return copy(frame.slots[x.outputs[0]], frame.slots[source], p.slots[source].nbytes);
      }
      case Op::kScan:
        return executor::LoopRun<Recording>(*this, p, x, frame).run();
      default:
        return refused();
    }
  }

  bool launch(const Program& p, const Instruction& x, Frame& frame) {
    if (x.units == 0) return true;
    const std::size_t first = found_.places.size();
    found_.works.push_back({&p, &x, first, 0});
    found_.places.resize(first + x.operands.size());
    executor::put_addresses(x, frame, found_.places.data() + first);
    return true;
  }

  bool refused() {
    PyErr_SetString(PyExc_SystemError, "an instruction that waits for the host is in a graph");
    return false;
  }

  PartWork& found_;
};

std::vector<std::vector<Access>> accesses_of(const PartWork& work) {
  std::vector<std::vector<Access>> nodes;
  for (const Work& x : work.works) {
    auto& accesses = nodes.emplace_back();
    const auto add = [&](void* place, std::int64_t before, std::int64_t nbytes, bool writes) {
      const Place begin = as_place(place) - static_cast<Place>(before);
      accesses.push_back({begin, begin + static_cast<Place>(nbytes), writes});
    };
    if (x.launch == nullptr) {
      add(work.places[x.first], 0, x.nbytes, true);
      add(work.places[x.first + 1], 0, x.nbytes, false);
      continue;
    }
    const Instruction& launch = *x.launch;
    for (std::size_t k = 0; k < launch.operands.size(); ++k) {
      const std::int64_t nbytes = x.program->slots[launch.operands[k]].nbytes;
      const std::int64_t before = launch.begins.empty() ? 0 : launch.begins[k];
      add(work.places[x.first + k], before, nbytes, k >= launch.inputs.size());
    }
  }
  return nodes;
}

// Results that lie in the memory of an argument if that is donated, which is so in some calls.
std::vector<SharedPlace> shared_places(const Program& p, Frame& frame) {
  std::vector<SharedPlace> shared;
  for (const auto& [output, input] : p.aliases) {
    const int result = p.outputs[output], argument = p.inputs[input];
    share(shared, as_place(frame.slots[argument]), as_place(frame.slots[result]),
          static_cast<std::size_t>(p.slots[result].nbytes));
  }
  return shared;
}

// The addresses that all others of a frame follow from.
void read_given(const Program& p, Frame& frame, std::vector<void*>& given) {
  given.clear();
  given.push_back(frame.arena);
  for (int slot : p.inputs) given.push_back(frame.slots[slot]);
  for (int n : p.written) given.push_back(frame.slots[p.outputs[n]]);
}

// What a node for a launch is made of, and changed to.
class LaunchNode {
 public:
  LaunchNode(const Instruction& x, void** places) : parameters_(x.operands.size() + 1) {
    const std::size_t count = x.operands.size();
    for (std::size_t k = 0; k < count; ++k) parameters_[k] = places + k;
    parameters_[count] = const_cast<std::int64_t*>(x.params.data());
    node_ = {reinterpret_cast<Handle>(x.kernel),
             {static_cast<unsigned>(x.units), 1, 1},
             {static_cast<unsigned>(x.grain), 1, 1},
             0,
             parameters_.data(),
             nullptr};
  }
  const KernelNode* get() const { return &node_; }

 private:
  SmallArray<void*, 16> parameters_;
  KernelNode node_;
};

CopyNode copy_node(std::int64_t nbytes, void* const* places) {
  const auto side = [&](void* place) {
    CopyNode::Side made{};
    made.kind = kDeviceMemory;
    made.device = as_place(place);
    made.pitch = static_cast<std::size_t>(nbytes);
    made.height = 1;
    return made;
  };
  return {side(places[1]), side(places[0]), static_cast<std::size_t>(nbytes), 1, 1};
}

}  // namespace

// ---- executable graphs --------------------------------------------------------------------------

// A graph that is running ends; then the driver frees it. An error here is one that the driver
// reports again at the next call.
ExecutableGraph::~ExecutableGraph() {
  if (graph_ == nullptr || interpreter_exit::ending.load()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);  // a simulated driver is Python
  gpu_.driver.cuCtxSetCurrent(gpu_.context_);
  if (executable_ != nullptr) gpu_.driver.cuGraphExecDestroy(executable_);
  gpu_.driver.cuGraphDestroy(graph_);
  PyErr_Restore(type, value, trace);
}

int ExecutableGraph::make(const PartWork& work, const std::vector<std::vector<int>>& order,
                          const char*& function) {
  work_ = work;
  function = "cuGraphCreate";
  int error = gpu_.driver.cuGraphCreate(&graph_, 0);
  for (std::size_t k = 0; error == kSuccess && k < work_.works.size(); ++k) {
    error = add(work_.works[k], order[k], function);
  }
  if (error != kSuccess) return error;
  function = "cuGraphInstantiate";
  return gpu_.driver.cuGraphInstantiateWithFlags(&executable_, graph_, 0);
}

int ExecutableGraph::add(const Work& x, const std::vector<int>& after, const char*& function) {
  SmallArray<Handle, 16> others(after.size());
  for (std::size_t k = 0; k < after.size(); ++k) others[k] = nodes_[after[k]];
  void** places = work_.places.data() + x.first;
  Handle& node = nodes_.emplace_back(nullptr);
  if (x.launch == nullptr) {
    function = "cuGraphAddMemcpyNode";
    const CopyNode copy = copy_node(x.nbytes, places);
    return gpu_.driver.cuGraphAddMemcpyNode(&node, graph_, others.data(), after.size(), &copy,
                                            gpu_.context_);
  }
  function = "cuGraphAddKernelNode";
  const LaunchNode launch(*x.launch, places);
  return gpu_.driver.cuGraphAddKernelNode(&node, graph_, others.data(), after.size(), launch.get());
}

bool ExecutableGraph::fits(const PartWork& work) const {
  const auto same = [](const Work& x, const Work& y) {
    return x.launch == y.launch && x.nbytes == y.nbytes;
  };
  return std::equal(work_.works.begin(), work_.works.end(), work.works.begin(), work.works.end(),
                    same);
}

bool ExecutableGraph::patch(const PartWork& work, std::int64_t& patched) {
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    const Work& x = work_.works[k];
    const std::size_t count = x.launch == nullptr ? 2 : x.launch->operands.size();
    void** mine = work_.places.data() + x.first;
    const void* const* theirs = work.places.data() + x.first;
    if (std::equal(mine, mine + count, theirs)) continue;
    std::copy(work.places.data() + x.first, work.places.data() + x.first + count, mine);
    ++patched;
    if (x.launch == nullptr) {
      const CopyNode copy = copy_node(x.nbytes, mine);
      const int error =
          gpu_.driver.cuGraphExecMemcpyNodeSetParams(executable_, nodes_[k], &copy, gpu_.context_);
      if (!gpu_.check(error, "cuGraphExecMemcpyNodeSetParams")) return false;
    } else {
      const LaunchNode launch(*x.launch, mine);
      const int error =
          gpu_.driver.cuGraphExecKernelNodeSetParams(executable_, nodes_[k], launch.get());
      if (!gpu_.check(error, "cuGraphExecKernelNodeSetParams")) return false;
    }
  }
  return true;
}

// ---- parts of programs --------------------------------------------------------------------------

int GraphPart::ask(Gpu& gpu, const Program& p, Frame& frame) {
  if (at_work_ || refused_) return 0;
  if (!std::exchange(ran_, true)) return 0;  // a graph of what runs once is not worth its making
  at_work_ = true;
  const int asked = changed(gpu, p, frame);
  at_work_ = false;
  return asked;
}

int GraphPart::changed(Gpu& gpu, const Program& p, Frame& frame) {
  read_given(p, frame, given_);
  int number = 0;
  while (number < kGraphs && !(graphs_[number] && graphs_[number]->given == given_)) ++number;
  if (number == kGraphs) {
    number = (last_ + 1) % kGraphs;
    std::unique_ptr<ExecutableGraph>& graph = graphs_[number];
    if (!Recording(work_).part(p, frame, begin, end)) return -1;
    if (graph && graph->fits(work_)) {
      if (!graph->patch(work_, patched_)) {
        graph.reset();
        return -1;
      }
    } else {
      graph = std::make_unique<ExecutableGraph>(gpu);
      const auto order = order_of(accesses_of(work_), shared_places(p, frame));
      const char* function;
      const int error = graph->make(work_, order, function);
      if (error != kSuccess) {
        graph.reset();
        refused_ = error == kOutOfMemory || error == kNotSupported;
        return refused_ || gpu.check(error, function) ? 0 : -1;
      }
    }
    graph->given = given_;
  }
  last_ = number;
  ++launches_;
  return graphs_[number]->launch() ? 1 : -1;
}

PyObject* GraphPart::told(int number) const {
  Py_ssize_t nodes = 0, count = 0;
  for (const auto& graph : graphs_) {
    if (graph == nullptr) continue;
    nodes = std::max(nodes, static_cast<Py_ssize_t>(graph->size()));
    ++count;
  }
  return Py_BuildValue("iiinnLL", number, begin, end, nodes, count,
                       static_cast<long long>(launches_), static_cast<long long>(patched_));
}

bool add_parts(Graphs& graphs, const Program& program, PyObject* parts) {
  Ref number(PyLong_FromLong(program.number));
  PyObject* found = number ? PyDict_GetItemWithError(parts, number.get()) : nullptr;
  if (found == nullptr && PyErr_Occurred()) return false;
  for (Py_ssize_t k = 0; found != nullptr && k < PyTuple_GET_SIZE(found); ++k) {
    int begin, end;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(found, k), "ii", &begin, &end)) return false;
    graphs[&program].emplace_back(begin, end);
  }
  for (const Instruction& x : program.instructions) {
    for (const auto& inner : x.programs) {
      if (!add_parts(graphs, *inner, parts)) return false;
    }
  }
  return true;
}

PyObject* told(const Graphs& graphs) {
  Ref list(PyList_New(0));
  for (const auto& [program, parts] : graphs) {
    for (const GraphPart& part : parts) {
      Ref one(list ? part.told(program->number) : nullptr);
      if (!one || PyList_Append(list.get(), one.get()) != 0) return nullptr;
    }
  }
  if (list && PyList_Sort(list.get()) != 0) return nullptr;
  return list.release();
}

}  // namespace functrax::cuda
