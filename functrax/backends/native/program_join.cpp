// See program_join.h. Start at join.

#include "program_join.h"

#include <algorithm>
#include <utility>

#include "pool.h"

namespace functrax::program {
namespace {

// Estimated nanoseconds that instructions take together at most: LONG of launch_runs.py.
constexpr std::int64_t kLong = 1'000'000;

std::int64_t padded(std::int64_t nbytes) {
  constexpr auto kTo = static_cast<std::int64_t>(pool::kAlignment);
  return (nbytes + kTo - 1) / kTo * kTo;
}

class Joiner {
 public:
  Joiner(int values, int inputs, const std::vector<int>& results)
      : slot_of_(values, -1), result_of_(values, -1), whole_(std::make_unique<Program>()) {
    for (std::size_t k = results.size(); k-- > 0;) result_of_[results[k]] = static_cast<int>(k);
    whole_->inputs.assign(inputs, -1);
  }

  void add(const Part* first, const Part* last);
  std::unique_ptr<Program> finish(const std::vector<int>& results);

 private:
  using Places = std::vector<int>;  // of a part's slots, those of the whole

  int add_slot(const Slot& slot, int number) {
    whole_->slots.push_back(slot);
    whole_->slots.back().number = number;
    return static_cast<int>(whole_->slots.size()) - 1;
  }
  Places add_slots(const Part& part, std::int64_t arena);
  void add_results(const Part& part, Places& places);
  void add_instruction(const Part& part, std::size_t number, const Places& places, int which);

