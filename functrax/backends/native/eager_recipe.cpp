// See eager_recipe.h. Start at call_function.

#include "eager_recipe.h"

#include <structmember.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "eager_state.h"
#include "eager_steps.h"
#include "eager_tape.h"
#include "numpy_arrays.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr Py_ssize_t kMostArguments = 16;
// So many kinds of arguments are known of a function; then all are forgotten.
constexpr Py_ssize_t kMostRecipes = 512;
constexpr const char* kCapsule = "functrax recipe";
constexpr const char* kTapedCapsule = "functrax taped recipe";

// What a function records. Values are the arguments that are arrays, then the constants, then the
// results of the steps, in order.
struct Recipe {
  Steps steps;
  std::vector<std::size_t> outputs;
  Ref avals;  // of the outputs, a tuple
  bool single;
};

struct Function {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *prepare, *prepare_taped, *as_value, *static_class;
  PyObject* known;  // a dict: by what a call is, its recipe, None for none, False at first
};

Function* as_function(PyObject* self) { return reinterpret_cast<Function*>(self); }

// ---- what a call is -----------------------------------------------------------------------------

bool is_plain(PyObject* x) {
  if (PyFloat_CheckExact(x)) {  // no NaN equals another; and -0.0 equals 0.0, so it is left out
    const double value = PyFloat_AS_DOUBLE(x);
    return value < 0 || value > 0 || (value == 0 && !std::signbit(value));
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
    PyObject* given = primal_of(args[i]);
    const bool is_array = Py_IS_TYPE(given, python.array);
    PyObject* value = is_array ? signature::aval_of(given) : given;
    if (value == nullptr || (!is_array && !is_static(value, self->static_class))) return Ref();
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(given));
    PyTuple_SET_ITEM(key.get(), 2 + 2 * i, Py_NewRef(type));
    PyTuple_SET_ITEM(key.get(), 3 + 2 * i, Py_NewRef(value));
  }
  return key;
}

// ---- recipes ------------------------------------------------------------------------------------

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
  if (!read_steps(constants, steps, recipe->steps)) return nullptr;
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

// Records what a recipe says; kLeft where the function has to be called after all.
Outcome follow(const Recipe& recipe, PyObject* mode, PyObject* const* args, Py_ssize_t count,
               Ref& result) {
  PyObject* strict = PyTuple_GET_ITEM(mode, 0);
  Results values;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!Py_IS_TYPE(args[i], python.array)) continue;
    PyObject* raw = operand_of(args[i], strict);
    if (raw == nullptr) return Outcome::kLeft;
    values.push_back(Ref::share(raw));
  }
  Line line;
  if (!user_line(line) || !run_steps(recipe.steps, line, true, values)) return Outcome::kError;
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

// A recipe, which is made once: at once, or the second time that it is asked for, for the first
// call of its kind may be the only one. Null where there is none, or with an error set. `write`
// gives what to read or None, `wrap` a capsule of what it wrote.
template <typename Write, typename Wrap>
Ref remembered(Function* self, PyObject* key, bool at_once, const Write& write, const Wrap& wrap) {
  PyObject* found = PyDict_GetItemWithError(self->known, key);
  if (found == nullptr) {
    if (PyErr_Occurred()) return Ref();
    if (PyDict_GET_SIZE(self->known) >= kMostRecipes) PyDict_Clear(self->known);
    if (PyDict_SetItem(self->known, key, Py_False) != 0 || !at_once) return Ref();
    found = Py_False;
  }
  if (found == Py_None) return Ref();
  if (found != Py_False) return Ref::share(found);
  Ref written(write());
  if (!written) return Ref();
  found = PyDict_GetItemWithError(self->known, key);
  if (found != nullptr && found != Py_False) {  // another thread was faster
    return found == Py_None ? Ref() : Ref::share(found);
  }
  if (PyErr_Occurred()) return Ref();
  if (written.get() == Py_None) {
    PyDict_SetItem(self->known, key, Py_None);
    return Ref();
  }
  Ref capsule = wrap(written.get());
  if (!capsule || PyDict_SetItem(self->known, key, capsule.get()) != 0) return Ref();
  return capsule;
}

