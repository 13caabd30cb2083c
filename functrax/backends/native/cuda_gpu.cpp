// See cuda_gpu.h.

#include "cuda_gpu.h"

#include <structmember.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda_array.h"
#include "recorder.h"
#include "reference.h"

namespace functrax::cuda {
namespace {

PyTypeObject* type = nullptr;

constexpr std::int64_t kSpinNs = 100'000;         // a wait asks again at once, ...
constexpr std::int64_t kWaitedParts = 8;          // ... then after a part of what it has waited
constexpr std::int64_t kMostSleepNs = 1'000'000;  // at most, ...
constexpr std::int64_t kSignalsNs = 30'000'000;   // and handles signals now and then

Gpu* as_gpu(PyObject* object) { return reinterpret_cast<Gpu*>(object); }

void sleep_for(std::int64_t ns) {
  timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

}  // namespace

PyObject* failures() { return PyImport_ImportModule("functrax.backends.cuda.failures"); }

bool raise(PyObject* error) {
  const Ref made(error);
  if (made) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.get())), made.get());
  return false;
}

// ---- errors -------------------------------------------------------------------------------------

// The programs that were asked for and not seen to end, in order.
PyObject* Gpu::running() const {
  Ref list(PyList_New(0));
  const Mark last = asked_ + 1;
  for (Mark m = std::max(done_ + 1, last < kEvents ? 1 : last + 1 - kEvents); m <= last; ++m) {
    PyObject* program = programs_[m % kEvents];
    if (list && program != nullptr && PyList_Append(list.get(), program) != 0) return nullptr;
  }
  return list.release();
}

bool Gpu::failed(int error, const char* function) {
  Ref module(failures());
  Ref programs(module ? running() : nullptr);
  if (!programs) return false;
  return raise(PyObject_CallMethod(module.get(), "failure", "OOsiO", table, name, function, error,
                                   programs.get()));
}

bool Gpu::has_no_memory(std::size_t size, const Array* array) {
  Ref module(failures());
  Ref list(module ? PyList_New(0) : nullptr);
  for (Array* x = arrays; list && x != nullptr; x = x->after) {
    if (x->block == nullptr || x->block->adopted_from != nullptr) continue;
    Ref label(array_label(x));
    Ref pair(label ? Py_BuildValue("On", label.get(), x->nbytes) : nullptr);
    if (!pair || PyList_Append(list.get(), pair.get()) != 0) return false;
  }
  const char* said = nullptr;
  driver.cuGetErrorString(kOutOfMemory, &said);
  Ref label(array == nullptr ? PyUnicode_FromString("temporaries") : array_label(array));
  if (!list || !label) return false;
  return raise(PyObject_CallMethod(module.get(), "no_memory", "OOnOs", name, label.get(),
                                   static_cast<Py_ssize_t>(size), list.get(),
                                   said == nullptr ? "no memory" : said));
}

