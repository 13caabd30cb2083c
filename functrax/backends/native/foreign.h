// Calls of the user's own functions: handlers of frames (functrax/ffi.h), and plain C functions.
//
// A description of a call goes in, in which all is decided but where its arrays are; a launch runs
// it (program.h) with one parameter, the Call. A call may fail: what went wrong stays with the
// thread until `raise` makes an error of Python of it. Any number of threads may run one Call. Its
// twin in Python is functrax/core/foreign/frames.py.
//
// Start at Call::run.

#pragma once

#include <functrax/ffi.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace functrax::foreign {

// What a target calls. A target that is registered again gets others, which all programs see.
struct Functions {
  functrax_ffi_handler* stages[4];  // by functrax_ffi_stage; null where there is none
  void* plain;                      // of the other conventions
};

struct Target {
  std::atomic<const Functions*> functions{nullptr};
};

// What a handler keeps between calls, and how it is freed.
struct State {
  void* object = nullptr;
  std::int64_t type = 0;
  void (*destroy)(void*) = nullptr;

  State() = default;
  ~State() {
    if (object != nullptr && destroy != nullptr) destroy(object);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

// Attributes as handlers read them; their memory stays where it is.
class Attributes {
 public:
  explicit Attributes(const pybind11::tuple& described);
  const functrax_ffi_attributes& view() const { return view_; }

 private:
  struct Value;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::int32_t> kinds_;
  std::vector<functrax_ffi_string*> names_;
  std::vector<void*> pointers_;
  functrax_ffi_attributes view_;
};

// An array of a call; `place` is its number among the arrays of the launch.
struct Array {
  std::int32_t type;
  std::vector<std::int64_t> dims;
  std::int64_t place;
};

// An argument of a plain C function: where an array is, or bits of a number.
struct Word {
  bool is_array;
  std::int64_t value;
};

class Call {
 public:
  // The members of ForeignCall in functrax/core/foreign/calls.py.
  Call(const std::string& convention, std::uintptr_t target, const pybind11::list& arrays,
       std::size_t arguments, const pybind11::tuple& attributes, const pybind11::list& words,
       const pybind11::list& numbers, bool has_status, pybind11::object report);
  ~Call();

  // False if it failed; the reason stays with the thread.
  bool run(void* const* buffers);
  // Sets the error of Python for what failed last in this thread.
  void raise() const;

 private:
  struct Instance;
  enum class Convention { kFrame, kUntyped, kPlain };

  bool call(void* const* buffers);
  bool call_frame(const Functions& functions, void* const* buffers);
  bool call_untyped(const Functions& functions, void* const* buffers) const;
  bool call_plain(const Functions& functions, void* const* buffers) const;
  Instance* instance(const Functions& functions, functrax_ffi_frame frame);

  Convention convention_;
  const Target* target_;
  std::vector<Array> arrays_;  // arguments, then results
  std::size_t arguments_;
  std::vector<std::int32_t> kinds_;
  Attributes attributes_;
  std::vector<Word> words_;
  std::vector<double> numbers_;
  bool has_status_;
  pybind11::object report_;
  std::mutex making_;
  std::vector<std::unique_ptr<Instance>> instances_;  // earlier ones may still be in use
  std::atomic<Instance*> instance_{nullptr};
};

// The form of a kernel; its parameter is a Call.
void run_call(void** buffers, const std::int64_t* params, std::int64_t begin, std::int64_t end);

// What the runtime offers handlers (foreign_api.cpp).
const functrax_ffi_api& api();
// The message and the code of an error, which is freed.
std::pair<std::int32_t, std::string> take(functrax_ffi_error* error);
// Waits for a future, which is freed; its error, or null.
functrax_ffi_error* wait(functrax_ffi_future* future);
// Gives a type's name a number, or what it has; `id` may be 0.
std::int64_t register_type(const std::string& name, std::int64_t id, void (*destroy)(void*));

// Adds the classes and functions to the module.
void bind(pybind11::module_& module);

}  // namespace functrax::foreign

// What a handler's context is: the states that it may set and get, by stage.
struct functrax_ffi_context {
  functrax::foreign::State* states[3] = {nullptr, nullptr, nullptr};
  std::int64_t run = 0;
};
