// See library.h. Start at call_loop.

#include "library.h"

#include <algorithm>

#include "blas_threads.h"
#include "foreign.h"
#include "small_array.h"

namespace py = pybind11;

namespace functrax::library {
namespace {

// An inner loop of a NumPy ufunc: it counts `args` up, and needs no GIL.
using Loop = void (*)(char** args, const std::int64_t* dims, const std::int64_t* steps, void* data);

// How an argument of the loop lies in a buffer; strides and offset in bytes.
struct Argument {
  std::int64_t buffer, offset, unit, inner;
  std::int64_t converted;  // kReads, kWrites or both: float32 here, float64 for the loop
  std::int64_t numbers;    // in a run, of what is converted
};
constexpr std::int64_t kReads = 1, kWrites = 2;

// What `params` says: the loop, its arguments, its core dimensions and their strides.
struct Call {
  explicit Call(const std::int64_t* params)
      : loop(reinterpret_cast<Loop>(params[0])),
        data(reinterpret_cast<void*>(params[1])),
        args(params[2]),
        inner(params[3]),
        dims(params[4]),
        steps(params[5]),
        arguments(reinterpret_cast<const Argument*>(params + 6)),
        core_dims(params + 6 + args * (sizeof(Argument) / sizeof(std::int64_t))),
        core_steps(core_dims + dims) {}

  Loop loop;
  void* data;
  std::int64_t args, inner, dims, steps;
  const Argument* arguments;
  const std::int64_t *core_dims, *core_steps;
};

// Runs the loop `count` times, from the places of the arguments on.
void run(const Call& call, char* const* places, std::int64_t count, const std::int64_t* strides) {
  SmallArray<char*, 8> args(call.args);
  SmallArray<std::int64_t, 8> dims(call.dims + 1);
  SmallArray<std::int64_t, 32> steps(call.args + call.steps);
  std::copy(places, places + call.args, args.data());
  dims[0] = count;
  std::copy(call.core_dims, call.core_dims + call.dims, dims.data() + 1);
  std::copy(strides, strides + call.args, steps.data());
  std::copy(call.core_steps, call.core_steps + call.steps, steps.data() + call.args);
  call.loop(args.data(), dims.data(), steps.data(), call.data);
}

// The numbers of as many runs as fit in here are converted at a time, or else of one. What is
// converted lies side by side.
constexpr std::int64_t kScratch = 1024;

void run_converted(const Call& call, char* const* first, std::int64_t count,
                   const std::int64_t* apart) {
  std::int64_t numbers = 0;
  for (std::int64_t k = 0; k < call.args; ++k) {
    if (call.arguments[k].converted != 0) numbers += call.arguments[k].numbers;
  }
  const std::int64_t most =
      std::clamp<std::int64_t>(kScratch / std::max<std::int64_t>(numbers, 1), 1, count);
  SmallArray<double, kScratch> scratch(numbers * most);
  SmallArray<char*, 8> places(call.args);
  SmallArray<std::int64_t, 8> strides(call.args);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t now = std::min(most, count - begin);
    double* free = scratch.data();
    for (std::int64_t k = 0; k < call.args; ++k) {
      const Argument& a = call.arguments[k];
      char* const place = first[k] + begin * apart[k];
      if (a.converted == 0) {
        places[k] = place;
        strides[k] = apart[k];
        continue;
      }
      if (a.converted & kReads) {
        const auto* source = reinterpret_cast<const float*>(place);
        std::copy(source, source + now * a.numbers, free);
      }
      places[k] = reinterpret_cast<char*>(free);
      strides[k] = a.numbers * static_cast<std::int64_t>(sizeof(double));
      free += now * a.numbers;
    }
    run(call, places.data(), now, strides.data());
    for (std::int64_t k = 0; k < call.args; ++k) {
      const Argument& a = call.arguments[k];
      if ((a.converted & kWrites) == 0) continue;
      const auto* source = reinterpret_cast<const double*>(places[k]);
      auto* target = reinterpret_cast<float*>(first[k] + begin * apart[k]);
      for (std::int64_t n = 0; n < now * a.numbers; ++n) target[n] = static_cast<float>(source[n]);
    }
  }
}

// A kernel: runs a loop of NumPy `inner` times for each unit; if that is once, for all units at
// once.
void call_loop(void** buffers, const std::int64_t* params, std::int64_t begin, std::int64_t end) {
  const Call call(params);
  SmallArray<char*, 8> places(call.args);
  SmallArray<std::int64_t, 8> strides(call.args);
  bool converted = false;
  for (std::int64_t k = 0; k < call.args; ++k) {
    const Argument& a = call.arguments[k];
    places[k] = static_cast<char*>(buffers[a.buffer]) + a.offset + begin * a.unit;
    strides[k] = call.inner == 1 ? a.unit : a.inner;
    converted = converted || a.converted != 0;
  }
  const bool at_once = call.inner == 1;
  const std::int64_t runs = at_once ? end - begin : call.inner;
  for (std::int64_t unit = begin; unit < (at_once ? begin + 1 : end); ++unit) {
    if (converted) {
      run_converted(call, places.data(), runs, strides.data());
    } else {
      run(call, places.data(), runs, strides.data());
    }
    for (std::int64_t k = 0; k < call.args; ++k) places[k] += call.arguments[k].unit;
  }
}

// The same, for loops that call LAPACK, which has one thread then.
void call_loop_alone(void** buffers, const std::int64_t* params, std::int64_t begin,
                     std::int64_t end) {
  const blas_threads::OneThread alone(true);
  call_loop(buffers, params, begin, end);
}

}  // namespace

py::dict functions() {
  py::dict found;
  const auto add = [&](const Named& f) {
    found[f.first] = reinterpret_cast<std::uintptr_t>(f.second);
  };
  add({"call_loop", call_loop});
  add({"call_loop_alone", call_loop_alone});
  add({"foreign_call", foreign::run_call});
  for (const Named& f : matrix_loops()) add(f);
  for (const Named& f : dense_loops()) add(f);
  for (const Named& f : fourier_loops()) add(f);
  for (const Named& f : lapack_loops()) add(f);
  for (const Named& f : selection_loops()) add(f);
  for (const Named& f : sorting_loops()) add(f);
  return found;
}

}  // namespace functrax::library
