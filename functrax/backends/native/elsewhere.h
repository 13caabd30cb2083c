// A run of a program that goes on while Python does, as its task (tasks.h) makes it: what it waits
// for, the memory that it reads, and what the profiler is told of it.

#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "buffer.h"
#include "executor.h"
#include "pool.h"
#include "program.h"
#include "recorder.h"
#include "tasks.h"

namespace functrax::elsewhere {

struct Run {
  Run() = default;
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The run begins after what makes the content of a Buffer, if that is not finished.
  void comes_after(const buffer::Buffer* input);
  // Keeps the memory of a Buffer until the run has ended, and not the Buffer: who reads memory is
  // told by counting.
  void hold_memory(const buffer::Buffer* input);

  // Hands over the job that owns this run, once the tasks that it comes after are known.
  void submit(std::unique_ptr<tasks::Job> job, std::size_t nbytes, tasks::Interrupt interrupt);

  bool run(const program::Program& program, executor::Frame& frame,
           const std::atomic<bool>& cancelled, PyThreadState*& saved);
  void free_memory();
  void record(const program::Program& program);

  tasks::Task* task = nullptr;       // owned
  std::vector<tasks::Task*> before;  // that make inputs; owned

 private:
  std::vector<pool::Block*> blocks_;  // that it reads; owned
  std::vector<executor::Event> events_;
  std::int64_t begin_ = 0, end_ = 0;
  unsigned long thread_ = 0;
};

}  // namespace functrax::elsewhere
