// See scalars.h.

#include "scalars.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>

namespace functrax::scalars {
namespace {

using numpy_arrays::ScalarForm;
using signature::Leaf;
using signature::Outcome;

Outcome write_integer(long long value, int nbytes, void* place) {
  const int unused = 64 - 8 * nbytes;
  if (unused > 0 &&
      static_cast<long long>(static_cast<unsigned long long>(value) << unused) >> unused != value) {
    return Outcome::kUnknown;
  }
  std::memcpy(place, &value, nbytes);  // the low bytes, which come first
  return Outcome::kRead;
}

// A number that becomes infinite is for NumPy, which warns of it.
Outcome write_float(double value, int nbytes, void* place) {
  if (nbytes == 8) {
    std::memcpy(place, &value, 8);
    return Outcome::kRead;
  }
  const bool fits = std::fabs(value) <= std::numeric_limits<float>::max();
  if (!fits && std::isfinite(value)) return Outcome::kUnknown;
  const auto narrow = static_cast<float>(value);
  std::memcpy(place, &narrow, 4);
  return Outcome::kRead;
}

Outcome write_complex(std::complex<double> value, int nbytes, void* place) {
  const Outcome real = write_float(value.real(), nbytes / 2, place);
  if (real != Outcome::kRead) return real;
  return write_float(value.imag(), nbytes / 2, static_cast<char*>(place) + nbytes / 2);
}

Outcome write_numpy_scalar(PyObject* scalar, const ScalarForm& target, void* place) {
  const ScalarForm& source = *numpy_arrays::scalar_form(Py_TYPE(scalar));
  alignas(16) unsigned char value[16];
  numpy_arrays::read_scalar(scalar, value);
  if (source.kind != target.kind) return Outcome::kUnknown;
  if (source.nbytes == target.nbytes) {
    std::memcpy(place, value, target.nbytes);
    return Outcome::kRead;
  }
  if (source.nbytes < target.nbytes) return Outcome::kUnknown;
  double parts[2];
  std::memcpy(parts, value, 16);
  if (target.kind == 'f') return write_float(parts[0], target.nbytes, place);
  if (target.kind == 'c') return write_complex({parts[0], parts[1]}, target.nbytes, place);
  std::int64_t integer;
  std::memcpy(&integer, value, 8);
  return target.kind == 'i' ? write_integer(integer, target.nbytes, place) : Outcome::kUnknown;
}

}  // namespace

Outcome write(Leaf leaf, const ScalarForm& form, PyObject* x, void* place) {
  switch (leaf) {
    case Leaf::kBool:
      *static_cast<unsigned char*>(place) = x == Py_True;
      return Outcome::kRead;
    case Leaf::kInt: {
      int overflow;
      const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
      return overflow != 0 ? Outcome::kUnknown : write_integer(value, form.nbytes, place);
    }
    case Leaf::kFloat:
      return write_float(PyFloat_AS_DOUBLE(x), form.nbytes, place);
    case Leaf::kComplex: {
      const Py_complex value = PyComplex_AsCComplex(x);
      return write_complex({value.real, value.imag}, form.nbytes, place);
    }
    default:
      return write_numpy_scalar(x, form, place);
  }
}

}  // namespace functrax::scalars
