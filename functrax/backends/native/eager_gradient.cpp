// See eager_gradient.h. Start at gradient.

#include "eager_gradient.h"

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eager_fragment.h"
#include "eager_state.h"
#include "eager_tape.h"
#include "growing_array.h"
#include "pytree.h"
#include "reference.h"
#include "signature.h"
#include "small_array.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostTypes = 1 << 14;

// Functions of Python's: what they take and return, derivatives.py says.
struct {
  PyObject *facts_of = nullptr, *name_of, *as_value, *check_pair, *flat_results, *check_scalar,
           *cotangents, *concrete;
} python_functions;

struct Wanted {
  PyObject *function, *positions;
  bool has_aux, holomorphic, allow_int;
};

// What follows from a type.
struct TypeFacts {
  enum Kind : long { kDiscrete, kReal, kComplex } kind;
  bool is_scalar, is_weak;
  Ref one;  // the literal, of a scalar that is not discrete
  Ref aval;
};

// The facts of a type, valid until Python runs; null with an error set.
const TypeFacts* facts_of_type(PyObject* aval) {
  static auto& known =
      *new std::unordered_map<PyObject*, TypeFacts>;  // never freed: Python ends before
  if (const auto found = known.find(aval); found != known.end()) return &found->second;
  Ref told(PyObject_CallOneArg(python_functions.facts_of, aval));
  long kind;
  int is_scalar, is_weak;
  PyObject* one;
  if (!told || !PyArg_ParseTuple(told.get(), "lppO", &kind, &is_scalar, &is_weak, &one)) {
    return nullptr;
  }
  if (known.size() >= kMostTypes) {
    std::unordered_map<PyObject*, TypeFacts> dropped;
    dropped.swap(known);  // for what ends now may run Python
  }
  TypeFacts facts = {static_cast<TypeFacts::Kind>(kind), is_scalar != 0, is_weak != 0,
                     Ref::share(one), Ref::share(aval)};
  return &known.try_emplace(aval, std::move(facts)).first->second;
}

// Leaves what raised an exception to Python, which raises it again.
Outcome left() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return Outcome::kError;
  PyErr_Clear();
  return Outcome::kLeft;
}

// ---- arguments ----------------------------------------------------------------------------------

// The chosen arguments: where they are among the positional ones, their structure and leaves.
struct Chosen {
  GrowingArray<Py_ssize_t, 8> positions;
  Ref tree, leaves;                    // a list of arrays
  GrowingArray<bool, 64> has_tangent;  // of each leaf
};

Outcome read_positions(const Wanted& wanted, PyObject* args, Chosen& chosen) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted.positions); ++i) {
    Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(wanted.positions, i));
    if (position == -1 && PyErr_Occurred()) return left();
    if (position < 0) position += count;
    if (position < 0 || position >= count) return Outcome::kLeft;
    chosen.positions.push_back(position);
  }
  return Outcome::kDone;
}

// Has arrays in the place of the leaves, and says which of them have tangents.
Outcome read_leaves(const Wanted& wanted, Chosen& chosen) {
  std::size_t with_tangent = 0;
  bool single = false;  // a number, whose derivative Python computes forwards
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(chosen.leaves.get()); ++i) {
    PyObject* leaf = PyList_GET_ITEM(chosen.leaves.get(), i);
    if (!Py_IS_TYPE(leaf, python.array)) {
      leaf = PyObject_CallOneArg(python_functions.as_value, leaf);
      if (leaf == nullptr) return left();
      if (PyList_SetItem(chosen.leaves.get(), i, leaf) != 0) return Outcome::kError;
      if (!Py_IS_TYPE(leaf, python.array)) return Outcome::kLeft;
    }
    const TypeFacts* facts = facts_of_type(signature::aval_of(leaf));
    if (facts == nullptr) return left();
    if (wanted.holomorphic ? facts->kind != TypeFacts::kComplex
                           : facts->kind == TypeFacts::kDiscrete && !wanted.allow_int) {
      return Outcome::kLeft;
    }
    const bool has_tangent = facts->kind != TypeFacts::kDiscrete;
    chosen.has_tangent.push_back(has_tangent);
    if (!has_tangent) continue;
    ++with_tangent;
    single = facts->is_scalar;
  }
  return single && with_tangent == 1 ? Outcome::kLeft : Outcome::kDone;
}

