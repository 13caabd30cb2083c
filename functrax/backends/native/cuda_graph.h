// Parts of programs that a GPU gets as one CUDA graph: follows functrax/backends/cuda/graphs.py,
// which tells when a part becomes a graph, and what CUDA's rules are.
//
// All of it under the GIL. A simulated driver lets other threads run while it is called, so a part
// that is at work is left alone: who comes meanwhile asks for launches one by one.

#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda_gpu.h"
#include "cuda_graph_work.h"
#include "executor.h"
#include "program.h"

namespace functrax::cuda {

// The kernels that set conditions (functrax/backends/cuda/conditions.py), by the logarithm of the
// bytes that they read, and the one without a sign first; null where no part needs them.
using SettingKernels = std::array<Handle, 8>;

// What parts with branches and loops need.
struct Conditions {
  SettingKernels kernels{};
  LoopCopies copies{};
};

class KernelParameters;

// A graph that can be launched, and the addresses that its nodes have.
class ExecutableGraph {
 public:
  ExecutableGraph(Gpu& gpu, const SettingKernels& setting) : gpu_(gpu), setting_(setting) {}
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;

  // The error's number; `function` is set to what failed.
  int make(const PartWork& work, const std::vector<std::vector<int>>& order, const char*& function);
  // Whether it does the same, but for addresses.
  bool fits(const PartWork& work) const;
  // Gives the nodes other addresses; false with an error set.
  bool patch(const PartWork& work, std::int64_t& patched);
  bool launch() { return gpu_.launch_graph(executable_); }

  std::size_t size() const { return work_.works.size(); }

  std::vector<void*> given;  // the addresses of the frame that the others follow from

 private:
  int add(const Work& x, const std::vector<int>& after, const char*& function);
  KernelParameters kernel_node(const Work& x, void** places);

  Gpu& gpu_;
  const SettingKernels& setting_;
  PartWork work_;
  std::vector<Handle> nodes_, bodies_;
  std::vector<Condition> conditions_;
  Handle graph_ = nullptr, executable_ = nullptr;
};

// Neighbouring instructions of a program that may become a graph.
class GraphPart {
 public:
  // A graph of what runs once is not worth its making, unless that has a loop: then it is made at
  // once.
  GraphPart(int begin, int end, bool at_once) : begin(begin), end(end), ran_(at_once) {}

  // Asks for the part's work as one graph: 1, 0 where that is to be asked for one by one, -1 with
  // an error set.
  int ask(Gpu& gpu, const Conditions& conditions, const program::Program& program,
          executor::Frame& frame);

  // The program's number, the part, how many nodes and graphs, launches, and patched nodes.
  PyObject* told(int number) const;

  const int begin, end;

 private:
  int changed(Gpu& gpu, const Conditions& conditions, const program::Program& program,
              executor::Frame& frame);

  // The results of a call are arguments of the next: two sets of addresses take turns.
  static constexpr int kGraphs = 2;

  std::unique_ptr<ExecutableGraph> graphs_[kGraphs];
  std::vector<void*> given_;
  PartWork work_;  // of the last run that was looked at, whose memory is used again
  int last_ = kGraphs - 1;
  bool ran_, at_work_ = false, refused_ = false;
  std::int64_t launches_ = 0, patched_ = 0;
};

struct Graphs {
  std::unordered_map<const program::Program*, std::vector<GraphPart>> parts;
  Conditions conditions;
};

// Enters the parts of a program and those inside it; `parts` has pairs (begin, end) by the numbers
// of programs. False with an error set.
bool add_parts(Graphs& graphs, const program::Program& program, PyObject* parts);

// Enters what graphs.conditions_of gives, a tuple; false with an error set.
bool add_conditions(Graphs& graphs, PyObject* conditions);

// A list of what GraphPart::told gives.
PyObject* told(const Graphs& graphs);

}  // namespace functrax::cuda
