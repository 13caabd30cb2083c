// Programs inside of instructions: branches and loops, for whatever runs launches and copies.
//
// `Run` is who does it, the executor of CPUs or that of GPUs, known when this is compiled:
//
//   bool program(const Program&, Frame&)           runs a program's instructions
//   bool copy(void* to, const void* from, n)       copies bytes of slots
//   bool read(const void* from, void* to, n)       gets bytes that decide what is done next
//   bool poll(cost)                                false where the run must end
//   kDecidesLater                                  whether this is written down, by whom a while is
//                                                  decided later: its carry is in its first place
//                                                  before it begins, and instead of read there is
//   bool goes_on(const void* cell, LoopRun&, bool& goes_on)
//
// Each is false with an error set. Addresses are Run's, and only counted with here.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "executor.h"
#include "program.h"
#include "small_array.h"

namespace functrax::executor {

inline std::int64_t as_integer(std::uint64_t bits, std::int64_t nbytes, bool is_unsigned) {
  const int unused = static_cast<int>(64 - 8 * nbytes);
  if (is_unsigned || unused == 0) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(bits, is_unsigned ? INT64_MAX : bits));
  }
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

// Runs a program inside an instruction; its results go to `targets`.
template <class Run>
bool run_inner(Run& run, const program::Program& p, Frame& frame, void* const* targets) {
  for (int n : p.written) frame.slots[p.outputs[n]] = targets[n];
  if (!run.program(p, frame)) return false;
  for (int n : p.forwarded) {
    const int slot = p.outputs[n];
    if (!run.copy(targets[n], frame.slots[slot], p.slots[slot].nbytes)) return false;
  }
  return true;
}

// Runs a branch by its number.
template <class Run>
bool run_branch(Run& run, const program::Instruction& x, Frame& frame, std::int64_t number) {
  const program::Program& branch = *x.programs[number];
  Frame inside(branch, frame.arena + x.workspace);
  for (std::size_t k = 0; k < branch.inputs.size(); ++k) {
    inside.slots[branch.inputs[k]] = frame.slots[x.inputs[k + 1]];
  }
  SmallArray<void*, 16> targets(x.outputs.size());
  for (std::size_t k = 0; k < x.outputs.size(); ++k) targets[k] = frame.slots[x.outputs[k]];
  return run_inner(run, branch, inside, targets.data());
}

template <class Run>
bool run_cond(Run& run, const program::Program& p, const program::Instruction& x, Frame& frame) {
  const std::int64_t nbytes = p.slots[x.inputs[0]].nbytes;
  const auto last = static_cast<std::int64_t>(x.programs.size()) - 1;
  std::uint64_t bits = 0;
  if (!run.read(frame.slots[x.inputs[0]], &bits, nbytes)) return false;
  const std::int64_t index = as_integer(bits, nbytes, x.is_unsigned);
  return run_branch(run, x, frame, std::clamp<std::int64_t>(index, 0, last));
}

// A run of a loop: where the parts of its carry are now, and where they go next.
template <class Run>
class LoopRun {
 public:
  LoopRun(Run& run, const program::Program& p, const program::Instruction& x, Frame& frame)
      : run_(run),
        p_(p),
        x_(x),
        loop_(x.loop),
        body_(*x.programs[0]),
        frame_(frame),
        place_(frame.arena + x.workspace),
        parts_(x.loop.carry.size()),
        now_(parts_),
        first_(parts_),
        second_(parts_),
        targets_(x.outputs.size()) {}

  bool run() {
    if (!place_carry() || !(x_.op == program::Op::kWhile ? count_while() : count())) return false;
    for (std::size_t k = 0; k < parts_; ++k) {
      if (!move(k, first_[k])) return false;
    }
    return true;
  }

  // Calls a function of the bytes of each part of the carry that has two places.
  template <class Function>
  void each_moved(Function function) {
    for (std::size_t k = 0; k < parts_; ++k) {
      if (first_[k] != second_[k]) function(slot(loop_.carry[k]).nbytes);
    }
  }

  // Copies the carry to its first place from where a step has left it.
  bool copy_back() {
    for (std::size_t k = 0; k < parts_; ++k) {
      if (!run_.copy(first_[k], now_[k], slot(loop_.carry[k]).nbytes)) return false;
    }
    return true;
  }

  // Lets the carry count as being in its first place.
  void came_back() {
    for (std::size_t k = 0; k < parts_; ++k) now_[k] = first_[k];
  }

 private:
  const program::Slot& slot(int number) const { return p_.slots[number]; }

