// See executor.h. Start at Run::program; every member follows its namesake in executor.py.

#include "executor.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "foreign.h"
#include "interpreter_exit.h"
#include "numpy_arrays.h"
#include "program_walk.h"
#include "reference.h"
#include "subnormals.h"
#include "thread_pool.h"

namespace functrax::executor {
namespace {

using program::Instruction;
using program::Kind;
using program::Op;
using program::Program;
using program::Slot;

constexpr std::int64_t kWorthTheGil = 2'000;        // nanoseconds from which on the GIL is given up
constexpr std::int64_t kLeastCost = 1'000;          // an instruction is taken to cost no less, ...
constexpr std::int64_t kLookEvery = 50'000;         // ... and after this cost the clock is read:
constexpr std::int64_t kSignalsEvery = 30'000'000;  // nanoseconds between looks at signals

thread_local char this_thread;  // whose address no other thread's has

std::int64_t coarse_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

class Run {
 public:
  static constexpr bool kDecidesLater = false;

  Run(const Program& p, Owner& owner, std::vector<Event>* events)
      : owner_(&owner), events_(events), mode_(p.flushes) {}
  // A run that began without the GIL and ends without it.
  Run(const Program& p, const std::atomic<bool>& cancelled, PyThreadState* saved,
      std::vector<Event>* events)
      : owner_(nullptr), events_(events), saved_(saved), cancelled_(&cancelled), mode_(p.flushes) {}
  ~Run() { take_gil(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void give_up_gil() { saved_ = PyEval_SaveThread(); }
  bool program(const Program& p, Frame& frame);
  bool copy(void* target, const void* source, std::int64_t nbytes) {
    thread_pool::copy(target, source, nbytes);
    return true;
  }
  bool read(const void* source, void* target, std::int64_t nbytes) {
    std::memcpy(target, source, nbytes);
    return true;
  }
  bool poll(std::int64_t cost);
  PyThreadState* leave() { return std::exchange(saved_, nullptr); }

 private:
  bool timed(const Program& p, Frame& frame);
  bool instruction(const Program& p, const Instruction& x, Frame& frame);
  bool launch(const Instruction& x, Frame& frame);
  bool foreign(const Instruction& x, Frame& frame);
  bool launches(const Instruction* first, int count, Frame& frame);
  bool host_call(const Program& p, const Instruction& x, Frame& frame);
  Ref views(const Program& p, const std::vector<int>& numbers, Frame& frame, bool writable);
  bool look_at_signals();
  bool look_at_clock();
  bool must_end() const;
  bool end();
  bool kernel_ends();
  // Not a thread that Python does not know.
  bool of_python() const { return cancelled_ == nullptr || saved_ != nullptr; }

  bool take_gil() {
    if (saved_ == nullptr) return false;
    PyEval_RestoreThread(std::exchange(saved_, nullptr));
    return true;
  }

  interpreter_exit::Active active_;
  Owner* const owner_;  // null for runs without Python
  std::vector<Event>* const events_;
  Ref kept_;                        // what views of the run's memory keep alive
  PyThreadState* saved_ = nullptr;  // not null while the GIL is given up
  const std::atomic<bool>* const cancelled_ = nullptr;
  std::int64_t budget_ = kLookEvery;
  std::int64_t looked_ = 0;
  const char* const thread_ = &this_thread;
  std::atomic<bool> stopped_{false};  // what its kernels in other threads see
  const subnormals::Mode mode_;       // the first to end, for `kept_` may run Python code
};

bool Run::program(const Program& p, Frame& frame) {
  for (int slot : p.sharing) frame.slots[slot] = frame.slots[p.slots[slot].shares];
  if (events_ != nullptr) return timed(p, frame);
  const Instruction* x = p.instructions.data();
  for (const int count : p.runs) {
    if (!(count == 1 ? instruction(p, *x, frame) : launches(x, count, frame))) return false;
    x += count;
  }
  return true;
}

bool Run::timed(const Program& p, Frame& frame) {
  for (std::size_t k = 0; k < p.instructions.size(); ++k) {
    const std::int64_t begin = recorder::now();
    if (!instruction(p, p.instructions[k], frame)) return false;
    events_->push_back({p.number, static_cast<int>(k), begin, recorder::now()});
  }
  return true;
}

// Counts what has been done, and now and then lets Python handle signals.
bool Run::poll(std::int64_t cost) {
  if (must_end()) return end();
  if (!of_python()) return true;
  budget_ -= std::max(cost, kLeastCost);
  if (budget_ > 0) return true;
  budget_ = kLookEvery;
  return look_at_clock();
}

bool Run::look_at_clock() {
  const std::int64_t now = coarse_now();
  if (looked_ == 0) looked_ = now;
  if (now - looked_ < kSignalsEvery) return true;
  looked_ = now;
  return look_at_signals();
}

bool Run::look_at_signals() {
  const bool taken = take_gil();
  const subnormals::Python mode(mode_);
  if (PyErr_CheckSignals() != 0) return false;
  if (taken) give_up_gil();
  return true;
}

bool Run::must_end() const {
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) return true;
  return of_python() && interpreter_exit::must_stop();
}

// What a run that must end does: false, unless the process ends as well.
bool Run::end() {
  if (of_python() && interpreter_exit::must_stop()) {
    if (saved_ == nullptr) give_up_gil();
    interpreter_exit::sleep_for_good();
  }
  return false;
}

// Asked while a kernel runs: whether it is to end at once, and the run after it.
bool Run::kernel_ends() {
  const bool stopped = stopped_.load(std::memory_order_relaxed);
  if (stopped || &this_thread != thread_) return stopped;
  const bool ends = must_end() || (of_python() && !look_at_clock());
  if (ends) stopped_.store(true, std::memory_order_relaxed);
  return ends;
}

bool Run::launch(const Instruction& x, Frame& frame) {
  struct Call : program::Asked {
    Run* run;
    program::Kernel kernel;
    void** buffers;
    const std::int64_t* params;
  };
  SmallArray<void*, 16> buffers(x.operands.size() + 1);
  put_addresses(x, frame, buffers.data() + 1);
  Call call;
  call.function = [](program::Asked* asked) -> int {
    return static_cast<Call*>(asked)->run->kernel_ends();
  };
  call.run = this;
  call.kernel = x.kernel;
  call.buffers = buffers.data() + 1;
  call.params = x.params.data();
  buffers[0] = static_cast<program::Asked*>(&call);
  const auto run = [](void* context, std::int64_t begin, std::int64_t end) {
    auto* c = static_cast<Call*>(context);
    c->kernel(c->buffers, c->params, begin, end);
  };
  const auto ends = [](void* context) { return static_cast<Call*>(context)->run->kernel_ends(); };
  if (!x.alone) {
    thread_pool::parallel_for(run, &call, x.units, x.grain, x.cost, ends);
  } else if (x.units > 0) {
    run(&call, 0, x.units);
  }
  return !stopped_.load(std::memory_order_relaxed) || end();
}

bool Run::foreign(const Instruction& x, Frame& frame) {
  SmallArray<void*, 16> buffers(x.operands.size());
  put_addresses(x, frame, buffers.data());
  auto* const call = reinterpret_cast<foreign::Call*>(x.params[0]);
  const subnormals::Python mode(mode_);
  if (call->run(buffers.data())) return true;
  take_gil();
  call->raise();
  return false;
}

// A launch of a run. Of the estimated time of all, `length` nanoseconds from `begin` on are its.
struct Part {
  program::Kernel kernel;
  void** buffers;
  const std::int64_t* params;
  std::int64_t units, begin, length;

