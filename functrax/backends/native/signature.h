// The signature of a call: all of its arguments that decides which program runs, as words.
//
// Positional and keyword arguments go in; out come the leaves, in the order in which they were met,
// and a list of words that two calls have in common exactly if the same program serves both. A
// word is a tag of signature.cpp, a number, or the address of an interned object (a type, an aval,
// a key). Static arguments and the data of custom nodes are compared by value, as objects beside
// the words. Dicts are written in their own order, which costs no sorting: Layout knows where each
// leaf is among Python's, which are sorted.

#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "array_class.h"
#include "growing_array.h"

namespace functrax::signature {

using Word = std::uintptr_t;

// Owned references.
class References {
 public:
  References() = default;
  ~References() {
    for (PyObject* x : list_) Py_DECREF(x);
  }
  References(const References&) = delete;
  References& operator=(const References&) = delete;
  void add(PyObject* borrowed) { list_.push_back(Py_NewRef(borrowed)); }
  const GrowingArray<PyObject*, 32>& list() const { return list_; }

 private:
  GrowingArray<PyObject*, 32> list_;
};

// Which arguments have a role: those at these positions (negative from the end) or of these names.
struct Role {
  std::vector<Py_ssize_t> positions;
  PyObject* names = nullptr;  // a frozenset; null where there are none

  bool has_position(Py_ssize_t position, Py_ssize_t count) const;
  int has_name(PyObject* name) const;  // -1 with an error set
};

struct Signature {
  GrowingArray<Word, 96> words;
  References objects;  // compared by value
  References leaves;
  References kept;  // keys that live only as long as somebody holds them
};

// What a leaf is.
enum class Leaf { kArray, kBool, kInt, kFloat, kComplex, kNumpyArray, kNumpyScalar };

enum class Outcome { kRead, kUnknown, kError };

// Reads the arguments of a call; `kUnknown` where one is none of the usual ones. `key` is a word.
Outcome read(PyObject* key, PyObject* const* args, Py_ssize_t count, PyObject* names,
             const Role& statics, Signature& signature);

// What follows from the words alone.
struct Layout {
  std::vector<Leaf> leaves;
  std::vector<int> places;         // of each leaf in the order of Python's flattening
  std::vector<bool> donated;       // whether its argument is donated
  std::vector<PyObject*> pointed;  // the objects whose addresses are words; borrowed
};

// False, with an error set or not, where the layout cannot be known.
bool lay_out(const Signature& signature, const Role& donated, Layout& layout);

}  // namespace functrax::signature
