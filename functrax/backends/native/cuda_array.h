// Arrays in the memory of a GPU, as Python objects: follows functrax/backends/cuda/array.py.

#pragma once

#include <Python.h>

#include "cuda_gpu.h"

namespace functrax::cuda {

struct Array {
  PyObject ob_base;
  Gpu* gpu;      // owned
  Block* block;  // owned; null where there are no elements, or after deletion
  PyObject* dtype;
  PyObject* shape;  // a tuple
  Py_ssize_t nbytes;
  Mark mark;       // after which the elements are there
  PyObject* host;  // the elements, once they were copied; or null
  bool deleted;
  Array *before, *after;  // among those of the GPU
};

// Makes the type; a new reference, or null with an error set.
PyObject* make_array_type();

bool is_array(PyObject* object);

// A new array, with any content; null with an error set.
Array* make_array(Gpu* gpu, PyObject* shape, PyObject* dtype, Py_ssize_t nbytes, Block* block);

// Its type as text, for messages; a new reference, or null with an error set.
PyObject* array_label(const Array* array);

// Takes the memory out of an array, which is deleted then; null where there is none.
Block* take_block(Array* array);

inline Place place_of(const Array* array) {
  return array->block == nullptr ? 0 : array->block->place;
}

// Copies the elements of the host into the array; false with an error set.
bool set_elements(Array* array, const void* data);

// Sets the error of looking at a deleted array.
void set_deleted_error(const Array* array);

}  // namespace functrax::cuda