Outcome read_arguments(const Wanted& wanted, PyObject* args, Chosen& chosen) {
  const Outcome outcome = read_positions(wanted, args, chosen);
  if (outcome != Outcome::kDone) return outcome;
  const auto count = static_cast<Py_ssize_t>(chosen.positions.size());
  Ref trees(PyTuple_New(count));
  for (Py_ssize_t i = 0; trees && i < count; ++i) {
    PyObject* x = PyTuple_GET_ITEM(args, chosen.positions[static_cast<std::size_t>(i)]);
    PyTuple_SET_ITEM(trees.get(), i, Py_NewRef(x));
  }
  PyObject* const given[] = {trees.get(), Py_None};
  Ref flat(trees ? pytree::flatten(nullptr, given, 2) : nullptr);
  if (!flat) return left();
  chosen.leaves = Ref::share(PyTuple_GET_ITEM(flat.get(), 0));
  chosen.tree = Ref::share(PyTuple_GET_ITEM(flat.get(), 1));
  return read_leaves(wanted, chosen);
}

// ---- forwards -----------------------------------------------------------------------------------

// An interpreter with a tape, which ends with it.
class Taping {
 public:
  explicit Taping(Ref trace) : trace_(std::move(trace)) {}
  ~Taping() {
    if (!trace_) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    end_trace(trace_.get());
    forget(tape_of(trace_.get()));
    PyErr_Restore(type, value, traceback);
  }
  Taping(const Taping&) = delete;
  Taping& operator=(const Taping&) = delete;
  PyObject* trace() const { return trace_.get(); }

 private:
  Ref trace_;
};

// A tree with tracers in the place of the arrays that have tangents.
Ref with_tracers(const Chosen& chosen, PyObject* trace) {
  const auto count = static_cast<std::size_t>(PyList_GET_SIZE(chosen.leaves.get()));
  std::vector<Ref> leaves;
  leaves.reserve(count);
  SmallArray<PyObject*, 32> borrowed(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* x = PyList_GET_ITEM(chosen.leaves.get(), static_cast<Py_ssize_t>(i));
    leaves.push_back(chosen.has_tangent[i] ? new_input(trace, x) : Ref::share(x));
    if (!leaves.back()) return Ref();
    borrowed[i] = leaves.back().get();
  }
  return Ref(pytree::rebuild_tree(chosen.tree.get(), borrowed.data()));
}

Ref call_function(const Wanted& wanted, const Chosen& chosen, PyObject* trace, PyObject* args,
                  PyObject* kwargs) {
  Ref traced = with_tracers(chosen, trace);
  if (!traced) return Ref();
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args));
  SmallArray<PyObject*, 16> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
  }
  for (std::size_t i = 0; i < chosen.positions.size(); ++i) {
    all[static_cast<std::size_t>(chosen.positions[i])] =
        PyTuple_GET_ITEM(traced.get(), static_cast<Py_ssize_t>(i));
  }
  PyObject* named = PyDict_GET_SIZE(kwargs) == 0 ? nullptr : kwargs;
  return Ref(PyObject_VectorcallDict(wanted.function, all.data(), count, named));
}

// A tree with arrays in the place of the tracers of an interpreter.
Ref without_tracers(PyObject* tree, PyObject* trace) {
  PyObject* const given[] = {tree, Py_None};
  Ref flat(pytree::flatten(nullptr, given, 2));
  if (!flat) return Ref();
  PyObject* leaves = PyTuple_GET_ITEM(flat.get(), 0);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    PyObject* leaf = PyList_GET_ITEM(leaves, i);
    if (!is_tracer_of(leaf, trace)) continue;
    if (PyList_SetItem(leaves, i, Py_NewRef(primal_of(leaf))) != 0) return Ref();
  }
  return Ref(pytree::rebuild_tree(PyTuple_GET_ITEM(flat.get(), 1), PySequence_Fast_ITEMS(leaves)));
}

// What a function returned.
struct Returned {
  Ref value;    // an array, or a tracer
  Ref aux;      // without tracers; None if there is none
  Ref checked;  // unless the value is a scalar that depends on the arguments: what to check
};

Ref name_of(PyObject* function) {
  Ref name(PyObject_GetAttrString(function, "__name__"));
  if (name && PyUnicode_CheckExact(name.get())) return name;
  PyErr_Clear();
  return Ref(PyObject_CallOneArg(python_functions.name_of, function));
}

