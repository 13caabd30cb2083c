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

// Lets two places of so many bytes count as one.
void share(std::vector<SharedPlace>& shared, Place one, Place other, std::size_t nbytes);

// For each node, of which accesses are given, the nodes that it comes after, without those that
// follow from these; the latest first.
std::vector<std::vector<int>> order_of(const std::vector<std::vector<Access>>& nodes,
                                       const std::vector<SharedPlace>& shared);

}  // namespace functrax::cuda
