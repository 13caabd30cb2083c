// See signature.h. Start at read; lay_out follows the same grammar, from words.

#include "signature.h"

#include <algorithm>
#include <unordered_map>

#include "numpy_arrays.h"
#include "pytree.h"
#include "reference.h"

namespace functrax::signature {
namespace {

// The first word of a node or leaf; any larger word is the aval of an array.
enum Tag : Word {
  kTuple = 1,    // count, children
  kList,         // count, children
  kDict,         // count, (key, child) ...
  kNone,         //
  kNamedTuple,   // type, count, children
  kCustom,       // type, count, children; its data is an object
  kStatic,       // type; its value is an object
  kKey,          // in the place of a key: it is an object
  kBool,         //
  kInt,          //
  kFloat,        //
  kComplex,      //
  kNumpyArray,   // dtype, rank, sizes
  kNumpyScalar,  // type
  kTags
};

constexpr int kDeepest = 200;  // nodes inside nodes; Python sees to deeper trees

Word address(const void* object) { return reinterpret_cast<Word>(object); }

bool is_typed_array(PyObject* x) { return is_array(x) && aval_of(x) != nullptr; }

class Reader {
 public:
  explicit Reader(Signature& signature) : s_(signature) {}

  Outcome tree(PyObject* x, int depth);
  Outcome key(PyObject* x);
  void fixed(PyObject* value);  // a static argument
  void word(Word w) { s_.words.push_back(w); }

 private:
  bool array(PyObject* x);
  Outcome leaf(Tag tag, PyObject* x);
  Outcome sequence(Tag tag, PyObject* x, int depth);
  Outcome dict(PyObject* x, int depth);
  Outcome other(PyObject* x, int depth);
  Outcome custom(PyObject* x, int depth);
  Outcome numpy_array(PyObject* x);

  Signature& s_;
};

Outcome Reader::leaf(Tag tag, PyObject* x) {
  word(tag);
  s_.leaves.add(x);
  return Outcome::kRead;
}

// Reads an array, the usual leaf; this runs no Python.
bool Reader::array(PyObject* x) {
  if (!is_typed_array(x)) return false;
  word(address(aval_of(x)));
  s_.leaves.add(x);
  return true;
}

Outcome Reader::tree(PyObject* x, int depth) {
  PyTypeObject* type = Py_TYPE(x);
  if (array(x)) return Outcome::kRead;
  if (is_array(x)) return Outcome::kUnknown;  // it has no type
  if (depth > kDeepest) return Outcome::kUnknown;
  if (type == &PyDict_Type) return dict(x, depth);
  if (type == &PyTuple_Type) return sequence(kTuple, x, depth);
  if (type == &PyList_Type) return sequence(kList, x, depth);
  if (x == Py_None) {
    word(kNone);
    return Outcome::kRead;
  }
  if (type == &PyFloat_Type) return leaf(kFloat, x);
  if (type == &PyLong_Type) return leaf(kInt, x);
  if (type == &PyBool_Type) return leaf(kBool, x);
  if (type == &PyComplex_Type) return leaf(kComplex, x);
  return numpy_arrays::is_array(x) ? numpy_array(x) : other(x, depth);
}

// Flattening a custom node may call Python, which may change a list meanwhile.
Outcome Reader::sequence(Tag tag, PyObject* x, int depth) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(x);
  word(tag);
  word(static_cast<Word>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (i >= PySequence_Fast_GET_SIZE(x)) return Outcome::kUnknown;
    if (array(PySequence_Fast_GET_ITEM(x, i))) continue;
    Ref child = Ref::share(PySequence_Fast_GET_ITEM(x, i));
    const Outcome outcome = tree(child.get(), depth + 1);
    if (outcome != Outcome::kRead) return outcome;
  }
  return Outcome::kRead;
}

Outcome Reader::key(PyObject* x) {
  if (!PyUnicode_CheckExact(x)) {
    word(kKey);
    s_.objects.add(x);
    return Outcome::kRead;
  }
  if (PyUnicode_CHECK_INTERNED(x)) {
    word(address(x));
    return Outcome::kRead;
  }
  PyObject* interned = Py_NewRef(x);
  PyUnicode_InternInPlace(&interned);
  word(address(interned));
  s_.kept.add(interned);
  Py_DECREF(interned);
  return Outcome::kRead;
}

Outcome Reader::dict(PyObject* x, int depth) {
  const Py_ssize_t count = PyDict_GET_SIZE(x);
  word(kDict);
  word(static_cast<Word>(count));
  PyObject *name, *value;
  Py_ssize_t position = 0, met = 0;
  while (PyDict_Next(x, &position, &name, &value)) {
    ++met;
    if (PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name) && is_typed_array(value)) {
      word(address(name));
      array(value);
      continue;
    }
    Ref held_name = Ref::share(name), held = Ref::share(value);
    Outcome outcome = key(name);
    if (outcome == Outcome::kRead) outcome = tree(value, depth + 1);
    if (outcome != Outcome::kRead) return outcome;
  }
  return met == count && PyDict_GET_SIZE(x) == count ? Outcome::kRead : Outcome::kUnknown;
}

