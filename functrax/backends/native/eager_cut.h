// What has to run for some operations, and what comes out: a cut of the graph of what is recorded.
//
// A cut is made in one walk, during which no Python runs. It is described by words: signatures,
// wiring, and the numbers of the results that come out, which are those that have an owner outside
// of the cut. Cuts of equal words are the same program.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "pointer_map.h"
#include "reference.h"
#include "words.h"

namespace functrax::eager {

// Results are numbered from 0 on, in the order of the operations; inputs -1, -2, ….
struct Cut {
  // An operand: its number, or a literal whose value is part of what the program is.
  struct Code {
    PyObject* literal;  // borrowed
    std::int64_t number;
  };
  struct Input {
    PyObject* value;      // owned
    PyObject* aval;       // borrowed
    std::int64_t before;  // another input of the same value, or -1
  };
  struct Output {
    Node* node;
    std::uint32_t place;
    std::size_t number;  // here, for a node's own numbers are those of whichever cut came last
  };

  std::vector<NodeReference> nodes;  // each after its operands
  std::vector<Code> codes;           // of all operands
  std::vector<Ref> literals;         // those in the codes
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  Words words;
  std::size_t results = 0;  // of the nodes
  // How many operations ran before, and how many of those not because they were deferred.
  std::size_t ran = 0, again = 0;
  bool large = false;  // whether any of the results is
  PointerMap known;    // the last input of a value

  // Whatever ends may run Python. The last nodes first, which need the others.
  void clear();
};

// A cut that is empty, and whose memory is used again.
class NewCut {
 public:
  NewCut() : cut_(spare_ ? std::move(spare_) : std::make_unique<Cut>()) {}
  NewCut(const NewCut&) = delete;
  NewCut& operator=(const NewCut&) = delete;
  ~NewCut() {
    cut_->clear();
    spare_ = std::move(cut_);
  }
  Cut& operator*() const { return *cut_; }

 private:
  static std::unique_ptr<Cut> spare_;
  std::unique_ptr<Cut> cut_;
};

// Makes the cut of what some operations need, whose values are wanted now if they are `requested`.
// Another result that is much larger than what it is made of stays recorded, and what it is made of
// comes out instead. `first` begins the words. False with an error set.
bool make_cut(const std::vector<Node*>& roots, bool requested, std::uintptr_t first, Cut& cut);

// Lets go of the operands of what ran. Where a result has an owner and no value, they are kept, so
// that it can still be computed.
void finish(Cut& cut);

// The number of operations that have to run for those that produce operands; many if they are many.
std::size_t count_of(const Operand* operands, std::size_t count);

}  // namespace functrax::eager
