// What ran when, for functrax.profiler: follows functrax/core/events/recorder.py.
//
// Calls of jitted functions and runs of programs come in, with the objects that they were of; lists
// of tuples go out. Nothing is kept, and next to nothing done, while the recorder is off.

#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace functrax::program {
struct Program;
}

namespace functrax::recorder {

// When an instruction ran, in nanoseconds of CLOCK_MONOTONIC.
struct Event {
  int program, instruction;
  std::int64_t begin, end;
};

extern std::atomic<bool> recording;

inline bool is_on() { return recording.load(std::memory_order_relaxed); }

std::int64_t now();

// All are called with the GIL, the first by the thread that the work was done in.
void add_call(PyObject* function, std::int64_t begin);
void add_run_of(unsigned long thread, PyObject* program, std::int64_t begin, std::int64_t end,
                std::vector<Event> events);
void add_run(const program::Program& program, std::int64_t begin, std::vector<Event> events);
// Of a program that was put together a run of each part is told (program_join.h).
void add_run_of(unsigned long thread, const program::Program& program, std::int64_t begin,
                std::int64_t end, std::vector<Event> events);

// start() -> None; stop() -> (calls, runs, how many were left out).
PyObject* start(PyObject*, PyObject*);
PyObject* stop(PyObject*, PyObject*);

}  // namespace functrax::recorder
