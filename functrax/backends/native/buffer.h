// Arrays in memory of the pool, as Python objects: follows functrax/backends/buffer.py.
//
// A shape and a dtype go in; a Buffer comes out, dense and row-major, immutable but for the
// executor that fills it. Views of NumPy hold the memory, not the Buffer, so that the count of a
// block's references tells whether somebody still looks at it.

#pragma once

#include <Python.h>

#include "pool.h"

namespace functrax::buffer {

struct Buffer {
  PyObject ob_base;
  pool::Block* block;  // owned; null where there are no elements, or after deletion
  void* data;          // null after deletion
  PyObject* dtype;
  PyObject* shape;  // a tuple
  Py_ssize_t nbytes;
};

// Where arrays without elements lie.
void* nowhere();

// Makes the type; a new reference, or null with an error set.
PyObject* make_type();

bool is_buffer(PyObject* object);

// A Buffer in `block`, which it takes, or in new memory where that is null; null with an error set.
PyObject* make(PyObject* shape, PyObject* dtype, Py_ssize_t nbytes, pool::Block* block);

// Another Buffer of the same memory, to keep it alive.
PyObject* share(pool::Block* block);

// Takes the memory out of the Buffer, if no view of it is alive; null otherwise.
pool::Block* take_block(Buffer* buffer);

// Sets the error of looking at a deleted Buffer.
void set_deleted_error(const Buffer* buffer);

}  // namespace functrax::buffer
