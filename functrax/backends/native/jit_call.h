// One call of a jitted function whose program is known: from leaves to the tree of results.

#pragma once

#include <Python.h>

#include "jit_cache.h"
#include "signature.h"

namespace functrax::jit_call {

// kUnknown where Python must see to it; a result is a new reference.
signature::Outcome run(jit_cache::Entry& entry, const signature::Signature& signature,
                       PyObject*& result);

}  // namespace functrax::jit_call