// Takes apart what a function returned; the interpreter is still the current one.
bool read_result(const Wanted& wanted, PyObject* name, PyObject* trace, Ref given, Returned& out) {
  out.aux = Ref::share(Py_None);
  if (wanted.has_aux) {
    Ref checked(
        PyObject_CallFunctionObjArgs(python_functions.check_pair, name, given.get(), nullptr));
    if (!checked) return false;
    Ref pair(PySequence_Tuple(given.get()));
    if (!pair) return false;
    out.aux = without_tracers(PyTuple_GET_ITEM(pair.get(), 1), trace);
    if (!out.aux) return false;
    given = Ref::share(PyTuple_GET_ITEM(pair.get(), 0));
  }
  if (is_tracer_of(given.get(), trace)) {
    const TypeFacts* facts = facts_of_type(aval_of_tracer(given.get()));
    if (facts == nullptr) return false;
    if (facts->is_scalar &&
        facts->kind == (wanted.holomorphic ? TypeFacts::kComplex : TypeFacts::kReal)) {
      out.value = std::move(given);
      return true;
    }
  }
  out.checked =
      Ref(PyObject_CallFunctionObjArgs(python_functions.flat_results, name, given.get(), nullptr));
  return static_cast<bool>(out.checked);
}

// Raises what is to be raised where a function did not return a scalar.
bool check_scalar(const Wanted& wanted, Returned& out) {
  if (!out.checked) return true;
  PyObject *values, *avals, *tree;
  if (!PyArg_ParseTuple(out.checked.get(), "O!OO", &PyList_Type, &values, &avals, &tree)) {
    return false;
  }
  Ref fine(PyObject_CallFunctionObjArgs(python_functions.check_scalar, wanted.function, avals, tree,
                                        wanted.holomorphic ? Py_True : Py_False, nullptr));
  if (!fine) return false;
  out.value = Ref::share(PyList_GET_ITEM(values, 0));
  return true;
}

// Calls the function, on the tape.
bool run(const Wanted& wanted, const Chosen& chosen, PyObject* name, PyObject* trace,
         PyObject* args, PyObject* kwargs, Returned& out) {
  {
    const thread_state::Interpreter as(trace);
    Ref result = call_function(wanted, chosen, trace, args, kwargs);
    if (!result || !read_result(wanted, name, trace, std::move(result), out)) return false;
  }
  end_trace(trace);
  return check_scalar(wanted, out);
}

// ---- backwards ----------------------------------------------------------------------------------

// The cotangents of all leaves as Python has them, None for those without a tangent.
Ref list_of(const Chosen& chosen, const Cotangents& cts) {
  const auto count = static_cast<Py_ssize_t>(chosen.has_tangent.size());
  Ref list(PyList_New(count));
  std::size_t number = 0;
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    const bool has = chosen.has_tangent[static_cast<std::size_t>(i)];
    PyObject* x = has ? value_of(cts[number++]) : Py_NewRef(Py_None);
    if (x == nullptr) return Ref();
    PyList_SET_ITEM(list.get(), i, x);
  }
  return list;
}

// Whether all cotangents are as the user is to see them: arrays, and weak where the leaves are.
bool are_final(const Chosen& chosen, const Cotangents& cts) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < chosen.has_tangent.size(); ++i) {
    if (!chosen.has_tangent[i]) return false;
    const Cotangent& ct = cts[number++];
    if (!ct.value || ct.is_literal()) return false;
    PyObject* leaf = PyList_GET_ITEM(chosen.leaves.get(), static_cast<Py_ssize_t>(i));
    if (signature::aval_of(leaf) == ct.aval.get()) continue;
    const TypeFacts* facts = facts_of_type(signature::aval_of(leaf));
    if (facts == nullptr) PyErr_Clear();  // Python finds out again
    if (facts == nullptr || facts->is_weak) return false;
  }
  return true;
}

// The gradients: a tuple of what was chosen, with cotangents in the place of its leaves.
Ref gradients_of(const Chosen& chosen, const Cotangents& cts) {
  Ref leaves = list_of(chosen, cts);
  if (leaves && !are_final(chosen, cts)) {
    Ref avals(PyList_New(0));
    for (std::size_t i = 0; avals && i < chosen.has_tangent.size(); ++i) {
      PyObject* leaf = PyList_GET_ITEM(chosen.leaves.get(), static_cast<Py_ssize_t>(i));
      if (PyList_Append(avals.get(), signature::aval_of(leaf)) != 0) return Ref();
    }
    if (!avals) return Ref();
    leaves = Ref(PyObject_CallFunctionObjArgs(python_functions.cotangents, leaves.get(),
                                              avals.get(), nullptr));
  }
  if (!leaves) return Ref();
  return Ref(pytree::rebuild_tree(chosen.tree.get(), PySequence_Fast_ITEMS(leaves.get())));
}

