// See cuda_executable.h. Start at Call::enqueue.

#include "cuda_executable.h"

#include <structmember.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "buffer.h"
#include "cuda_array.h"
#include "cuda_gpu.h"
#include "cuda_graph.h"
#include "cuda_run.h"
#include "executor.h"
#include "jit_call.h"
#include "numpy_arrays.h"
#include "recorder.h"
#include "reference.h"
#include "scalars.h"
#include "small_array.h"

namespace functrax::cuda {
namespace {

using executor::Frame;
using jit_cache::Entry;
using jit_cache::Input;
using jit_cache::Output;
using program::Instruction;
using program::Kind;
using program::Program;
using program::Slot;
using signature::Leaf;
using signature::Outcome;
using signature::Signature;

struct Executable {
  PyObject ob_base;
  vectorcallfunc call;
  Program* decoded;   // owned
  PyObject* program;  // what it was decoded from
  Gpu* gpu;           // owned
  Graphs* graphs;     // owned
};

PyTypeObject* type = nullptr;

Executable* as_executable(PyObject* object) { return reinterpret_cast<Executable*>(object); }
PyObject* as_object(Gpu* gpu) { return reinterpret_cast<PyObject*>(gpu); }

// A call: the memory of inputs and results.
class Call {
 public:
  explicit Call(const Executable& executable)
      : program_(*executable.decoded),
        source_(executable.program),
        gpu_(executable.gpu),
        graphs_(*executable.graphs),
        frame_(program_),
        held_(program_.inputs.size()),
        results_(program_.outputs.size()) {
    for (std::size_t k = 0; k < held_.size(); ++k) held_[k] = nullptr;
    for (std::size_t k = 0; k < results_.size(); ++k) results_[k] = nullptr;
    Py_INCREF(as_object(gpu_));
  }
  ~Call() {
    gpu_->give_back(arena_);
    for (std::size_t k = 0; k < held_.size(); ++k) {
      Py_XDECREF(reinterpret_cast<PyObject*>(held_[k]));
    }
    for (std::size_t k = 0; k < results_.size(); ++k) Py_XDECREF(results_[k]);
    Py_DECREF(as_object(gpu_));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool begin() {
    gpu_->begin(source_);
    return gpu_->here();
  }
  // Each is false with an error set.
  bool value(std::size_t number, PyObject* raw);
  Array* scalar(std::size_t number, const void* bytes);
  bool result(std::size_t number, Block* block);
  bool enqueue();

  Array* input(std::size_t number) { return held_[number]; }
  PyObject** results() { return results_.data(); }

 private:
  const Slot& input_slot(std::size_t number) const {
    return program_.slots[program_.inputs[number]];
  }
  bool hold(std::size_t number, Array* array) {
    held_[number] = array;
    if (array == nullptr) return false;
    frame_.slots[program_.inputs[number]] = as_address(place_of(array));
    return true;
  }
  bool from_host(std::size_t number, PyObject* dense);
  bool ask_recorded();

  const Program& program_;
  PyObject* source_;  // borrowed
  Gpu* gpu_;          // owned
  Graphs& graphs_;
  Frame frame_;
  SmallArray<Array*, 24> held_;        // the inputs; owned, or null
  SmallArray<PyObject*, 24> results_;  // owned, or null
  Block* arena_ = nullptr;             // owned
};

bool same_tuple(PyObject* left, PyObject* right) {
  return left == right || PyObject_RichCompareBool(left, right, Py_EQ) == 1;
}

// An input: an array of this GPU as it is, a copy of any other.
bool Call::value(std::size_t number, PyObject* raw) {
  const Slot& slot = input_slot(number);
  if (is_array(raw)) {
    auto* array = reinterpret_cast<Array*>(raw);
    if (array->deleted) {
      set_deleted_error(array);
      return false;
    }
    if (array->gpu == gpu_ && array->dtype == slot.dtype.ptr() &&
        same_tuple(array->shape, slot.shape.ptr())) {
      return hold(number, reinterpret_cast<Array*>(Py_NewRef(raw)));
    }
  } else if (numpy_arrays::is_array(raw) &&
             numpy_arrays::dense_data(raw, slot.dtype.ptr(), static_cast<int>(slot.sizes.size()),
                                      slot.sizes.data()) != nullptr) {
    return from_host(number, raw);
  }
  Ref module(PyImport_ImportModule("functrax.backends.executables.program_inputs"));
  if (!module) return false;
  Ref dense(PyObject_CallMethod(module.get(), "dense_array", "OnOO", raw,
                                static_cast<Py_ssize_t>(number), slot.shape.ptr(),
                                slot.dtype.ptr()));
  return dense && from_host(number, dense.get());
}

bool Call::from_host(std::size_t number, PyObject* dense) {
  const Slot& slot = input_slot(number);
  const void* data = numpy_arrays::dense_data(
      dense, slot.dtype.ptr(), static_cast<int>(slot.sizes.size()), slot.sizes.data());
  if (data == nullptr) {
    PyErr_SetString(PyExc_SystemError, "dense_array made no dense array");
    return false;
  }
  Array* array = make_array(gpu_, slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, nullptr);
  return hold(number, array) && set_elements(array, data);
}

Array* Call::scalar(std::size_t number, const void* bytes) {
  const Slot& slot = input_slot(number);
  Array* array = make_array(gpu_, slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, nullptr);
  if (!hold(number, array)) return nullptr;
  const bool filled = gpu_->fill(place_of(array), bytes, static_cast<std::size_t>(slot.nbytes));
  array->mark = gpu_->position();
  return filled ? array : nullptr;
}

// Makes a result, in a block that it takes or in new memory.
bool Call::result(std::size_t number, Block* block) {
  const int place = program_.outputs[number];
  const Slot& slot = program_.slots[place];
  if (slot.kind == Kind::kInput) {
    results_[number] = Py_NewRef(reinterpret_cast<PyObject*>(held_[slot.number]));
  } else if (slot.kind == Kind::kConst) {
    results_[number] = Py_NewRef(slot.value.ptr());
  } else if (slot.number != static_cast<int>(number)) {
    results_[number] = Py_NewRef(results_[slot.number]);
  } else {
    Array* made = make_array(gpu_, slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, block);
    if (made == nullptr) return false;
    results_[number] = reinterpret_cast<PyObject*>(made);
    frame_.slots[place] = as_address(place_of(made));
  }
  return true;
}

bool Call::ask_recorded() {
  std::vector<executor::Event> events;
  const std::int64_t begin = recorder::now();
  const bool done = ask_for(*gpu_, program_, frame_, graphs_, &events);
  recorder::add_run(program_, begin, std::move(events));
  return done;
}

bool Call::enqueue() {
  if (program_.arena > 0) {
    arena_ = gpu_->allocate(static_cast<std::size_t>(program_.arena), nullptr);
    if (arena_ == nullptr) return false;
  }
  char* arena = arena_ == nullptr ? nullptr : static_cast<char*>(as_address(arena_->place));
  executor::prepare(program_, frame_, arena);
  if (!(recorder::is_on() ? ask_recorded() : ask_for(*gpu_, program_, frame_, graphs_, nullptr)))
    return false;
  if (!gpu_->put_mark()) return false;
  for (int n : program_.written) {
    reinterpret_cast<Array*>(results_[n])->mark = gpu_->position();
  }
  return true;
}

// The memory of an array that nobody but `owners` refers to, for a result; null if there is none.
Block* donated_block(Array* array, Py_ssize_t owners) {
  PyObject* object = reinterpret_cast<PyObject*>(array);
  if (array == nullptr || Py_REFCNT(object) > owners) return nullptr;
  const Block* block = array->block;
  const bool sole = block != nullptr && block->owners == 1 && block->adopted_from == nullptr;
  return sole ? take_block(array) : nullptr;
}

// ---- calls with a sequence of raw values --------------------------------------------------------

bool is_among(PyObject* numbers, int number) {
  Ref wanted(PyLong_FromLong(number));
  return wanted && PySequence_Contains(numbers, wanted.get()) == 1;
}

PyObject* run_values(const Executable& executable, PyObject* values, PyObject* donated) {
  constexpr Py_ssize_t kOwners = 3;  // the sequence of values, one array, and the call
  const Program& p = *executable.decoded;
  Ref list(PySequence_List(values));
  if (!list) return nullptr;
  const auto count = static_cast<std::size_t>(PyList_GET_SIZE(list.get()));
  if (count != p.inputs.size()) {
    Ref module(PyImport_ImportModule("functrax.backends.executables.program_inputs"));
    if (module) {
      raise(PyObject_CallMethod(module.get(), "input_count_error", "snn", p.name.c_str(),
                                static_cast<Py_ssize_t>(p.inputs.size()),
                                static_cast<Py_ssize_t>(count)));
    }
    return nullptr;
  }
  Call call(executable);
  if (!call.begin()) return nullptr;
  for (std::size_t k = 0; k < count; ++k) {
    if (!call.value(k, PyList_GET_ITEM(list.get(), static_cast<Py_ssize_t>(k)))) return nullptr;
  }
  list = Ref();
  for (std::size_t n = 0; n < p.outputs.size(); ++n) {
    Block* block = nullptr;
    for (const auto& [result, source] : p.aliases) {
      if (result == static_cast<int>(n) && donated != nullptr && is_among(donated, source)) {
        block = donated_block(call.input(source), kOwners);
      }
    }
    if (!call.result(n, block)) return nullptr;
  }
  if (!call.enqueue()) return nullptr;
  Ref results(PyList_New(static_cast<Py_ssize_t>(p.outputs.size())));
  for (std::size_t n = 0; results && n < p.outputs.size(); ++n) {
    PyList_SET_ITEM(results.get(), static_cast<Py_ssize_t>(n), Py_NewRef(call.results()[n]));
  }
  for (std::size_t k = 0; results && donated != nullptr && k < count; ++k) {
    if (!is_among(donated, static_cast<int>(k))) continue;
    bool is_result = false;
    for (int output : p.outputs) {
      is_result |= p.slots[output].kind == Kind::kInput && p.slots[output].number == int(k);
    }
    if (!is_result) executable.gpu->give_back(take_block(call.input(k)));
  }
  return results.release();
}

// ---- calls of jitted functions ------------------------------------------------------------------

PyObject* buffer_name() {
  static PyObject* const name = PyUnicode_InternFromString("buffer");
  return name;
}

Outcome read_array(Call& call, int number, PyObject* x) {
  PyObject* value = signature::buffer_of(x);
  if (value == nullptr || value == Py_None) return Outcome::kUnknown;  // it was deleted
  if (is_array(value) || numpy_arrays::is_array(value)) {
    return call.value(number, value) ? Outcome::kRead : Outcome::kError;
  }
  const Ref computed(PyObject_GetAttr(x, buffer_name()));
  if (!computed) return Outcome::kError;
  // Others are bound to a device, or somebody may write to them.
  if (!is_array(computed.get()) && !buffer::is_plain(computed.get())) return Outcome::kUnknown;
  return call.value(number, computed.get()) ? Outcome::kRead : Outcome::kError;
}

Outcome read_leaf(Call& call, const Program& p, const Input& input, PyObject* x) {
  if (input.leaf == Leaf::kArray) return read_array(call, input.number, x);
  if (input.leaf == Leaf::kNumpyArray) {
    Ref converted(numpy_arrays::converted(x, p.slots[input.slot].dtype.ptr(), false));
    return converted && call.value(input.number, converted.get()) ? Outcome::kRead
                                                                  : Outcome::kError;
  }
  alignas(16) unsigned char bytes[16];
  const Outcome outcome = scalars::write(input.leaf, input.form, x, bytes);
  if (outcome != Outcome::kRead) return outcome;
  return call.scalar(input.number, bytes) == nullptr ? Outcome::kError : Outcome::kRead;
}

Outcome read_inputs(Call& call, const Entry& entry, PyObject* const* leaves) {
  const auto& consts = entry.consts();
  for (std::size_t k = 0; k < consts.size(); ++k) {
    const Outcome outcome = read_array(call, static_cast<int>(k), consts[k]);
    if (outcome != Outcome::kRead) return outcome;
  }
  const auto& inputs = entry.inputs();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Outcome outcome = read_leaf(call, entry.program(), inputs[k], leaves[k]);
    if (outcome != Outcome::kRead) return outcome;
  }
  return Outcome::kRead;
}

// The memory of a donated argument, which is deleted then; null if there is none.
Block* donated_leaf(Call& call, const Entry& entry, const Output& output, PyObject* const* leaves) {
  constexpr Py_ssize_t kOwners = 2;  // the array and the call
  if (output.source < 0) return nullptr;
  Block* block = donated_block(call.input(entry.inputs()[output.source].number), kOwners);
  if (block != nullptr) jit_call::delete_array(leaves[output.source]);
  return block;
}

}  // namespace

Outcome run(Entry& entry, const Signature& signature, PyObject*& result) {
  PyObject* const* leaves = signature.leaves.list().data();
  Call call(*as_executable(entry.executable()));
  if (!call.begin()) return Outcome::kError;
  const Outcome outcome = read_inputs(call, entry, leaves);
  if (outcome != Outcome::kRead) return outcome;
  const auto& outputs = entry.outputs();
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    Block* block = entry.donates() ? donated_leaf(call, entry, outputs[n], leaves) : nullptr;
    if (!call.result(n, block)) return Outcome::kError;
  }
  if (!call.enqueue()) return Outcome::kError;
  return jit_call::finish(entry, leaves, call.results(), result);
}

