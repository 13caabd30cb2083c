// See numpy_arrays.h. pybind11 declares NumPy's functions and the layout of its arrays.

#include "numpy_arrays.h"

#include <pybind11/numpy.h>

namespace functrax::numpy_arrays {
namespace {

using Api = pybind11::detail::npy_api;

const Api* api = nullptr;

}  // namespace

bool load() {
  if (api != nullptr) return true;
  try {
    api = &Api::get();
    return true;
  } catch (pybind11::error_already_set& error) {
    error.restore();
    return false;
  }
}

bool is_array(PyObject* object) { return Py_TYPE(object) == api->PyArray_Type_; }

void* dense_data(PyObject* array, PyObject* dtype, int rank, const Py_ssize_t* shape) {
  const auto* view = pybind11::detail::array_proxy(array);
  constexpr int kDense = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_;
  if ((view->flags & kDense) != kDense || view->nd != rank) return nullptr;
  for (int k = 0; k < rank; ++k) {
    if (view->dimensions[k] != shape[k]) return nullptr;
  }
  if (view->descr != dtype && !api->PyArray_EquivTypes_(view->descr, dtype)) return nullptr;
  return view->data;
}

void read_scalar(PyObject* scalar, void* value) { api->PyArray_ScalarAsCtype_(scalar, value); }

PyObject* make_array(PyObject* dtype, int rank, const Py_ssize_t* shape, void* data,
                     PyObject* owner, bool writable) {
  Py_INCREF(dtype);  // for the array, which takes it
  const int flags = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_ |
                    (writable ? Api::NPY_ARRAY_WRITEABLE_ : 0);
  PyObject* array = api->PyArray_NewFromDescr_(api->PyArray_Type_, dtype, rank, shape, nullptr,
                                               data, flags, nullptr);
  if (array == nullptr) return nullptr;
  Py_INCREF(owner);
  if (api->PyArray_SetBaseObject_(array, owner) == 0) return array;
  Py_DECREF(array);
  return nullptr;
}

}  // namespace functrax::numpy_arrays
