// See eager_recipe.h. Start at call_function.

#include "eager_recipe.h"

#include <structmember.h>

#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eager_call.h"
#include "eager_fragment.h"
#include "eager_node.h"
#include "eager_state.h"
#include "eager_steps.h"
#include "eager_tape.h"
#include "eager_value.h"
#include "function_type.h"
#include "numpy_arrays.h"
#include "open_table.h"
#include "reference.h"
#include "thread_state.h"
#include "words.h"

namespace functrax::eager {
namespace {

// So many kinds of arguments are known of a function; then all are forgotten.
constexpr std::size_t kMostRecipes = 512;
// From so many kinds on the first call of a kind does not make its recipe.
constexpr std::size_t kManyKinds = 64;

// What a function records. Values are the arguments that are arrays, then the constants, then the
// results of the steps, in order.
struct Recipe {
  Steps steps;
  std::vector<std::size_t> outputs;
  Ref avals;      // of the outputs, a tuple
  Ref container;  // the class of what holds the outputs, or None for a single array
};

// What is known of calls of a kind: at first only that there was one, then the recipe or the
// fragment, if there is any.
struct Kind {
  std::vector<Ref> kept;  // whose addresses are in the words
  bool prepared = false;
  std::unique_ptr<const Recipe> recipe;
  FragmentPointer fragment;
  std::size_t references = 0;
};

using KindPointer = Shared<Kind>;
using Kinds = OpenTable<Words, KindPointer, WordsHash>;

struct Function {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *prepare, *prepare_taped, *as_value, *static_class;
  bool at_once;     // whether the first call of a kind makes its recipe
  bool overflowed;  // whether there were more kinds than are known
  Kinds* known;
};

Function* as_function(PyObject* self) { return reinterpret_cast<Function*>(self); }

// All that there are, for `forget_recipes`. Never freed: Python ends before.
auto& functions = *new std::unordered_set<Function*>;

void forget_kinds(Function* self) {
  Kinds dropped;
  std::swap(dropped, *self->known);  // for what ends now may run Python
}

// ---- recipes ------------------------------------------------------------------------------------

// A recipe as cached_traces.py writes it: (constants, steps, places of the outputs, their types,
// the class of what holds them or None).
std::unique_ptr<const Recipe> read_recipe(PyObject* given) {
  PyObject *constants, *steps, *outputs, *avals, *container;
  if (!PyArg_ParseTuple(given, "O!O!O!O!O", &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &avals, &container)) {
    return nullptr;
  }
  auto recipe = std::make_unique<Recipe>();
  if (!read_steps(constants, steps, recipe->steps)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
    recipe->outputs.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(outputs, i)));
  }
  recipe->avals = Ref::share(avals);
  recipe->container = Ref::share(container);
  if (PyErr_Occurred()) return nullptr;
  return recipe;
}

// The results of a call from those of its steps; null with an error set.
Ref contained(const Recipe& recipe, Results& values) {
  PyObject *container = recipe.container.get(), *avals = recipe.avals.get();
  if (container == Py_None) {
    return array_of(values.take(recipe.outputs.front()), PyTuple_GET_ITEM(avals, 0));
  }
  auto* type = reinterpret_cast<PyTypeObject*>(container);
  if (const Wrapper* wrapper = wrapper_of(type)) {
    Ref array = array_of(values.take(recipe.outputs.front()), PyTuple_GET_ITEM(avals, 0));
    Ref made(array ? type->tp_alloc(type, 0) : nullptr);
    if (made) slot(made.get(), wrapper->words) = array.release();
    return made;
  }
  const auto count = static_cast<Py_ssize_t>(recipe.outputs.size());
  const bool is_list = type == &PyList_Type;
  Ref all(is_list ? PyList_New(count) : PyTuple_New(count));
  for (Py_ssize_t i = 0; all && i < count; ++i) {
    const Operand& raw = values[recipe.outputs[static_cast<std::size_t>(i)]];
    Ref array = array_of(raw, PyTuple_GET_ITEM(avals, i));
    if (!array) return Ref();
    if (is_list) {
      PyList_SET_ITEM(all.get(), i, array.release());
    } else {
      PyTuple_SET_ITEM(all.get(), i, array.release());
    }
  }
  if (!all || is_list || type == &PyTuple_Type) return all;
  return Ref(PyObject_CallObject(container, all.get()));  // a named tuple
}

// Records what a recipe says; kLeft where the function has to be called after all.
Outcome follow(const Recipe& recipe, PyObject* mode, const Givens& given, Ref& result) {
  PyObject* setting = PyTuple_GET_ITEM(mode, 0);
  Results values;
  for (const Given& x : given) {
    const Operand raw = operand_of(x.array, setting);
    if (!raw) return Outcome::kLeft;
    values.push_back(Held(raw));
  }
  Line line;
  if (!user_line(line) || !run_steps(recipe.steps, line, true, values)) return Outcome::kError;
  result = contained(recipe, values);
  return result ? Outcome::kDone : Outcome::kError;
}

// Whether the next call may be the only one of its kind, for there are so many.
bool has_many_kinds(const Function* self) {
  return self->overflowed || self->known->size() >= kManyKinds;
}

