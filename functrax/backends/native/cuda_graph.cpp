// See cuda_graph.h. Start at GraphPart::ask.

#include "cuda_graph.h"

#include <algorithm>
#include <utility>

#include "cuda_run.h"
#include "interpreter_exit.h"
#include "reference.h"
#include "small_array.h"

namespace functrax::cuda {
namespace {

using executor::Frame;
using program::Instruction;
using program::Op;
using program::Program;

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

// What a node for a kernel is made of, and changed to.
class KernelParameters {
 public:
  KernelParameters(const Instruction& x, void** places) : parameters_(x.operands.size() + 1) {
    const std::size_t count = x.operands.size();
    for (std::size_t k = 0; k < count; ++k) parameters_[k] = places + k;
    parameters_[count] = const_cast<std::int64_t*>(x.params.data());
    fill(reinterpret_cast<Handle>(x.kernel), x.units, x.grain);
  }
  KernelParameters(const Work& x, const SettingKernels& kernels, Condition& condition,
                   void** places)
      : parameters_(3) {
    parameters_[0] = &condition;
    parameters_[1] = places;
    parameters_[2] = const_cast<std::int64_t*>(&x.last);
    int size = 0;  // the logarithm of the cell's bytes
    while (std::int64_t{1} << size < x.nbytes) ++size;
    fill(kernels[2 * size + (x.is_unsigned ? 0 : 1)], 1, 1);
  }
  const KernelNode* get() const { return &node_; }

 private:
  void fill(Handle function, std::int64_t grid, std::int64_t block) {
    node_ = {function,
             {static_cast<unsigned>(grid), 1, 1},
             {static_cast<unsigned>(block), 1, 1},
             0,
             parameters_.data(),
             nullptr};
  }

  SmallArray<void*, 16> parameters_;
  KernelNode node_;
};

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
  bodies_.assign(1, nullptr);
  function = "cuGraphCreate";
  int error = gpu_.driver.cuGraphCreate(&graph_, 0);
  bodies_[0] = graph_;
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
  const Handle in = bodies_[x.body];
  if (x.kind == Work::kCopy) {
    function = "cuGraphAddMemcpyNode";
    const CopyNode copy = copy_node(x.nbytes, places);
    return gpu_.driver.cuGraphAddMemcpyNode(&node, in, others.data(), after.size(), &copy,
                                            gpu_.context_);
  }
  if (x.condition == static_cast<int>(conditions_.size())) {  // numbered as they are needed
    function = "cuGraphConditionalHandleCreate";
    const int error = gpu_.driver.cuGraphConditionalHandleCreate(&conditions_.emplace_back(),
                                                                 graph_, gpu_.context_, 0, 0);
    if (error != kSuccess) return error;
  }
  if (x.bodies > 0) {
    function = "cuGraphAddNode";
    ConditionalNode made{};
    made.type = kConditional;
    made.handle = conditions_[x.condition];
    made.kind = x.kind == Work::kLoop ? kLoopNode : kSwitchNode;
    made.size = static_cast<unsigned>(x.bodies);
    made.context = gpu_.context_;
    const int error = gpu_.driver.cuGraphAddNode(&node, in, others.data(), after.size(), &made);
    if (error != kSuccess) return error;
    bodies_.resize(x.first_body + x.bodies);  // they are numbered in the same order
    std::copy(made.bodies, made.bodies + x.bodies, bodies_.begin() + x.first_body);
    return kSuccess;
  }
  function = "cuGraphAddKernelNode";
  const KernelParameters launch = kernel_node(x, places);
  return gpu_.driver.cuGraphAddKernelNode(&node, in, others.data(), after.size(), launch.get());
}

KernelParameters ExecutableGraph::kernel_node(const Work& x, void** places) {
  if (x.kind == Work::kLaunch) return KernelParameters(*x.launch, places);
  return KernelParameters(x, setting_, conditions_[x.condition], places);
}

bool ExecutableGraph::fits(const PartWork& work) const {
  const auto same = [](const Work& x, const Work& y) { return x.like(y); };
  return std::equal(work_.works.begin(), work_.works.end(), work.works.begin(), work.works.end(),
                    same);
}

bool ExecutableGraph::patch(const PartWork& work, std::int64_t& patched) {
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    const Work& x = work_.works[k];
    void** mine = work_.places.data() + x.first;
    const void* const* theirs = work.places.data() + x.first;
    if (std::equal(mine, mine + x.count, theirs)) continue;
    std::copy(work.places.data() + x.first, work.places.data() + x.first + x.count, mine);
    ++patched;
    if (x.kind == Work::kCopy) {
      const CopyNode copy = copy_node(x.nbytes, mine);
      const int error =
          gpu_.driver.cuGraphExecMemcpyNodeSetParams(executable_, nodes_[k], &copy, gpu_.context_);
      if (!gpu_.check(error, "cuGraphExecMemcpyNodeSetParams")) return false;
    } else {
      const KernelParameters launch = kernel_node(x, mine);
      const int error =
          gpu_.driver.cuGraphExecKernelNodeSetParams(executable_, nodes_[k], launch.get());
      if (!gpu_.check(error, "cuGraphExecKernelNodeSetParams")) return false;
    }
  }
  return true;
}

