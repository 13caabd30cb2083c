// Whether the running thread flushes subnormal numbers to zero, as operands and as results.
//
// Programs do outside of strict mode (docs/decisions/0041-subnormals.md); Python code never does.
// That is a state of the thread, in a register that also holds what its operations have raised.

#pragma once

#include <Python.h>

#include <cstdint>

#include "targets/native.h"

namespace functrax::subnormals {

// The mode of a thread that runs a program, as long as this lives.
class Mode {
 public:
  explicit Mode(bool flushes)
      : before_(targets::float_mode()),
        mode_(flushes ? before_ | targets::kFlushes : before_ & ~targets::kFlushes) {
    enter();
  }
  ~Mode() { leave(); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

 private:
  friend class Python;

  void enter() const {
    if (mode_ != before_) targets::set_float_mode(mode_);
  }
  void leave() const {
    if (mode_ != before_) targets::set_float_mode(before_);
  }

  const std::uint64_t before_, mode_;
};

// The mode from before the program, for the Python code that it calls.
class Python {
 public:
  explicit Python(const Mode& mode) : mode_(mode) { mode_.leave(); }
  ~Python() { mode_.enter(); }
  Python(const Python&) = delete;
  Python& operator=(const Python&) = delete;

 private:
  const Mode& mode_;
};

// Whether this thread flushed so far; from now on it does if the argument is True.
PyObject* flush(PyObject* module, PyObject* flushes);

}  // namespace functrax::subnormals
