// A GPU and what was asked of it, as a Python object: follows functrax/backends/cuda/gpu.py, which
// tells of streams and marks.
//
// All of it under the GIL, which is given up while somebody waits. Functions that return bool are
// false with an error set. State is changed before the driver is called, for a simulated one may
// let other threads run meanwhile.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "cuda_driver.h"
#include "pool.h"

namespace functrax::cuda {

struct Array;

using Mark = std::uint64_t;

// Memory of a GPU.
struct Block {
  Place place;
  std::size_t size;
  int size_class;
  int owners;
  Mark mark;               // of its last use
  Block* next;             // in the list of those that wait
  PyObject* adopted_from;  // what keeps memory of another library; owned, or null
};

struct Gpu {
  PyObject ob_base;
  Driver driver;
  PyObject *table, *name;
  int device, capability;
  Array* arrays;  // that are there, linked

  // Lets this thread use the GPU.
  bool here();
  // Begins to ask for the work of a program, which ends with the next mark.
  void begin(PyObject* program);

  // The number of a mark that is still to be put.
  Mark next_mark() {
    open_ = true;
    return position();
  }
  Mark position() const { return asked_ + (open_ || putting_ > 0 ? 1 : 0); }
  bool put_mark();
  bool wait(Mark mark);
  int is_done(Mark mark);  // -1 with an error set

  // Memory with any content and one owner, for an array or, where that is null, for temporaries;
  // null with an error set.
  Block* allocate(std::size_t nbytes, const Array* array);
  void give_back(Block* block);  // by an owner; null is allowed
  bool trim();

  // Copies bytes of the host, which may change afterwards, to memory last used at the mark.
  bool upload(Place place, const void* data, std::size_t nbytes, Mark last_use);
  // Copies bytes that are there after the mark to the host, and waits for them.
  bool download(Place place, void* data, std::size_t nbytes, Mark after);
  // As the next things that the GPU does: copies, and a value of few bytes.
  bool copy(Place target, Place source, std::size_t nbytes);
  bool put(Place place, const void* data, std::size_t nbytes);
  bool fill(Place place, const void* value, std::size_t nbytes);
  bool launch(Handle kernel, unsigned grid, unsigned block, void** parameters);
  bool launch_graph(Handle graph);

  bool check(int error, const char* function) {
    return error == kSuccess || failed(error, function);
  }
  // Of a new object, whose bytes are zeros.
  bool prepare() { return name != nullptr && (loaded_ = PyDict_New()) != nullptr; }
  bool open_device(int ordinal);
  Handle load(PyObject* ptx, PyObject* name);
  void release_all();
  PyObject* stats() const;

  // What follows is the GPU's own.

  static constexpr int kEvents = 64;  // an older mark waits for a later one's

  bool failed(int error, const char* function);
  // As `check`, of what the GPU was asked for: others may have put a mark meanwhile.
  bool asked(int error, const char* function) {
    open_ = true;
    return check(error, function);
  }
  bool has_no_memory(std::size_t size, const Array* array);
  bool too_long(std::int64_t waited);
  PyObject* running() const;
  // A mark that is there, and that no work before the given one comes after: a new one where that
  // is not there yet, or another thread puts marks just now. 0 with an error set.
  Mark reach(Mark mark) { return mark <= there_ ? mark : put_mark() ? last_put_ : 0; }
  Handle event_of(Mark mark) const { return events_[mark % kEvents]; }
  bool wait_for(Handle event);
  bool load_module(PyObject* ptx, Handle& module);

  Handle context_, compute_, up_, down_, went_up_, went_down_;
  Handle events_[kEvents];
  PyObject* programs_[kEvents];  // that end with each mark; owned, or null
  Mark asked_, done_;
  Mark there_;     // all up to this one are there: no thread is putting one of them
  Mark last_put_;  // that of the call of put_mark that returned last
  bool open_;      // something was asked for since the last mark
  int putting_;    // how many threads put marks just now: while a simulated driver is called
  Block* waiting_[pool::kClasses];
  std::size_t in_use_, cached_, peak_, allocations_, hits_;
  PyObject* loaded_;  // modules by their texts, and kernels by text and name
};

// Makes the type; a new reference, or null with an error set.
PyObject* make_gpu_type();

bool is_gpu(PyObject* object);

// The module functrax.backends.cuda.failures, which makes the errors.
PyObject* failures();

// Sets an error that a function has made, if it has; false.
bool raise(PyObject* error);

}  // namespace functrax::cuda
