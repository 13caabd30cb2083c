// See eager_recipe.h. Start at call_function.

#include "eager_recipe.h"

#include <structmember.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "eager_state.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr Py_ssize_t kMostArguments = 16;
// So many kinds of arguments are known of a function; others it serves itself.
constexpr Py_ssize_t kMostRecipes = 256;
constexpr const char* kCapsule = "functrax recipe";

// An operand of a step: a literal, or the place of a value.
struct Operand {
  Ref literal;
  std::size_t place;
};

struct Step {
  Ref signature;
  std::vector<Operand> operands;
};

// What a function records. Values are the arguments that are arrays, then the constants, then the
// results of the steps, in order.
struct Recipe {
  std::vector<Ref> constants;
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;
  Ref avals;  // of the outputs, a tuple
  bool single;
};

struct Function {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *prepare, *static_class;
  PyObject* known;  // a dict: by what a call is, its recipe, None for none, False at first
};

Function* as_function(PyObject* self) { return reinterpret_cast<Function*>(self); }

// ---- what a call is -----------------------------------------------------------------------------

bool is_plain(PyObject* x) {
  if (PyFloat_CheckExact(x)) {
    const double value = PyFloat_AS_DOUBLE(x);
    return value < 0 || value > 0;  // zeros of either sign are equal, and no NaN is
  }
  return x == Py_None || PyLong_CheckExact(x) || PyBool_Check(x) || PyUnicode_CheckExact(x) ||
         PyType_Check(x);
}

bool is_static(PyObject* x, PyObject* static_class) {
  if (is_plain(x) || PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(static_class))) {
    return true;
  }
  if (!PyTuple_CheckExact(x)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) {
    if (!PyLong_CheckExact(PyTuple_GET_ITEM(x, i))) return false;
  }
  return true;
}

// The types of arrays and the values of what else is given; null where the function has to be
// called, or with an error set.
Ref key_of(const Function* self, PyObject* mode, PyObject* const* args, Py_ssize_t count,
           PyObject* names) {
  Ref key(PyTuple_New(2 + 2 * count));
  if (!key) return Ref();
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(mode));
  PyTuple_SET_ITEM(key.get(), 1, Py_NewRef(names == nullptr ? Py_None : names));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const bool is_array = Py_IS_TYPE(args[i], python.array);
    PyObject* value = is_array ? signature::aval_of(args[i]) : args[i];
    if (value == nullptr || (!is_array && !is_static(value, self->static_class))) return Ref();
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(args[i]));
    PyTuple_SET_ITEM(key.get(), 2 + 2 * i, Py_NewRef(type));
    PyTuple_SET_ITEM(key.get(), 3 + 2 * i, Py_NewRef(value));
  }
  return key;
}

// ---- recipes ------------------------------------------------------------------------------------

bool read_step(PyObject* given, Step& step) {
  PyObject *signature, *operands;
  if (!PyArg_ParseTuple(given, "OO!", &signature, &PyTuple_Type, &operands)) return false;
  step.signature = Ref::share(signature);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    PyObject* x = PyTuple_GET_ITEM(operands, i);
    Operand operand = {Ref(), 0};
    if (Py_IS_TYPE(x, python.literal)) {
      operand.literal = Ref::share(x);
    } else {
      operand.place = PyLong_AsSize_t(x);
      if (PyErr_Occurred()) return false;
    }
    step.operands.push_back(std::move(operand));
  }
  return true;
}

// A recipe as recipes.py writes it: (constants, steps, places of the outputs, their types, whether
// there is a single one).
std::unique_ptr<Recipe> read_recipe(PyObject* given) {
  PyObject *constants, *steps, *outputs, *avals;
  int single;
  if (!PyArg_ParseTuple(given, "O!O!O!O!p", &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &avals, &single)) {
    return nullptr;
  }
  auto recipe = std::make_unique<Recipe>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    recipe->constants.push_back(Ref::share(PyTuple_GET_ITEM(constants, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
    Step step;
    if (!read_step(PyTuple_GET_ITEM(steps, i), step)) return nullptr;
    recipe->steps.push_back(std::move(step));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
    recipe->outputs.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(outputs, i)));
  }
  recipe->avals = Ref::share(avals);
  recipe->single = single != 0;
  if (PyErr_Occurred()) return nullptr;
  return recipe;
}

void drop_recipe(PyObject* capsule) {
  delete static_cast<Recipe*>(PyCapsule_GetPointer(capsule, kCapsule));
}

