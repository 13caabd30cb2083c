// See numpy_arrays.h. pybind11 declares NumPy's functions and the layout of its arrays.

#include "numpy_arrays.h"

#include <pybind11/numpy.h>

#include <utility>
#include <vector>

#include "reference.h"

namespace functrax::numpy_arrays {
namespace {

using Api = pybind11::detail::npy_api;

const Api* api = nullptr;

struct ScalarType {
  PyTypeObject* type;
  ScalarForm form;
};
std::vector<ScalarType> scalar_types;

void load_scalar_types() {
  const std::pair<int, ScalarForm> known[] = {
      {Api::NPY_BOOL_, {'b', 1}},     {Api::NPY_INT8_, {'i', 1}},   {Api::NPY_INT16_, {'i', 2}},
      {Api::NPY_INT32_, {'i', 4}},    {Api::NPY_INT64_, {'i', 8}},  {Api::NPY_UINT8_, {'u', 1}},
      {Api::NPY_UINT16_, {'u', 2}},   {Api::NPY_UINT32_, {'u', 4}}, {Api::NPY_UINT64_, {'u', 8}},
      {Api::NPY_FLOAT_, {'f', 4}},    {Api::NPY_DOUBLE_, {'f', 8}}, {Api::NPY_CFLOAT_, {'c', 8}},
      {Api::NPY_CDOUBLE_, {'c', 16}},
  };
  for (const auto& [number, form] : known) {
    PyObject* type = api->PyArray_TypeObjectFromType_(number);
    scalar_types.push_back({reinterpret_cast<PyTypeObject*>(type), form});
  }
}

}  // namespace

bool load() {
  if (api != nullptr) return true;
  try {
    api = &Api::get();
    load_scalar_types();
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

Form form_of(PyObject* array) {
  const auto* view = pybind11::detail::array_proxy(array);
  return {view->descr, view->nd, view->dimensions};
}

const ScalarForm* scalar_form(PyTypeObject* type) {
  for (const ScalarType& known : scalar_types) {
    if (known.type == type) return &known.form;
  }
  return nullptr;
}

bool element_form(PyObject* dtype, ScalarForm& form) {
  Ref type(PyObject_GetAttrString(dtype, "type"));
  if (!type) return false;
  const ScalarForm* found = scalar_form(reinterpret_cast<PyTypeObject*>(type.get()));
  form = found == nullptr ? ScalarForm{0, 0} : *found;
  return true;
}

PyObject* converted(PyObject* array, PyObject* dtype, bool copy) {
  constexpr int kEnsureCopy = 0x20;
  const int flags = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_ |
                    Api::NPY_ARRAY_FORCECAST_ | (copy ? kEnsureCopy : 0);
  Py_INCREF(dtype);  // for the array, which takes it
  return api->PyArray_FromAny_(array, dtype, 0, 0, flags, nullptr);
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
