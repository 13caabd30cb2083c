// See executable.h. Start at Call::run: it finds the memory of inputs and results, runs the
// program, and returns the results; Call::start returns them before the program has run.

#include "executable.h"

#include <structmember.h>

#include <complex>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "buffer.h"
#include "elsewhere.h"
#include "executor.h"
#include "numpy_arrays.h"
#include "reference.h"
#include "tasks.h"
#include "thread_pool.h"

namespace functrax::executable {
namespace {

using buffer::Buffer;
using program::Kind;
using program::Program;
using program::Slot;

struct Executable {
  PyObject ob_base;
  vectorcallfunc call;
  Program* decoded;   // owned
  PyObject* program;  // what it was decoded from, which keeps the machine code alive
};

PyTypeObject* type = nullptr;

Executable* as_executable(PyObject* object) { return reinterpret_cast<Executable*>(object); }

// Sets the error that `function` of functrax.backends.executables.program_inputs returns.
void set_error(Ref error) {
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

Ref inputs_module() {
  return Ref(PyImport_ImportModule("functrax.backends.executables.program_inputs"));
}

bool same_tuple(PyObject* left, PyObject* right) {
  return left == right || PyObject_RichCompareBool(left, right, Py_EQ) == 1;
}

// What a program is estimated to take, in nanoseconds, to be worth a thread of its own while Python
// goes on. Those that take longer need all threads, and somebody who can interrupt them.
constexpr std::int64_t kWorthAThread = 20'000, kMostInTurn = 2'000'000;

// The run of a program that another thread makes, which keeps it alive.
struct Elsewhere : elsewhere::Run {
  explicit Elsewhere(PyObject* executable) : executable(Ref::share(executable)) {}
  const Ref executable;
};

class Call final : public executor::Owner, public tasks::Job {
 public:
  Call(const Program& program, PyObject* values, Py_ssize_t count,
       std::unique_ptr<Elsewhere> elsewhere = nullptr)
      : program_(program),
        values_(static_cast<std::size_t>(count)),
        converted_(static_cast<std::size_t>(count)),
        scalars_(static_cast<std::size_t>(count)),
        frame_(program),
        arena_(program.arena > 0 && !elsewhere ? pool::allocate(program.arena) : nullptr),
        elsewhere_(std::move(elsewhere)) {
    for (Py_ssize_t k = 0; k < count; ++k) {
      values_[k] = Py_NewRef(PySequence_Fast_GET_ITEM(values, k));
      converted_[k] = nullptr;
    }
  }
  ~Call() override {
    for (std::size_t k = 0; k < values_.size(); ++k) {
      Py_XDECREF(values_[k]);
      Py_XDECREF(converted_[k]);
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  PyObject* run(PyObject* donated, std::vector<executor::Event>* events);
  static PyObject* start(std::unique_ptr<Call> self);
  PyObject* make() override;
  bool run(const std::atomic<bool>& cancelled, PyThreadState*& saved) override;
  void free_memory() override;
  void record() override;

 private:
  bool read_inputs();
  bool read_input(std::size_t number);
  bool convert_input(std::size_t number, const Slot& slot);
  bool make_results(PyObject* donated);
  PyObject* result(std::size_t number, PyObject* donated);
  pool::Block* donated_block(std::size_t output, PyObject* donated);

  const Program& program_;
  SmallArray<PyObject*, 16> values_;              // owned, or null
  SmallArray<PyObject*, 16> converted_;           // arrays made of values; owned, or null
  SmallArray<std::complex<double>, 16> scalars_;  // memory as large as any scalar
  executor::Frame frame_;
  pool::Hold arena_;
  Ref results_;
  std::unique_ptr<Elsewhere> elsewhere_;
};

bool Call::read_inputs() {
  for (std::size_t k = 0; k < values_.size(); ++k) {
    if (!read_input(k)) return false;
  }
  return true;
}

PyObject* Call::run(PyObject* donated, std::vector<executor::Event>* events) {
  if (!read_inputs() || !make_results(donated)) return nullptr;
  if (program_.arena > 0 && arena_.get() == nullptr) return executor::no_memory(program_);
  void* arena = arena_.get() == nullptr ? buffer::nowhere() : arena_.get()->data;
  executor::prepare(program_, frame_, static_cast<char*>(arena));
  return executor::run(program_, frame_, *this, events) ? results_.release() : nullptr;
}

// What Python functions may keep: the arena, the inputs and the results.
PyObject* Call::make() {
  Ref owner(PyList_New(0));
  Ref arena(buffer::share(arena_.get()));
  if (!owner || !arena || PyList_Append(owner.get(), arena.get()) != 0) return nullptr;
  if (PyList_Append(owner.get(), results_.get()) != 0) return nullptr;
  for (std::size_t k = 0; k < values_.size(); ++k) {
    PyObject* value = converted_[k] == nullptr ? values_[k] : converted_[k];
    if (PyList_Append(owner.get(), value) != 0) return nullptr;
  }
  return owner.release();
}

bool Call::read_input(std::size_t number) {
  const int place = program_.inputs[number];
  const Slot& slot = program_.slots[place];
  PyObject* value = values_[number];
  if (buffer::is_buffer(value)) {
    auto* b = reinterpret_cast<Buffer*>(value);
    if (elsewhere_) {
      elsewhere_->comes_after(b);
    } else if (!buffer::wait(b)) {
      return false;
    }
    if (b->data == nullptr) {
      buffer::set_deleted_error(b);
      return false;
    }
    if (b->dtype == slot.dtype.ptr() && same_tuple(b->shape, slot.shape.ptr())) {
      frame_.slots[place] = b->data;
      return true;
    }
  } else if (numpy_arrays::is_array(value)) {
    void* data = numpy_arrays::dense_data(value, slot.dtype.ptr(),
                                          static_cast<int>(slot.sizes.size()), slot.sizes.data());
    if (data != nullptr) {
      frame_.slots[place] = data;
      return true;
    }
  } else if (slot.scalar_type != nullptr && slot.sizes.empty() &&
             reinterpret_cast<PyObject*>(Py_TYPE(value)) == slot.scalar_type &&
             slot.nbytes <= static_cast<std::int64_t>(sizeof(std::complex<double>))) {
    numpy_arrays::read_scalar(value, &scalars_[number]);
    frame_.slots[place] = &scalars_[number];
    return true;
  }
  return convert_input(number, slot);
}

bool Call::convert_input(std::size_t number, const Slot& slot) {
  Ref module = inputs_module();
  if (!module) return false;
  converted_[number] =
      PyObject_CallMethod(module.get(), "dense_array", "OnOO", values_[number],
                          static_cast<Py_ssize_t>(number), slot.shape.ptr(), slot.dtype.ptr());
  if (converted_[number] == nullptr) return false;
  void* data = numpy_arrays::dense_data(converted_[number], slot.dtype.ptr(),
                                        static_cast<int>(slot.sizes.size()), slot.sizes.data());
  if (data == nullptr) {
    PyErr_SetString(PyExc_SystemError, "dense_array made no dense array");
    return false;
  }
  frame_.slots[program_.inputs[number]] = data;
  return true;
}

bool Call::make_results(PyObject* donated) {
  const std::size_t count = program_.outputs.size();
  results_ = Ref(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t n = 0; results_ && n < count; ++n) {
    PyObject* made = result(n, donated);
    if (made == nullptr) return false;
    PyList_SET_ITEM(results_.get(), static_cast<Py_ssize_t>(n), made);
  }
  return static_cast<bool>(results_);
}

PyObject* Call::result(std::size_t number, PyObject* donated) {
  const int place = program_.outputs[number];
  const Slot& slot = program_.slots[place];
  if (slot.kind == Kind::kInput) {
    PyObject* value = values_[slot.number];
    if (buffer::is_buffer(value) || numpy_arrays::is_array(value)) return Py_NewRef(value);
    if (converted_[slot.number] == nullptr && !convert_input(slot.number, slot)) return nullptr;
    return Py_NewRef(converted_[slot.number]);
  }
  if (slot.kind == Kind::kConst) return Py_NewRef(slot.value.ptr());
  if (slot.number != static_cast<int>(number)) {
    return Py_NewRef(PyList_GET_ITEM(results_.get(), slot.number));
  }
  pool::Block* block = donated == nullptr ? nullptr : donated_block(number, donated);
  PyObject* made = buffer::make(slot.shape.ptr(), slot.dtype.ptr(), slot.nbytes, block);
  if (made == nullptr) return nullptr;
  frame_.slots[place] = reinterpret_cast<Buffer*>(made)->data;
  if (elsewhere_) buffer::set_pending(reinterpret_cast<Buffer*>(made), elsewhere_->task);
  return made;
}

// The memory of the donated input in which the program may write a result; null if there is none.
pool::Block* Call::donated_block(std::size_t output, PyObject* donated) {
  constexpr Py_ssize_t kOwners = 3;  // the sequence of values, one array, and this call
  for (const auto& [result, source] : program_.aliases) {
    if (result != static_cast<int>(output)) continue;
    Ref number(PyLong_FromLong(source));
    if (!number || PySequence_Contains(donated, number.get()) != 1) continue;
    PyObject* value = values_[source];
    if (!buffer::is_buffer(value) || Py_REFCNT(value) > kOwners) continue;
    return buffer::take_block(reinterpret_cast<Buffer*>(value));
  }
  return nullptr;
}

// Gives the results, which nobody has computed yet, and a task that does.
PyObject* Call::start(std::unique_ptr<Call> self) {
  Call& call = *self;
  std::int64_t nbytes = call.program_.arena;
  for (int output : call.program_.outputs) nbytes += call.program_.slots[output].nbytes;
  if (!tasks::wait_for_room(static_cast<std::size_t>(nbytes)) || !call.read_inputs()) {
    return nullptr;
  }
  Elsewhere& place = *call.elsewhere_;
  place.task = tasks::make();
  if (!call.make_results(nullptr)) {
    tasks::abandon(place.task);
    return nullptr;
  }
  for (std::size_t k = 0; k < call.values_.size(); ++k) {
    if (!buffer::is_buffer(call.values_[k])) continue;
    place.hold_memory(reinterpret_cast<Buffer*>(call.values_[k]));
    Py_CLEAR(call.values_[k]);
  }
  Ref results = std::move(call.results_);
  place.submit(std::move(self), static_cast<std::size_t>(nbytes), tasks::Interrupt::kWaits);
  return results.release();
}

bool Call::run(const std::atomic<bool>& cancelled, PyThreadState*& saved) {
  return elsewhere_->run(program_, frame_, cancelled, saved);
}

void Call::free_memory() { elsewhere_->free_memory(); }

void Call::record() { elsewhere_->record(program_); }

PyObject* run(const Program& program, PyObject* sequence, PyObject* donated,
              std::vector<executor::Event>* events) {
  Ref values(PySequence_Fast(sequence, "an executable takes a sequence of values"));
  if (!values) return nullptr;
  const Py_ssize_t given = PySequence_Fast_GET_SIZE(values.get());
  const auto expected = static_cast<Py_ssize_t>(program.inputs.size());
  if (given == expected) return Call(program, values.get(), given).run(donated, events);
  Ref module = inputs_module();
  if (!module) return nullptr;
  set_error(Ref(PyObject_CallMethod(module.get(), "input_count_error", "snn", program.name.c_str(),
                                    expected, given)));
  return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  const bool names_donated =
      named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "donated") == 0;
  if (count < 1 || count + named > 2 || (named > 0 && !names_donated)) {
    PyErr_SetString(PyExc_TypeError, "an executable takes (values, donated=())");
    return nullptr;
  }
  return run(*as_executable(self)->decoded, args[0], count + named == 2 ? args[1] : nullptr,
             nullptr);
}

PyObject* as_list(const std::vector<executor::Event>& events) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(events.size())));
  for (std::size_t k = 0; list && k < events.size(); ++k) {
    const executor::Event& e = events[k];
    PyObject* item = Py_BuildValue("iiLL", e.program, e.instruction,
                                   static_cast<long long>(e.begin), static_cast<long long>(e.end));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), item);
  }
  return list.release();
}

