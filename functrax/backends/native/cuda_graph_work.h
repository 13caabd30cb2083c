// What the nodes of a part do: follows functrax/backends/cuda/graph_work.py, which tells what
// works, conditions and bodies are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_graph_order.h"
#include "executor.h"
#include "program.h"

namespace functrax::cuda {

// What one node does.
struct Work {
  enum Kind { kLaunch, kCopy, kSetting, kSwitch, kLoop };

  Kind kind;
  int body;                                      // that it is in; 0 is the part itself
  std::size_t first = 0;                         // of its addresses
  std::size_t count = 0;                         // how many they are
  std::int64_t nbytes = 0;                       // of a copy, or of a cell
  const program::Program* program = nullptr;     // whose instruction a launch is
  const program::Instruction* launch = nullptr;  // the launch
  int condition = -1;                            // that is set, or decides
  std::int64_t last = 0;                         // the largest number that a condition may be
  bool is_unsigned = false;                      // whether the number in a cell is
  int first_body = 0, bodies = 0;                // that it decides between

  // Whether it is the same but for addresses.
  bool like(const Work& x) const {
    return kind == x.kind && body == x.body && nbytes == x.nbytes && launch == x.launch &&
           condition == x.condition && last == x.last && is_unsigned == x.is_unsigned &&
           first_body == x.first_body && bodies == x.bodies;
  }
};

// The work of a part, with the addresses that it has in one run. What is in a body comes after what
// decides.
struct PartWork {
  std::vector<Work> works;
  std::vector<void*> places;
};

// Which loops copy their carry back after each step: where the bytes that are copied and so many
// for each copy are no more than the most.
struct LoopCopies {
  std::int64_t node_bytes, most_bytes;
};

// Writes down what instructions of a program do; false with an error set.
bool record_part(PartWork& found, const LoopCopies& copies, const program::Program& program,
                 executor::Frame& frame, int begin, int end);

// For each work those of the same body that it comes after, the latest first.
std::vector<std::vector<int>> order_of_works(const PartWork& work,
                                             const std::vector<SharedPlace>& shared);

}  // namespace functrax::cuda
