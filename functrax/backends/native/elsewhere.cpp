// See elsewhere.h.

#include "elsewhere.h"

#include <utility>

namespace functrax::elsewhere {

using program::Program;

Run::~Run() {
  free_memory();
  for (tasks::Task* other : before) tasks::release(other);
  if (task != nullptr) tasks::release(task);
}

void Run::comes_after(const buffer::Buffer* input) {
  if (input->pending == nullptr) return;
  tasks::retain(input->pending);
  before.push_back(input->pending);
}

void Run::hold_memory(const buffer::Buffer* input) {
  if (input->block == nullptr) return;
  pool::retain(input->block);
  blocks_.push_back(input->block);
}

void Run::submit(std::unique_ptr<tasks::Job> job, std::size_t nbytes, tasks::Interrupt interrupt) {
  tasks::Task* submitted = task;  // which may be finished, and the run be gone, before this returns
  tasks::retain(submitted);
  const std::vector<tasks::Task*> first = before;
  tasks::submit(submitted, std::move(job), nbytes, first, interrupt);
  tasks::release(submitted);
}

bool Run::run(const Program& program, executor::Frame& frame, const std::atomic<bool>& cancelled,
              PyThreadState*& saved) {
  const pool::Hold arena(program.arena > 0 ? pool::allocate(program.arena) : nullptr);
  if (program.arena > 0 && arena.get() == nullptr) return false;
  void* place = arena.get() == nullptr ? buffer::nowhere() : arena.get()->data;
  executor::prepare(program, frame, static_cast<char*>(place));
  const bool recorded = recorder::is_on();
  begin_ = recorded ? recorder::now() : 0;
  const bool done =
      executor::run_detached(program, frame, cancelled, saved, recorded ? &events_ : nullptr);
  end_ = recorded ? recorder::now() : 0;
  thread_ = PyThread_get_thread_ident();
  return done;
}

void Run::free_memory() {
  for (pool::Block* block : std::exchange(blocks_, {})) pool::release(block);
}

void Run::record(const Program& program) {
  if (begin_ != 0) recorder::add_run_of(thread_, program, begin_, end_, std::move(events_));
}

}  // namespace functrax::elsewhere
