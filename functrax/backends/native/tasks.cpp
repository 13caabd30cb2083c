// See tasks.h. One mutex guards all of it; it is never held while Python runs or a job does. Tasks
// are begun in the order in which they came, but for those that wait for others.

#include "tasks.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "targets/native.h"
#include "thread_pool.h"

namespace functrax::tasks {

enum class Status { kWaits, kReady, kRuns, kSucceeded, kFailed };

struct Task {
  std::atomic<int> owners{1};
  std::atomic<Status> status{Status::kWaits};
  std::atomic<bool> cancelled{false};
  int before = 0;          // how many tasks must be finished first
  std::size_t nbytes = 0;  // what its results take
  Interrupt interrupt = Interrupt::kStops;
  std::vector<Task*> after;        // those that wait for it; owned
  std::vector<pool::Block*> kept;  // owned
  std::unique_ptr<Job> job;
};

namespace {

constexpr std::size_t kMostTasks = 8;  // unfinished ones, which hold memory
constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr int kMostWorkers = 4;
constexpr int kSpins = 3000;  // pauses before a worker that ran a task sleeps, some 60 microseconds
constexpr auto kSignalsEvery = std::chrono::milliseconds(30);
constexpr auto kMostAtExit = std::chrono::seconds(2);

struct State {
  std::mutex mutex;
  std::condition_variable work, change;
  std::deque<Task*> unfinished;  // in the order in which they came; owned
  std::size_t nbytes = 0;        // of all of them
  std::vector<std::unique_ptr<Job>> finished;
  std::atomic<int> ready{0};  // how many of them may begin
  int workers = 0, idle = 0;
  bool spins = false;  // a worker looks for what is ready without being woken
  bool stopped = false;
};

using Lock = std::unique_lock<std::mutex>;

// Never destroyed: its threads look at it until they end, and may do so at exit.
std::atomic<State*> current{nullptr};

void after_fork_in_child() {
  State* before = current.load();
  // What the parent runs is not finished here. Python waits for it before a fork, so there is
  // something only where another thread came in between.
  for (Task* task : before->unfinished) task->status.store(Status::kFailed);
  current.store(new State);
}

State& state() {
  State* found = current.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  current.store(found = new State);  // under the GIL
  pthread_atfork([] { current.load()->mutex.lock(); }, [] { current.load()->mutex.unlock(); },
                 after_fork_in_child);
  return *found;
}

bool is_over(Status status) { return status >= Status::kSucceeded; }

// Destroys jobs that are finished; with the GIL.
int reap(void*) {
  State& s = state();
  std::vector<std::unique_ptr<Job>> jobs;
  {
    Lock lock(s.mutex);
    jobs.swap(s.finished);
  }
  for (auto& job : jobs) job->record();
  return 0;
}

Task* first_ready(State& s) {
  for (Task* task : s.unfinished) {
    if (task->status.load(std::memory_order_relaxed) == Status::kReady) return task;
  }
  return nullptr;
}

// Where a worker finishes a task, it begins one of those that waited for it by itself.
void finish(State& s, Task* task, bool succeeded, bool is_waiter, std::vector<pool::Block*>& freed,
            std::vector<Task*>& dropped) {
  int taken = is_waiter ? 0 : 1;
  s.unfinished.erase(std::find(s.unfinished.begin(), s.unfinished.end(), task));
  s.nbytes -= task->nbytes;
  task->status.store(succeeded ? Status::kSucceeded : Status::kFailed, std::memory_order_release);
  for (Task* next : task->after) {
    if (!succeeded) next->cancelled.store(true);
    if (--next->before == 0) {
      next->status.store(Status::kReady);
      ++s.ready;
      if (--taken < 0) s.work.notify_one();
    }
    dropped.push_back(next);
  }
  task->after.clear();
  freed.swap(task->kept);
  dropped.push_back(task);
  s.finished.push_back(std::move(task->job));
  s.change.notify_all();
}

// Runs a task that is ready; `lock` is given up meanwhile.
void run(State& s, Lock& lock, Task* task, PyThreadState*& saved, bool is_waiter) {
  task->status.store(Status::kRuns);
  --s.ready;
  lock.unlock();
  PyThreadState* none = nullptr;  // nobody looks at signals
  PyThreadState*& waiter = task->interrupt == Interrupt::kStops ? saved : none;
  const bool succeeded = !task->cancelled.load() && task->job->run(task->cancelled, waiter);
  if (is_waiter && saved == nullptr) saved = PyEval_SaveThread();  // a signal raised an error
  task->job->free_memory();
  std::vector<pool::Block*> freed;
  std::vector<Task*> dropped;
  lock.lock();
  const bool first = s.finished.empty() && !s.stopped;
  finish(s, task, succeeded, is_waiter, freed, dropped);
  lock.unlock();
  for (pool::Block* block : freed) pool::release(block);
  for (Task* other : dropped) release(other);
  if (first) Py_AddPendingCall(reap, nullptr);
  lock.lock();
}

// Looks for the next task for a while, for to wake a thread costs the one that does so much time.
void spin(State& s, Lock& lock) {
  s.spins = true;
  lock.unlock();
  for (int k = 0; k < kSpins && s.ready.load(std::memory_order_relaxed) == 0; ++k) {
    targets::pause();
  }
  lock.lock();
  s.spins = false;
}

void work(State& s) {
  thread_pool::run_beside_python();
  PyThreadState* none = nullptr;
  bool ran = false;
  Lock lock(s.mutex);
  for (;;) {
    Task* task = s.stopped ? nullptr : first_ready(s);
    if (task != nullptr) {
      run(s, lock, task, none, false);
      ran = true;
      continue;
    }
    if (std::exchange(ran, false) && !s.spins && !s.stopped) {
      spin(s, lock);
      continue;
    }
    ++s.idle;
    s.work.wait(lock);
    --s.idle;
  }
}

void start_worker(State& s) {
  sigset_t all, before;  // signals are for the threads of Python
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([&s] { work(s); }).detach();
    ++s.workers;
  } catch (const std::system_error&) {
    // The system gives no more threads; whoever waits runs what is to be done.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Cancels everything, or but for what an interrupt does not stop.
void cancel(State& s, bool all) {
  Lock lock(s.mutex);
  for (Task* task : s.unfinished) {
    if (all || task->interrupt == Interrupt::kStops) task->cancelled.store(true);
  }
}

}  // namespace

Task* make() { return new Task; }

void retain(Task* task) { task->owners.fetch_add(1, std::memory_order_relaxed); }

void release(Task* task) {
  if (task->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete task;
}

bool is_finished(const Task* task) { return is_over(task->status.load(std::memory_order_acquire)); }

bool has_succeeded(const Task* task) {
  return task->status.load(std::memory_order_acquire) == Status::kSucceeded;
}

bool wait_for_room(std::size_t nbytes) {
  State& s = state();
  for (;;) {
    Task* oldest;
    {
      Lock lock(s.mutex);
      const std::size_t count = s.unfinished.size();
      if (count == 0 || (count < kMostTasks && s.nbytes + nbytes <= kMostBytes)) return true;
      oldest = s.unfinished.front();
      retain(oldest);
    }
    const bool done = wait(oldest);
    release(oldest);
    if (!done) return false;
  }
}

void submit(Task* task, std::unique_ptr<Job> job, std::size_t nbytes,
            const std::vector<Task*>& before, Interrupt interrupt) {
  State& s = state();
  reap(nullptr);
  Lock lock(s.mutex);
  task->job = std::move(job);
  task->nbytes = nbytes;
  task->interrupt = interrupt;
  for (Task* other : before) {
    const Status status = other->status.load();
    if (status == Status::kFailed) task->cancelled.store(true);
    if (is_over(status)) continue;
    retain(task);
    other->after.push_back(task);
    ++task->before;
  }
  if (task->before == 0) {
    task->status.store(Status::kReady);
    ++s.ready;
  }
  retain(task);
  s.unfinished.push_back(task);
  s.nbytes += nbytes;
  if (task->before > 0) return;
  const int left = s.ready - (s.spins ? 1 : 0);  // for workers that sleep
  if (left <= 0) return;
  if (s.idle > 0) s.work.notify_one();
  if (s.idle < left && s.workers < std::min(kMostWorkers, thread_pool::num_threads())) {
    start_worker(s);
  }
}

void abandon(Task* task) {
  std::vector<pool::Block*> freed;
  {
    Lock lock(state().mutex);
    task->status.store(Status::kFailed);
    freed.swap(task->kept);
  }
  for (pool::Block* block : freed) pool::release(block);
}

bool wait(Task* task) {
  if (is_finished(task)) return true;
  State& s = state();
  PyThreadState* saved = PyEval_SaveThread();
  bool failed = false;
  {
    Lock lock(s.mutex);
    auto looked = std::chrono::steady_clock::now();
    while (!failed && !is_finished(task)) {
      Task* next = task->status.load() == Status::kReady ? task : first_ready(s);
      if (next != nullptr) {
        run(s, lock, next, saved, true);
      } else {
        s.change.wait_for(lock, kSignalsEvery);
      }
      const auto now = std::chrono::steady_clock::now();
      if (is_finished(task) && now - looked < kSignalsEvery) break;
      if (now - looked < kSignalsEvery) continue;
      looked = now;
      lock.unlock();
      PyEval_RestoreThread(saved);
      failed = PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
      saved = PyEval_SaveThread();
      lock.lock();
    }
  }
  PyEval_RestoreThread(saved);
  if (failed || PyErr_Occurred() != nullptr) {
    cancel(s, false);
    return false;
  }
  return true;
}

void keep(Task* task, pool::Block* block) {
  State& s = state();
  {
    Lock lock(s.mutex);
    if (!is_finished(task)) {
      task->kept.push_back(block);
      return;
    }
  }
  pool::release(block);
}

PyObject* drain(PyObject*, PyObject*) {
  State& s = state();
  for (;;) {
    Task* oldest = nullptr;
    {
      Lock lock(s.mutex);
      if (!s.unfinished.empty()) retain(oldest = s.unfinished.front());
    }
    if (oldest == nullptr) break;
    const bool done = wait(oldest);
    release(oldest);
    if (!done) return nullptr;
  }
  reap(nullptr);
  Py_RETURN_NONE;
}

PyObject* unfinished(PyObject*, PyObject*) {
  State& s = state();
  Lock lock(s.mutex);
  return PyLong_FromSize_t(s.unfinished.size());
}

void stop() {
  State& s = state();
  cancel(s, true);
  PyThreadState* saved = PyEval_SaveThread();
  {
    Lock lock(s.mutex);
    s.change.wait_for(lock, kMostAtExit, [&s] { return s.unfinished.empty(); });
    s.stopped = true;
  }
  PyEval_RestoreThread(saved);
  reap(nullptr);
}

}  // namespace functrax::tasks
