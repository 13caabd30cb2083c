// See cuda_run.h.

#include "cuda_run.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "numpy_arrays.h"
#include "program_walk.h"
#include "recorder.h"
#include "reference.h"
#include "small_array.h"

namespace functrax::cuda {
namespace {

using executor::Event;
using executor::Frame;
using program::Instruction;
using program::Op;
using program::Program;
using program::Slot;

// One run of a program: asks for its work in order.
class Run {
 public:
  static constexpr bool kDecidesLater = false;

  Run(Gpu& gpu, Graphs& graphs, std::vector<Event>* events)
      : gpu_(gpu), graphs_(graphs), events_(events) {}

  bool program(const Program& p, Frame& frame) {
    for (int slot : p.sharing) frame.slots[slot] = frame.slots[p.slots[slot].shares];
    if (events_ != nullptr) return timed(p, frame);
    int next = 0;
    const auto& all = graphs_.parts;
    const auto parts = all.empty() ? graphs_.parts.end() : graphs_.parts.find(&p);
    if (parts != all.end()) {
      for (GraphPart& part : parts->second) {
        if (!instructions(p, frame, next, part.begin)) return false;
        const int asked = part.ask(gpu_, graphs_.conditions, p, frame);
        if (asked < 0) return false;
        next = asked == 1 ? part.end : part.begin;
      }
    }
    return instructions(p, frame, next, static_cast<int>(p.instructions.size()));
  }
  bool copy(void* target, const void* source, std::int64_t nbytes) {
    if (target == source || nbytes == 0) return true;
    return gpu_.copy(as_place(target), as_place(source), static_cast<std::size_t>(nbytes));
  }
  bool read(const void* source, void* target, std::int64_t nbytes) {
    const auto count = static_cast<std::size_t>(nbytes);
    return gpu_.download(as_place(source), target, count, gpu_.position());
  }
  bool poll(std::int64_t) { return PyErr_CheckSignals() == 0; }

 private:
  bool instructions(const Program& p, Frame& frame, int begin, int end) {
    for (int k = begin; k < end; ++k) {
      if (!instruction(p, p.instructions[k], frame)) return false;
    }
    return true;
  }

  bool timed(const Program& p, Frame& frame) {
    for (std::size_t k = 0; k < p.instructions.size(); ++k) {
      const std::int64_t begin = recorder::now();
      if (!instruction(p, p.instructions[k], frame) || !gpu_.wait(gpu_.position())) return false;
      events_->push_back({p.number, static_cast<int>(k), begin, recorder::now()});
    }
    return true;
  }

  bool instruction(const Program& p, const Instruction& x, Frame& frame) {
    switch (x.op) {
      case Op::kLaunch:
        return launch(x, frame);
      case Op::kHost:
        return host_call(p, x, frame);
      case Op::kCopy: {
        const int source = x.inputs[0];
        return copy(frame.slots[x.outputs[0]], frame.slots[source], p.slots[source].nbytes);
      }
      case Op::kCond:
        return run_cond(*this, p, x, frame);
      default:
        return executor::LoopRun<Run>(*this, p, x, frame).run();
    }
  }

  // `units` are blocks of `grain` threads; the kernel's last parameter is an array of numbers.
  bool launch(const Instruction& x, Frame& frame) {
    if (x.units == 0) return true;
    const std::size_t count = x.operands.size();
    SmallArray<void*, 16> places(count), parameters(count + 1);
    executor::put_addresses(x, frame, places.data());
    for (std::size_t k = 0; k < count; ++k) parameters[k] = &places[k];
    parameters[count] = const_cast<std::int64_t*>(x.params.data());
    return gpu_.launch(reinterpret_cast<Handle>(x.kernel), static_cast<unsigned>(x.units),
                       static_cast<unsigned>(x.grain), parameters.data());
  }

  Ref host_array(const Slot& slot, void*& data) {
    Ref numpy(PyImport_ImportModule("numpy"));
    Ref array(
        numpy ? PyObject_CallMethod(numpy.get(), "empty", "OO", slot.shape.ptr(), slot.dtype.ptr())
              : nullptr);
    if (!array) return array;
    const numpy_arrays::Form form = numpy_arrays::form_of(array.get());
    data = numpy_arrays::dense_data(array.get(), form.dtype, form.rank, form.sizes);
    return array;
  }

  // Asks a library, which is called in Python and gives the memory that it works in, or None:
  // 1, 0 if it does not do it, -1 with an error set.
  int ask_library(const Instruction& x, Frame& frame) {
    const std::size_t count = x.inputs.size() + x.outputs.size();
    SmallArray<void*, 16> places(count);
    std::size_t n = 0;
    for (int slot : x.inputs) places[n++] = frame.slots[slot];
    for (int slot : x.outputs) places[n++] = frame.slots[slot];
    Ref addresses(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (std::size_t k = 0; addresses && k < count; ++k) {
      PyObject* address = PyLong_FromUnsignedLongLong(as_place(places[k]));
      if (address == nullptr) return -1;
      PyTuple_SET_ITEM(addresses.get(), static_cast<Py_ssize_t>(k), address);
    }
    if (!addresses) return -1;
    Ref memory(PyObject_CallOneArg(x.device.ptr(), addresses.get()));
    gpu_.next_mark();  // after which others may have the memory
    if (!memory || !gpu_.here()) return -1;
    return memory.get() == Py_None ? 0 : 1;
  }

  // Asks a library; or else waits, copies down, calls Python and copies up.
  bool host_call(const Program& p, const Instruction& x, Frame& frame) {
    if (!x.device.is_none()) {
      const int done = ask_library(x, frame);
      if (done != 0) return done > 0;
    }
    Ref inputs(PyTuple_New(static_cast<Py_ssize_t>(x.inputs.size())));
    Ref outputs(PyTuple_New(static_cast<Py_ssize_t>(x.outputs.size())));
    if (!inputs || !outputs) return false;
    void* data = nullptr;
    for (std::size_t k = 0; k < x.inputs.size(); ++k) {
      const Slot& slot = p.slots[x.inputs[k]];
      Ref array = host_array(slot, data);
      if (!array) return false;
      if (slot.nbytes > 0 && !read(frame.slots[x.inputs[k]], data, slot.nbytes)) return false;
      PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(k), array.release());
    }
    std::vector<void*> written(x.outputs.size());
    for (std::size_t k = 0; k < x.outputs.size(); ++k) {
      Ref array = host_array(p.slots[x.outputs[k]], written[k]);
      if (!array) return false;
      PyTuple_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(k), array.release());
    }
    Ref result(
        PyObject_CallFunctionObjArgs(x.function.ptr(), inputs.get(), outputs.get(), nullptr));
    if (!result || !gpu_.here()) return false;
    for (std::size_t k = 0; k < x.outputs.size(); ++k) {
      const auto nbytes = static_cast<std::size_t>(p.slots[x.outputs[k]].nbytes);
      if (nbytes == 0) continue;
      if (!gpu_.put(as_place(frame.slots[x.outputs[k]]), written[k], nbytes)) return false;
    }
    return PyErr_CheckSignals() == 0;
  }

  Gpu& gpu_;
  Graphs& graphs_;
  std::vector<Event>* const events_;
};

}  // namespace

bool ask_for(Gpu& gpu, const Program& program, Frame& frame, Graphs& graphs,
             std::vector<Event>* events) {
  return Run(gpu, graphs, events).program(program, frame);
}

}  // namespace functrax::cuda