// ---- as a Python object -------------------------------------------------------------------------

namespace {

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  const bool names_donated =
      named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "donated") == 0;
  if (count < 1 || count + named > 2 || (named > 0 && !names_donated)) {
    PyErr_SetString(PyExc_TypeError, "an executable takes (values, donated=())");
    return nullptr;
  }
  return run_values(*as_executable(self), args[0], count + named == 2 ? args[1] : nullptr);
}

// Copies the constants of a program and of those inside it to the GPU.
bool place_constants(Program& p, Gpu* gpu) {
  for (Slot& slot : p.slots) {
    if (slot.kind != Kind::kConst) continue;
    Array* array = make_array(gpu, slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, nullptr);
    if (array == nullptr) return false;
    const Ref owned(reinterpret_cast<PyObject*>(array));
    if (!set_elements(array, slot.constant)) return false;
    slot.value = pybind11::reinterpret_borrow<pybind11::object>(owned.get());
    slot.constant = as_address(place_of(array));
  }
  for (Instruction& x : p.instructions) {
    for (const auto& inner : x.programs) {
      if (!place_constants(*inner, gpu)) return false;
    }
  }
  return true;
}

PyObject* construct(PyTypeObject* of, PyObject* args, PyObject*) {
  PyObject *encoded, *program, *gpu, *parts, *conditions;
  if (!PyArg_ParseTuple(args, "O!OOO!O!", &PyTuple_Type, &encoded, &program, &gpu, &PyDict_Type,
                        &parts, &PyTuple_Type, &conditions)) {
    return nullptr;
  }
  if (!is_gpu(gpu)) return PyErr_Format(PyExc_TypeError, "DeviceExecutable: expected a GPU");
  if (!numpy_arrays::load()) return nullptr;
  std::unique_ptr<Program> decoded;
  try {
    decoded = program::decode(pybind11::reinterpret_borrow<pybind11::tuple>(encoded));
  } catch (pybind11::error_already_set& error) {
    error.restore();
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
  if (!place_constants(*decoded, reinterpret_cast<Gpu*>(gpu))) return nullptr;
  auto graphs = std::make_unique<Graphs>();
  if (!add_parts(*graphs, *decoded, parts)) return nullptr;
  if (!add_conditions(*graphs, conditions)) return nullptr;
  PyObject* self = of->tp_alloc(of, 0);
  if (self == nullptr) return nullptr;
  as_executable(self)->call = call;
  decoded->source = program;  // which the executable owns
  as_executable(self)->decoded = decoded.release();
  as_executable(self)->graphs = graphs.release();
  as_executable(self)->program = Py_NewRef(program);
  as_executable(self)->gpu = reinterpret_cast<Gpu*>(Py_NewRef(gpu));
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_executable(self)->program);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_executable(self)->program);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* of = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete as_executable(self)->graphs;
  delete as_executable(self)->decoded;
  clear(self);
  Py_XDECREF(as_object(as_executable(self)->gpu));
  of->tp_free(self);
  Py_DECREF(of);
}

PyObject* told_graphs(PyObject* self, PyObject*) { return told(*as_executable(self)->graphs); }

PyMethodDef methods[] = {
    {"graphs", told_graphs, METH_NOARGS, "What became of the parts that may be graphs."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Executable, call), READONLY, nullptr},
    {"program", T_OBJECT_EX, offsetof(Executable, program), READONLY, "What it runs."},
    {"gpu", T_OBJECT_EX, offsetof(Executable, gpu), READONLY, "Where it runs."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("A program for a GPU: (values, donated=()) -> results.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.DeviceExecutable", sizeof(Executable), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

PyObject* make_executable_type() {
  PyObject* made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject*>(made);
  return made;
}

const Program* program_of(PyObject* object) {
  return Py_TYPE(object) == type ? as_executable(object)->decoded : nullptr;
}

}  // namespace functrax::cuda