// Sets the error of a wait that is longer than the user allows; false if it is not.
bool Gpu::too_long(std::int64_t waited) {
  Ref module(failures());
  Ref limit(module ? PyObject_CallMethod(module.get(), "time_limit", nullptr) : nullptr);
  const long long seconds = limit ? PyLong_AsLongLong(limit.get()) : -1;
  if (seconds == -1 && PyErr_Occurred()) return true;
  if (seconds <= 0 || waited < seconds * 1'000'000'000) return false;
  Ref programs(running());
  if (programs) raise(PyObject_CallMethod(module.get(), "too_long", "OO", name, programs.get()));
  return true;
}

// ---- marks --------------------------------------------------------------------------------------

bool Gpu::here() { return check(driver.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

void Gpu::begin(PyObject* program) {
  PyObject* before = std::exchange(programs_[(asked_ + 1) % kEvents], Py_NewRef(program));
  Py_XDECREF(before);
}

bool Gpu::put_mark() {
  const Mark mark = ++asked_;
  open_ = false;
  PyObject* before = std::exchange(programs_[(asked_ + 1) % kEvents], nullptr);
  Py_XDECREF(before);
  ++putting_;
  const int error = driver.cuEventRecord(event_of(mark), compute_);
  if (--putting_ == 0) there_ = asked_;
  last_put_ = mark;
  return check(error, "cuEventRecord");
}

int Gpu::is_done(Mark mark) {
  if (mark <= done_) return 1;
  const Mark there = here() ? reach(mark) : 0;
  if (there == 0) return -1;
  const int error = driver.cuEventQuery(event_of(there));
  if (error == kNotReady) return 0;
  if (!check(error, "cuEventQuery")) return -1;
  done_ = std::max(done_, mark);
  return 1;
}

bool Gpu::wait(Mark mark) {
  if (mark <= done_) return true;
  const Mark there = here() ? reach(mark) : 0;
  if (there == 0 || !wait_for(event_of(there))) return false;
  done_ = std::max(done_, mark);
  return true;
}

bool Gpu::wait_for(Handle event) {
  const std::int64_t begin = recorder::now();
  std::int64_t looked = begin;
  for (;;) {
    PyThreadState* saved = PyEval_SaveThread();
    int error;
    while ((error = driver.cuEventQuery(event)) == kNotReady) {
      const std::int64_t now = recorder::now(), waited = now - begin;
      if (now - looked > kSignalsNs) break;
      if (waited > kSpinNs) sleep_for(std::min(waited / kWaitedParts, kMostSleepNs));
    }
    PyEval_RestoreThread(saved);
    if (error != kNotReady) return check(error, "cuEventQuery");
    looked = recorder::now();
    if (PyErr_CheckSignals() != 0 || too_long(looked - begin)) return false;
  }
}

// ---- memory -------------------------------------------------------------------------------------

Block* Gpu::allocate(std::size_t nbytes, const Array* array) {
  const pool::SizeClass wanted = pool::size_class(nbytes);
  if (wanted.number >= pool::kClasses) {
    has_no_memory(nbytes, array);
    return nullptr;
  }
  Block*& first = waiting_[wanted.number];
  if (first != nullptr) {
    Block* block = std::exchange(first, first->next);
    cached_ -= block->size;
    in_use_ += block->size;
    peak_ = std::max(peak_, in_use_);
    ++hits_;
    block->owners = 1;
    return block;
  }
  if (!here()) return nullptr;
  Place place = 0;
  int error = driver.cuMemAlloc_v2(&place, wanted.size);
  if (error == kOutOfMemory && cached_ > 0) {
    if (!trim()) return nullptr;
    error = driver.cuMemAlloc_v2(&place, wanted.size);
  }
  if (error == kOutOfMemory) {
    has_no_memory(wanted.size, array);
    return nullptr;
  }
  if (!check(error, "cuMemAlloc")) return nullptr;
  in_use_ += wanted.size;
  peak_ = std::max(peak_, in_use_);
  ++allocations_;
  return new Block{place, wanted.size, wanted.number, 1, 0, nullptr, nullptr};
}

void Gpu::give_back(Block* block) {
  if (block == nullptr || --block->owners > 0) return;
  if (block->adopted_from != nullptr) {
    const Ref owner(block->adopted_from);
    delete block;
    return;
  }
  block->mark = position();
  in_use_ -= block->size;
  cached_ += block->size;
  block->next = std::exchange(waiting_[block->size_class], block);
}

bool Gpu::trim() {
  if (!wait(position()) || !here()) return false;
  for (Block*& first : waiting_) {
    while (first != nullptr) {
      Block* block = std::exchange(first, first->next);
      cached_ -= block->size;
      const Place place = block->place;
      delete block;
      if (!check(driver.cuMemFree_v2(place), "cuMemFree")) return false;
    }
  }
  return true;
}

// ---- work ---------------------------------------------------------------------------------------

bool Gpu::upload(Place place, const void* data, std::size_t nbytes, Mark last_use) {
  if (!here()) return false;
  if (last_use > done_) {
    const Mark there = reach(last_use);
    if (there == 0) return false;
    const int error = driver.cuStreamWaitEvent(up_, event_of(there), 0);
    if (!check(error, "cuStreamWaitEvent")) return false;
  }
  PyThreadState* saved = PyEval_SaveThread();
  const int error = driver.cuMemcpyHtoDAsync_v2(place, data, nbytes, up_);
  PyEval_RestoreThread(saved);
  return check(error, "cuMemcpyHtoDAsync") &&
         check(driver.cuEventRecord(went_up_, up_), "cuEventRecord") &&
         asked(driver.cuStreamWaitEvent(compute_, went_up_, 0), "cuStreamWaitEvent");
}

bool Gpu::download(Place place, void* data, std::size_t nbytes, Mark after) {
  if (!wait(after) || !here()) return false;
  PyThreadState* saved = PyEval_SaveThread();
  const int error = driver.cuMemcpyDtoHAsync_v2(data, place, nbytes, down_);
  PyEval_RestoreThread(saved);
  return check(error, "cuMemcpyDtoHAsync") &&
         check(driver.cuEventRecord(went_down_, down_), "cuEventRecord") && wait_for(went_down_);
}

bool Gpu::copy(Place target, Place source, std::size_t nbytes) {
  return asked(driver.cuMemcpyDtoDAsync_v2(target, source, nbytes, compute_), "cuMemcpyDtoDAsync");
}

bool Gpu::put(Place place, const void* data, std::size_t nbytes) {
  return asked(driver.cuMemcpyHtoDAsync_v2(place, data, nbytes, compute_), "cuMemcpyHtoDAsync");
}

// By fills, whose value goes with the request: no memory of the host has to stay as it is.
bool Gpu::fill(Place place, const void* value, std::size_t nbytes) {
  const auto* bytes = static_cast<const unsigned char*>(value);
  constexpr std::size_t kWord = sizeof(unsigned);
  std::size_t k = 0;
  for (; k + kWord <= nbytes; k += kWord) {
    unsigned word;
    std::memcpy(&word, bytes + k, kWord);
    const int error = driver.cuMemsetD32Async(place + k, word, 1, compute_);
    if (!asked(error, "cuMemsetD32Async")) return false;
  }
  for (; k < nbytes; ++k) {
    const int error = driver.cuMemsetD8Async(place + k, bytes[k], 1, compute_);
    if (!asked(error, "cuMemsetD8Async")) return false;
  }
  return true;
}

bool Gpu::launch(Handle kernel, unsigned grid, unsigned block, void** parameters) {
  return asked(
      driver.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, compute_, parameters, nullptr),
      "cuLaunchKernel");
}

bool Gpu::launch_graph(Handle graph) {
  return asked(driver.cuGraphLaunch(graph, compute_), "cuGraphLaunch");
}

// A kernel of a module; both are loaded once.
Handle Gpu::load(PyObject* ptx, PyObject* kernel) {
  Ref key(PyTuple_Pack(2, ptx, kernel));
  if (!key) return nullptr;
  PyObject* known = PyDict_GetItemWithError(loaded_, key.get());
  if (known != nullptr) return PyLong_AsVoidPtr(known);
  Handle module = nullptr, function = nullptr;
  const char* entry = PyErr_Occurred() ? nullptr : PyUnicode_AsUTF8(kernel);
  if (entry == nullptr || !load_module(ptx, module) ||
      !check(driver.cuModuleGetFunction(&function, module, entry), "cuModuleGetFunction")) {
    return nullptr;
  }
  Ref address(PyLong_FromVoidPtr(function));
  return address && PyDict_SetItem(loaded_, key.get(), address.get()) == 0 ? function : nullptr;
}

bool Gpu::load_module(PyObject* ptx, Handle& module) {
  PyObject* known = PyDict_GetItemWithError(loaded_, ptx);
  if (known != nullptr) {
    module = PyLong_AsVoidPtr(known);
    return true;
  }
  const char* text = PyErr_Occurred() ? nullptr : PyUnicode_AsUTF8(ptx);
  if (text == nullptr || !here() ||
      !check(driver.cuModuleLoadData(&module, text), "cuModuleLoadData")) {
    return false;
  }
  Ref address(PyLong_FromVoidPtr(module));
  return address && PyDict_SetItem(loaded_, ptx, address.get()) == 0;
}

bool Gpu::open_device(int ordinal) {
  char text[256] = "";
  int major = 0, minor = 0;
  const bool known =
      check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet") &&
      check(driver.cuDeviceGetName(text, sizeof(text), device), "cuDeviceGetName") &&
      check(driver.cuDeviceGetAttribute(&major, kMajor, device), "cuDeviceGetAttribute") &&
      check(driver.cuDeviceGetAttribute(&minor, kMinor, device), "cuDeviceGetAttribute") &&
      check(driver.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain") &&
      here();
  if (!known) return false;
  capability = 10 * major + minor;
  PyObject* found = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), nullptr);
  if (found == nullptr) return false;
  Py_XSETREF(name, found);
  // It waits for the default stream, and that for it, which other libraries use.
  if (!check(driver.cuStreamCreate(&compute_, 0), "cuStreamCreate")) return false;
  for (Handle* stream : {&up_, &down_}) {
    if (!check(driver.cuStreamCreate(stream, kNonBlocking), "cuStreamCreate")) return false;
  }
  for (Handle& event : events_) {
    if (!check(driver.cuEventCreate(&event, kDisableTiming), "cuEventCreate")) return false;
  }
  return check(driver.cuEventCreate(&went_up_, kDisableTiming), "cuEventCreate") &&
         check(driver.cuEventCreate(&went_down_, kDisableTiming), "cuEventCreate");
}

PyObject* Gpu::stats() const {
  Ref module(PyImport_ImportModule("functrax.backends.runtime.pool"));
  if (!module) return nullptr;
  return PyObject_CallMethod(module.get(), "PoolStats", "nnnnn", in_use_, cached_, peak_,
                             allocations_, hits_);
}

void Gpu::release_all() {
  for (PyObject* program : programs_) Py_XDECREF(program);
  for (Block* first : waiting_) {
    while (first != nullptr) delete std::exchange(first, first->next);
  }
  Py_XDECREF(loaded_);
  Py_XDECREF(name);
  Py_XDECREF(table);
}

// ---- as a Python object -------------------------------------------------------------------------

namespace {

PyObject* construct(PyTypeObject* of, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"table", "ordinal", nullptr};
  PyObject* table;
  int ordinal = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|i", const_cast<char**>(names), &table,
                                   &ordinal)) {
    return nullptr;
  }
  Ref addresses(PyObject_GetAttrString(table, "addresses"));
  if (!addresses) return nullptr;
  Ref self(of->tp_alloc(of, 0));
  if (!self) return nullptr;
  Gpu* gpu = as_gpu(self.get());
  gpu->table = Py_NewRef(table);
  gpu->name = PyUnicode_FromString("the GPU");
  if (!gpu->prepare() || !read_driver(addresses.get(), gpu->driver)) return nullptr;
  return gpu->open_device(ordinal) ? self.release() : nullptr;
}

