// One program of many, which have results of one another as inputs, or nothing in common: what is
// equal in a wide eager program is compiled once (eager_parts.h), and launched from one list of
// instructions, as if it had been compiled as a whole.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "program.h"

namespace functrax::program {

// One of the programs. Values are numbered: the inputs of the whole first.
struct Part {
  const Program* program;           // which outlives the whole
  const std::vector<bool>* shares;  // whether threads may share an instruction with others
  std::vector<int> inputs, outputs;
  std::uint32_t stage;  // threads share instructions of parts of one stage, which come together
};

// The whole, of which some values are results, perhaps several times. Parts that run at the same
// time have temporaries of at most so many bytes, as far as there are several. Null where the parts
// cannot be put together.
std::unique_ptr<Program> join(const std::vector<Part>& parts, int values, int inputs,
                              const std::vector<int>& results, std::int64_t most_bytes);

}  // namespace functrax::program