Outcome Reader::other(PyObject* x, int depth) {
  switch (pytree::kind_of(x)) {
    case -1:
      return Outcome::kError;
    case pytree::kCustom:
      return custom(x, depth);
    case pytree::kNamedTuple: {
      word(kNamedTuple);
      word(address(Py_TYPE(x)));
      word(static_cast<Word>(PyTuple_GET_SIZE(x)));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) {
        const Outcome outcome = tree(PyTuple_GET_ITEM(x, i), depth + 1);
        if (outcome != Outcome::kRead) return outcome;
      }
      return Outcome::kRead;
    }
    default:
      if (numpy_arrays::scalar_form(Py_TYPE(x)) == nullptr) return Outcome::kUnknown;
      word(kNumpyScalar);
      word(address(Py_TYPE(x)));
      s_.leaves.add(x);
      return Outcome::kRead;
  }
}

Outcome Reader::custom(PyObject* x, int depth) {
  pytree::Parts parts = pytree::custom_parts(x);
  if (!parts.children) return Outcome::kError;
  word(kCustom);
  word(address(Py_TYPE(x)));
  s_.objects.add(parts.data.get());
  const Py_ssize_t count = PyTuple_GET_SIZE(parts.children.get());
  word(static_cast<Word>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Outcome outcome = tree(PyTuple_GET_ITEM(parts.children.get(), i), depth + 1);
    if (outcome != Outcome::kRead) return outcome;
  }
  return Outcome::kRead;
}

Outcome Reader::numpy_array(PyObject* x) {
  const numpy_arrays::Form form = numpy_arrays::form_of(x);
  word(kNumpyArray);
  word(address(form.dtype));
  word(static_cast<Word>(form.rank));
  for (int k = 0; k < form.rank; ++k) word(static_cast<Word>(form.sizes[k]));
  s_.leaves.add(x);
  return Outcome::kRead;
}

void Reader::fixed(PyObject* value) {
  word(kStatic);
  word(address(Py_TYPE(value)));
  s_.objects.add(value);
}

// Follows the words of a signature.
class Follower {
 public:
  Follower(const Signature& signature, Layout& layout) : s_(signature), layout_(layout) {}

  bool arguments(const Role& donated, std::vector<int>& order);

 private:
  Word next() { return s_.words[at_++]; }
  PyObject* pointed() {
    auto* object = reinterpret_cast<PyObject*>(next());
    layout_.pointed.push_back(object);
    return object;
  }
  bool tree(std::vector<int>& order);
  bool children(std::vector<int>& order);
  bool keyed(const Role* donated, std::vector<int>& order);
  void leaf(Leaf kind, std::vector<int>& order) {
    order.push_back(static_cast<int>(layout_.leaves.size()));
    layout_.leaves.push_back(kind);
    layout_.donated.push_back(false);
  }
  void donate_from(std::size_t first) {
    std::fill(layout_.donated.begin() + static_cast<std::ptrdiff_t>(first), layout_.donated.end(),
              true);
  }

  const Signature& s_;
  Layout& layout_;
  std::size_t at_ = 0, object_ = 0;
};