Outcome run_steps(const Recipe& recipe, Results& values) {
  const Ref line = user_line();
  if (!line) return Outcome::kError;
  for (const Step& step : recipe.steps) {
    const auto count = static_cast<Py_ssize_t>(step.operands.size());
    Ref operands(PyTuple_New(count));
    if (!operands) return Outcome::kError;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const Operand& operand = step.operands[static_cast<std::size_t>(i)];
      PyObject* x = operand.literal ? operand.literal.get() : values[operand.place].get();
      PyTuple_SET_ITEM(operands.get(), i, Py_NewRef(x));
    }
    const Outcome outcome = new_node(step.signature.get(), std::move(operands), line.get(), values);
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

// Records what a recipe says; kLeft where the function has to be called after all.
Outcome follow(const Recipe& recipe, PyObject* mode, PyObject* const* args, Py_ssize_t count,
               Ref& result) {
  PyObject* strict = PyTuple_GET_ITEM(mode, 0);
  Results values;
  values.reserve(static_cast<std::size_t>(count) + recipe.constants.size() + recipe.steps.size());
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!Py_IS_TYPE(args[i], python.array)) continue;
    PyObject* raw = operand_of(args[i], strict);
    if (raw == nullptr) return Outcome::kLeft;
    values.push_back(Ref::share(raw));
  }
  for (const Ref& constant : recipe.constants) values.push_back(Ref::share(constant.get()));
  const Outcome outcome = run_steps(recipe, values);
  if (outcome != Outcome::kDone) return outcome;
  const auto outputs = static_cast<Py_ssize_t>(recipe.outputs.size());
  Ref all(PyTuple_New(outputs));
  for (Py_ssize_t i = 0; all && i < outputs; ++i) {
    PyObject* raw = values[recipe.outputs[static_cast<std::size_t>(i)]].get();
    PyObject* array = signature::new_array(Py_NewRef(raw), PyTuple_GET_ITEM(recipe.avals.get(), i));
    if (array == nullptr) return Outcome::kError;
    PyTuple_SET_ITEM(all.get(), i, array);
  }
  if (!all) return Outcome::kError;
  result = recipe.single ? Ref::share(PyTuple_GET_ITEM(all.get(), 0)) : std::move(all);
  return Outcome::kDone;
}

// The capsule of a call's recipe; null where there is none, or with an error set.
Ref recipe_of(Function* self, PyObject* key, PyObject* const* args, Py_ssize_t count,
              PyObject* names) {
  PyObject* found = PyDict_GetItemWithError(self->known, key);
  if (found == nullptr) {  // the first call of its kind may be the only one
    if (PyErr_Occurred() || PyDict_GET_SIZE(self->known) >= kMostRecipes) return Ref();
    PyDict_SetItem(self->known, key, Py_False);
    return Ref();
  }
  if (found == Py_None) return Ref();
  if (found != Py_False) return Ref::share(found);
  Ref written(PyObject_Vectorcall(self->prepare, args, static_cast<std::size_t>(count), names));
  if (!written) return Ref();
  found = PyDict_GetItemWithError(self->known, key);
  if (found != Py_False) {  // another thread was faster
    return found == Py_None ? Ref() : Ref::share(found);
  }
  if (written.get() == Py_None) {
    PyDict_SetItem(self->known, key, Py_None);
    return Ref();
  }
  std::unique_ptr<Recipe> recipe = read_recipe(written.get());
  if (!recipe) return Ref();
  Ref capsule(PyCapsule_New(recipe.get(), kCapsule, drop_recipe));
  if (!capsule) return Ref();
  recipe.release();
  return PyDict_SetItem(self->known, key, capsule.get()) == 0 ? std::move(capsule) : Ref();
}

PyObject* call_function(PyObject* self_, PyObject* const* args, std::size_t flags,
                        PyObject* names) {
  Function* self = as_function(self_);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  if (python.array != nullptr && all <= kMostArguments && thread_state::passes_concrete()) {
    PyObject* mode = current_mode();
    if (mode == nullptr) return nullptr;
    const Ref key = mode == Py_None ? Ref() : key_of(self, mode, args, all, names);
    // Other threads may forget it, or replace it by an equal one, while it is followed.
    const Ref capsule = key ? recipe_of(self, key.get(), args, count, names) : Ref();
    Ref result;
    Outcome outcome = Outcome::kLeft;
    if (capsule) {
      const void* recipe = PyCapsule_GetPointer(capsule.get(), kCapsule);
      outcome = follow(*static_cast<const Recipe*>(recipe), mode, args, all, result);
    }
    if (outcome == Outcome::kDone) return result.release();
    if (outcome == Outcome::kError || PyErr_Occurred()) return nullptr;
  }
  return PyObject_Vectorcall(self->function, args, flags, names);
}

// ---- the type -----------------------------------------------------------------------------------

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *prepare, *static_class;
  if (!PyArg_ParseTuple(args, "OOO!", &function, &prepare, &PyType_Type, &static_class)) {
    return nullptr;
  }
  Ref known(PyDict_New());
  auto* self = as_function(type->tp_alloc(type, 0));
  if (self == nullptr || !known) return nullptr;
  self->function = Py_NewRef(function);
  self->prepare = Py_NewRef(prepare);
  self->static_class = Py_NewRef(static_class);
  self->known = known.release();
  self->call = call_function;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_function(self)->function);
  Py_VISIT(as_function(self)->prepare);
  Py_VISIT(as_function(self)->static_class);
  Py_VISIT(as_function(self)->known);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_function(self)->function);
  Py_CLEAR(as_function(self)->prepare);
  Py_CLEAR(as_function(self)->static_class);
  Py_CLEAR(as_function(self)->known);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* forget(PyObject* self, PyObject*) {
  PyObject* empty = PyDict_New();
  if (empty == nullptr) return nullptr;
  Py_SETREF(as_function(self)->known, empty);
  Py_RETURN_NONE;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(as_function(self)->function, name);
}

PyMethodDef methods[] = {
    {"forget", forget, METH_NOARGS, "Forget the recipes."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, call), READONLY, nullptr},
    {"known", T_OBJECT, offsetof(Function, known), READONLY, "The recipes, by kinds of calls."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("A function that is recorded by its recipe.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerFunction", sizeof(Function), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

PyObject* make_function_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::eager
