// What fourier_transforms.h needs of others, and what its translation units give. These are
// included before the processor is named for which a unit is translated.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "aligned_memory.h"
#include "library.h"
#include "targets/native.h"

namespace functrax::library {

// The transforms for vectors of 32 and of 64 bytes.
void add_wider_fourier_loops(std::vector<Named>& to);
void add_widest_fourier_loops(std::vector<Named>& to);

}  // namespace functrax::library
