// What a call of a library function is: the types of its arguments that are arrays, and the values
// of the others. Equal calls record the same operations: see eager_recipe.h.
//
// Lists and tuples of arguments are read through, and objects that hold one array, such as keys.

#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "eager_tape.h"
#include "growing_array.h"
#include "reference.h"
#include "words.h"

namespace functrax::eager {

// A class of objects that hold one array, which arguments and results may be.
struct Wrapper {
  PyTypeObject* type;
  Py_ssize_t words;  // the slot of the array
};

// Null for other classes.
const Wrapper* wrapper_of(PyTypeObject* type);

struct Call {
  GrowingArray<std::uintptr_t, 48> words;
  GrowingArray<PyObject*, 32> kept;  // whose addresses are in the words, borrowed
  Givens given;                      // the arrays, and those that tracers stand for, in order
  bool traced = false;               // whether there are tracers
  bool holds = false;                // whether an array lies in something else

  WordsView view() const { return {words.data(), words.size()}; }

  // Reads `count` arguments, the last of which have `names`. False where the function has to be
  // called: not everything can be told apart.
  bool read(PyObject* mode, PyObject* const* args, Py_ssize_t count, PyObject* names,
            PyObject* static_class);

  // What the tape knows of the arrays is part of what the call is, too.
  void add_tangents();

 private:
  enum Tag : std::uintptr_t { kArray, kHolder, kObject, kInteger, kNumber, kTuple, kList };

  void add(Tag tag, PyObject* object);
  bool add_integer(PyObject* x);
  void add_number(PyObject* x);
  bool add_array(PyObject* x);
  bool add_static(PyObject* x);
  bool add_all(Tag tag, PyObject* const* items, Py_ssize_t count);
  bool add_argument(PyObject* x);

  std::vector<Ref> alive_;  // arrays in lists, which another thread may change meanwhile
  PyObject* static_class_ = nullptr;
  Py_ssize_t left_ = 0;   // how many arguments may come yet
  Py_ssize_t depth_ = 0;  // in how many lists and tuples the argument lies
};

// eager_wrapper(class) -> None: arguments and results may be objects of a class that hold an array,
// in the slot `words`.
PyObject* add_wrapper(PyObject* self, PyObject* type);

}  // namespace functrax::eager
