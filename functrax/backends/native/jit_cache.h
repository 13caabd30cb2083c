// What a jitted function remembers: for each signature, the program and how to call it.
//
// A Signature and what Python prepared (the executable, the constants, the types and the structure
// of the results) go in; an Entry comes out, and is found again for equal signatures. Entries do
// not change; a call holds the one that it runs, for Python code may clear the cache meanwhile.
// Everything here happens under the GIL.

#pragma once

#include <Python.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "numpy_arrays.h"
#include "program.h"
#include "signature.h"

namespace functrax::jit_cache {

// How one leaf becomes an input of the program.
struct Input {
  signature::Leaf leaf;
  int number;  // of the input
  int slot;
  int scalar;  // the number of its place among the scalars of a call
  numpy_arrays::ScalarForm form;
  bool donated;
  bool keep;  // whether somebody may look at its memory after the call
};

struct Output {
  enum Kind { kOwn, kInput, kConst, kSame } kind;
  int number;  // the input, or the earlier result, that it is
  int slot;
  int source;      // the input whose memory it may take if that is donated, or -1
  PyObject* aval;  // borrowed
};

class Entry {
 public:
  // Null with an error set, or without one where calls of the signature stay with Python.
  static Entry* make(const signature::Signature& signature, const signature::Role& donated,
                     PyObject* prepared);

  bool same_words(const signature::Signature& signature) const;
  // 1, 0, or -1 with an error set.
  int same_objects(const signature::Signature& signature) const;

  const program::Program& program() const { return *program_; }
  PyObject* executable() const { return executable_; }
  const std::vector<PyObject*>& consts() const { return consts_; }  // arrays
  const std::vector<Input>& inputs() const { return inputs_; }      // one for each leaf
  const std::vector<Output>& outputs() const { return outputs_; }
  PyObject* out_tree() const { return out_tree_; }
  int scalars() const { return scalars_; }
  bool donates() const { return donates_; }
  bool on_gpu() const { return on_gpu_; }
  bool retains() const { return retains_; }  // calls Python functions, which may keep what they see

  int traverse(visitproc visit, void* arg) const;
  void retain() { ++owners_; }
  void release() {
    if (--owners_ == 0) delete this;
  }

 private:
  friend class Cache;
  Entry() = default;
  ~Entry();
  PyObject* own(PyObject* borrowed) {
    owned_.push_back(Py_NewRef(borrowed));
    return borrowed;
  }
  bool prepare(const signature::Signature& signature, const signature::Layout& layout,
               PyObject* prepared);
  bool add_inputs(const signature::Layout& layout);
  void add_outputs(PyObject* avals);

  int owners_ = 1;
  std::uint64_t hash_ = 0;
  std::vector<signature::Word> words_;
  std::vector<PyObject*> objects_, consts_;  // borrowed from owned_
  std::vector<PyObject*> owned_;
  PyObject* executable_ = nullptr;
  PyObject* out_tree_ = nullptr;
  const program::Program* program_ = nullptr;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  int scalars_ = 0;
  bool donates_ = false, retains_ = false, on_gpu_ = false;
  bool used_ = true;  // since the unused ones were last dropped
};

// Owns a share of an entry, which may be null.
class Hold {
 public:
  Hold() = default;
  explicit Hold(Entry* entry) : entry_(entry) {
    if (entry_ != nullptr) entry_->retain();
  }
  Hold(Hold&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~Hold() {
    if (entry_ != nullptr) entry_->release();
  }
  Entry* get() const { return entry_; }
  Entry* operator->() const { return entry_; }
  explicit operator bool() const { return entry_ != nullptr; }

 private:
  Entry* entry_ = nullptr;
};

class Cache {
 public:
  Cache() = default;
  ~Cache() { clear(); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // The entry of a signature; null where there is none, `failed` where an error is set.
  Hold find(const signature::Signature& signature, bool& failed);
  bool add(const signature::Signature& signature, Entry* entry);  // takes it; false with an error
  void clear();
  // Forgets the entries that were not used since this was last done; to `kept` go the others, not
  // owned. False with an error set.
  bool drop_unused(PyObject* kept);
  int traverse(visitproc visit, void* arg) const;

 private:
  Hold search(const signature::Signature& signature, bool& failed);

  Entry* last_ = nullptr;  // found last; the map owns it
  std::unordered_multimap<std::uint64_t, Entry*> entries_;
};

}  // namespace functrax::jit_cache