// Records a call without a tangent among its arguments.
Outcome call_plain(Function* self, PyObject* mode, PyObject* key, PyObject* const* args,
                   Py_ssize_t count, PyObject* names, Ref& result) {
  const auto write = [&] {
    return PyObject_Vectorcall(self->prepare, args, static_cast<std::size_t>(count), names);
  };
  const auto wrap = [](PyObject* written) {
    std::unique_ptr<Recipe> recipe = read_recipe(written);
    Ref capsule(recipe ? PyCapsule_New(recipe.get(), kCapsule, drop_recipe) : nullptr);
    if (capsule) recipe.release();
    return capsule;
  };
  // Other threads may forget it, or replace it by an equal one, while it is followed.
  const Ref capsule = remembered(self, key, false, write, wrap);
  if (!capsule) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  const void* recipe = PyCapsule_GetPointer(capsule.get(), kCapsule);
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  return follow(*static_cast<const Recipe*>(recipe), mode, args, all, result);
}

void drop_fragment(PyObject* capsule) {
  delete static_cast<FragmentPointer*>(PyCapsule_GetPointer(capsule, kTapedCapsule));
}

// Records a call that a derivative goes through, on the tape.
Outcome call_taped(Function* self, PyObject* mode, PyObject* key, const std::vector<Given>& given,
                   PyObject* const* args, Py_ssize_t count, PyObject* names, Ref& result) {
  Ref tangents(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  if (!tangents) return Outcome::kError;
  for (std::size_t i = 0; i < given.size(); ++i) {
    PyObject* tangent = given[i].tangent == nullptr ? Py_None : given[i].tangent;
    PyTuple_SET_ITEM(tangents.get(), static_cast<Py_ssize_t>(i), Py_NewRef(tangent));
  }
  Ref both(PyTuple_Pack(2, key, tangents.get()));
  if (!both) return Outcome::kError;
  const auto write = [&] {
    const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
    std::vector<PyObject*> more = {tangents.get()};
    more.insert(more.end(), args, args + all);
    return PyObject_Vectorcall(self->prepare_taped, more.data(),
                               static_cast<std::size_t>(count + 1), names);
  };
  const auto wrap = [](PyObject* written) {
    auto fragment = std::make_unique<FragmentPointer>(read_fragment(written));
    if (!*fragment) return Ref();
    Ref capsule(PyCapsule_New(fragment.get(), kTapedCapsule, drop_fragment));
    if (capsule) fragment.release();
    return capsule;
  };
  // At once, for it keeps less for the way back than the operations by themselves would.
  const Ref capsule = remembered(self, both.get(), true, write, wrap);
  if (!capsule) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  const FragmentPointer fragment =
      *static_cast<FragmentPointer*>(PyCapsule_GetPointer(capsule.get(), kTapedCapsule));
  return follow_fragment(fragment, given, mode, result);
}

// The arguments, with arrays in the place of NumPy's, which are taken as they are now. The new ones
// are kept in `made`. False with an error set.
bool read_arguments(Function* self, PyObject* const*& args, Py_ssize_t count,
                    std::vector<PyObject*>& room, std::vector<Ref>& made) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!numpy_arrays::is_array(args[i]) || numpy_arrays::form_of(args[i]).rank == 0) continue;
    if (room.empty()) room.assign(args, args + count);
    made.emplace_back(PyObject_CallOneArg(self->as_value, args[i]));
    if (!made.back()) return false;
    room[static_cast<std::size_t>(i)] = made.back().get();
  }
  if (!room.empty()) args = room.data();
  return true;
}

