// See eager_recipe.h. Start at call_function.

#include "eager_recipe.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "eager_fragment.h"
#include "eager_node.h"
#include "eager_state.h"
#include "eager_steps.h"
#include "eager_tape.h"
#include "eager_value.h"
#include "function_type.h"
#include "growing_array.h"
#include "numpy_arrays.h"
#include "open_table.h"
#include "pytree.h"
#include "reference.h"
#include "signature.h"
#include "thread_state.h"
#include "words.h"

namespace functrax::eager {
namespace {

constexpr Py_ssize_t kMostArguments = 16;
// So many kinds of arguments are known of a function; then all are forgotten.
constexpr std::size_t kMostRecipes = 512;

// What a function records. Values are the arguments that are arrays, then the constants, then the
// results of the steps, in order.
struct Recipe {
  Steps steps;
  std::vector<std::size_t> outputs;
  Ref avals;  // of the outputs, a tuple
  bool single;
  Ref wrapper;  // the class of what holds the output, or None
};

// Classes of objects that hold one array, which arguments and results may be.
struct Wrapper {
  PyTypeObject* type;
  Py_ssize_t words;  // the slot of the array
};
std::vector<Wrapper> wrappers;

const Wrapper* wrapper_of(PyTypeObject* type) {
  for (const Wrapper& wrapper : wrappers) {
    if (wrapper.type == type) return &wrapper;
  }
  return nullptr;
}

// What an argument is or holds, borrowed.
PyObject* content_of(PyObject* x) {
  const Wrapper* wrapper = wrapper_of(Py_TYPE(x));
  PyObject* content = wrapper == nullptr ? nullptr : slot(x, wrapper->words);
  return content == nullptr ? x : content;
}

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
  Kinds* known;
};

Function* as_function(PyObject* self) { return reinterpret_cast<Function*>(self); }

void forget_kinds(Function* self) {
  Kinds dropped;
  std::swap(dropped, *self->known);  // for what ends now may run Python
}

// ---- what a call is -----------------------------------------------------------------------------

// What arguments are of, before the words that say more.
enum Tag : std::uintptr_t { kArray, kHolder, kObject, kInteger, kNumber, kTuple };

struct Key {
  GrowingArray<std::uintptr_t, 48> words;
  GrowingArray<PyObject*, 32> kept;  // borrowed

  WordsView view() const { return {words.data(), words.size()}; }

  void add(Tag tag, PyObject* object) {
    words.push_back(tag);
    words.push_back(reinterpret_cast<std::uintptr_t>(object));
    kept.push_back(object);
  }

  bool add_integer(PyObject* x) {
    int overflow = 0;
    words.push_back(kInteger);
    words.push_back(static_cast<std::uintptr_t>(PyLong_AsLongLongAndOverflow(x, &overflow)));
    return overflow == 0;
  }

  void add_number(PyObject* x) {
    const double value = PyFloat_AS_DOUBLE(x);
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    words.push_back(kNumber);
    words.push_back(bits);
  }
};

// Adds an argument that is no array: by its value, or as the object that it is, of which an equal
// one has a recipe of its own. False where the function has to be called.
bool add_static(PyObject* x, PyObject* static_class, Key& key) {
  if (PyFloat_CheckExact(x)) return key.add_number(x), true;
  if (PyLong_CheckExact(x)) return key.add_integer(x);
  if (PyTuple_CheckExact(x)) {
    key.words.push_back(kTuple);
    key.words.push_back(static_cast<std::uintptr_t>(PyTuple_GET_SIZE(x)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) {
      PyObject* item = PyTuple_GET_ITEM(x, i);
      if (!PyLong_CheckExact(item) || !key.add_integer(item)) return false;
    }
    return true;
  }
  const bool is_object = x == Py_None || PyBool_Check(x) || PyUnicode_CheckExact(x) ||
                         PyType_Check(x) ||
                         PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(static_class));
  if (is_object) key.add(kObject, x);
  return is_object;
}

// The types of arrays and the values of what else is given; false where the function has to be
// called.
bool read_key(const Function* self, PyObject* mode, PyObject* const* args, Py_ssize_t count,
              PyObject* names, Key& key) {
  key.add(kObject, mode);
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  key.words.push_back(static_cast<std::uintptr_t>(named));
  for (Py_ssize_t i = 0; i < named; ++i) key.add(kObject, PyTuple_GET_ITEM(names, i));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* content = content_of(args[i]);
    PyObject* given = primal_of(content);
    if (content != args[i]) key.add(kHolder, reinterpret_cast<PyObject*>(Py_TYPE(args[i])));
    if (!Py_IS_TYPE(given, python.array)) {
      if (!add_static(given, self->static_class, key)) return false;
      continue;
    }
    PyObject* aval = signature::aval_of(given);
    if (aval == nullptr) return false;
    key.add(kArray, aval);
  }
  return true;
}