PyObject* profile(PyObject* self, PyObject* values) {
  std::vector<executor::Event> events;
  Ref results(run(*as_executable(self)->decoded, values, nullptr, &events));
  Ref times(results ? as_list(events) : nullptr);
  return times ? PyTuple_Pack(2, results.get(), times.get()) : nullptr;
}

PyObject* construct(PyTypeObject* of, PyObject* args, PyObject*) {
  PyObject *encoded, *program;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &encoded, &program)) return nullptr;
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
  PyObject* self = of->tp_alloc(of, 0);
  if (self == nullptr) return nullptr;
  as_executable(self)->call = call;
  decoded->source = program;  // which the executable owns
  as_executable(self)->decoded = decoded.release();
  as_executable(self)->program = Py_NewRef(program);
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
  delete as_executable(self)->decoded;
  clear(self);
  of->tp_free(self);
  Py_DECREF(of);
}

PyMethodDef methods[] = {
    {"profile", profile, METH_O, "The results, and when each instruction ran."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Executable, call), READONLY, nullptr},
    {"program", T_OBJECT_EX, offsetof(Executable, program), READONLY, "What it runs."},
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
    {Py_tp_doc, const_cast<char*>("A compiled program: (values, donated=()) -> results.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.Executable", sizeof(Executable), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

PyObject* make_type() {
  PyObject* made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject*>(made);
  return made;
}

const Program* program_of(PyObject* object) {
  return Py_TYPE(object) == type ? as_executable(object)->decoded : nullptr;
}

Ref joined(std::unique_ptr<Program> program, Ref others) {
  Ref made(type->tp_alloc(type, 0));
  if (!made) return Ref();
  as_executable(made.get())->call = call;
  as_executable(made.get())->decoded = program.release();
  as_executable(made.get())->program = others.release();
  return made;
}

PyObject* start(PyObject* object, PyObject* values) {
  const Program* program = program_of(object);
  const bool pays = program != nullptr && program->cost >= kWorthAThread &&
                    program->cost <= kMostInTurn && thread_pool::num_threads() > 1 &&
                    PyList_GET_SIZE(values) == static_cast<Py_ssize_t>(program->inputs.size()) &&
                    !program->calls_python;
  if (!pays) return PyObject_CallOneArg(object, values);
  return Call::start(std::make_unique<Call>(*program, values, PyList_GET_SIZE(values),
                                            std::make_unique<Elsewhere>(object)));
}

}  // namespace functrax::executable