Outcome record_call(Function* self, PyObject* const* args, Py_ssize_t count, PyObject* names,
                    Ref& result) {
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  if (python.array == nullptr || all > kMostArguments) return Outcome::kLeft;
  if (!thread_state::passes_concrete()) return Outcome::kLeft;
  PyObject* mode = current_mode();
  if (mode == nullptr) return Outcome::kError;
  if (mode == Py_None) return Outcome::kLeft;
  std::vector<PyObject*> room;
  std::vector<Ref> made;
  if (!read_arguments(self, args, all, room, made)) {
    PyErr_Clear();  // the function says what is wrong
    return Outcome::kLeft;
  }
  std::vector<Given> given;
  bool traced = false;
  for (Py_ssize_t i = 0; i < all; ++i) {
    if (!Py_IS_TYPE(args[i], python.array) && !is_tracer(args[i])) continue;
    given.emplace_back();
    if (!read_given(args[i], thread_state::trace(), given.back())) return Outcome::kLeft;
    traced = traced || given.back().tangent != nullptr;
  }
  const Ref key = key_of(self, mode, args, all, names);
  if (!key) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (!traced) return call_plain(self, mode, key.get(), args, count, names, result);
  return call_taped(self, mode, key.get(), given, args, count, names, result);
}

PyObject* call_function(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  Ref result;
  switch (record_call(as_function(self), args, PyVectorcall_NARGS(flags), names, result)) {
    case Outcome::kDone:
      return result.release();
    case Outcome::kError:
      return nullptr;
    case Outcome::kLeft:
      break;
  }
  return PyObject_Vectorcall(as_function(self)->function, args, flags, names);
}

// ---- the type -----------------------------------------------------------------------------------

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *prepare, *prepare_taped, *as_value, *static_class;
  if (!PyArg_ParseTuple(args, "OOOOO!", &function, &prepare, &prepare_taped, &as_value,
                        &PyType_Type, &static_class) ||
      !numpy_arrays::load()) {
    return nullptr;
  }
  Ref known(PyDict_New());
  auto* self = as_function(type->tp_alloc(type, 0));
  if (self == nullptr || !known) return nullptr;
  self->function = Py_NewRef(function);
  self->prepare = Py_NewRef(prepare);
  self->prepare_taped = Py_NewRef(prepare_taped);
  self->as_value = Py_NewRef(as_value);
  self->static_class = Py_NewRef(static_class);
  self->known = known.release();
  self->call = call_function;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_function(self)->function);
  Py_VISIT(as_function(self)->prepare);
  Py_VISIT(as_function(self)->prepare_taped);
  Py_VISIT(as_function(self)->as_value);
  Py_VISIT(as_function(self)->static_class);
  Py_VISIT(as_function(self)->known);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_function(self)->function);
  Py_CLEAR(as_function(self)->prepare);
  Py_CLEAR(as_function(self)->prepare_taped);
  Py_CLEAR(as_function(self)->as_value);
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

// Its name, its documentation and the like are those of the function.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  for (const char* own :
       {"__wrapped__", "__class__", "__reduce__", "__reduce_ex__", "forget", "known"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) {
      return PyObject_GenericGetAttr(self, name);
    }
  }
  return PyObject_GetAttr(as_function(self)->function, name);
}

PyObject* bind_to(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

// A copy is the function itself, and it is pickled by its name.
PyObject* reduce(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(as_function(self)->function, "__qualname__");
}

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, "Its name."},
    {"forget", forget, METH_NOARGS, "Forget the recipes."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, call), READONLY, nullptr},
    {"known", T_OBJECT, offsetof(Function, known), READONLY, "The recipes, by kinds of calls."},
    {"__wrapped__", T_OBJECT, offsetof(Function, function), READONLY, "The function itself."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_to)},
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("A function that is recorded by its recipe.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerFunction", sizeof(Function), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

}  // namespace

PyObject* make_function_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::eager
