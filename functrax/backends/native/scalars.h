// Numbers of Python and NumPy, written as elements of arrays.

#pragma once

#include <Python.h>

#include "numpy_arrays.h"
#include "signature.h"

namespace functrax::scalars {

// Writes a leaf as an element of the form; kUnknown where Python must see to it.
signature::Outcome write(signature::Leaf leaf, const numpy_arrays::ScalarForm& form, PyObject* x,
                         void* place);

}  // namespace functrax::scalars