// The cotangents of the arguments, in the order of their numbers, where that of the value is 1.
bool read_back(const Chosen& chosen, PyObject* trace, PyObject* value, Cotangents& cts) {
  if (!is_tracer_of(value, trace)) {  // it depends on none of them
    cts.resize(chosen.has_tangent.size());
    return true;
  }
  const TypeFacts* facts = facts_of_type(aval_of_tracer(value));
  if (facts == nullptr) return false;
  const Ref one = Ref::share(facts->one.get());
  return read_backwards(tape_of(trace), tangent_number(value), one.get(), cts);
}

Outcome differentiate(const Wanted& wanted, PyObject* args, PyObject* kwargs, Ref& result) {
  Chosen chosen;
  const Outcome outcome = read_arguments(wanted, args, chosen);
  if (outcome != Outcome::kDone) return outcome;
  Ref name = name_of(wanted.function);
  if (!name) return Outcome::kError;
  const Taping taping(new_trace(name.get()));
  Returned returned;
  Cotangents cts;
  PyObject* trace = taping.trace();
  if (trace == nullptr || !run(wanted, chosen, name.get(), trace, args, kwargs, returned) ||
      !read_back(chosen, trace, returned.value.get(), cts)) {
    return Outcome::kError;
  }
  Ref gradients = gradients_of(chosen, cts);
  PyObject* value = returned.value.get();
  Ref primal = Ref::share(is_tracer_of(value, trace) ? primal_of(value) : value);
  if (!Py_IS_TYPE(primal.get(), python.array)) {
    primal = Ref(PyObject_CallOneArg(python_functions.concrete, primal.get()));
  }
  if (!gradients || !primal) return Outcome::kError;
  result = Ref(PyTuple_Pack(3, primal.get(), returned.aux.get(), gradients.get()));
  return result ? Outcome::kDone : Outcome::kError;
}

// Whether a mode has it that Python looks for leaks.
bool checks_leaks(PyObject* mode) { return PyTuple_GET_ITEM(mode, 3) == Py_True; }

// Whether functions are put on tapes now; kLeft where not.
Outcome applies() {
  if (python_functions.facts_of == nullptr || !thread_state::evaluates()) return Outcome::kLeft;
  PyObject* mode = current_mode();
  if (mode == nullptr) return Outcome::kError;
  return mode == Py_None || checks_leaks(mode) ? Outcome::kLeft : Outcome::kDone;
}

}  // namespace

PyObject* gradient(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != 5 ||
      !PyTuple_Check(PyTuple_GET_ITEM(args[0], 1)) || !PyTuple_Check(args[1]) ||
      !PyDict_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "expected what is wanted, arguments and named arguments");
    return nullptr;
  }
  const auto flag = [&](Py_ssize_t i) {
    return PyObject_IsTrue(PyTuple_GET_ITEM(args[0], i)) == 1;
  };
  const Wanted wanted = {PyTuple_GET_ITEM(args[0], 0), PyTuple_GET_ITEM(args[0], 1), flag(2),
                         flag(3), flag(4)};
  Outcome outcome = applies();
  Ref result;
  if (outcome == Outcome::kDone) outcome = differentiate(wanted, args[1], args[2], result);
  if (outcome == Outcome::kError) return nullptr;
  if (outcome == Outcome::kLeft) Py_RETURN_NOTIMPLEMENTED;
  return result.release();
}

PyObject* configure_gradient(PyObject*, PyObject* functions) {
  auto& p = python_functions;
  PyObject** places[] = {&p.name_of,      &p.as_value,   &p.check_pair, &p.flat_results,
                         &p.check_scalar, &p.cotangents, &p.concrete,   &p.facts_of};
  constexpr Py_ssize_t kCount = sizeof places / sizeof *places;
  if (!PyTuple_Check(functions) || PyTuple_GET_SIZE(functions) != kCount) {
    PyErr_Format(PyExc_TypeError, "expected %zd functions", kCount);
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < kCount; ++i) *places[i] = Py_NewRef(PyTuple_GET_ITEM(functions, i));
  Py_RETURN_NONE;
}

}  // namespace functrax::eager
