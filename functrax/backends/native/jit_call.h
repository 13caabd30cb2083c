// One call of a jitted function whose program is known: from leaves to the tree of results.

#pragma once

#include <Python.h>

#include "jit_cache.h"
#include "signature.h"

namespace functrax::jit_call {

// kUnknown where Python must see to it; a result is a new reference.
signature::Outcome run(jit_cache::Entry& entry, const signature::Signature& signature,
                       PyObject*& result);

// Makes arrays of raw results, which it takes, and the tree of them; deletes donated arguments.
signature::Outcome finish(const jit_cache::Entry& entry, PyObject* const* leaves,
                          PyObject** results, PyObject*& result);

// Takes the elements out of an array.
void delete_array(PyObject* array);

}  // namespace functrax::jit_call