  std::int64_t unit_at(std::int64_t time) const {
    const double part = static_cast<double>(std::clamp<std::int64_t>(time - begin, 0, length));
    return time - begin >= length ? units : static_cast<std::int64_t>(units * (part / length));
  }
};

bool Run::launches(const Instruction* first, int count, Frame& frame) {
  struct Parts : program::Asked {
    Parts(Run* run, int count) : run(run), parts(count), count(count) {
      function = [](program::Asked* asked) -> int {
        return static_cast<Parts*>(asked)->run->kernel_ends();
      };
    }
    Run* run;
    SmallArray<Part, 16> parts;
    int count;
  };
  Parts all(this, count);
  std::size_t places = 0;
  for (int k = 0; k < count; ++k) places += first[k].operands.size() + 1;
  SmallArray<void*, 64> buffers(places);
  void** next = buffers.data();
  std::int64_t cost = 0;
  for (int k = 0; k < count; ++k) {
    const Instruction& x = first[k];
    const std::int64_t length = std::max<std::int64_t>(x.cost, 1);
    *next++ = static_cast<program::Asked*>(&all);
    all.parts[k] = {x.kernel, next, x.params.data(), x.units, cost, length};
    put_addresses(x, frame, next);
    next += x.operands.size();
    cost += length;
  }
  thread_pool::parallel_for(
      [](void* context, std::int64_t begin, std::int64_t end) {
        auto* parts = static_cast<Parts*>(context);
        const Part *all = parts->parts.data(), *last = all + parts->count;
        const auto is_after = [](std::int64_t time, const Part& x) { return time < x.begin; };
        for (auto* x = std::upper_bound(all, last, begin, is_after) - 1; x < last; ++x) {
          const std::int64_t low = x->unit_at(begin), high = x->unit_at(end);
          if (low < high) x->kernel(x->buffers, x->params, low, high);
        }
      },
      &all, cost, 1, cost,
      [](void* context) { return static_cast<Parts*>(context)->run->kernel_ends(); });
  if (stopped_.load(std::memory_order_relaxed)) return end();
  return poll(cost);
}

Ref Run::views(const Program& p, const std::vector<int>& numbers, Frame& frame, bool writable) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t k = 0; tuple && k < numbers.size(); ++k) {
    const Slot& slot = p.slots[numbers[k]];
    PyObject* view =
        numpy_arrays::make_array(slot.dtype.ptr(), static_cast<int>(slot.sizes.size()),
                                 slot.sizes.data(), frame.slots[numbers[k]], kept_.get(), writable);
    if (view == nullptr) return Ref();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(k), view);
  }
  return tuple;
}

