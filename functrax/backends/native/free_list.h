// Memory of objects that have ended, for the next ones of the same size. Under the GIL.

#pragma once

#include <Python.h>

#include <cstddef>

namespace functrax {

// Ends the weak references to an object of a type that has them, whose last reference is gone. They
// lie in the object, from Python 3.12 on before it.
inline void clear_weak_references(PyObject* self) {
  const Py_ssize_t place = Py_TYPE(self)->tp_weaklistoffset;
  if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + place) != nullptr) {
    PyObject_ClearWeakRefs(self);
  }
}

// How many slots weak references take in objects of a type.
inline std::size_t weak_reference_slots(const PyTypeObject* type) {
  return type->tp_weaklistoffset < 0 ? 0 : 1;
}

template <std::size_t kMost>
class FreeList {
 public:
  // The memory of an object that ended last; null if there is none.
  void* take() { return count_ == 0 ? nullptr : items_[--count_]; }

  // Keeps the memory of an object; false where it has to be freed.
  bool keep(void* memory) {
    if (count_ == kKept) return false;
    items_[count_++] = memory;
    return true;
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t kKept = 0;  // so that a use after the end is found
#else
  static constexpr std::size_t kKept = kMost;
#endif

  std::size_t count_ = 0;
  void* items_[kMost];
};

}  // namespace functrax