// ---- recipes ------------------------------------------------------------------------------------

// A recipe as cached_traces.py writes it: (constants, steps, places of the outputs, their types,
// whether there is a single one, the class of what holds it or None).
std::unique_ptr<const Recipe> read_recipe(PyObject* given) {
  PyObject *constants, *steps, *outputs, *avals, *wrapper;
  int single;
  if (!PyArg_ParseTuple(given, "O!O!O!O!pO", &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &avals, &single, &wrapper)) {
    return nullptr;
  }
  auto recipe = std::make_unique<Recipe>();
  if (!read_steps(constants, steps, recipe->steps)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
    recipe->outputs.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(outputs, i)));
  }
  recipe->avals = Ref::share(avals);
  recipe->single = single != 0;
  recipe->wrapper = Ref::share(wrapper);
  if (PyErr_Occurred()) return nullptr;
  return recipe;
}

// A new object of a class that holds an array; null with an error set.
Ref wrapped(PyObject* type, PyObject* array) {
  const Wrapper* wrapper = wrapper_of(reinterpret_cast<PyTypeObject*>(type));
  if (wrapper == nullptr) {
    PyErr_SetString(PyExc_SystemError, "a recipe gives an object of an unknown class");
    return Ref();
  }
  Ref made(wrapper->type->tp_alloc(wrapper->type, 0));
  if (made) slot(made.get(), wrapper->words) = Py_NewRef(array);
  return made;
}

// Records what a recipe says; kLeft where the function has to be called after all.
Outcome follow(const Recipe& recipe, PyObject* mode, PyObject* const* args, Py_ssize_t count,
               Ref& result) {
  PyObject* strict = PyTuple_GET_ITEM(mode, 0);
  Results values;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* given = content_of(args[i]);
    if (!Py_IS_TYPE(given, python.array)) continue;
    const Operand raw = operand_of(given, strict);
    if (!raw) return Outcome::kLeft;
    values.push_back(Held(raw));
  }
  Line line;
  if (!user_line(line) || !run_steps(recipe.steps, line, true, values)) return Outcome::kError;
  if (recipe.single) {
    PyObject* aval = PyTuple_GET_ITEM(recipe.avals.get(), 0);
    result = array_of(values.take(recipe.outputs.front()), aval);
    PyObject* wrapper = recipe.wrapper.get();
    if (result && wrapper != Py_None) result = wrapped(wrapper, result.get());
    return result ? Outcome::kDone : Outcome::kError;
  }
  const auto outputs = static_cast<Py_ssize_t>(recipe.outputs.size());
  Ref all(PyTuple_New(outputs));
  for (Py_ssize_t i = 0; all && i < outputs; ++i) {
    const Operand& raw = values[recipe.outputs[static_cast<std::size_t>(i)]];
    Ref array = array_of(raw, PyTuple_GET_ITEM(recipe.avals.get(), i));
    if (!array) return Outcome::kError;
    PyTuple_SET_ITEM(all.get(), i, array.release());
  }
  if (!all) return Outcome::kError;
  result = std::move(all);
  return Outcome::kDone;
}

