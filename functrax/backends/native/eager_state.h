// What recording and running eager operations have in common: what Python told of its classes, and
// how nodes are read. The classes are those of backends/eager/graph.py.

#pragma once

#include <Python.h>

#include <cstdint>

namespace functrax::eager {

// What Python told: classes, the offsets of their slots, and functions.
struct Python {
  PyTypeObject *array = nullptr, *literal, *borrowed, *source_line;
  struct {
    Py_ssize_t code, offset;
  } of_source;
  struct {
    Py_ssize_t types, setting, holds, is_brief, simplifies, literals_are_inputs, avals, out_bytes,
        operand_bytes, spreads, alone;
  } of_signature;
  Py_ssize_t literal_aval, literal_val, setting_on_host;
  PyObject *signatures, *mode, *is_internal, *user_line, *record;
  PyObject *compute, *compute_single, *compute_each, *prepare, *recover;
  PyObject* simplify_name;
  // Bounds, see backends/eager/__init__.py and graph.py.
  long long most_nodes, patience, small_bytes, most_growth, most_repeated, few_bytes, most_bytes;
};

extern Python python;

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

// What is read of a signature with each operation and each cut: the base of its class, which reads
// it from the slots of the first use on.
struct Facts {
  bool known, single, holds, is_brief, spreads, literals_are_inputs;
  Py_ssize_t operands, results;
  long long out_bytes;
};
struct SignatureBase {
  PyObject_HEAD Facts facts;
};
void read_facts(PyObject* signature);
inline const Facts& facts_of(PyObject* signature) {
  const Facts& facts = reinterpret_cast<SignatureBase*>(signature)->facts;
  if (!facts.known) read_facts(signature);
  return facts;
}

PyObject* make_signature_type();  // functrax._native.EagerSignature

// What decides how operations are recorded now, borrowed and never freed: (setting, contexts), or
// None where they are not recorded; null with an error set.
PyObject* current_mode();

// eager_configure(classes, signatures, functions, bounds): see backends/eager/__init__.py.
PyObject* configure(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace functrax::eager
