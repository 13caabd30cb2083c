// Arrays in memory of the pool, as Python objects: follows functrax/backends/runtime/buffer.py.
//
// A shape and a dtype go in; a Buffer comes out, dense and row-major, immutable but for the
// executor that fills it. Views of NumPy hold the memory, not the Buffer, so that the count of a
// block's references tells whether somebody still looks at it.

#pragma once

#include <Python.h>

#include "pool.h"
#include "tasks.h"

namespace functrax::buffer {

struct Buffer {
  PyObject ob_base;
  pool::Block* block;  // owned; null where there are no elements, or after deletion
  void* data;          // null after deletion
  PyObject* dtype;
  PyObject* shape;  // a tuple
  Py_ssize_t nbytes;
  tasks::Task* pending;  // what makes its content, if somebody still may have to wait; owned
};

// Waits until the content is there; false with an error set.
bool finish(Buffer* buffer);
inline bool wait(Buffer* buffer) { return buffer->pending == nullptr || finish(buffer); }

// The content will be there when the task, of which it takes a share, is finished.
void set_pending(Buffer* buffer, tasks::Task* task);

// Where arrays without elements lie.
void* nowhere();

// Makes the type; a new reference, or null with an error set.
PyObject* make_type();

bool is_buffer(PyObject* object);

// A Buffer or a NumPy array. Other raw values are for Python: memory that others may write to, and
// arrays that are on another device.
bool is_plain(PyObject* raw);

// A Buffer in `block`, which it takes, or in new memory where that is null; null with an error set.
PyObject* make(PyObject* shape, PyObject* dtype, Py_ssize_t nbytes, pool::Block* block);

// Another Buffer of the same memory, to keep it alive.
PyObject* share(pool::Block* block);

// Takes the memory out of the Buffer, if no view of it is alive and no task reads it; null
// otherwise. A task that writes to it is for the taker to wait for.
pool::Block* take_block(Buffer* buffer);

// Sets the error of looking at a deleted Buffer.
void set_deleted_error(const Buffer* buffer);

}  // namespace functrax::buffer