// What is known of calls of a kind. Recipes are made once: at once, or the second time that one is
// asked for, for the first call of its kind may be the only one. `write` gives what to read or
// None, `read` puts it in its place. Null where there is no recipe, or with an error set.
template <typename Write, typename Read>
KindPointer prepared(Function* self, Key& key, bool at_once, const Write& write, const Read& read) {
  const KindPointer* found = self->known->find(key.view());
  if (found != nullptr && (*found)->prepared) return *found;
  if (found == nullptr) {
    if (self->known->size() >= kMostRecipes) forget_kinds(self);
    KindPointer kind(new Kind);
    for (PyObject* x : key.kept) kind->kept.push_back(Ref::share(x));
    self->known->add(Words(key.words.begin(), key.words.end()), std::move(kind));
    if (!at_once) return {};
  }
  Ref written(write());
  if (!written) return {};
  found = self->known->find(key.view());  // others may have forgotten it meanwhile
  if (found == nullptr) return {};
  KindPointer kind = *found;
  if (kind->prepared) return kind;  // another thread was faster
  if (written.get() != Py_None && !read(written.get(), *kind)) return {};
  kind->prepared = true;
  return kind;
}

// Records a call without a tangent among its arguments.
Outcome call_plain(Function* self, PyObject* mode, Key& key, PyObject* const* args,
                   Py_ssize_t count, PyObject* names, Ref& result) {
  const auto write = [&] {
    return PyObject_Vectorcall(self->prepare, args, static_cast<std::size_t>(count), names);
  };
  const auto read = [](PyObject* written, Kind& kind) {
    kind.recipe = read_recipe(written);
    return kind.recipe != nullptr;
  };
  const KindPointer kind = prepared(self, key, false, write, read);
  if (!kind) return PyErr_Occurred() ? Outcome::kError : Outcome::kLeft;
  if (kind->recipe == nullptr) return Outcome::kLeft;
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  return follow(*kind->recipe, mode, args, all, result);
}

// Records a call that a derivative goes through, on the tape.
Outcome call_taped(Function* self, PyObject* mode, Key& key, const Givens& given,
                   PyObject* const* args, Py_ssize_t count, PyObject* names, Ref& result) {
  for (const Given& x : given) key.add(kObject, x.tangent == nullptr ? Py_None : x.tangent);
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
  // At once, for it keeps less for the way back than the operations by themselves would.
  const KindPointer kind = prepared(self, key, true, write, read);
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
  Givens given;
  bool traced = false, holds = false;
  for (Py_ssize_t i = 0; i < all; ++i) {
    PyObject* content = content_of(args[i]);
    if (!Py_IS_TYPE(content, python.array) && !is_tracer(content)) continue;
    Given array;
    if (!read_given(content, thread_state::trace(), array)) return Outcome::kLeft;
    given.push_back(array);
    traced = traced || array.tangent != nullptr;
    holds = holds || content != args[i];
  }
  if (traced && holds) return Outcome::kLeft;  // fragments are of arrays
  Key key;
  if (!read_key(self, mode, args, all, names, key)) return Outcome::kLeft;
  if (!traced) return call_plain(self, mode, key, args, count, names, result);
  return call_taped(self, mode, key, given, args, count, names, result);
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
  if (!PyArg_ParseTuple(args, "OOOOO!", &function, &prepare, &prepare_taped, &as_value,
                        &PyType_Type, &static_class) ||
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
  self->known = new Kinds;
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

PyObject* add_wrapper(PyObject*, PyObject* type) {
  Wrapper wrapper = {reinterpret_cast<PyTypeObject*>(type), 0};
  if (!PyType_Check(type) || !pytree::find_slot(type, "words", wrapper.words)) return nullptr;
  Py_INCREF(type);
  wrappers.push_back(wrapper);
  Py_RETURN_NONE;
}

PyObject* make_function_type() { return PyType_FromSpec(&spec); }

}  // namespace functrax::eager
