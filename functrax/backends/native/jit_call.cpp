// See jit_call.h. Start at Call::run.

#include "jit_call.h"

#include <complex>
#include <memory>
#include <utility>
#include <vector>

#include "buffer.h"
#include "cuda_executable.h"
#include "eager_state.h"
#include "elsewhere.h"
#include "executor.h"
#include "numpy_arrays.h"
#include "pytree.h"
#include "recorder.h"
#include "reference.h"
#include "scalars.h"
#include "small_array.h"
#include "targets/native.h"
#include "tasks.h"
#include "thread_state.h"

namespace functrax::jit_call {
namespace {

using buffer::Buffer;
using jit_cache::Entry;
using jit_cache::Input;
using jit_cache::Output;
using program::Program;
using program::Slot;
using signature::Leaf;
using signature::Outcome;
using signature::Signature;

PyObject* buffer_name() {
  static PyObject* const name = PyUnicode_InternFromString("buffer");
  return name;
}

// Estimated nanoseconds from which on a program is handed to another thread.
constexpr std::int64_t kWorthAThread = 100'000;

// Whether programs of this kind may run elsewhere: not those that call Python.
bool may_run_elsewhere(const Entry& entry) {
  return thread_state::asynchronous() && !entry.retains();
}

// What a call needs that runs elsewhere, while Python goes on.
struct Elsewhere : elsewhere::Run {
  explicit Elsewhere(Entry& entry) : hold(&entry) {}

