// Bindings of functrax._native, and nothing else: every topic has a file of its own.

#include <pybind11/pybind11.h>

PYBIND11_MODULE(_native, module) {
  module.doc() = "C++ halves of functrax's hot loops; each has a Python twin.";
}
