// Nodes of the graph of recorded operations, as backends/eager_graph.py has them: how one is made.

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

// What arrays of an operation's results hold, and later operations take: the node itself, or one
// part for each of several results. A list that begins on the stack.
class Results {
 public:
  Results() = default;
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (std::size_t i = 0; i < size_; ++i) data_[i].~Ref();
    if (data_ != first()) std::free(data_);
  }

  void reserve(std::size_t size) {
    if (size <= room_) return;
    Ref* larger = static_cast<Ref*>(std::malloc(size * sizeof(Ref)));
    if (larger == nullptr) throw std::bad_alloc();
    for (std::size_t i = 0; i < size_; ++i) {
      new (larger + i) Ref(std::move(data_[i]));
      data_[i].~Ref();
    }
    if (data_ != first()) std::free(data_);
    data_ = larger;
    room_ = size;
  }
  void push_back(Ref result) {
    if (size_ == room_) reserve(2 * room_);
    new (data_ + size_++) Ref(std::move(result));
  }
  std::size_t size() const { return size_; }
  Ref& back() { return data_[size_ - 1]; }
  Ref& operator[](std::size_t i) { return data_[i]; }
  const Ref& operator[](std::size_t i) const { return data_[i]; }

 private:
  static constexpr std::size_t kInline = 24;

  Ref* first() { return reinterpret_cast<Ref*>(inline_); }

  alignas(Ref) unsigned char inline_[kInline * sizeof(Ref)];
  Ref* data_ = first();
  std::size_t size_ = 0, room_ = kInline;
};

// A line of the user's program: an object as core/source.py has them, or what one is made of.
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

// An operation that is recorded. Its class in Python, Node, stands on this type and adds methods.
// It is unknown to the collector of garbage, for it refers to what is older than itself only.
struct Node {
  PyObject_VAR_HEAD  // the size is the number of operands
      PyObject* weak_references;
  Py_ssize_t room;                      // for so many operands
  PyObject *signature, *value, *parts;  // no value: not known; no parts: a single result
  Line line;
  RegionPointer region;
  std::int64_t number, size, begin;
  std::int64_t held;  // bytes of the arrays among its operands, if they are worth counting
  // Of the cut that was made last: which one it was, where the node is in it, the number of its
  // first result, and how often its operands refer to the node.
  std::uint64_t cut;
  std::size_t place, first;
  Py_ssize_t uses;
  Node *before, *after;  // those that have operands
  PyObject* operands[1];
};

inline bool is_node(PyObject* x) { return Py_IS_TYPE(x, python.node); }
inline Node* as_node(PyObject* x) { return reinterpret_cast<Node*>(x); }
inline PyObject* as_object(Node* node) { return reinterpret_cast<PyObject*>(node); }

// The operation that has to run for an operand of a node, borrowed; null if it is known.
Node* producer_of(PyObject* x);

// Lets go of a node's operands.
void drop_operands(Node* node);

// The line that a new operation belongs to; false with an error set.
bool user_line(Line& line);

// An operand as a node holds it, borrowed; null if Python has to see to it.
PyObject* operand_of(PyObject* x, PyObject* strict);

// Records an operation; `operands` are what nodes hold, borrowed. Where too much waits, what waits
// for it is run before; but not between the operations of one function, which then share kernels.
// Null with an error set.
Ref new_node(PyObject* signature, PyObject* const* operands, std::size_t count, const Line& line,
             bool may_run = true);

// What arrays of a new operation's results hold, appended; false with an error set.
bool add_results(Ref node, Results& results);

// The number of the operation that is recorded next.
std::int64_t next_number();

PyObject* make_node_type();  // functrax._native.EagerNode

// Tells the class that stands on that type.
void set_node_class(PyTypeObject* type);

// eager_node(signature, operands, line) -> a list of what arrays of its results hold.
PyObject* node_of(PyObject* self, PyObject* const* args, Py_ssize_t count);

// eager_readers(value) -> the nodes that have a raw value among their operands.
PyObject* readers(PyObject* self, PyObject* value);

// eager_line() -> the line that a new operation belongs to, as current_source of core/trace.py.
PyObject* line(PyObject* self, PyObject* unused);

PyObject* now(PyObject* self, PyObject* unused);  // the number of the next operation

// eager_unseen() -> how many operations were recorded between two looks at values that had to be
// run for, at most: before the last two looks, and since. note_look() notes such a look.
PyObject* unseen(PyObject* self, PyObject* unused);
void note_look();

}  // namespace functrax::eager
