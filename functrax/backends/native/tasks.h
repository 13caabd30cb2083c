// Programs that run while Python goes on.
//
// A Job and the Tasks that must be finished before it go in; threads of this module run it, without
// Python, and a Buffer whose content it makes holds its Task until that is finished. Whoever waits
// for a Task runs it, or one before it, if no thread has begun to.
//
// Jobs call no Python, so a thread that holds the GIL may only wait with `wait`, which gives it up.

#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "pool.h"

namespace functrax::tasks {

// What there is to do. Destroyed with the GIL, in whichever thread has it next.
class Job {
 public:
  virtual ~Job() = default;
  // Runs without the GIL; false if it was cancelled or there is no memory. `saved` is what
  // PyEval_SaveThread gave, where Python waits for this thread, and signals are to be looked at:
  // it becomes null, with the GIL held, when one of them raised an error, which is false as well.
  virtual bool run(const std::atomic<bool>& cancelled, PyThreadState*& saved) = 0;
  // Gives up the memory that it read.
  virtual void free_memory() = 0;
  // Called with the GIL, before it is destroyed.
  virtual void record() = 0;
};

struct Task;

Task* make();  // with one owner
void retain(Task* task);
void release(Task* task);

// Finished: its results are there, or never will be.
bool is_finished(const Task* task);

// Waits until so many bytes more may be worked on; with the GIL, false with an error set.
bool wait_for_room(std::size_t nbytes);

// Whether an interrupt stops a job, whose results are lost then. What is brief is finished instead.
enum class Interrupt { kStops, kWaits };

// Hands a job over, which begins when `before` are finished. With the GIL.
void submit(Task* task, std::unique_ptr<Job> job, std::size_t nbytes,
            const std::vector<Task*>& before, Interrupt interrupt);

// The task will never run.
void abandon(Task* task);

// Waits until the task is finished; with the GIL, false with an error set. A signal whose handler
// raises cancels everything that is unfinished and may be interrupted, as it stops a program that
// Python waits for.
bool wait(Task* task);

// Whether the results are there; for a finished task.
bool has_succeeded(const Task* task);

// Keeps memory, which it takes, until the task is finished.
void keep(Task* task, pool::Block* block);

// drain() -> None: waits for everything. unfinished() -> int: how many tasks are not finished.
PyObject* drain(PyObject*, PyObject*);
PyObject* unfinished(PyObject*, PyObject*);

// Cancels everything, and waits for a while until nothing runs; for the end of the process.
void stop();

}  // namespace functrax::tasks
