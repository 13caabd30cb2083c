// What tapes are made of: see eager_tape.h.

#pragma once

#include <Python.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "eager_steps.h"
#include "eager_tape.h"
#include "reference.h"
#include "words.h"

namespace functrax::eager {

// How the cotangents of a fragment's operands follow from those of its results.
struct Backward {
  struct Contribution {
    std::size_t position;  // which operand it is for
    StepInput value;
    Ref aval;
  };
  Steps steps;
  std::vector<Contribution> contributions;  // in the order in which they are added
  Ref kept;                                 // whose addresses are in the words
};

struct Fragment {
  std::size_t references = 0;
  Steps steps;
  std::vector<StepInput> outputs;
  std::vector<Ref> avals;              // of the outputs
  std::vector<std::size_t> tangents;   // of the outputs: an operand's, then new ones; or kNoNumber
  std::vector<Ref> new_tangents;       // types
  std::vector<std::size_t> residuals;  // places
  enum class Shape { kSingle, kTuple, kList } shape;
  Ref derive;  // by what is known of the cotangents of new tangents, how those of operands follow
  // By what is known, in words: few, most often one.
  std::vector<std::pair<Words, std::shared_ptr<Backward>>> backward;
};

// An operation with other numbers in it each time is Python's business after so many.
constexpr int kMostVariants = 64;

struct Entry {
  FragmentPointer fragment;  // null where `pull` is Python's
  Ref pull;
  // Where the numbers of its operands begin among all, then those of its results, and where they
  // end; and where its residuals begin, of which the fragment says how many there are.
  std::size_t inputs, outputs, end, residuals;
  Line line;
};

// What is on a tape. Entries are many and small, so they share their lists.
struct Written {
  std::vector<Entry> entries;
  std::vector<Ref> avals;  // of the tangents
  std::vector<std::size_t> numbers;
  std::vector<Held> residuals;
};

struct Tape {
  PyObject_HEAD Written* written;
};

inline Tape* as_tape(PyObject* self) { return reinterpret_cast<Tape*>(self); }

Ref new_tape();  // null with an error set

// Forgets everything on a tape.
void forget(Tape* tape);

// The cotangent of a tangent.
struct Cotangent {
  Held value;  // empty for zero
  Ref aval;

  bool is_literal() const { return value && value.operand().is_literal(); }
};
using Cotangents = std::vector<Cotangent>;

// A cotangent as Python has it; null with an error set.
PyObject* value_of(const Cotangent& x);

// The cotangents of all tangents, of which those of the arguments are to be used, given that of
// one. The tape is used up. False with an error set.
bool read_backwards(Tape* tape, std::size_t number, PyObject* ct, Cotangents& cts);

// Places or numbers, kNoNumber for None; false with an error set.
bool read_places(PyObject* given, std::vector<std::size_t>& places);

// The sum of two values, as Python adds them; null with an error set.
Ref sum_of(PyObject* x, PyObject* y);

}  // namespace functrax::eager
