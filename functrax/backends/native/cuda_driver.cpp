// See cuda_driver.h.

#include "cuda_driver.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "reference.h"

namespace functrax::cuda {
namespace {

// What every function does that is not among those below.
template <typename... Arguments>
int succeed(Arguments...) {
  return kSuccess;
}

int count_one(int* count) {
  *count = 1;
  return kSuccess;
}

int name_none(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "empty GPU");
  return kSuccess;
}

int attribute_eight(int* value, int which, int) {
  *value = which == kMajor ? 8 : 0;
  return kSuccess;
}

int next_place(Place* place, std::size_t nbytes) {
  constexpr Place kBegin = 1 << 20, kApart = 256;
  static std::atomic<Place> next{kBegin};
  *place = next.fetch_add((nbytes / kApart + 1) * kApart);
  return kSuccess;
}

int copy_zeros(void* to, Place, std::size_t nbytes, Handle) {
  std::memset(to, 0, nbytes);
  return kSuccess;
}

}  // namespace

bool read_driver(PyObject* addresses, Driver& driver) {
  const auto read = [&](const char* name, auto*& function) {
    PyObject* address = PyDict_GetItemString(addresses, name);
    if (address == nullptr) {
      PyErr_Format(PyExc_KeyError, "a table without %s", name);
      return false;
    }
    void* place = PyLong_AsVoidPtr(address);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(place);
    return place != nullptr;
  };
#define FUNCTRAX_CUDA_READ(name, ...) \
  if (!read(#name, driver.name)) return false;
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_READ)
  if (PyDict_GetItemString(addresses, "cuGraphCreate") == nullptr) return true;  // all or none
  FUNCTRAX_CUDA_GRAPH_FUNCTIONS(FUNCTRAX_CUDA_READ)
  if (PyDict_GetItemString(addresses, "cuGraphAddNode") == nullptr) return true;  // as before
  FUNCTRAX_CUDA_CONDITION_FUNCTIONS(FUNCTRAX_CUDA_READ)
#undef FUNCTRAX_CUDA_READ
  return true;
}

PyObject* empty_functions(PyObject*, PyObject*) {
  Driver driver;
#define FUNCTRAX_CUDA_SUCCEED(name, ...) driver.name = succeed<__VA_ARGS__>;
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_SUCCEED)
  FUNCTRAX_CUDA_GRAPH_FUNCTIONS(FUNCTRAX_CUDA_SUCCEED)
  FUNCTRAX_CUDA_CONDITION_FUNCTIONS(FUNCTRAX_CUDA_SUCCEED)
#undef FUNCTRAX_CUDA_SUCCEED
  driver.cuDeviceGetCount = count_one;
  driver.cuDeviceGetName = name_none;
  driver.cuDeviceGetAttribute = attribute_eight;
  driver.cuMemAlloc_v2 = next_place;
  driver.cuMemcpyDtoHAsync_v2 = copy_zeros;
  Ref addresses(PyDict_New());
  const auto add = [&](const char* name, auto* function) {
    Ref address(PyLong_FromVoidPtr(reinterpret_cast<void*>(function)));
    return address && PyDict_SetItemString(addresses.get(), name, address.get()) == 0;
  };
  if (!addresses) return nullptr;
#define FUNCTRAX_CUDA_ADD(name, ...) \
  if (!add(#name, driver.name)) return nullptr;
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_ADD)
  FUNCTRAX_CUDA_GRAPH_FUNCTIONS(FUNCTRAX_CUDA_ADD)
  FUNCTRAX_CUDA_CONDITION_FUNCTIONS(FUNCTRAX_CUDA_ADD)
#undef FUNCTRAX_CUDA_ADD
  return addresses.release();
}

}  // namespace functrax::cuda
