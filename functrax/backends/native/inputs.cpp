// See inputs.h. Start at as_value.

#include "inputs.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "numpy_arrays.h"
#include "reference.h"
#include "signature.h"
#include "words.h"

namespace functrax::inputs {
namespace {

constexpr std::size_t kMostTypes = 1 << 12;

struct {
  PyObject *as_value = nullptr, *dtypes;
} python_side;

// Of NumPy arrays by their dtypes and shapes. A type keeps its dtype alive.
auto& known = *new std::unordered_map<Words, Ref, WordsHash>;  // never freed: Python ends before

Words words_of(const numpy_arrays::Form& form) {
  Words words;
  words.reserve(1 + static_cast<std::size_t>(form.rank));
  words.push_back(reinterpret_cast<std::uintptr_t>(form.dtype));
  for (int k = 0; k < form.rank; ++k) {
    words.push_back(static_cast<std::uintptr_t>(form.sizes[k]));
  }
  return words;
}

// Whether a shape is that of a NumPy array; false with an error set, too.
bool has_shape(const numpy_arrays::Form& form, PyObject* shape) {
  if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) != form.rank) return false;
  for (int k = 0; k < form.rank; ++k) {
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)) != form.sizes[k]) return false;
  }
  return true;
}

// Remembers the type of the array that Python made of a NumPy array; false with an error set.
bool remember(const numpy_arrays::Form& form, PyObject* array) {
  if (!signature::is_array(array)) return true;
  const int fixed = PySet_Contains(python_side.dtypes, form.dtype);
  if (fixed != 1) return fixed == 0;
  PyObject* aval = signature::aval_of(array);
  Ref dtype(PyObject_GetAttrString(aval, "dtype")), shape(PyObject_GetAttrString(aval, "shape"));
  if (!dtype || !shape) return false;
  // An equal dtype may be another object, and other threads may have changed the NumPy array.
  if (dtype.get() != form.dtype || !has_shape(form, shape.get())) return !PyErr_Occurred();
  if (known.size() >= kMostTypes) known.clear();
  known.try_emplace(words_of(form), Ref::share(aval));
  return true;
}

}  // namespace

PyObject* as_value(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (python_side.as_value == nullptr || count < 1 || count > 2) {
    PyErr_SetString(PyExc_TypeError, "expected a value, and what it is called");
    return nullptr;
  }
  PyObject* x = args[0];
  if (signature::is_array(x)) return Py_NewRef(x);
  const auto in_python = [&] {
    return PyObject_Vectorcall(python_side.as_value, args, static_cast<std::size_t>(count),
                               nullptr);
  };
  if (!numpy_arrays::is_array(x)) return in_python();
  const numpy_arrays::Form form = numpy_arrays::form_of(x);
  const auto found = known.find(words_of(form));
  if (found == known.end()) {
    Ref made(in_python());
    return made && remember(numpy_arrays::form_of(x), made.get()) ? made.release() : nullptr;
  }
  if (numpy_arrays::dense_data(x, form.dtype, form.rank, form.sizes) == nullptr) return in_python();
  const Ref aval = Ref::share(found->second.get());
  PyObject* copied = numpy_arrays::converted(x, form.dtype, true);
  return copied == nullptr ? nullptr : signature::new_array(copied, aval.get());
}

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyType_Check(args[0]) || !PyAnySet_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "expected a class, a function and a set");
    return nullptr;
  }
  if (!numpy_arrays::load() || !signature::set_array_class(args[0])) return nullptr;
  python_side.dtypes = Py_NewRef(args[2]);
  python_side.as_value = Py_NewRef(args[1]);
  Py_RETURN_NONE;
}

}  // namespace functrax::inputs
