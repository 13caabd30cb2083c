// See subnormals.h.

#include "subnormals.h"

namespace functrax::subnormals {

PyObject* flush(PyObject*, PyObject* flushes) {
  const std::uint64_t before = targets::float_mode();
  const std::uint64_t others = before & ~targets::kFlushes;
  targets::set_float_mode(flushes == Py_True ? others | targets::kFlushes : others);
  return PyBool_FromLong(before != others);
}

}  // namespace functrax::subnormals
