// See eager_call.h. Start at Call::read.

#include "eager_call.h"

#include <cstring>

#include "eager_state.h"
#include "pytree.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

// Longer calls are the function's; so are those whose lists lie deeper.
constexpr Py_ssize_t kMostArguments = 128;
constexpr Py_ssize_t kDeepest = 4;

std::vector<Wrapper> wrappers;

}  // namespace

const Wrapper* wrapper_of(PyTypeObject* type) {
  for (const Wrapper& wrapper : wrappers) {
    if (wrapper.type == type) return &wrapper;
  }
  return nullptr;
}

void Call::add(Tag tag, PyObject* object) {
  words.push_back(tag);
  words.push_back(reinterpret_cast<std::uintptr_t>(object));
  kept.push_back(object);
}

bool Call::add_integer(PyObject* x) {
  int overflow = 0;
  words.push_back(kInteger);
  words.push_back(static_cast<std::uintptr_t>(PyLong_AsLongLongAndOverflow(x, &overflow)));
  return overflow == 0;
}

void Call::add_number(PyObject* x) {
  const double value = PyFloat_AS_DOUBLE(x);
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  words.push_back(kNumber);
  words.push_back(bits);
}

// Adds an array or a tracer; false for one that is not known here.
bool Call::add_array(PyObject* x) {
  Given array;
  if (!read_given(x, thread_state::trace(), array)) return false;
  PyObject* aval = signature::aval_of(array.array);
  if (aval == nullptr) return false;
  given.push_back(array);
  traced = traced || array.tangent != nullptr;
  if (depth_ != 0) {
    holds = true;
    alive_.push_back(Ref::share(array.array));
  }
  add(kArray, aval);
  return true;
}

// Adds an argument that is no array: by its value, or as the object that it is, of which an equal
// one is another call.
bool Call::add_static(PyObject* x) {
  if (PyFloat_CheckExact(x)) return add_number(x), true;
  if (PyLong_CheckExact(x)) return add_integer(x);
  const bool is_object = x == Py_None || PyBool_Check(x) || PyUnicode_CheckExact(x) ||
                         PyType_Check(x) ||
                         PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(static_class_));
  if (is_object) add(kObject, x);
  return is_object;
}

bool Call::add_all(Tag tag, PyObject* const* items, Py_ssize_t count) {
  if (++depth_ > kDeepest) return false;
  words.push_back(tag);
  words.push_back(static_cast<std::uintptr_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!add_argument(items[i])) return false;
  }
  --depth_;
  return true;
}

bool Call::add_argument(PyObject* x) {
  if (--left_ < 0) return false;
  if (Py_IS_TYPE(x, python.array) || is_tracer(x)) return add_array(x);
  if (PyTuple_CheckExact(x)) {
    return add_all(kTuple, reinterpret_cast<PyTupleObject*>(x)->ob_item, PyTuple_GET_SIZE(x));
  }
  if (PyList_CheckExact(x)) {
    return add_all(kList, reinterpret_cast<PyListObject*>(x)->ob_item, PyList_GET_SIZE(x));
  }
  const Wrapper* wrapper = wrapper_of(Py_TYPE(x));
  if (wrapper == nullptr) return add_static(x);
  PyObject* content = slot(x, wrapper->words);
  if (content == nullptr || depth_ != 0) return false;
  add(kHolder, reinterpret_cast<PyObject*>(Py_TYPE(x)));
  holds = true;
  const bool is_array = Py_IS_TYPE(content, python.array) || is_tracer(content);
  return is_array && add_array(content);
}

bool Call::read(PyObject* mode, PyObject* const* args, Py_ssize_t count, PyObject* names,
                PyObject* static_class) {
  static_class_ = static_class;
  left_ = kMostArguments;
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  add(kObject, mode);
  words.push_back(static_cast<std::uintptr_t>(named));
  for (Py_ssize_t i = 0; i < named; ++i) add(kObject, PyTuple_GET_ITEM(names, i));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!add_argument(args[i])) return false;
  }
  return true;
}

void Call::add_tangents() {
  for (const Given& x : given) add(kObject, x.tangent == nullptr ? Py_None : x.tangent);
}

PyObject* add_wrapper(PyObject*, PyObject* type) {
  Wrapper wrapper = {reinterpret_cast<PyTypeObject*>(type), 0};
  if (!PyType_Check(type) || !pytree::find_slot(type, "words", wrapper.words)) return nullptr;
  Py_INCREF(type);
  wrappers.push_back(wrapper);
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
