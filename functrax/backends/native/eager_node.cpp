// See eager_node.h.

#include "eager_node.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "eager_run.h"
#include "eager_state.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostRemembered = 1 << 14;

std::int64_t counter = 0;
std::int64_t looked_at = 0;

// ---- the user's line ----------------------------------------------------------------------------

// Whether a frame is one of functrax's own; -1 with an error set.
int is_internal(PyObject* code) {
  static std::unordered_map<PyObject*, bool> known;  // keeps the code alive
  const auto found = known.find(code);
  if (found != known.end()) return found->second;
  Ref answer(PyObject_CallOneArg(python.is_internal, code));
  if (!answer) return -1;
  const bool internal = answer.get() == Py_True;
  if (known.size() < kMostRemembered) known.emplace(Py_NewRef(code), internal);
  return internal;
}

// ---- what has to run ----------------------------------------------------------------------------

// The region of a node, borrowed; null with an error set.
PyObject* region_of(PyObject* node) {
  PyObject*& known = slot(node, python.of_node.region);
  PyObject* region = known;
  if (region == Py_None) {
    region = PyObject_CallOneArg(python.region_class, slot(node, python.of_node.signature));
    if (region == nullptr) return nullptr;
    Py_SETREF(known, region);
    return region;
  }
  PyObject* joined;
  while ((joined = slot(region, python.of_region.joined)) != Py_None) region = joined;
  if (region != known) Py_SETREF(known, Py_NewRef(region));
  return region;
}

std::int64_t since(PyObject* region) {
  return PyLong_AsLongLong(slot(region, python.of_region.since));
}

bool set_since(PyObject* region, std::int64_t number) {
  PyObject* made = PyLong_FromLongLong(number);
  if (made == nullptr) return false;
  Py_SETREF(slot(region, python.of_region.since), made);
  return true;
}

// As Region.join; null with an error set.
Ref join(PyObject* one, PyObject* other, std::int64_t mine, std::int64_t others) {
  const std::int64_t number = std::max(since(one) - others, since(other) - mine);
  PyObject* small = slot(one, python.of_region.entries);
  PyObject* large = slot(other, python.of_region.entries);
  const bool swapped = PySet_GET_SIZE(small) > PySet_GET_SIZE(large);
  if (swapped) std::swap(small, large);
  Ref into = Ref::share(swapped ? one : other);
  const Ref from = Ref::share(swapped ? other : one);
  const Ref grown(PyNumber_InPlaceOr(large, small));
  if (!grown || !set_since(into.get(), number)) return Ref();
  Py_SETREF(slot(from.get(), python.of_region.joined), Py_NewRef(into.get()));
  return into;
}

struct Extent {
  std::int64_t size = 0, begin;
  Ref region;
};

// As _counted of eager.py, where the bound of the size is more than the limit.
Outcome counted(PyObject* operands, std::int64_t limit, Extent& extent) {
  extent.size = 1 + static_cast<std::int64_t>(count_of(operands));
  if (extent.size <= limit) {
    const bool set = set_since(extent.region.get(), counter - extent.size);
    return set ? Outcome::kDone : Outcome::kError;
  }
  Ref ran(run(nullptr, operands));
  if (!ran) return Outcome::kError;
  if (ran.get() != Py_True) return Outcome::kLeft;
  extent.size = 1 + static_cast<std::int64_t>(count_of(operands));
  extent.begin = counter;
  extent.region = Ref();
  return Outcome::kDone;
}

// What has to run for a new operation, as `_extent` of eager.py.
Outcome extent_of(PyObject* signature, PyObject* operands, bool may_run, Extent& extent) {
  const std::int64_t number = counter++;
  extent.begin = number;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    const Ref node = Ref::share(producer_of(PyTuple_GET_ITEM(operands, i)));
    if (!node) continue;
    Ref region = Ref::share(region_of(node.get()));
    if (!region) return Outcome::kError;
    const std::int64_t size = PyLong_AsLongLong(slot(node.get(), python.of_node.size));
    if (!extent.region) {
      extent.region = std::move(region);
    } else if (extent.region.get() != region.get()) {
      extent.region = join(extent.region.get(), region.get(), extent.size, size);
      if (!extent.region) return Outcome::kError;
    }
    extent.size += size;
    const std::int64_t begin = PyLong_AsLongLong(slot(node.get(), python.of_node.begin));
    if (begin < extent.begin) extent.begin = begin;
  }
  if (!extent.region) {
    extent.size = 1;
    return Outcome::kDone;
  }
  if (extent.size > number - extent.begin) extent.size = number - extent.begin;
  ++extent.size;
  if (!may_run || extent.size <= python.most_nodes / 2) return Outcome::kDone;
  if (number - looked_at < python.patience) return Outcome::kDone;
  const int begins = PySet_Contains(slot(extent.region.get(), python.of_region.entries), signature);
  if (begins < 0) return Outcome::kError;
  const std::int64_t limit = begins ? python.most_nodes / 2 : python.most_nodes;
  if (extent.size <= limit || number - since(extent.region.get()) <= limit) return Outcome::kDone;
  return counted(operands, limit, extent);
}