// What is known of calls of a kind. Recipes are made once: at once, or the second time that one is
// asked for, for the first call of its kind may be the only one. `write` gives what to read or
// None, `read` puts it in its place. Null where there is no recipe, or with an error set.
template <typename Write, typename Read>
KindPointer prepared(Function* self, const Call& call, bool at_once, const Write& write,
                     const Read& read) {
  const KindPointer* found = self->known->find(call.view());
  if (found != nullptr && (*found)->prepared) return *found;
  if (found == nullptr) {
    if (self->known->size() >= kMostRecipes) {
      forget_kinds(self);
      self->overflowed = true;
    }
    KindPointer kind(new Kind);
    for (PyObject* x : call.kept) kind->kept.push_back(Ref::share(x));
    self->known->add(Words(call.words.begin(), call.words.end()), std::move(kind));
    if (!at_once) return {};
  }
  Ref written(write());
  if (!written) return {};
  found = self->known->find(call.view());  // others may have forgotten it meanwhile
  if (found == nullptr) return {};
  KindPointer kind = *found;
  if (kind->prepared) return kind;  // another thread was faster
  if (written.get() != Py_None && !read(written.get(), *kind)) return {};
  kind->prepared = true;
  return kind;
}

// Records a call without a tangent among its arguments.
Outcome call_plain(Function* self, PyObject* mode, const Call& call, PyObject* const* args,
                   Py_ssize_t count, PyObject* names, Ref& result) {
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  const auto write = [&]() -> PyObject* {
    Ref written(PyObject_Vectorcall(self->prepare, args, static_cast<std::size_t>(count), names));
    // Another thread may have changed a list meanwhile: then it is the recipe of another call.
    Call again;
    const bool same = written && again.read(mode, args, all, names, self->static_class) &&
                      Words(call.words.begin(), call.words.end()) == again.view();
    return same || !written ? written.release() : Py_NewRef(Py_None);
  };
  const auto read = [](PyObject* written, Kind& kind) {
    kind.recipe = read_recipe(written);
    return kind.recipe != nullptr;
  };
  const bool at_once = self->at_once && !has_many_kinds(self);
  const KindPointer kind = prepared(self, call, at_once, write, read);
  if (!kind) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (kind->recipe == nullptr) return Outcome::kLeft;
  return follow(*kind->recipe, mode, call.given, result);
}

// Records a call that a derivative goes through, on the tape.
Outcome call_taped(Function* self, PyObject* mode, Call& call, PyObject* const* args,
                   Py_ssize_t count, PyObject* names, Ref& result) {
  const Givens& given = call.given;
  call.add_tangents();
  const auto write = [&]() -> PyObject* {
    Ref tangents(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
    if (!tangents) return nullptr;
    for (std::size_t i = 0; i < given.size(); ++i) {
      PyObject* tangent = given[i].tangent == nullptr ? Py_None : given[i].tangent;
      PyTuple_SET_ITEM(tangents.get(), static_cast<Py_ssize_t>(i), Py_NewRef(tangent));
    }
    const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
    std::vector<PyObject*> more = {tangents.get()};
    more.insert(more.end(), args, args + all);
    return PyObject_Vectorcall(self->prepare_taped, more.data(),
                               static_cast<std::size_t>(count + 1), names);
  };
  const auto read = [](PyObject* written, Kind& kind) {
    kind.fragment = read_fragment(written);
    return static_cast<bool>(kind.fragment);
  };
  // At once, for it keeps less for the way back than the operations by themselves would; but not
  // where each call is of a kind of its own, such as `roll` by another number each time.
  const KindPointer kind = prepared(self, call, !has_many_kinds(self), write, read);
  if (!kind) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (!kind->fragment) return Outcome::kLeft;
  return follow_fragment(kind->fragment, given, mode, result);
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
  if (python.array == nullptr) return Outcome::kLeft;
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
  Call call;
  if (!call.read(mode, args, all, names, self->static_class)) return Outcome::kLeft;
  if (!call.traced) return call_plain(self, mode, call, args, count, names, result);
  if (call.holds) return Outcome::kLeft;  // fragments are of arrays
  return call_taped(self, mode, call, args, count, names, result);
}

PyObject* call_function(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  Function* function = as_function(self);
  Ref result;
  const Outcome outcome = record_call(function, args, PyVectorcall_NARGS(flags), names, result);
  return result_or(outcome, result,
                   [&] { return PyObject_Vectorcall(function->function, args, flags, names); });
}

// ---- the type -----------------------------------------------------------------------------------

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *prepare, *prepare_taped, *as_value, *static_class;
  int at_once;
  if (!PyArg_ParseTuple(args, "OOOOO!p", &function, &prepare, &prepare_taped, &as_value,
                        &PyType_Type, &static_class, &at_once) ||
      !numpy_arrays::load()) {
    return nullptr;
  }
  auto* self = as_function(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->function = Py_NewRef(function);
  self->prepare = Py_NewRef(prepare);
  self->prepare_taped = Py_NewRef(prepare_taped);
  self->as_value = Py_NewRef(as_value);
  self->static_class = Py_NewRef(static_class);
  self->at_once = at_once != 0;
  self->known = new Kinds;
  functions.insert(self);
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
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_function(self)->function);
  Py_CLEAR(as_function(self)->prepare);
  Py_CLEAR(as_function(self)->prepare_taped);
  Py_CLEAR(as_function(self)->as_value);
  Py_CLEAR(as_function(self)->static_class);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  functions.erase(as_function(self));
  clear(self);
  forget_kinds(as_function(self));
  delete as_function(self)->known;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* forget(PyObject* self, PyObject*) {
  forget_kinds(as_function(self));
  Py_RETURN_NONE;
}

// Its name, its documentation and the like are those of the function.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  for (const char* own : {"__wrapped__", "__class__", "__reduce__", "__reduce_ex__", "forget"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) {
      return PyObject_GenericGetAttr(self, name);
    }
  }
  return PyObject_GetAttr(as_function(self)->function, name);
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

PyObject* forget_recipes(PyObject*, PyObject*) {
  std::vector<Ref> all;
  for (Function* function : functions)
    all.push_back(Ref::share(reinterpret_cast<PyObject*>(function)));
  for (const Ref& function : all) forget_kinds(as_function(function.get()));
  Py_RETURN_NONE;
}

PyObject* make_function_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::eager