  jit_cache::Hold hold;
  bool must_run_here = false;  // since it reads memory that somebody may write to
};

class Call final : public executor::Owner, public tasks::Job {
 public:
  Call(const Entry& entry, const Signature& signature,
       std::unique_ptr<Elsewhere> elsewhere = nullptr)
      : entry_(entry),
        program_(entry.program()),
        leaves_(signature.leaves.list().data()),
        frame_(program_),
        held_(program_.inputs.size()),
        results_(program_.outputs.size()),
        scalars_(static_cast<std::size_t>(entry.scalars())),
        arena_(program_.arena > 0 && !elsewhere ? pool::allocate(program_.arena) : nullptr),
        elsewhere_(std::move(elsewhere)) {
    for (std::size_t k = 0; k < held_.size(); ++k) held_[k] = nullptr;
    for (std::size_t k = 0; k < results_.size(); ++k) results_[k] = nullptr;
  }
  ~Call() override {
    for (std::size_t k = 0; k < held_.size(); ++k) Py_XDECREF(held_[k]);
    for (std::size_t k = 0; k < results_.size(); ++k) Py_XDECREF(results_[k]);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Outcome run(PyObject*& result);
  static Outcome start(std::unique_ptr<Call> self, PyObject*& result);
  bool met_pending() const { return met_pending_; }
  void wait_for_pending() { waits_ = true; }
  PyObject* make() override;
  bool run(const std::atomic<bool>& cancelled, PyThreadState*& saved) override;
  void free_memory() override;
  void record() override;

 private:
  Outcome content(Buffer* b);
  bool must_copy(int number);
  std::size_t result_bytes() const;
  bool wait_for_inputs();
  void hold_memory();

  Outcome read_inputs();
  Outcome array(int number, PyObject* x);
  Outcome raw(int number, PyObject* value);
  Outcome numpy_array(const Input& input, PyObject* x);
  Outcome scalar(const Input& input, PyObject* x);
  Outcome dense(int number, PyObject* array, bool copy);
  bool make_results();
  PyObject* own_result(const Output& output);
  pool::Block* donated_block(const Output& output);

  const Entry& entry_;
  const Program& program_;
  PyObject* const* leaves_;
  executor::Frame frame_;
  SmallArray<PyObject*, 24> held_;     // what keeps each input's memory; owned
  SmallArray<PyObject*, 24> results_;  // raw values, then arrays; owned
  SmallArray<std::complex<double>, 4> scalars_;
  pool::Hold arena_;
  bool met_pending_ = false;  // an input is not computed yet, and the call may run elsewhere
  bool waits_ = false;        // for such inputs
  std::unique_ptr<Elsewhere> elsewhere_;
};

// What an input is whose content is still being made.
Outcome Call::content(Buffer* b) {
  if (tasks::is_finished(b->pending)) {
    return buffer::finish(b) ? Outcome::kRead : Outcome::kError;
  }
  if (!elsewhere_) {
    if (waits_ || !may_run_elsewhere(entry_))
      return buffer::finish(b) ? Outcome::kRead : Outcome::kError;
    met_pending_ = true;
    return Outcome::kUnknown;
  }
  elsewhere_->comes_after(b);
  return Outcome::kRead;
}

// Memory that somebody else may write to after the call is copied where that is a small part of the
// program's work; otherwise the program runs before the call returns.
bool Call::must_copy(int number) {
  constexpr std::int64_t kShare = 20;
  if (!elsewhere_) return false;
  const std::int64_t nbytes = program_.slots[program_.inputs[number]].nbytes;
  const bool copies = nbytes / targets::kCopiedBytes <= program_.cost / kShare;
  if (!copies) elsewhere_->must_run_here = true;
  return copies;
}

// A NumPy array as an input, converted where it must be.
Outcome Call::dense(int number, PyObject* array, bool copy) {
  const Slot& slot = program_.slots[program_.inputs[number]];
  const auto rank = static_cast<int>(slot.sizes.size());
  void* data = nullptr;
  if (!copy) data = numpy_arrays::dense_data(array, slot.dtype.ptr(), rank, slot.sizes.data());
  if (data != nullptr) {
    held_[number] = Py_NewRef(array);
  } else {
    held_[number] = numpy_arrays::converted(array, slot.dtype.ptr(), copy);
    if (held_[number] == nullptr) return Outcome::kError;
    data = numpy_arrays::dense_data(held_[number], slot.dtype.ptr(), rank, slot.sizes.data());
    if (data == nullptr) return Outcome::kUnknown;
  }
  frame_.slots[program_.inputs[number]] = data;
  return Outcome::kRead;
}

Outcome Call::array(int number, PyObject* x) {
  PyObject* value = signature::buffer_of(x);
  if (value == nullptr || value == Py_None) return Outcome::kUnknown;  // it was deleted
  if (buffer::is_plain(value)) return raw(number, value);
  // What is recorded is computed, once: from then on the array has the value.
  const Ref computed(PyObject_GetAttr(x, buffer_name()));
  return computed ? raw(number, computed.get()) : Outcome::kError;
}

Outcome Call::raw(int number, PyObject* value) {
  if (buffer::is_buffer(value)) {
    auto* b = reinterpret_cast<Buffer*>(value);
    const int slot = program_.inputs[number];
    if (b->data == nullptr || b->nbytes != program_.slots[slot].nbytes) return Outcome::kUnknown;
    if (b->pending != nullptr) {
      const Outcome outcome = content(b);
      if (outcome != Outcome::kRead) return outcome;
    }
    held_[number] = Py_NewRef(value);
    frame_.slots[slot] = b->data;
    return Outcome::kRead;
  }
  if (numpy_arrays::is_array(value)) return dense(number, value, false);
  if (!Py_IS_TYPE(value, eager::python.borrowed)) return Outcome::kUnknown;  // on another device
  Ref known(PyObject_CallMethod(value, "materialize", nullptr));
  if (!known) return Outcome::kError;
  if (!numpy_arrays::is_array(known.get())) return Outcome::kUnknown;
  return dense(number, known.get(), must_copy(number));
}

// The caller may write to a NumPy array after the call.
Outcome Call::numpy_array(const Input& input, PyObject* x) {
  return dense(input.number, x, input.keep || must_copy(input.number));
}

Outcome Call::scalar(const Input& input, PyObject* x) {
  void* place = &scalars_[input.scalar];
  if (input.keep) {
    const Slot& slot = program_.slots[input.slot];
    PyObject* made = buffer::make(slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, nullptr);
    if (made == nullptr) return Outcome::kError;
    held_[input.number] = made;
    place = reinterpret_cast<Buffer*>(made)->data;
  }
  frame_.slots[input.slot] = place;
  return scalars::write(input.leaf, input.form, x, place);
}

Outcome Call::read_inputs() {
  const auto& consts = entry_.consts();
  for (std::size_t k = 0; k < consts.size(); ++k) {
    const Outcome outcome = array(static_cast<int>(k), consts[k]);
    if (outcome != Outcome::kRead) return outcome;
  }
  const auto& inputs = entry_.inputs();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Input& input = inputs[k];
    Outcome outcome;
    if (input.leaf == Leaf::kArray) {
      outcome = array(input.number, leaves_[k]);
    } else if (input.leaf == Leaf::kNumpyArray) {
      outcome = numpy_array(input, leaves_[k]);
    } else {
      outcome = scalar(input, leaves_[k]);
    }
    if (outcome != Outcome::kRead) return outcome;
  }
  return Outcome::kRead;
}

// The memory of a donated input that nobody else refers to; null if there is none.
pool::Block* Call::donated_block(const Output& output) {
  constexpr Py_ssize_t kOwners = 2;  // the array and this call
  if (output.source < 0) return nullptr;
  const int number = entry_.inputs()[output.source].number;
  PyObject* value = held_[number];
  if (!buffer::is_buffer(value) || Py_REFCNT(value) > kOwners) return nullptr;
  pool::Block* block = buffer::take_block(reinterpret_cast<Buffer*>(value));
  // At once: while the program runs, other threads must not take the array for one with elements.
  if (block != nullptr) delete_array(leaves_[output.source]);
  return block;
}

PyObject* Call::own_result(const Output& output) {
  const Slot& slot = program_.slots[output.slot];
  PyObject* made = buffer::make(slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes,
                                entry_.donates() ? donated_block(output) : nullptr);
  if (made == nullptr) return nullptr;
  auto* b = reinterpret_cast<Buffer*>(made);
  frame_.slots[output.slot] = b->data;
  if (elsewhere_) buffer::set_pending(b, elsewhere_->task);
  return made;
}

bool Call::make_results() {
  const auto& outputs = entry_.outputs();
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const Output& output = outputs[n];
    switch (output.kind) {
      case Output::kOwn:
        results_[n] = own_result(output);
        break;
      case Output::kInput:
        results_[n] = Py_NewRef(held_[output.number]);
        break;
      case Output::kConst:
        results_[n] = Py_NewRef(program_.slots[output.slot].value.ptr());
        break;
      case Output::kSame:
        results_[n] = Py_NewRef(results_[output.number]);
        break;
    }
    if (results_[n] == nullptr) return false;
  }
  return true;
}

// What Python functions may keep: the arena, the inputs and the results.
PyObject* Call::make() {
  Ref owner(PyList_New(0));
  Ref arena(buffer::share(arena_.get()));
  if (!owner || !arena || PyList_Append(owner.get(), arena.get()) != 0) return nullptr;
  for (auto* values : {&held_, &results_}) {
    for (std::size_t k = 0; k < values->size(); ++k) {
      if (PyList_Append(owner.get(), (*values)[k]) != 0) return nullptr;
    }
  }
  return owner.release();
}

Outcome Call::run(PyObject*& result) {
  const Outcome outcome = read_inputs();
  if (outcome != Outcome::kRead) return outcome;
  if (!make_results()) return Outcome::kError;
  if (program_.arena > 0 && arena_.get() == nullptr) {
    executor::no_memory(program_);
    return Outcome::kError;
  }
  void* arena = arena_.get() == nullptr ? buffer::nowhere() : arena_.get()->data;
  executor::prepare(program_, frame_, static_cast<char*>(arena));
  if (!executor::run(program_, frame_, *this, nullptr)) return Outcome::kError;
  return finish(entry_, leaves_, results_.data(), result);
}

// ---- while Python goes on -------------------------------------------------------------------

std::size_t Call::result_bytes() const {
  std::int64_t nbytes = program_.arena;
  for (const Output& output : entry_.outputs()) {
    if (output.kind == Output::kOwn) nbytes += program_.slots[output.slot].nbytes;
  }
  return static_cast<std::size_t>(nbytes);
}

bool Call::wait_for_inputs() {
  bool done = true;
  for (tasks::Task* task : elsewhere_->before)
    done = tasks::wait(task) && tasks::has_succeeded(task) && done;
  return done;
}

// From here on the memory is held, not the arrays: who reads it is told by counting.
void Call::hold_memory() {
  for (std::size_t k = 0; k < held_.size(); ++k) {
    if (held_[k] == nullptr || !buffer::is_buffer(held_[k])) continue;
    elsewhere_->hold_memory(reinterpret_cast<Buffer*>(held_[k]));
    Py_CLEAR(held_[k]);
  }
  for (std::size_t k = 0; k < results_.size(); ++k) Py_CLEAR(results_[k]);
}

Outcome Call::start(std::unique_ptr<Call> self, PyObject*& result) {
  Call& call = *self;
  const std::size_t nbytes = call.result_bytes();
  if (!tasks::wait_for_room(nbytes)) return Outcome::kError;
  const Outcome outcome = call.read_inputs();
  if (outcome != Outcome::kRead) return outcome;
  Elsewhere& place = *call.elsewhere_;
  if (place.must_run_here) return Outcome::kUnknown;
  place.task = tasks::make();
  if (!call.make_results() ||
      finish(call.entry_, call.leaves_, call.results_.data(), result) != Outcome::kRead) {
    // Memory that was taken from an input may still be written to.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    call.wait_for_inputs();
    PyErr_Clear();
    tasks::abandon(place.task);
    PyErr_Restore(type, value, traceback);
    return Outcome::kError;
  }
  call.hold_memory();
  place.submit(std::move(self), nbytes, tasks::Interrupt::kStops);
  return Outcome::kRead;
}

bool Call::run(const std::atomic<bool>& cancelled, PyThreadState*& saved) {
  return elsewhere_->run(program_, frame_, cancelled, saved);
}

void Call::free_memory() { elsewhere_->free_memory(); }

void Call::record() { elsewhere_->record(program_); }

}  // namespace