bool Follower::children(std::vector<int>& order) {
  for (Word count = next(); count > 0; --count) {
    if (!tree(order)) return false;
  }
  return true;
}

bool Follower::tree(std::vector<int>& order) {
  if (s_.words[at_] >= kTags) {
    pointed();
    leaf(Leaf::kArray, order);
    return true;
  }
  switch (next()) {
    case kTuple:
    case kList:
      return children(order);
    case kDict:
      return keyed(nullptr, order);
    case kCustom:
      ++object_;
      [[fallthrough]];
    case kNamedTuple:
      pointed();
      return children(order);
    case kStatic:
      ++object_;
      pointed();
      return true;
    case kBool:
      leaf(Leaf::kBool, order);
      return true;
    case kInt:
      leaf(Leaf::kInt, order);
      return true;
    case kFloat:
      leaf(Leaf::kFloat, order);
      return true;
    case kComplex:
      leaf(Leaf::kComplex, order);
      return true;
    case kNumpyArray:
      pointed();
      for (Word rank = next(); rank > 0; --rank) next();
      leaf(Leaf::kNumpyArray, order);
      return true;
    case kNumpyScalar:
      pointed();
      leaf(Leaf::kNumpyScalar, order);
      return true;
    default:  // None
      return true;
  }
}

// A dict: its leaves come in the order of the sorted keys.
bool Follower::keyed(const Role* donated, std::vector<int>& order) {
  const Word count = next();
  Ref keys(PyList_New(0));
  std::unordered_map<PyObject*, std::vector<int>> below;
  for (Word k = 0; k < count; ++k) {
    PyObject* key;
    if (s_.words[at_] == kKey) {
      ++at_;
      key = s_.objects.list()[object_++];
    } else {
      key = pointed();
    }
    if (!keys || PyList_Append(keys.get(), key) != 0) return false;
    const std::size_t first = layout_.leaves.size();
    if (!tree(below[key])) return false;
    const int given = donated == nullptr ? 0 : donated->has_name(key);
    if (given < 0) return false;
    if (given == 1) donate_from(first);
  }
  if (PyList_Sort(keys.get()) != 0) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    const std::vector<int>& leaves = below[PyList_GET_ITEM(keys.get(), i)];
    order.insert(order.end(), leaves.begin(), leaves.end());
  }
  return true;
}

bool Follower::arguments(const Role& donated, std::vector<int>& order) {
  pointed();
  const auto count = static_cast<Py_ssize_t>(next());
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::size_t first = layout_.leaves.size();
    if (!tree(order)) return false;
    if (donated.has_position(i, count)) donate_from(first);
  }
  return keyed(&donated, order);
}

}  // namespace

bool Role::has_position(Py_ssize_t position, Py_ssize_t count) const {
  for (Py_ssize_t p : positions) {
    if (p == position || p + count == position) return true;
  }
  return false;
}

int Role::has_name(PyObject* name) const {
  return names == nullptr ? 0 : PySet_Contains(names, name);
}

Outcome read(PyObject* key, PyObject* const* args, Py_ssize_t count, PyObject* names,
             const Role& statics, Signature& signature) {
  Reader reader(signature);
  reader.word(address(key));
  reader.word(static_cast<Word>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!statics.positions.empty() && statics.has_position(i, count)) {
      reader.fixed(args[i]);
      continue;
    }
    const Outcome outcome = reader.tree(args[i], 0);
    if (outcome != Outcome::kRead) return outcome;
  }
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  reader.word(static_cast<Word>(named));
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    Outcome outcome = reader.key(name);
    const int fixed = statics.has_name(name);
    if (fixed < 0) return Outcome::kError;
    if (fixed == 1) {
      reader.fixed(args[count + i]);
    } else if (outcome == Outcome::kRead) {
      outcome = reader.tree(args[count + i], 0);
    }
    if (outcome != Outcome::kRead) return outcome;
  }
  return Outcome::kRead;
}

bool lay_out(const Signature& signature, const Role& donated, Layout& layout) {
  std::vector<int> order;
  if (!Follower(signature, layout).arguments(donated, order)) return false;
  layout.places.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    layout.places[order[place]] = static_cast<int>(place);
  }
  return true;
}

}  // namespace functrax::signature
