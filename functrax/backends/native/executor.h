// Runs a compiled program: follows functrax/backends/runtime/executor.py.
//
// A Program and a Frame go in, the addresses of its slots, in which those of inputs and outputs are
// set; the outputs' memory is full afterwards. The programs inside loops and branches get frames
// from the instruction that runs them, and their temporaries lie in its part of the arena.

#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "program.h"
#include "recorder.h"
#include "small_array.h"

namespace functrax::executor {

struct Frame;

// Sets the addresses of what stays where it is: temporaries and constants.
void prepare(const program::Program& program, Frame& frame, char* arena);

// The addresses of a program's slots, and its arena.
struct Frame {
  explicit Frame(const program::Program& program) : slots(program.slots.size()) {}
  Frame(const program::Program& program, char* arena) : Frame(program) {
    prepare(program, *this, arena);
  }

  SmallArray<void*, 48> slots;
  char* arena = nullptr;
};

// Writes the addresses of a launch's arrays.
inline void put_addresses(const program::Instruction& x, Frame& frame, void** to) {
  for (std::size_t k = 0; k < x.operands.size(); ++k) to[k] = frame.slots[x.operands[k]];
  for (std::size_t k = 0; k < x.begins.size(); ++k) {
    to[k] = static_cast<char*>(to[k]) + x.begins[k];
  }
}

// Raises the MemoryError of a program whose arena there is no memory for; null.
PyObject* no_memory(const program::Program& program);

// What Python functions may hold on to: makes the object, a new reference, that keeps the memory of
// the run; null with an error set.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual PyObject* make() = 0;
};

using recorder::Event;

// Runs the program, with the GIL given up meanwhile where that pays; false with an error set. Where
// `events` is not null the instructions' times are added to it, in the order in which they end.
bool run(const program::Program& program, Frame& frame, Owner& owner, std::vector<Event>* events);

// Runs a program that calls no Python, in a thread without the GIL; false if it was cancelled.
// `saved` is as in tasks.h.
bool run_detached(const program::Program& program, Frame& frame, const std::atomic<bool>& cancelled,
                  PyThreadState*& saved, std::vector<Event>* events);

}  // namespace functrax::executor