void delete_array(PyObject* array) {
  PyObject*& place = signature::buffer_of(array);
  PyObject* before = place;
  place = Py_NewRef(Py_None);
  Py_XDECREF(before);
}

Outcome finish(const Entry& entry, PyObject* const* leaves, PyObject** results, PyObject*& result) {
  const auto& outputs = entry.outputs();
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    results[n] = signature::new_array(results[n], outputs[n].aval);
    if (results[n] == nullptr) return Outcome::kError;
  }
  if (entry.donates()) {
    const auto& inputs = entry.inputs();
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].donated && inputs[k].leaf == Leaf::kArray) delete_array(leaves[k]);
    }
  }
  result = pytree::rebuild_tree(entry.out_tree(), results);
  return result == nullptr ? Outcome::kError : Outcome::kRead;
}

Outcome run(Entry& entry, const Signature& signature, PyObject*& result) {
  if (entry.on_gpu()) return cuda::run(entry, signature, result);
  if (entry.program().cost < kWorthAThread || !may_run_elsewhere(entry)) {
    Call call(entry, signature);
    const Outcome outcome = call.run(result);
    if (!call.met_pending()) return outcome;
  }
  const Outcome outcome = Call::start(
      std::make_unique<Call>(entry, signature, std::make_unique<Elsewhere>(entry)), result);
  if (outcome != Outcome::kUnknown) return outcome;
  Call call(entry, signature);
  call.wait_for_pending();
  return call.run(result);
}

}  // namespace functrax::jit_call
