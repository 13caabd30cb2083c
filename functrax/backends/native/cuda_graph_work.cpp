// See cuda_graph_work.h. Start at record_part.

#include "cuda_graph_work.h"

#include "cuda_run.h"
#include "program_walk.h"

namespace functrax::cuda {
namespace {

using executor::Frame;
using program::Instruction;
using program::Op;
using program::Program;

// Conditions count as memory beyond all addresses.
constexpr Place kConditions = Place{1} << 63;
constexpr Place kConditionBytes = 8;

// A run, as program_walk.h has it, that writes down what is to be done.
class Recording {
 public:
  static constexpr bool kDecidesLater = true;

  Recording(PartWork& found, const LoopCopies& copies) : found_(found), copies_(copies) {
    found_.works.clear();
    found_.places.clear();
  }

  bool program(const Program& p, Frame& frame) {
    for (int slot : p.sharing) frame.slots[slot] = frame.slots[p.slots[slot].shares];
    return part(p, frame, 0, static_cast<int>(p.instructions.size()));
  }
  bool part(const Program& p, Frame& frame, int begin, int end) {
    for (int k = begin; k < end; ++k) {
      if (!instruction(p, p.instructions[k], frame)) return false;
    }
    return true;
  }
  bool copy(void* target, const void* source, std::int64_t nbytes) {
    if (target == source || nbytes == 0) return true;
    Work& x = add(Work::kCopy, 2);
    x.nbytes = nbytes;
    found_.places[x.first] = target;
    found_.places[x.first + 1] = const_cast<void*>(source);
    return true;
  }
  bool read(const void*, void*, std::int64_t) { return refused(); }
  // Whether another step is to be written down: one, or two.
  template <class Loop>
  bool goes_on(const void* cell, Loop& loop, bool& goes_on) {
    goes_on = true;
    if (loops_.empty() || loops_.back().cell != cell) {
      const int condition = set_new(cell, 1, true, 1);
      const int body = decide(Work::kLoop, condition, 1);
      loops_.push_back({cell, condition, body_, body, false});
      body_ = body;
      return true;
    }
    OpenLoop& open = loops_.back();
    if (!open.twice && !copies_pay(loop)) {
      const int ends = decide(Work::kSwitch, set_new(cell, 1, true, 1), 2);
      body_ = ends;
      if (!loop.copy_back()) return false;
      body_ = ends + 1;
      open.twice = true;
      return true;
    }
    if (!open.twice && !loop.copy_back()) return false;
    body_ = open.body;
    set(open.condition, cell, 1, true, 1);
    body_ = open.outer;
    loops_.pop_back();
    loop.came_back();
    goes_on = false;
    return true;
  }
  bool poll(std::int64_t) { return true; }

 private:
  // A loop whose body is being written down, the body around it and its own, and whether the second
  // step is.
  struct OpenLoop {
    const void* cell;
    int condition, outer, body;
    bool twice;
  };

  template <class Loop>
  bool copies_pay(Loop& loop) const {
    std::int64_t sum = 0;
    loop.each_moved([&](std::int64_t nbytes) { sum += nbytes + copies_.node_bytes; });
    return sum <= copies_.most_bytes;
  }

  bool instruction(const Program& p, const Instruction& x, Frame& frame) {
    switch (x.op) {
      case Op::kLaunch:
        return launch(p, x, frame);
      case Op::kCopy: {
        const int source = x.inputs[0];
        return copy(frame.slots[x.outputs[0]], frame.slots[source], p.slots[source].nbytes);
      }
      case Op::kCond:
        return cond(p, x, frame);
      case Op::kWhile:
      case Op::kScan:
        return executor::LoopRun<Recording>(*this, p, x, frame).run();
      default:
        return refused();
    }
  }

  bool refused() {
    PyErr_SetString(PyExc_SystemError, "an instruction that waits for the host is in a graph");
    return false;
  }

