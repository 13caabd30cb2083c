// Parts of programs that a GPU gets as one CUDA graph: follows functrax/backends/cuda/graphs.py,
// which tells when a part becomes a graph, and what CUDA's rules are.
//
// All of it under the GIL. A simulated driver lets other threads run while it is called, so a part
// that is at work is left alone: who comes meanwhile asks for launches one by one.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda_gpu.h"
#include "executor.h"
#include "program.h"

namespace functrax::cuda {

// What one node does: a launch, or where that is null a copy of so many bytes.
struct Work {
  const program::Program* program;  // whose instruction the launch is
  const program::Instruction* launch;
  std::size_t first;  // of its addresses: of the operands, or the target and the source
  std::int64_t nbytes;
};

// The work of a part, with the addresses that it has in one run.
struct PartWork {
  std::vector<Work> works;
  std::vector<void*> places;
};

// A graph that can be launched, and the addresses that its nodes have.
class ExecutableGraph {
 public:
  explicit ExecutableGraph(Gpu& gpu) : gpu_(gpu) {}
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

  Gpu& gpu_;
  PartWork work_;
  std::vector<Handle> nodes_;
  Handle graph_ = nullptr, executable_ = nullptr;
};

// Neighbouring instructions of a program that may become a graph.
class GraphPart {
 public:
  GraphPart(int begin, int end) : begin(begin), end(end) {}

  // Asks for the part's work as one graph: 1, 0 where that is to be asked for one by one, -1 with
  // an error set.
  int ask(Gpu& gpu, const program::Program& program, executor::Frame& frame);

  // The program's number, the part, how many nodes and graphs, launches, and patched nodes.
  PyObject* told(int number) const;

  const int begin, end;

 private:
  int changed(Gpu& gpu, const program::Program& program, executor::Frame& frame);

  // The results of a call are arguments of the next: two sets of addresses take turns.
  static constexpr int kGraphs = 2;

  std::unique_ptr<ExecutableGraph> graphs_[kGraphs];
  std::vector<void*> given_;
  PartWork work_;  // of the last run that was looked at, whose memory is used again
  int last_ = kGraphs - 1;
  bool ran_ = false, at_work_ = false, refused_ = false;
  std::int64_t launches_ = 0, patched_ = 0;
};

using Graphs = std::unordered_map<const program::Program*, std::vector<GraphPart>>;

// Enters the parts of a program and those inside it; `parts` has pairs (begin, end) by the numbers
// of programs. False with an error set.
bool add_parts(Graphs& graphs, const program::Program& program, PyObject* parts);

// A list of what GraphPart::told gives.
PyObject* told(const Graphs& graphs);

}  // namespace functrax::cuda