  std::vector<int> slot_of_, result_of_;  // of values
  std::vector<int> kept_;                 // temporaries that other parts read
  std::int64_t arena_ = 0, kept_bytes_ = 0;
  int parts_ = 0;
  std::unique_ptr<Program> whole_;
};

void Joiner::add_results(const Part& part, Places& places) {
  for (std::size_t k = 0; k < part.outputs.size(); ++k) {
    const int value = part.outputs[k], from = part.program->outputs[k];
    const Slot& slot = part.program->slots[from];
    int& place = places[from];
    if (place < 0) {
      place = add_slot(slot, result_of_[value]);
      if (slot.kind == Kind::kOutput && result_of_[value] < 0) {
        Slot& made = whole_->slots[place];
        made.kind = Kind::kTemp;
        made.offset = kept_bytes_;
        kept_bytes_ += padded(made.nbytes);
        kept_.push_back(place);
      }
    }
    slot_of_[value] = place;
  }
}

Joiner::Places Joiner::add_slots(const Part& part, std::int64_t arena) {
  const Program& p = *part.program;
  Places places(p.slots.size(), -1);
  for (std::size_t k = 0; k < p.inputs.size(); ++k) {
    int& place = slot_of_[part.inputs[k]];
    if (place < 0) {
      place = add_slot(p.slots[p.inputs[k]], part.inputs[k]);
      whole_->inputs[part.inputs[k]] = place;
    }
    places[p.inputs[k]] = place;
  }
  add_results(part, places);
  for (std::size_t n = 0; n < p.slots.size(); ++n) {
    if (places[n] >= 0) continue;
    places[n] = add_slot(p.slots[n], p.slots[n].number);
    if (p.slots[n].offset >= 0) whole_->slots.back().offset += arena;
  }
  for (std::size_t n = 0; n < p.slots.size(); ++n) {
    if (p.slots[n].shares >= 0) whole_->slots[places[n]].shares = places[p.slots[n].shares];
  }
  return places;
}

void Joiner::add_instruction(const Part& part, std::size_t number, const Places& places,
                             int which) {
  const Instruction& x = part.program->instructions[number];
  const auto moved = [&](const std::vector<int>& slots) {
    std::vector<int> found;
    found.reserve(slots.size());
    for (const int slot : slots) found.push_back(places[slot]);
    return found;
  };
  Instruction made;
  made.op = x.op;
  made.inputs = moved(x.inputs);
  made.outputs = moved(x.outputs);
  made.workspace = 0;
  made.operands = moved(x.operands);
  made.kernel = x.kernel;
  made.params = x.params;
  made.begins = x.begins;
  made.units = x.units;
  made.cost = x.cost;
  made.grain = x.grain;
  made.alone = x.alone;
  made.foreign = x.foreign;
  made.function = x.function;
  whole_->instructions.push_back(std::move(made));
  whole_->origins.push_back(
      {part.program->source, which, part.program->number, static_cast<int>(number)});
}

// Adds parts that run together: the first runs of all of them, then the second ones.
void Joiner::add(const Part* first, const Part* last) {
  std::vector<Places> places;
  std::vector<std::size_t> begins(last - first, 0);  // of the next runs
  std::size_t longest = 0;
  std::int64_t arena = 0;
  for (const Part* part = first; part != last; ++part) {
    places.push_back(add_slots(*part, arena));
    arena += padded(part->program->arena);
    longest = std::max(longest, part->program->runs.size());
    whole_->cost += part->program->cost;
    whole_->calls_python = whole_->calls_python || part->program->calls_python;
    whole_->flushes = part->program->flushes;  // as all others, which are of one mode
  }
  arena_ = std::max(arena_, arena);
  for (std::size_t step = 0; step < longest; ++step) {
    std::vector<std::pair<std::size_t, int>> alone;  // parts whose run is one of its own
    int shared = 0;
    const auto add_run = [&](std::size_t k) {
      const int count = first[k].program->runs[step];
      for (int i = 0; i < count; ++i) {
        add_instruction(first[k], begins[k]++, places[k], parts_ + static_cast<int>(k));
      }
      return count;
    };
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (step >= first[k].program->runs.size()) continue;
      const int count = first[k].program->runs[step];
      if ((*first[k].shares)[begins[k]]) {
        shared += add_run(k);
      } else {
        alone.push_back({k, count});
      }
    }
    if (shared != 0) whole_->runs.push_back(shared);
    for (const auto& [k, count] : alone) whole_->runs.push_back(add_run(k));
  }
  parts_ += static_cast<int>(last - first);
}

std::unique_ptr<Program> Joiner::finish(const std::vector<int>& results) {
  for (const int slot : kept_) whole_->slots[slot].offset += arena_;
  whole_->arena = arena_ + kept_bytes_;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const int place = slot_of_[results[k]];
    if (place < 0) return nullptr;
    const Slot& slot = whole_->slots[place];
    // A result that is another one is made after it.
    if (slot.kind == Kind::kTemp) return nullptr;
    if (slot.kind == Kind::kOutput && slot.number > static_cast<int>(k)) return nullptr;
    whole_->outputs.push_back(place);
  }
  for (const int place : whole_->inputs) {
    if (place < 0) return nullptr;
  }
  classify(*whole_);
  return std::move(whole_);
}

bool can_move(const Part& part) {
  const auto& all = part.program->instructions;
  return std::all_of(all.begin(), all.end(), [](const Instruction& x) {
    return x.op == Op::kLaunch || x.op == Op::kCopy || x.op == Op::kHost;
  });
}

}  // namespace

std::unique_ptr<Program> join(const std::vector<Part>& parts, int values, int inputs,
                              const std::vector<int>& results, std::int64_t most_bytes) {
  if (!std::all_of(parts.begin(), parts.end(), can_move)) return nullptr;
  Joiner joiner(values, inputs, results);
  for (std::size_t k = 0; k < parts.size();) {
    std::int64_t cost = parts[k].program->cost, bytes = padded(parts[k].program->arena);
    std::size_t end = k + 1;
    for (; end < parts.size() && parts[end].stage == parts[k].stage; ++end) {
      cost += parts[end].program->cost;
      bytes += padded(parts[end].program->arena);
      if (cost > kLong || bytes > most_bytes) break;
    }
    joiner.add(&parts[k], parts.data() + end);
    k = end;
  }
  return joiner.finish(results);
}

}  // namespace functrax::program