bool Run::host_call(const Program& p, const Instruction& x, Frame& frame) {
  const bool taken = take_gil();
  const subnormals::Python mode(mode_);
  if (!kept_) kept_ = Ref(owner_->make());
  if (!kept_) return false;
  Ref inputs = views(p, x.inputs, frame, false);
  Ref outputs = inputs ? views(p, x.outputs, frame, true) : Ref();
  if (!outputs) return false;
  Ref result(PyObject_CallFunctionObjArgs(x.function.ptr(), inputs.get(), outputs.get(), nullptr));
  if (!result || PyErr_CheckSignals() != 0) return false;
  inputs = Ref();
  outputs = Ref();
  if (taken) give_up_gil();
  return true;
}

bool Run::instruction(const Program& p, const Instruction& x, Frame& frame) {
  switch (x.op) {
    case Op::kLaunch:
      return (x.foreign ? foreign(x, frame) : launch(x, frame)) && poll(x.cost);
    case Op::kHost:
      return host_call(p, x, frame) && poll(0);
    case Op::kCopy:
      thread_pool::copy(frame.slots[x.outputs[0]], frame.slots[x.inputs[0]],
                        p.slots[x.inputs[0]].nbytes);
      return true;
    case Op::kCond:
      return run_cond(*this, p, x, frame);
    default:
      return LoopRun(*this, p, x, frame).run();
  }
}

bool run_now(const Program& program, Frame& frame, Owner& owner, std::vector<Event>* events) {
  Run state(program, owner, events);
  if (program.cost >= kWorthTheGil) state.give_up_gil();
  return state.program(program, frame);
}

bool run_recorded(const Program& program, Frame& frame, Owner& owner) {
  std::vector<Event> events;
  const std::int64_t begin = recorder::now();
  const bool done = run_now(program, frame, owner, &events);
  recorder::add_run(program, begin, std::move(events));
  return done;
}

}  // namespace

PyObject* no_memory(const Program& program) {
  return PyErr_Format(PyExc_MemoryError, "no memory for the temporaries of %s, %lld bytes",
                      program.name.c_str(), static_cast<long long>(program.arena));
}

void prepare(const Program& program, Frame& frame, char* arena) {
  frame.arena = arena;
  for (std::size_t n = 0; n < program.slots.size(); ++n) {
    const Slot& slot = program.slots[n];
    if (slot.offset >= 0) {
      frame.slots[n] = arena + slot.offset;
    } else if (slot.kind == Kind::kConst) {
      frame.slots[n] = slot.constant;
    }
  }
}

bool run_detached(const Program& program, Frame& frame, const std::atomic<bool>& cancelled,
                  PyThreadState*& saved, std::vector<Event>* events) {
  Run state(program, cancelled, saved, events);
  const bool done = state.program(program, frame);
  saved = state.leave();
  return done;
}

bool run(const Program& program, Frame& frame, Owner& owner, std::vector<Event>* events) {
  if (events == nullptr && recorder::is_on()) return run_recorded(program, frame, owner);
  return run_now(program, frame, owner, events);
}

}  // namespace functrax::executor