// The results of a node of several, which nobody refers to yet.
bool add_parts(PyObject* node, Py_ssize_t count, Results& results) {
  Ref parts(PyTuple_New(count));
  if (!parts) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref part(python.part->tp_alloc(python.part, 0)), number(PyLong_FromSsize_t(i));
    if (!part || !number) return false;
    slot(part.get(), python.of_part.node) = Py_NewRef(node);
    slot(part.get(), python.of_part.number) = number.release();
    slot(part.get(), python.of_part.value) = Py_NewRef(Py_None);
    PyObject* reference = PyWeakref_NewRef(part.get(), nullptr);
    if (reference == nullptr) return false;
    PyTuple_SET_ITEM(parts.get(), i, reference);
    results.push_back(std::move(part));
  }
  slot(node, python.of_node.parts) = parts.release();
  return true;
}

// Tells Python of the arrays that a node keeps alive, if they are worth counting.
bool note_arrays(PyObject* signature, PyObject* node) {
  if (slot(signature, python.of_signature.holds) != Py_True) return true;
  PyObject* operands = slot(node, python.of_node.operands);
  PyObject* sizes = slot(signature, python.of_signature.operand_bytes);
  long long bytes = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    PyObject* x = PyTuple_GET_ITEM(operands, i);
    if (Py_IS_TYPE(x, python.literal) || producer_of(x) != nullptr) continue;
    bytes += PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
  }
  if (bytes <= python.few_bytes) return true;
  Ref size(PyLong_FromLongLong(bytes));
  return size && Ref(PyObject_CallFunctionObjArgs(python.hold, node, size.get(), nullptr));
}

}  // namespace

// The line that a new operation belongs to.
Ref user_line() {
  if (PyObject* given = thread_state::source(); given != nullptr && given != Py_None) {
    return Ref::share(given);
  }
#if PY_VERSION_HEX >= 0x030B0000
  Ref scope(PyObject_GetAttr(python.scopes, python.name_name));
  if (!scope) return Ref();
  if (PyUnicode_GET_LENGTH(scope.get()) != 0) return Ref(PyObject_CallNoArgs(python.user_line));
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    Ref held(reinterpret_cast<PyObject*>(frame));
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const int internal = is_internal(code.get());
    if (internal < 0) return Ref();
    if (internal == 0) {
      Ref offset(PyLong_FromLong(PyFrame_GetLasti(frame)));
      Ref line(python.source_line->tp_alloc(python.source_line, 0));
      if (!line || !offset) return Ref();
      slot(line.get(), python.of_source.code) = code.release();
      slot(line.get(), python.of_source.offset) = offset.release();
      return line;
    }
    frame = PyFrame_GetBack(frame);
  }
  return Ref::share(Py_None);
#else
  return Ref(PyObject_CallNoArgs(python.user_line));
#endif
}

// An operand as a node holds it; null if Python has to see to it.
PyObject* operand_of(PyObject* x, PyObject* strict) {
  if (!Py_IS_TYPE(x, python.array)) return x;  // a literal
  PyObject* raw = signature::buffer_of(x);
  if (raw == nullptr || raw == Py_None || Py_IS_TYPE(raw, python.borrowed)) return nullptr;
  const bool is_node = Py_IS_TYPE(raw, python.node);
  if (!is_node && !Py_IS_TYPE(raw, python.part)) return raw;
  if (PyObject* node = producer_of(raw); node != nullptr) {
    PyObject* recorded = slot(node, python.of_node.signature);
    return slot(recorded, python.of_signature.strict) == strict ? raw : nullptr;
  }
  PyObject* value = slot(raw, is_node ? python.of_node.value : python.of_part.value);
  if (value == Py_None || PyTuple_Check(value)) return nullptr;
  signature::buffer_of(x) = Py_NewRef(value);
  Py_DECREF(raw);
  return value;
}

Outcome new_node(PyObject* signature, Ref operands, PyObject* line, Results& results,
                 bool may_run) {
  PyObject* types = slot(signature, python.of_signature.types);
  Extent extent;
  const Outcome bounded = extent_of(signature, operands.get(), may_run, extent);
  if (bounded != Outcome::kDone) return bounded;
  Ref size(PyLong_FromLongLong(extent.size)), begin(PyLong_FromLongLong(extent.begin));
  Ref node(python.node->tp_alloc(python.node, 0));
  if (!size || !begin || !node) return Outcome::kError;
  const auto& at = python.of_node;
  PyObject* made = node.get();
  slot(made, at.signature) = Py_NewRef(signature);
  slot(made, at.operands) = operands.release();
  slot(made, at.source) = Py_NewRef(line);
  slot(made, at.size) = size.release();
  slot(made, at.begin) = begin.release();
  slot(made, at.region) = extent.region ? extent.region.release() : Py_NewRef(Py_None);
  slot(made, at.value) = Py_NewRef(Py_None);
  if (PyTuple_Check(types)) {
    if (!add_parts(made, PyTuple_GET_SIZE(types), results)) return Outcome::kError;
  } else {
    slot(made, at.parts) = PyTuple_New(0);
    results.push_back(Ref::share(made));
  }
  return note_arrays(signature, made) ? Outcome::kDone : Outcome::kError;
}

PyObject* line(PyObject*, PyObject*) {
  if (python.user_line == nullptr) Py_RETURN_NONE;
  return user_line().release();
}

PyObject* now(PyObject*, PyObject*) { return PyLong_FromLongLong(counter++); }

PyObject* last_look(PyObject*, PyObject*) { return PyLong_FromLongLong(looked_at); }

void note_look() { looked_at = counter; }

}  // namespace functrax::eager
