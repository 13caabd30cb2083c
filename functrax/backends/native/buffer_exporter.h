// A base class whose instances have Python's buffer protocol, through their own `__array__`.

#pragma once

#include <Python.h>

namespace functrax::buffer_exporter {

// Makes the type; a new reference, or null with an exception set.
PyObject* make_type();

}  // namespace functrax::buffer_exporter
