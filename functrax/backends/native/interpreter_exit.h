// The end of the interpreter, while daemon threads still run programs.
//
// When Python ends it frees machine code, arrays and functions, and waits for no daemon thread. So,
// before that begins, runs in other threads are stopped: between two instructions, or inside of a
// long one, each goes to sleep for good, and the end waits, for a while, until all have.

#pragma once

#include <atomic>

namespace functrax::interpreter_exit {

extern std::atomic<bool> ending;

// Lives as long as a run of a program does.
class Active {
 public:
  Active();
  ~Active();
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;
};

// Whether the run in this thread must stop; if so, give up the GIL and call `sleep_for_good`.
bool must_stop();
[[noreturn]] void sleep_for_good();

// Arranges for all this; false with an error set.
bool arrange();

}  // namespace functrax::interpreter_exit