// ---- parts of programs --------------------------------------------------------------------------

int GraphPart::ask(Gpu& gpu, const Conditions& conditions, const Program& p, Frame& frame) {
  if (at_work_ || refused_) return 0;
  if (!std::exchange(ran_, true)) return 0;
  at_work_ = true;
  const int asked = changed(gpu, conditions, p, frame);
  at_work_ = false;
  return asked;
}

int GraphPart::changed(Gpu& gpu, const Conditions& conditions, const Program& p, Frame& frame) {
  read_given(p, frame, given_);
  int number = 0;
  while (number < kGraphs && !(graphs_[number] && graphs_[number]->given == given_)) ++number;
  if (number == kGraphs) {
    number = (last_ + 1) % kGraphs;
    std::unique_ptr<ExecutableGraph>& graph = graphs_[number];
    if (!record_part(work_, conditions.copies, p, frame, begin, end)) return -1;
    if (graph && graph->fits(work_)) {
      if (!graph->patch(work_, patched_)) {
        graph.reset();
        return -1;
      }
    } else {
      graph = std::make_unique<ExecutableGraph>(gpu, conditions.kernels);
      const auto order = order_of_works(work_, shared_places(p, frame));
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

namespace {

bool loops(const Instruction& x) {
  const auto inside = [](const auto& p) {
    return std::any_of(p->instructions.begin(), p->instructions.end(), loops);
  };
  return x.op == Op::kWhile || std::any_of(x.programs.begin(), x.programs.end(), inside);
}

}  // namespace

bool add_parts(Graphs& graphs, const Program& program, PyObject* parts) {
  Ref number(PyLong_FromLong(program.number));
  PyObject* found = number ? PyDict_GetItemWithError(parts, number.get()) : nullptr;
  if (found == nullptr && PyErr_Occurred()) return false;
  for (Py_ssize_t k = 0; found != nullptr && k < PyTuple_GET_SIZE(found); ++k) {
    int begin, end;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(found, k), "ii", &begin, &end)) return false;
    const auto first = program.instructions.begin();
    const bool at_once = std::any_of(first + begin, first + end, loops);
    graphs.parts[&program].emplace_back(begin, end, at_once);
  }
  for (const Instruction& x : program.instructions) {
    for (const auto& inner : x.programs) {
      if (!add_parts(graphs, *inner, parts)) return false;
    }
  }
  return true;
}

bool add_conditions(Graphs& graphs, PyObject* conditions) {
  if (PyTuple_GET_SIZE(conditions) == 0) return true;
  PyObject* kernels;
  long long node_bytes, most_bytes;
  if (!PyArg_ParseTuple(conditions, "O!LL", &PyTuple_Type, &kernels, &node_bytes, &most_bytes)) {
    return false;
  }
  Conditions& found = graphs.conditions;
  found.copies = {node_bytes, most_bytes};
  if (PyTuple_GET_SIZE(kernels) != static_cast<Py_ssize_t>(found.kernels.size())) {
    PyErr_SetString(PyExc_ValueError, "a wrong number of kernels that set conditions");
    return false;
  }
  for (std::size_t k = 0; k < found.kernels.size(); ++k) {
    found.kernels[k] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(kernels, static_cast<Py_ssize_t>(k)));
  }
  return !PyErr_Occurred();
}

PyObject* told(const Graphs& graphs) {
  Ref list(PyList_New(0));
  for (const auto& [program, parts] : graphs.parts) {
    for (const GraphPart& part : parts) {
      Ref one(list ? part.told(program->number) : nullptr);
      if (!one || PyList_Append(list.get(), one.get()) != 0) return nullptr;
    }
  }
  if (list && PyList_Sort(list.get()) != 0) return nullptr;
  return list.release();
}

}  // namespace functrax::cuda
