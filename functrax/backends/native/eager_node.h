// Operations that are recorded, and who may still ask for their results.
//
// A Node is one operation. Its operands are raw values, literals, and results of other nodes. Who
// may ask for a result is written down with the result, by those who may: arrays, which hold it as
// a Python object (eager_value.h), tapes and functions that are being recorded (Held), and
// operations that read it. Nodes are not Python objects, so nothing else can refer to one: no
// frame, no debugger, no collector. A node without such an owner ends at once; the results with an
// owner are the ones that a run has to give (eager_cut.h). docs/decisions/0020-who-may-ask.md says
// why that is enough.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "eager_region.h"
#include "eager_state.h"
#include "reference.h"

namespace functrax::eager {

enum class Outcome { kDone, kLeft, kError };  // kLeft: Python has to do it

// What a call returns: its result, or what the function in Python returns in its place.
template <typename Function>
PyObject* result_or(Outcome outcome, Ref& result, const Function& in_python) {
  switch (outcome) {
    case Outcome::kDone:
      return result.release();
    case Outcome::kError:
      return nullptr;
    case Outcome::kLeft:
      break;
  }
  return in_python();
}

// A line of the user's program: an object as core/errors/source.py has them, or what one is made
// of.
class Line {
 public:
  Line() = default;
  explicit Line(Ref object) : object_(std::move(object)) {}
  Line(Ref code, int offset) : code_(std::move(code)), offset_(offset) {}
  Line share() const;

  PyObject* object();  // borrowed; null with an error set

  // What it is made of: code, and an instruction's offset; or an object and no offset.
  PyObject* origin() const { return object_ ? object_.get() : code_ ? code_.get() : Py_None; }
  Ref offset() const {
    return object_ || !code_ ? Ref::share(Py_None) : Ref(PyLong_FromLong(offset_));
  }

  explicit operator bool() const { return object_ || code_; }

 private:
  Ref object_, code_;
  int offset_ = 0;
};

struct Node;

// functrax._native.EagerValue, unknown to the collector of garbage: a result refers to its node and
// to a raw value only.
extern PyTypeObject value_type;

// One result of an operation, and its owners. It is the Python object that arrays of it hold, of
// the type EagerValue; where no array does, nothing refers to that object.
struct Result {
  PyObject head = {};  // the type always, the rest while is_in_arrays
  Node* node;
  PyObject* known = nullptr;  // the raw value; null: not computed. Owned
  std::uint32_t held = 0;     // how many Held there are
  std::uint32_t readers = 0;  // operands of operations that are not computed
  std::uint32_t uses = 0;     // those of the cut that was made last
  bool is_in_arrays = false;
  bool forced = false;  // whether the cut that was made last has to give it for another reason

  bool is_owned() const { return is_in_arrays || held != 0 || readers != 0; }
};

inline bool is_result(PyObject* x) { return Py_IS_TYPE(x, &value_type); }

// What an operation is applied to: a raw value or a literal, or a result of a node. A result need
// not be in arrays, so it must not be used as a Python object.
class Operand {
 public:
  Operand() = default;
  explicit Operand(PyObject* object) : x_(object) {}
  explicit Operand(Result& result) : x_(reinterpret_cast<PyObject*>(&result)) {}

  Result* result() const { return is_result(x_) ? reinterpret_cast<Result*>(x_) : nullptr; }
  bool is_literal() const { return Py_IS_TYPE(x_, python.literal); }

  // The raw value or literal, borrowed; null while it is not computed.
  PyObject* known() const { return is_result(x_) ? reinterpret_cast<Result*>(x_)->known : x_; }

  // The operation that has to run for it, borrowed; null if it is known.
  Node* producer() const {
    const Result* found = result();
    return found == nullptr || found->known != nullptr ? nullptr : found->node;
  }

  explicit operator bool() const { return x_ != nullptr; }
  bool operator==(const Operand& other) const { return x_ == other.x_; }

 private:
  PyObject* x_ = nullptr;
};

// An operation that is recorded.
struct Node {
  explicit Node(Line line) : line(std::move(line)) {}