  bool launch(const Program& p, const Instruction& x, Frame& frame) {
    if (x.units == 0) return true;
    Work& work = add(Work::kLaunch, x.operands.size());
    work.program = &p;
    work.launch = &x;
    executor::put_addresses(x, frame, found_.places.data() + work.first);
    return true;
  }

  bool cond(const Program& p, const Instruction& x, Frame& frame) {
    const int outer = body_, index = x.inputs[0], count = static_cast<int>(x.programs.size());
    const int condition =
        set_new(frame.slots[index], p.slots[index].nbytes, x.is_unsigned, count - 1);
    const int first = decide(Work::kSwitch, condition, count);
    for (int n = 0; n < count; ++n) {
      body_ = first + n;
      if (!executor::run_branch(*this, x, frame, n)) return false;
    }
    body_ = outer;
    return true;
  }

  // Sets a new condition; its number.
  int set_new(const void* cell, std::int64_t nbytes, bool is_unsigned, std::int64_t last) {
    set(conditions_, cell, nbytes, is_unsigned, last);
    return conditions_++;
  }

  void set(int condition, const void* cell, std::int64_t nbytes, bool is_unsigned,
           std::int64_t last) {
    Work& x = add(Work::kSetting, 1);
    x.nbytes = nbytes;
    x.condition = condition;
    x.is_unsigned = is_unsigned;
    x.last = last;
    found_.places[x.first] = const_cast<void*>(cell);
  }

  // The first of the new bodies.
  int decide(Work::Kind kind, int condition, int count) {
    Work& x = add(kind, 0);
    x.condition = condition;
    x.first_body = count_;
    x.bodies = count;
    count_ += count;
    return x.first_body;
  }

  Work& add(Work::Kind kind, std::size_t count) {
    Work& x = found_.works.emplace_back();
    x.kind = kind;
    x.body = body_;
    x.first = found_.places.size();
    x.count = count;
    found_.places.resize(x.first + count);
    return x;
  }

  PartWork& found_;
  const LoopCopies copies_;
  std::vector<OpenLoop> loops_;
  int body_ = 0, conditions_ = 0, count_ = 1;
};

// What a work reads and writes itself.
std::vector<Access> accesses_of(const PartWork& work, const Work& x) {
  std::vector<Access> accesses;
  const auto add = [&](std::size_t k, std::int64_t before, std::int64_t nbytes, bool writes) {
    const Place begin = as_place(work.places[x.first + k]) - static_cast<Place>(before);
    accesses.push_back({begin, begin + static_cast<Place>(nbytes), writes});
  };
  if (x.kind == Work::kLaunch) {
    const Instruction& launch = *x.launch;
    for (std::size_t k = 0; k < x.count; ++k) {
      const std::int64_t nbytes = x.program->slots[launch.operands[k]].nbytes;
      const std::int64_t before = launch.begins.empty() ? 0 : launch.begins[k];
      add(k, before, nbytes, k >= launch.inputs.size());
    }
    return accesses;
  }
  for (std::size_t k = 0; k < x.count; ++k) {
    add(k, 0, x.nbytes, x.kind == Work::kCopy && k == 0);
  }
  if (x.kind != Work::kCopy) {
    const Place begin = kConditions + kConditionBytes * static_cast<Place>(x.condition);
    accesses.push_back({begin, begin + kConditionBytes, x.kind == Work::kSetting});
  }
  return accesses;
}

}  // namespace

bool record_part(PartWork& found, const LoopCopies& copies, const Program& program, Frame& frame,
                 int begin, int end) {
  return Recording(found, copies).part(program, frame, begin, end);
}

std::vector<std::vector<int>> order_of_works(const PartWork& work,
                                             const std::vector<SharedPlace>& shared) {
  std::vector<NodeMemory> nodes;
  nodes.reserve(work.works.size());
  for (const Work& x : work.works) {
    nodes.push_back({accesses_of(work, x), x.body, x.first_body, x.bodies});
  }
  return order_in_bodies(std::move(nodes), shared);
}

}  // namespace functrax::cuda
