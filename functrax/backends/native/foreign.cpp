// See foreign.h. Start at Call::run.

#include "foreign.h"

#include <cxxabi.h>
#include <pybind11/stl.h>

#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "small_array.h"

namespace py = pybind11;

namespace functrax::foreign {

// An attribute's value in one of four forms.
struct Attributes::Value {
  std::string name, bytes;
  functrax_ffi_string name_span, text;
  functrax_ffi_scalar scalar;
  functrax_ffi_array array;
  std::unique_ptr<Attributes> dictionary;
};

namespace {

// What went wrong last in this thread.
struct Failure {
  std::int32_t code = FUNCTRAX_FFI_OK;
  std::string message;
};
thread_local Failure failure;

bool fail(std::int32_t code, std::string message) {
  failure.code = code;
  failure.message = std::move(message);
  return false;
}

bool succeeded(functrax_ffi_error* error) {
  if (error == nullptr) return true;
  auto [code, message] = take(error);
  return fail(code, std::move(message));
}

std::int64_t new_run() {
  static std::atomic<std::int64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

// (name, kind, type, number of elements, bytes), or of a dictionary (name, kind, attributes).
Attributes::Attributes(const py::tuple& described) {
  for (py::handle item : described) {
    const auto parts = item.cast<py::tuple>();
    auto value = std::make_unique<Value>();
    value->name = parts[0].cast<std::string>();
    value->name_span = {value->name.data(), value->name.size()};
    const auto kind = parts[1].cast<std::int32_t>();
    void* pointer = nullptr;
    if (kind == FUNCTRAX_FFI_ATTRIBUTE_DICTIONARY) {
      value->dictionary = std::make_unique<Attributes>(parts[2].cast<py::tuple>());
      pointer = &value->dictionary->view_;
    } else {
      const auto type = parts[2].cast<std::int32_t>();
      const auto count = parts[3].cast<std::size_t>();
      value->bytes = parts[4].cast<std::string>();
      char* const data = value->bytes.data();
      value->text = {data, value->bytes.size()};
      value->scalar = {type, data};
      value->array = {type, count, data};
      pointer = &value->text;
      if (kind == FUNCTRAX_FFI_ATTRIBUTE_SCALAR) pointer = &value->scalar;
      if (kind == FUNCTRAX_FFI_ATTRIBUTE_ARRAY) pointer = &value->array;
    }
    kinds_.push_back(kind);
    names_.push_back(&value->name_span);
    pointers_.push_back(pointer);
    values_.push_back(std::move(value));
  }
  view_ = {FUNCTRAX_FFI_SIZE(functrax_ffi_attributes, values),
           nullptr,
           static_cast<std::int64_t>(values_.size()),
           kinds_.data(),
           names_.data(),
           pointers_.data()};
}

// What the stage `instantiate` made for functions that were registered.
struct Call::Instance {
  const Functions* functions;
  State state;
};

Call::Call(const std::string& convention, std::uintptr_t target, const py::list& arrays,
           std::size_t arguments, const py::tuple& attributes, const py::list& words,
           const py::list& numbers, bool has_status, py::object report)
    : convention_(convention == "frame"     ? Convention::kFrame
                  : convention == "untyped" ? Convention::kUntyped
                                            : Convention::kPlain),
      target_(reinterpret_cast<const Target*>(target)),
      arguments_(arguments),
      kinds_(arrays.size(), FUNCTRAX_FFI_BUFFER),
      attributes_(attributes),
      numbers_(numbers.cast<std::vector<double>>()),
      has_status_(has_status),
      report_(std::move(report)) {
  for (py::handle item : arrays) {
    const auto parts = item.cast<py::tuple>();
    arrays_.push_back({parts[0].cast<std::int32_t>(), parts[1].cast<std::vector<std::int64_t>>(),
                       parts[2].cast<std::int64_t>()});
  }
  for (py::handle item : words) {
    const auto parts = item.cast<py::tuple>();
    words_.push_back({parts[0].cast<bool>(), parts[1].cast<std::int64_t>()});
  }
}

Call::~Call() = default;

bool Call::run(void* const* buffers) {
  try {
    return call(buffers);
  } catch (const abi::__forced_unwind&) {  // the thread ends
    throw;
  } catch (const std::exception& error) {
    return fail(FUNCTRAX_FFI_INTERNAL, std::string("a C++ exception: ") + error.what());
  } catch (...) {
    return fail(FUNCTRAX_FFI_INTERNAL, "a C++ exception that is no std::exception");
  }
}

bool Call::call(void* const* buffers) {
  const Functions& functions = *target_->functions.load(std::memory_order_acquire);
  switch (convention_) {
    case Convention::kFrame:
      return call_frame(functions, buffers);
    case Convention::kUntyped:
      return call_untyped(functions, buffers);
    default:
      return call_plain(functions, buffers);
  }
}

bool Call::call_frame(const Functions& functions, void* const* buffers) {
  const std::size_t count = arrays_.size(), results = count - arguments_;
  SmallArray<functrax_ffi_buffer, 8> arrays(count);
  SmallArray<void*, 8> places(count);
  for (std::size_t k = 0; k < count; ++k) {
    Array& array = arrays_[k];
    arrays[k] = {FUNCTRAX_FFI_SIZE(functrax_ffi_buffer, dims),
                 nullptr,
                 array.type,
                 buffers[array.place],
                 static_cast<std::int64_t>(array.dims.size()),
                 array.dims.data()};
    places[k] = &arrays[k];
  }
  State before_run, before_call;
  functrax_ffi_context context;
  context.run = new_run();
  context.states[FUNCTRAX_FFI_PREPARE] = &before_run;
  context.states[FUNCTRAX_FFI_INITIALIZE] = &before_call;
  constexpr std::size_t kSize = FUNCTRAX_FFI_SIZE(functrax_ffi_values, values);
  functrax_ffi_frame frame{
      FUNCTRAX_FFI_SIZE(functrax_ffi_frame, attributes),
      nullptr,
      &api(),
      &context,
      FUNCTRAX_FFI_EXECUTE,
      {kSize, nullptr, static_cast<std::int64_t>(arguments_), kinds_.data(), places.data()},
      {kSize, nullptr, static_cast<std::int64_t>(results), kinds_.data(),
       places.data() + arguments_},
      attributes_.view(),
      nullptr};
  if (functions.stages[FUNCTRAX_FFI_INSTANTIATE] != nullptr) {
    Instance* found = instance_.load(std::memory_order_acquire);
    if (found == nullptr || found->functions != &functions) found = instance(functions, frame);
    if (found == nullptr) return false;
    context.states[FUNCTRAX_FFI_INSTANTIATE] = &found->state;
  }
  for (std::int32_t stage = FUNCTRAX_FFI_PREPARE; stage <= FUNCTRAX_FFI_EXECUTE; ++stage) {
    if (functions.stages[stage] == nullptr) continue;
    frame.stage = stage;
    frame.future = nullptr;
    if (!succeeded(functions.stages[stage](&frame))) return false;
    if (frame.future != nullptr && !succeeded(wait(frame.future))) return false;
  }
  return true;
}

// Calls the stage `instantiate`, once for each Call; it sees no arrays.
Call::Instance* Call::instance(const Functions& functions, functrax_ffi_frame frame) {
  std::lock_guard<std::mutex> lock(making_);
  Instance* found = instance_.load(std::memory_order_acquire);
  if (found != nullptr && found->functions == &functions) return found;
  auto made = std::make_unique<Instance>();
  made->functions = &functions;
  functrax_ffi_context context;
  context.states[FUNCTRAX_FFI_INSTANTIATE] = &made->state;
  frame.context = &context;
  frame.stage = FUNCTRAX_FFI_INSTANTIATE;
  frame.arguments.count = frame.results.count = 0;
  if (!succeeded(functions.stages[FUNCTRAX_FFI_INSTANTIATE](&frame))) return nullptr;
  if (frame.future != nullptr && !succeeded(wait(frame.future))) return nullptr;
  found = made.get();
  instances_.push_back(std::move(made));
  instance_.store(found, std::memory_order_release);
  return found;
}

// XLA's first interface: the result, or the addresses of several, then the addresses of arguments.
bool Call::call_untyped(const Functions& functions, void* const* buffers) const {
  const std::size_t count = arrays_.size();
  SmallArray<void*, 8> places(count);
  for (std::size_t k = 0; k < count; ++k) places[k] = buffers[arrays_[k].place];
  void** const results = places.data() + arguments_;
  void* const out = count - arguments_ == 1 ? results[0] : static_cast<void*>(results);
  using Function = void(void* out, const void** arguments);
  const auto arguments = const_cast<const void**>(places.data());
  reinterpret_cast<Function*>(functions.plain)(out, arguments);
  return true;
}

namespace {

template <std::size_t>
using Number = std::int64_t;

// Calls a function with so many addresses and integers, which go where C puts such arguments, and
// eight floating-point numbers, which go to registers of their own. One that takes fewer never
// looks at the others.
template <std::size_t... I>
std::int64_t call_with(void* function, const std::int64_t* words, const double* x,
                       std::index_sequence<I...>) {
  using Function =
      std::int64_t(Number<I>..., double, double, double, double, double, double, double, double);
  return reinterpret_cast<Function*>(function)(words[I]..., x[0], x[1], x[2], x[3], x[4], x[5],
                                               x[6], x[7]);
}

constexpr std::size_t kFew = 6, kSome = 16, kMost = 64, kNumbers = 8;

}  // namespace

bool Call::call_plain(const Functions& functions, void* const* buffers) const {
  SmallArray<std::int64_t, kMost> words(kMost);
  double numbers[kNumbers] = {};
  for (std::size_t k = 0; k < words_.size(); ++k) {
    const Word& word = words_[k];
    words[k] = word.is_array ? reinterpret_cast<std::int64_t>(buffers[word.value]) : word.value;
  }
  const std::size_t rounded =
      words_.size() <= kFew ? kFew : (words_.size() <= kSome ? kSome : kMost);
  for (std::size_t k = words_.size(); k < rounded; ++k) words[k] = 0;
  std::copy(numbers_.begin(), numbers_.end(), numbers);
  std::int64_t status;
  if (rounded == kFew) {
    status = call_with(functions.plain, words.data(), numbers, std::make_index_sequence<kFew>());
  } else if (rounded == kSome) {
    status = call_with(functions.plain, words.data(), numbers, std::make_index_sequence<kSome>());
  } else {
    status = call_with(functions.plain, words.data(), numbers, std::make_index_sequence<kMost>());
  }
  const auto returned = static_cast<std::int32_t>(status);
  if (!has_status_ || returned == 0) return true;
  return fail(FUNCTRAX_FFI_UNKNOWN, "the function returned " + std::to_string(returned));
}

void Call::raise() const {
  const Failure last = std::exchange(failure, {});
  try {
    report_(last.code, py::str(py::bytes(last.message).attr("decode")("utf-8", "replace")));
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

void run_call(void** buffers, const std::int64_t* params, std::int64_t, std::int64_t) {
  reinterpret_cast<Call*>(params[0])->run(buffers);
}

namespace {

void set_functions(std::uintptr_t target, const std::vector<std::uintptr_t>& addresses) {
  auto* functions = new Functions;  // never freed: a thread may be in one of them
  for (int stage = 0; stage < 4; ++stage) {
    functions->stages[stage] = reinterpret_cast<functrax_ffi_handler*>(addresses.at(stage));
  }
  functions->plain = reinterpret_cast<void*>(addresses.at(FUNCTRAX_FFI_EXECUTE));
  reinterpret_cast<Target*>(target)->functions.store(functions, std::memory_order_release);
}

// What a handler says of itself: (error, major, minor, traits, type of its state).
py::tuple metadata(std::uintptr_t handler) {
  functrax_ffi_about about{};
  about.size = sizeof about;
  functrax_ffi_about_extension extension{
      {sizeof(functrax_ffi_about_extension), FUNCTRAX_FFI_METADATA, nullptr}, &about};
  functrax_ffi_context context;
  functrax_ffi_frame frame{};
  frame.size = FUNCTRAX_FFI_SIZE(functrax_ffi_frame, attributes);
  frame.extension = &extension.head;
  frame.api = &api();
  frame.context = &context;
  frame.stage = FUNCTRAX_FFI_EXECUTE;
  constexpr std::size_t kSize = FUNCTRAX_FFI_SIZE(functrax_ffi_values, values);
  frame.arguments.size = frame.results.size = kSize;
  frame.attributes.size = FUNCTRAX_FFI_SIZE(functrax_ffi_attributes, values);
  functrax_ffi_error* error = reinterpret_cast<functrax_ffi_handler*>(handler)(&frame);
  py::object message = py::none();
  if (error != nullptr) message = py::str(take(error).second);
  return py::make_tuple(message, about.version.major, about.version.minor, about.traits,
                        about.state.id);
}

std::int64_t add_type(const std::string& name, std::uintptr_t id, std::uintptr_t info) {
  auto* known = reinterpret_cast<functrax_ffi_type_id*>(id);
  const auto* about = reinterpret_cast<const functrax_ffi_type_info*>(info);
  known->id = register_type(name, known->id, about == nullptr ? nullptr : about->destroy);
  return known->id;
}

// Runs a call on arrays at these addresses; for the reference.
void run_at(Call& call, const std::vector<std::uintptr_t>& addresses) {
  SmallArray<void*, 16> buffers(addresses.size());
  for (std::size_t k = 0; k < addresses.size(); ++k) {
    buffers[k] = reinterpret_cast<void*>(addresses[k]);
  }
  bool done;
  {
    const py::gil_scoped_release without_gil;
    done = call.run(buffers.data());
  }
  if (done) return;
  call.raise();
  throw py::error_already_set();
}

// Raises what a call left behind in this thread, if it failed.
void check(const Call& call) {
  if (failure.code == FUNCTRAX_FFI_OK) return;
  call.raise();
  throw py::error_already_set();
}

}  // namespace

void bind(py::module_& module) {
  const py::metaclass plain(reinterpret_cast<PyObject*>(&PyType_Type));
  py::class_<Call>(module, "ForeignCall", plain, "A call of a function of the user's own.")
      .def(py::init<const std::string&, std::uintptr_t, const py::list&, std::size_t,
                    const py::tuple&, const py::list&, const py::list&, bool, py::object>())
      .def_property_readonly("address",
                             [](const Call& x) { return reinterpret_cast<std::uintptr_t>(&x); })
      .def("run", run_at, "Run it on arrays at these addresses.")
      .def("check", check, "Raise if it failed in this thread.");
  module.def(
      "foreign_target", [] { return reinterpret_cast<std::uintptr_t>(new Target); },
      "A place for a target's functions, which is never freed.");
  module.def("foreign_functions", set_functions, "Tell a target its functions by stage.");
  module.def("foreign_metadata", metadata, "What a handler says of itself.");
  module.def("foreign_type", add_type, "Register a type of states.");
}

}  // namespace functrax::foreign