  std::size_t references = 0;  // owners of its results, and runs that it is part of
  PyObject* signature;
  Line line;
  RegionPointer region;
  std::int64_t number, size, begin;
  std::int64_t held = 0;  // bytes of the arrays among its operands, if they are worth counting
  // Of the cut that was made last: which one it was, where the node is in it, and the number of its
  // first result.
  std::uint64_t cut = 0;
  std::size_t place, first;
  Node *before = nullptr, *after = nullptr;  // those that have operands
  bool is_computed = false;                  // whether every result that has an owner is known
  bool ran = false;                          // whether it was part of a run that has ended
  bool is_deferred = false;  // whether it stays recorded because its result is large
  std::uint32_t num_results, num_operands, room;
  std::uint32_t num_pending = 0;  // of the operands, when it was recorded
  Result* results;                // more than one are allocated
  Result single;
  Operand operands[1];  // owned
};

// Ends a node without references.
void end(Node* node);

// Lets go of a reference to a node.
inline void release(Node* node) {
  if (--node->references == 0) end(node);
}

// The same, where an owner of a result has gone: a value that nobody may ask for goes with it, also
// where other results of the operation have owners.
inline void disown(Result* result) {
  Node* node = result->node;
  if (node->num_results != 1 && !result->is_owned()) Py_CLEAR(result->known);
  release(node);
}

// A node that must not end, though nobody may ask for its results.
class NodeReference {
 public:
  explicit NodeReference(Node* node) : node_(node) { ++node_->references; }
  NodeReference(NodeReference&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeReference& operator=(NodeReference&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeReference() {
    if (node_ != nullptr) release(node_);
  }
  Node* get() const { return node_; }

 private:
  Node* node_;
};

// A raw value, a literal or a result that is held, so that it can be asked for.
class Held {
 public:
  Held() = default;
  explicit Held(const Operand& x) : x_(x) {
    if (!x) return;
    if (Result* result = x.result(); result != nullptr) {
      ++result->node->references;
      ++result->held;
    } else {
      Py_INCREF(x.known());
    }
  }
  Held(Held&& other) noexcept : x_(std::exchange(other.x_, Operand())) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(x_, other.x_);
    return *this;
  }
  ~Held() {
    if (!x_) return;
    if (Result* result = x_.result(); result != nullptr) {
      --result->held;
      disown(result);
    } else {
      Py_DECREF(x_.known());
    }
  }

  // Gives a result to arrays, whose reference to the node this one becomes; false for anything
  // else, and where arrays hold it already.
  bool become_array() {
    Result* result = x_.result();
    if (result == nullptr || result->known != nullptr || result->is_in_arrays) return false;
    --result->held;
    result->is_in_arrays = true;
    x_ = Operand();
    return true;
  }

  static Held share(PyObject* object) { return Held(Operand(object)); }
  Held share() const { return Held(x_); }
  const Operand& operand() const { return x_; }
  explicit operator bool() const { return static_cast<bool>(x_); }

 private:
  Operand x_;
};

// What operations have given, or are given. A list that begins on the stack.
class Results {
 public:
  Results() = default;
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (std::size_t i = 0; i < size_; ++i) data_[i].~Held();
    if (data_ != first()) std::free(data_);
  }

  void reserve(std::size_t size) {
    if (size <= room_) return;
    Held* larger = static_cast<Held*>(std::malloc(size * sizeof(Held)));
    if (larger == nullptr) throw std::bad_alloc();
    for (std::size_t i = 0; i < size_; ++i) {
      new (larger + i) Held(std::move(data_[i]));
      data_[i].~Held();
    }
    if (data_ != first()) std::free(data_);
    data_ = larger;
    room_ = size;
  }
  void push_back(Held result) {
    if (size_ == room_) reserve(2 * room_);
    new (data_ + size_++) Held(std::move(result));
  }
  std::size_t size() const { return size_; }
  Held& back() { return data_[size_ - 1]; }
  Held take(std::size_t i) { return std::move(data_[i]); }
  const Operand& operator[](std::size_t i) const { return data_[i].operand(); }

 private:
  static constexpr std::size_t kInline = 24;

  Held* first() { return reinterpret_cast<Held*>(inline_); }

  alignas(Held) unsigned char inline_[kInline * sizeof(Held)];
  Held* data_ = first();
  std::size_t size_ = 0, room_ = kInline;
};

// Lets go of a node's operands.
void drop_operands(Node* node);

// The line that a new operation belongs to; false with an error set.
bool user_line(Line& line);

// Records an operation of one result, as record_node; empty with an error set.
Held record_single(PyObject* signature, const Operand* operands, std::size_t count, Line&& line,
                   bool may_run = true);

// Records an operation, whose results are appended; operands are borrowed. Where too much waits,
// what waits for it is run before; but not between the operations of one function, which then share
// kernels. False with an error set.
bool record_node(PyObject* signature, const Operand* operands, std::size_t count, const Line& line,
                 Results& results, bool may_run = true);

// The number of the operation that is recorded next.
std::int64_t next_number();

// Those that have operands: the one that was recorded last, from which `after` leads on.
Node* newest_node();

// eager_settle(value): runs the operations that read a raw value.
PyObject* settle(PyObject* self, PyObject* value);

// eager_line() -> the line that a new operation belongs to, as current_source of
// core/tracing/trace.py.
PyObject* line(PyObject* self, PyObject* unused);

// Notes that somebody looked at a value that has to be run for.
void note_look();

}  // namespace functrax::eager
