// See thread_pool.h. The calling thread opens a gate; workers that see it open join, and the
// caller, when no range is left, closes it and waits for those who have joined. Nobody waits for a
// worker that slept too long, so a loop always ends, with however many workers there are.

#include "thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "targets/native.h"

namespace functrax::thread_pool {
namespace {

constexpr double kMostCost = 10'000'000;    // of a range, so that a loop can be interrupted
constexpr std::int64_t kRangeCost = 4'000;  // at least, so that threads find what they had
constexpr int kSpins = 1000;                // pauses before a worker sleeps, some 20 microseconds
using Clock = std::chrono::steady_clock;
constexpr auto kSpinTime = std::chrono::microseconds(20);
constexpr std::int64_t kCopyGrain = 1 << 14;
constexpr std::int64_t kCopyCost = 1'000'000;  // so that one thread copies all at once
constexpr int kFew = 3;                        // workers that are woken one by one
constexpr int kShare = 2;  // a thread takes this part of its share of what is left

thread_local bool inside_loop = false;
thread_local bool beside_python = false;

struct Job {
  RangeFunction function = nullptr;
  void* context = nullptr;
  std::int64_t units = 0;
  std::int64_t grain = 0;  // ranges begin at multiples of it
  std::int64_t least = 0;  // units of a range, but for the last one
  std::int64_t most = 0;
  Asked ends = nullptr;
  std::uint64_t float_mode = 0;  // of the thread that began it
};

// The most units of a range, of a loop that costs so much in all.
std::int64_t most_units(std::int64_t units, std::int64_t grain, std::int64_t cost) {
  if (cost <= kMostCost) return units;
  const auto most = static_cast<std::int64_t>(static_cast<double>(units) * (kMostCost / cost));
  return std::max(most / grain, std::int64_t{1}) * grain;
}

void run_alone(const Job& job) {
  for (std::int64_t begin = 0; begin < job.units;) {
    const std::int64_t end = begin + std::min(job.most, job.units - begin);
    job.function(job.context, begin, end);
    if (end < job.units && job.ends(job.context)) return;
    begin = end;
  }
}

// The gate: the loop's number in the upper half, whether it is open, how many workers have joined.
constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kJoined = kOpen - 1;
constexpr int kNumberShift = 32;

class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  int threads() const { return threads_; }
  void run(const Job& job);
  void dismiss();
  bool come_too_late(std::int64_t cost);
  void run_meanwhile(const Job& job);
  bool try_lock() { return running_.try_lock(); }
  void unlock() { running_.unlock(); }

 private:
  void start();
  void wake(const Job& job, int asleep);
  void work();
  void take_ranges(bool asks);
  std::int64_t size_of_range(std::int64_t begin) const;
  bool join(std::uint64_t& gate);
  bool wait_for_loop(std::uint64_t last, std::uint64_t& gate);

