// Handlers written for JAX, with the headers that jaxlib brings.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scaled(float factor, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (x.element_count() != y->element_count()) return ffi::Error::InvalidArgument("sizes differ");
  for (size_t n = 0; n < x.element_count(); ++n) y->typed_data()[n] = factor * x.typed_data()[n];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scaled, Scaled,
                              ffi::Ffi::Bind()
                                  .Attr<float>("factor")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Several results of several types, of arrays of any type.
static ffi::Error SplitImpl(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::S32> signs,
                            ffi::ResultBuffer<ffi::F64> sizes) {
  if (x.element_type() != ffi::F64) {
    return ffi::Error(ffi::ErrorCode::kUnimplemented, "only double");
  }
  const double* data = x.typed_data<double>();
  for (size_t n = 0; n < x.element_count(); ++n) {
    signs->typed_data()[n] = data[n] < 0 ? -1 : 1;
    sizes->typed_data()[n] = std::abs(data[n]);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(split, SplitImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F64>>());

// All kinds of attributes; the result is a number made of them.
static ffi::Error AttributesImpl(bool flag, int32_t i32, int64_t i64, float f32, double f64,
                                 std::string_view text, ffi::Span<const int64_t> list,
                                 ffi::Dictionary nested, ffi::ResultBuffer<ffi::F64> out) {
  auto inner = nested.get<double>("inner");
  auto missing = nested.get<double>("missing");
  if (inner.has_error() || !missing.has_error()) return ffi::Error::Internal("dictionary");
  double sum = (flag ? 1 : 0) + i32 + i64 + f32 + f64 + *inner;
  for (int64_t x : list) sum += x;
  out->typed_data()[0] = sum + static_cast<double>(text.size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, AttributesImpl,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("flag")
                                  .Attr<int32_t>("i32")
                                  .Attr<int64_t>("i64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64")
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("list")
                                  .Attr<ffi::Dictionary>("nested")
                                  .Ret<ffi::Buffer<ffi::F64>>());

static ffi::Error Fails(std::string_view message, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  return ffi::Error(ffi::ErrorCode::kOutOfRange, std::string(message));
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fails, Fails,
                              ffi::Ffi::Bind()
                                  .Attr<std::string_view>("message")
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

static ffi::Error Throws(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  throw std::runtime_error("thrown in C++");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(throws, Throws,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

static ffi::Error ThrowsNumber(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) { throw 7; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(throws_number, ThrowsNumber,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// A state that is made once for each place that calls, and counts calls.
struct Counter {
  static ffi::TypeId id;
  int64_t calls = 0;
  ~Counter() { ++freed; }
  static int64_t freed;
};
ffi::TypeId Counter::id = {};
int64_t Counter::freed = 0;
static constexpr ffi::TypeInfo kInfo = ffi::MakeTypeInfo<Counter>();

static ffi::ErrorOr<std::unique_ptr<Counter>> MakeCounter() { return std::make_unique<Counter>(); }
static ffi::Error Count(Counter* counter, ffi::ResultBuffer<ffi::S32> out) {
  out->typed_data()[0] = static_cast<int32_t>(++counter->calls);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kMake, MakeCounter, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER(kCount, Count,
                       ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::Buffer<ffi::S32>>());
extern "C" {
XLA_FFI_Error* make_counter(XLA_FFI_CallFrame* frame) { return kMake(frame); }
XLA_FFI_Error* count(XLA_FFI_CallFrame* frame) { return kCount(frame); }
XLA_FFI_TypeId* counter_id() { return &Counter::id; }
const XLA_FFI_TypeInfo* counter_info() { return &kInfo; }
int64_t counters_freed() { return Counter::freed; }
}

// Results that come later, memory of the runtime, its threads, and its answers.
static ffi::Future Later(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([x, y, promise = std::move(promise)]() mutable {
    for (size_t n = 0; n < x.element_count(); ++n) y->typed_data()[n] = x.typed_data()[n] + 1;
    if (x.typed_data()[0] < 0) {
      promise.SetError(ffi::Error::Internal("too late"));
    } else {
      promise.SetAvailable();
    }
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Services(ffi::ScratchAllocator scratch, ffi::ThreadPool pool, ffi::RunId run,
                           int32_t device, ffi::ResultBuffer<ffi::S32> out) {
  std::optional<void*> memory = scratch.Allocate(1000, 64);
  if (!memory) return ffi::Error::Internal("no memory");
  int32_t tasks = 0;
  pool.Schedule([&] { ++tasks; });
  int32_t* found = out->typed_data();
  found[0] = reinterpret_cast<uintptr_t>(*memory) % 64 == 0;
  found[1] = tasks;
  found[2] = pool.num_threads() >= 1;
  found[3] = run.run_id > 0;
  found[4] = device;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(services, Services,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

static ffi::Error Unavailable(void*, ffi::ResultBuffer<ffi::S32>) {
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(unavailable, Unavailable,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

// What a header of a later version would call.
extern "C" XLA_FFI_Error* newer(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return kCount(frame);
  using Function = XLA_FFI_Error*(void*);
  auto* const* functions = reinterpret_cast<Function* const*>(&frame->api->XLA_FFI_DeviceOrdinal_Get);
  return functions[3](nullptr);
}

extern "C" XLA_FFI_Error* of_the_future(XLA_FFI_CallFrame* frame) {
  auto* extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  extension->metadata->api_version.major_version = 0;
  extension->metadata->api_version.minor_version = 99;
  return nullptr;
}
