// Which nodes of a CUDA graph come before which: follows functrax/backends/cuda/graph_order.py,
// which tells how that is found.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_driver.h"

namespace functrax::cuda {

// Memory that a node reads or writes.
struct Access {
  Place begin, end;
  bool writes;
};

// Memory that lies where another does, or may in another call.
struct SharedPlace {
  Place begin, end, other;
};

// What a node accesses itself, the body that it is in, and the bodies that it has.
struct NodeMemory {
  std::vector<Access> accesses;
  int body, first_body, bodies;
};

// Lets two places of so many bytes count as one.
void share(std::vector<SharedPlace>& shared, Place one, Place other, std::size_t nbytes);

// For each node those of its body that it comes after, without those that follow from these; the
// latest first. Those in a node's bodies come after it, and the others of its body after these.
std::vector<std::vector<int>> order_in_bodies(std::vector<NodeMemory> nodes,
                                              const std::vector<SharedPlace>& shared);

}  // namespace functrax::cuda
