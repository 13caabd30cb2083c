// Wide cuts: trees of arrays whose leaves have little to do with one another, such as the update of
// all parameters of a model. What is equal in them is to be compiled once, so such a cut is taken
// apart; each part is described as a cut of its own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "eager_cut.h"
#include "eager_node.h"

namespace functrax::eager {

class Parts {
 public:
  struct Part {
    std::size_t begin, end;  // of its operations
    std::uint32_t stage;     // a part needs parts of earlier stages only
    std::size_t alike;       // how many parts do the same, about
  };

  // Those of the cut that was made last of some operations; none where it is better run as one:
  // where there are few parts, or most of them differ.
  explicit Parts(const Cut& cut);

  std::size_t size() const { return parts_.size(); }
  const Part& operator[](std::size_t k) const { return parts_[k]; }
  bool are_separate() const { return parts_.empty() || parts_.back().stage == 0; }

  // A part as a cut of its own, to which the values that go in are missing. Its inputs and outputs
  // are values of the whole: the inputs of that, and behind them the results.
  void describe(std::size_t k, Cut& cut, std::vector<int>& inputs, std::vector<int>& outputs) const;

 private:
  bool find(bool stages);

  const Cut& whole_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> nodes_;  // places in the cut, part by part
  std::vector<std::uint32_t> part_;   // of a place, that of the first operation of its part
  std::vector<std::size_t> codes_;    // of a place, where its codes begin
  std::vector<std::size_t> results_;  // of a place, the number of its first result
  std::vector<std::size_t> local_;    // of a place, the number of its first result in its part
  std::vector<std::uint32_t> place_;  // of a result, that of its operation
  std::vector<bool> comes_out_;       // of a result, whether somebody outside of its part needs it
};

}  // namespace functrax::eager
