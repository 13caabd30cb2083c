// Programs that a GPU runs, as Python objects that can be called: follows
// functrax/backends/cuda/run.py.
//
// DeviceExecutable(encoded, program, gpu, parts, conditions)(values, donated=()) asks the GPU for
// all the work of a program and returns its results, which are there later. `parts` are those that
// may be graphs, and `conditions` what those need that have branches and loops (graphs.py).

#pragma once

#include <Python.h>

#include "jit_cache.h"
#include "program.h"
#include "signature.h"

namespace functrax::cuda {

// Makes the type; a new reference, or null with an error set.
PyObject* make_executable_type();

// The program of a DeviceExecutable; null for any other object.
const program::Program* program_of(PyObject* object);

// A call of a jitted function whose program is a DeviceExecutable's: see jit_call.h.
signature::Outcome run(jit_cache::Entry& entry, const signature::Signature& signature,
                       PyObject*& result);

}  // namespace functrax::cuda