void destroy(PyObject* self) {
  PyTypeObject* of = Py_TYPE(self);
  as_gpu(self)->release_all();
  of->tp_free(self);
  Py_DECREF(of);
}

PyObject* load(PyObject* self, PyObject* args) {
  PyObject *ptx, *kernel;
  if (!PyArg_ParseTuple(args, "UU", &ptx, &kernel)) return nullptr;
  const Handle function = as_gpu(self)->load(ptx, kernel);
  return function == nullptr && PyErr_Occurred() ? nullptr : PyLong_FromVoidPtr(function);
}

PyObject* trim(PyObject* self, PyObject*) {
  if (!as_gpu(self)->trim()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* wait_for_all(PyObject* self, PyObject*) {
  if (!as_gpu(self)->wait(as_gpu(self)->position())) return nullptr;
  Py_RETURN_NONE;
}

// The bytes of each array that has memory of the driver's.
PyObject* sizes(PyObject* self, PyObject*) {
  Ref list(PyList_New(0));
  for (const Array* x = as_gpu(self)->arrays; list && x != nullptr; x = x->after) {
    if (x->block == nullptr || x->block->adopted_from != nullptr) continue;
    Ref size(PyLong_FromSsize_t(x->nbytes));
    if (!size || PyList_Append(list.get(), size.get()) != 0) return nullptr;
  }
  return list.release();
}

PyObject* stats_of(PyObject* self, PyObject*) { return as_gpu(self)->stats(); }

PyMethodDef methods[] = {
    {"load", load, METH_VARARGS, "A kernel of a module, ready to be launched: (ptx, name)."},
    {"trim", trim, METH_NOARGS, "Return memory that waits to the driver."},
    {"synchronize", wait_for_all, METH_NOARGS, "Wait for all that was asked for."},
    {"sizes", sizes, METH_NOARGS, "The bytes of each array that has memory of the driver's."},
    {"stats", stats_of, METH_NOARGS, "What the memory holds and has done."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"table", T_OBJECT_EX, offsetof(Gpu, table), READONLY, "The driver."},
    {"name", T_OBJECT_EX, offsetof(Gpu, name), READONLY, "Of the GPU."},
    {"ordinal", T_INT, offsetof(Gpu, device), READONLY, "Which one it is."},
    {"capability", T_INT, offsetof(Gpu, capability), READONLY, "80 for 8.0."},
    {"stream", T_ULONGLONG, offsetof(Gpu, compute_), READONLY, "The driver's, that computes."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("One of a driver's GPUs: (table, ordinal=0).")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.Gpu", sizeof(Gpu), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyObject* make_gpu_type() {
  PyObject* made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject*>(made);
  return made;
}

bool is_gpu(PyObject* object) { return Py_TYPE(object) == type; }

}  // namespace functrax::cuda
