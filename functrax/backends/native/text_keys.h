// Keys of dicts in order, where they are few and text.

#pragma once

#include <Python.h>

#include "reference.h"

namespace functrax::pytree {

constexpr Py_ssize_t kFewKeys = 16;  // so many are sorted one by one

// The keys of a dict, if they are few and text: in order, as a tuple. Null without an error where
// they are not.
inline Ref sorted_text_keys(PyObject* dict) {
  const Py_ssize_t count = PyDict_GET_SIZE(dict);
  if (count > kFewKeys) return Ref();
  PyObject* sorted[kFewKeys];
  PyObject *key, *value;
  Py_ssize_t position = 0, met = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) return Ref();
    Py_ssize_t place = met++;
    for (; place > 0 && PyUnicode_Compare(sorted[place - 1], key) > 0; --place) {
      sorted[place] = sorted[place - 1];
    }
    sorted[place] = key;
  }
  Ref keys(PyTuple_New(count));
  for (Py_ssize_t i = 0; keys && i < count; ++i) {
    PyTuple_SET_ITEM(keys.get(), i, Py_NewRef(sorted[i]));
  }
  return keys;
}

}  // namespace functrax::pytree