  bool place_carry() {
    for (std::size_t k = 0; k < parts_; ++k) {
      now_[k] = frame_.slots[loop_.carry[k]];
      first_[k] = frame_.slots[x_.outputs[k]];
      second_[k] = loop_.in_place[k] ? first_[k] : place_ + loop_.second[k];
      const bool begins_there = Run::kDecidesLater && x_.op == program::Op::kWhile;
      if ((loop_.in_place[k] || begins_there) && !move(k, first_[k])) return false;
    }
    return true;
  }

  bool move(std::size_t part, void* target) {
    if (!run_.copy(target, now_[part], slot(loop_.carry[part]).nbytes)) return false;
    now_[part] = target;
    return true;
  }

  void enter(Frame& inside, const std::vector<int>& inputs, const std::vector<int>& consts,
             std::size_t number) {
    for (std::size_t k = 0; k < number; ++k) inside.slots[inputs[k]] = frame_.slots[consts[k]];
  }

  void carry_to(Frame& inside, const std::vector<int>& inputs, std::size_t first) {
    for (std::size_t k = 0; k < parts_; ++k) inside.slots[inputs[first + k]] = now_[k];
  }

  bool step(Frame& inside) {
    carry_to(inside, body_.inputs, loop_.first);
    if (!run_inner(run_, body_, inside, targets_.data())) return false;
    for (std::size_t k = 0; k < parts_; ++k) now_[k] = targets_[k];
    return run_.poll(0);
  }

  bool count_while() {
    const program::Program& cond = *x_.programs[1];
    Frame test(cond, place_ + loop_.arena);
    Frame inside(body_, place_ + loop_.arena);
    enter(test, cond.inputs, x_.cond_consts, x_.cond_consts.size());
    enter(inside, body_.inputs, x_.inputs, loop_.consts);
    void* const cell = place_ + loop_.cell;
    for (;;) {
      carry_to(test, cond.inputs, x_.cond_consts.size());
      bool goes_on = false;
      if (!run_inner(run_, cond, test, &cell) || !decide(cell, goes_on)) return false;
      if (!goes_on) return true;
      for (std::size_t k = 0; k < parts_; ++k) {
        targets_[k] = now_[k] == first_[k] ? second_[k] : first_[k];
      }
      if (!step(inside)) return false;
    }
  }

  bool decide(const void* cell, bool& goes_on) {
    if constexpr (Run::kDecidesLater) {
      return run_.goes_on(cell, *this, goes_on);
    } else {
      unsigned char found = 0;
      if (!run_.read(cell, &found, 1)) return false;
      goes_on = found != 0;
      return true;
    }
  }

  // Elements of the stacked arrays, read and written where they are.
  void set_rows(Frame& inside, std::int64_t element) {
    const auto place = [&](int number) {
      const std::int64_t row = slot(number).nbytes / x_.length;
      return static_cast<char*>(frame_.slots[number]) + element * row;
    };
    const std::size_t first = loop_.first + parts_;
    for (std::size_t k = loop_.consts; k < x_.inputs.size(); ++k) {
      inside.slots[body_.inputs[first + k - loop_.consts]] = place(x_.inputs[k]);
    }
    for (std::size_t k = parts_; k < x_.outputs.size(); ++k) targets_[k] = place(x_.outputs[k]);
  }

  // Runs the body of a scan, such that the last time writes the carry to its place.
  bool count() {
    const std::int64_t times = x_.length;
    Frame inside(body_, place_ + loop_.arena);
    enter(inside, body_.inputs, x_.inputs, loop_.consts);
    for (std::size_t k = 0; k < parts_; ++k) {
      const bool moves = times % 2 == 1 && !loop_.in_place[k] && now_[k] == first_[k];
      if (moves && !move(k, second_[k])) return false;
    }
    for (std::int64_t t = 0; t < times; ++t) {
      auto& next = (times - t) % 2 == 1 ? first_ : second_;
      for (std::size_t k = 0; k < parts_; ++k) targets_[k] = next[k];
      set_rows(inside, x_.reverse ? times - 1 - t : t);
      if (!step(inside)) return false;
    }
    return true;
  }

  Run& run_;
  const program::Program& p_;
  const program::Instruction& x_;
  const program::Loop& loop_;
  const program::Program& body_;
  Frame& frame_;
  char* const place_;
  const std::size_t parts_;
  SmallArray<void*, 8> now_, first_, second_;  // where each part is; where the last one must be
  SmallArray<void*, 16> targets_;              // where the body's results go
};

}  // namespace functrax::executor
