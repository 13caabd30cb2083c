// See eager_state.h.

#include "eager_state.h"

#include "pytree.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {

Python python;

namespace {

struct Mode {
  PyObject* value;  // None where operations are not recorded, else (setting, context)
  std::uint64_t epoch;
};
thread_local Mode local_mode = {};

PyTypeObject* class_at(PyObject* classes, Py_ssize_t n) {
  return reinterpret_cast<PyTypeObject*>(Py_NewRef(PyTuple_GET_ITEM(classes, n)));
}

struct Slot {
  Py_ssize_t owner;
  const char* name;
  Py_ssize_t* offset;
};

PyType_Slot signature_slots[] = {
    {Py_tp_doc, const_cast<char*>("What is read of a signature with each operation.")},
    {0, nullptr},
};

PyType_Spec signature_spec = {"functrax._native.EagerSignature", sizeof(SignatureBase), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, signature_slots};

}  // namespace

PyObject* make_signature_type() { return PyType_FromSpec(&signature_spec); }

void read_facts(PyObject* signature) {
  const auto& at = python.of_signature;
  const auto is_true = [&](Py_ssize_t offset) { return slot(signature, offset) == Py_True; };
  Facts& facts = reinterpret_cast<SignatureBase*>(signature)->facts;
  PyObject* types = slot(signature, at.types);
  facts.single = !PyTuple_Check(types);
  facts.results = facts.single ? 1 : PyTuple_GET_SIZE(types);
  facts.operands = PyTuple_GET_SIZE(slot(signature, at.avals));
  facts.holds = is_true(at.holds);
  facts.is_brief = is_true(at.is_brief);
  facts.spreads = is_true(at.spreads);
  facts.literals_are_inputs = is_true(at.literals_are_inputs);
  facts.out_bytes = PyLong_AsLongLong(slot(signature, at.out_bytes));
  facts.known = true;
}

PyObject* current_mode() {
  const std::uint64_t epoch = thread_state::epoch();
  if (local_mode.epoch == epoch) return local_mode.value;
  PyObject* mode = PyObject_CallNoArgs(python.mode);  // Python keeps all of them
  if (mode == nullptr) return nullptr;
  Py_DECREF(mode);
  local_mode = {mode, epoch};
  return mode;
}

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != 7 ||
      !PyDict_Check(args[1]) || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) != 9 ||
      !PyTuple_Check(args[3]) || PyTuple_GET_SIZE(args[3]) != 7) {
    PyErr_SetString(PyExc_TypeError, "expected 7 classes, a dict, 9 functions and 7 numbers");
    return nullptr;
  }
  auto& p = python;
  const Slot found[] = {
      {1, "aval", &p.literal_aval},
      {1, "val", &p.literal_val},
      {3, "code", &p.of_source.code},
      {3, "offset", &p.of_source.offset},
      {4, "types", &p.of_signature.types},
      {4, "setting", &p.of_signature.setting},
      {4, "holds", &p.of_signature.holds},
      {4, "is_brief", &p.of_signature.is_brief},
      {4, "simplifies", &p.of_signature.simplifies},
      {4, "literals_are_inputs", &p.of_signature.literals_are_inputs},
      {4, "avals", &p.of_signature.avals},
      {4, "out_bytes", &p.of_signature.out_bytes},
      {4, "operand_bytes", &p.of_signature.operand_bytes},
      {4, "spreads", &p.of_signature.spreads},
      {4, "alone", &p.of_signature.alone},
      {6, "on_host", &p.setting_on_host},
  };
  for (const Slot& s : found) {
    if (!pytree::find_slot(PyTuple_GET_ITEM(args[0], s.owner), s.name, *s.offset)) return nullptr;
  }
  if (!thread_state::set_trace_class(PyTuple_GET_ITEM(args[0], 5))) return nullptr;
  if (!signature::set_array_class(PyTuple_GET_ITEM(args[0], 0))) return nullptr;
  long long* bounds[] = {&p.most_nodes,    &p.patience,  &p.small_bytes, &p.most_growth,
                         &p.most_repeated, &p.few_bytes, &p.most_bytes};
  for (Py_ssize_t i = 0; i < 7; ++i) {
    *bounds[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[3], i));
  }
  if (PyErr_Occurred()) return nullptr;
  p.literal = class_at(args[0], 1);
  p.borrowed = class_at(args[0], 2);
  p.source_line = class_at(args[0], 3);
  p.signatures = Py_NewRef(args[1]);
  PyObject** functions[] = {&p.mode,           &p.is_internal,  &p.user_line, &p.record, &p.compute,
                            &p.compute_single, &p.compute_each, &p.prepare,   &p.recover};
  for (Py_ssize_t i = 0; i < 9; ++i) *functions[i] = Py_NewRef(PyTuple_GET_ITEM(args[2], i));
  p.simplify_name = PyUnicode_InternFromString("simplify");
  p.array = class_at(args[0], 0);
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