  const int threads_;
  bool started_ = false;
  std::mutex running_;  // held by the thread whose loop this is
  Job job_;
  Clock::duration missed_{};  // in loops that ran without the workers, one soon after the other
  Clock::time_point last_{};  // when the last of them ended
  alignas(64) std::atomic<std::uint64_t> gate_{0};
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> dismissed_{false};
  std::mutex sleep_;
  std::condition_variable wake_;
};

void Team::start() {
  started_ = true;
  // Signals are for the threads of Python.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (int k = 1; k < threads_; ++k) std::thread([this] { work(); }).detach();
  } catch (const std::system_error&) {
    // The system gives no more threads; those that there are do it.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Ranges become shorter, so that all threads end at about the same time, whenever they began.
std::int64_t Team::size_of_range(std::int64_t begin) const {
  const std::int64_t share = (job_.units - begin) / (kShare * threads_);
  return std::max(std::min(share / job_.grain * job_.grain, job_.most), job_.least);
}

void Team::take_ranges(bool asks) {
  std::int64_t begin = next_.load(std::memory_order_relaxed);
  while (begin < job_.units) {
    const std::int64_t end = std::min(begin + size_of_range(begin), job_.units);
    if (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    job_.function(job_.context, begin, end);
    if (asks && end - begin == job_.most && job_.ends(job_.context)) next_.store(job_.units);
    begin = next_.load(std::memory_order_relaxed);
  }
}

// Whether workers would come too late for a loop. To wake them takes as long as a short loop; it
// pays for several, of which none comes so late that they sleep again.
bool Team::come_too_late(std::int64_t cost) {
  if (cost >= targets::kAsleepNs || sleepers_.load(std::memory_order_relaxed) < threads_ - 1) {
    return false;
  }
  if (Clock::now() - last_ > kSpinTime) missed_ = {};
  return missed_ + std::chrono::nanoseconds(cost) < std::chrono::nanoseconds(targets::kAsleepNs);
}

// Runs a loop for which they come too late.
void Team::run_meanwhile(const Job& job) {
  const auto begin = Clock::now();
  run_alone(job);
  last_ = Clock::now();
  missed_ += last_ - begin;
}

// Wakes workers: a few if there are ranges for no more beside those that are awake.
void Team::wake(const Job& job, int asleep) {
  const std::int64_t ranges = (job.units + job.least - 1) / job.least;
  const std::int64_t more = ranges - (threads_ - asleep);  // the caller is one that is awake
  std::lock_guard<std::mutex> lock(sleep_);
  if (more > kFew) return wake_.notify_all();
  for (std::int64_t k = 0; k < more; ++k) wake_.notify_one();
}

void Team::run(const Job& job) {
  if (!started_) start();
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = (gate_.load(std::memory_order_relaxed) >> kNumberShift) + 1;
  gate_.store(number << kNumberShift | kOpen);
  if (const int asleep = sleepers_.load(); asleep > 0) wake(job, asleep);
  inside_loop = true;
  take_ranges(true);
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; gate_.load(std::memory_order_acquire) & kJoined; ++spins) {
    if (spins < kSpins) {
      targets::pause();
      continue;
    }
    sched_yield();
    if (job.ends(job.context)) next_.store(job.units);
  }
  inside_loop = false;
}

void Team::dismiss() {
  std::lock_guard<std::mutex> lock(sleep_);
  dismissed_.store(true);
  wake_.notify_all();
}

// Waits until another loop than `last` is open; false when the worker is to end.
bool Team::wait_for_loop(std::uint64_t last, std::uint64_t& gate) {
  const auto ready = [&] {
    gate = gate_.load();
    return ((gate & kOpen) != 0 && gate >> kNumberShift != last) || dismissed_.load();
  };
  for (int spins = 0; spins < kSpins; ++spins) {
    if (ready()) return !dismissed_.load();
    targets::pause();
  }
  std::unique_lock<std::mutex> lock(sleep_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, ready);
  sleepers_.fetch_sub(1);
  return !dismissed_.load();
}

bool Team::join(std::uint64_t& gate) {
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Team::work() {
  inside_loop = true;
  std::uint64_t gate = 0, last = 0;
  while (wait_for_loop(last, gate)) {
    const bool joined = join(gate);  // perhaps a later loop than the one that was seen
    last = gate >> kNumberShift;
    if (!joined) continue;
    targets::set_float_mode(job_.float_mode);  // which it keeps, as it never runs Python
    take_ranges(false);
    gate_.fetch_sub(1, std::memory_order_release);
  }
}

// Teams are never freed: workers look at them until they end, and may do so at exit.
std::atomic<Team*> current{nullptr};
std::mutex replacing;

void after_fork() {
  // The child has none of the workers, and the locks may be held by threads that it has not.
  new (&replacing) std::mutex;
  inside_loop = false;
  Team* team = current.load();
  if (team != nullptr) current.store(new Team(team->threads()));
}

Team& team() {
  Team* found = current.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  std::lock_guard<std::mutex> lock(replacing);
  found = current.load();
  if (found != nullptr) return *found;
  pthread_atfork(nullptr, nullptr, after_fork);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  current.store(found = new Team(std::max(cores, 1)));
  return *found;
}

}  // namespace

int num_threads() { return team().threads(); }

void set_num_threads(int threads) {
  Team& before = team();
  if (before.threads() == threads) return;
  std::lock_guard<std::mutex> lock(replacing);
  current.exchange(new Team(threads))->dismiss();
}

void run_beside_python() { beside_python = true; }

void parallel_for(RangeFunction function, void* context, std::int64_t units, std::int64_t grain,
                  std::int64_t cost, Asked ends) {
  if (units <= 0) return;
  if (cost < targets::kWakeNs || units <= grain || (beside_python && cost < 2 * targets::kWakeNs)) {
    return function(context, 0, units);
  }
  const std::int64_t most = most_units(units, grain, cost);
  Job job{function, context, units, grain, grain, most, ends, targets::float_mode()};
  if (inside_loop) return run_alone(job);
  Team& all = team();
  if (all.threads() == 1 || !all.try_lock()) return run_alone(job);
  if (all.come_too_late(cost)) {
    all.run_meanwhile(job);
    return all.unlock();
  }
  std::int64_t parts = std::max<std::int64_t>(2, cost / kRangeCost);
  if (parts < 2 * all.threads())
    parts = std::min<std::int64_t>(parts, all.threads());  // equal ones
  job.least = (units + parts * grain - 1) / (parts * grain) * grain;
  all.run(job);
  all.unlock();
}

void copy(void* target, const void* source, std::int64_t nbytes) {
  struct Copy {
    char* target;
    const char* source;
  };
  if (target == source || nbytes <= 0) return;
  if (nbytes <= kCopyGrain) {
    std::memcpy(target, source, nbytes);
    return;
  }
  Copy copy{static_cast<char*>(target), static_cast<const char*>(source)};
  parallel_for(
      [](void* context, std::int64_t begin, std::int64_t end) {
        auto* c = static_cast<Copy*>(context);
        std::memcpy(c->target + begin, c->source + begin, end - begin);
      },
      &copy, nbytes, kCopyGrain, std::min(nbytes / targets::kCopiedBytes, kCopyCost),
      [](void*) { return false; });
}

}  // namespace functrax::thread_pool
