// See eager_node.h. Start at new_node.

#include "eager_node.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eager_run.h"
#include "eager_state.h"
#include "free_list.h"
#include "signature.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostRemembered = 1 << 14;

// Those that have operands, the last one first.
Node* first_node = nullptr;

// Bytes of arrays that nodes hold; an array counts once for each of them. Where they are more than
// the bound, Python looks at what they hold really, and the next time some more later.
std::int64_t held_bytes = 0, held_bound = 0;

std::int64_t counter = 0;

// When somebody looked at a value that had to be run for, and how many operations were recorded
// before each of the last two looks.
std::int64_t looked_at = 0, gap = 0, gap_before = 0;

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

#if PY_VERSION_HEX >= 0x030B0000
bool line_of_frame(Line& line) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    Ref held(reinterpret_cast<PyObject*>(frame));
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const int internal = is_internal(code.get());
    if (internal < 0) return false;
    if (internal == 0) {
      line = Line(std::move(code), PyFrame_GetLasti(frame));
      return true;
    }
    frame = PyFrame_GetBack(frame);
  }
  line = Line(Ref::share(Py_None));
  return true;
}
#endif

void unlink(Node* node) {
  if (node->before != nullptr) {
    node->before->after = node->after;
  } else if (first_node == node) {
    first_node = node->after;
  } else {
    return;
  }
  if (node->after != nullptr) node->after->before = node->before;
  node->before = node->after = nullptr;
  held_bytes -= node->held;
  node->held = 0;
}

std::int64_t most_unseen() { return std::max(counter - looked_at, std::max(gap, gap_before)); }

// ---- what has to run ----------------------------------------------------------------------------

// The region of a node.
const RegionPointer& region_of(Node* node) {
  if (!node->region) node->region = RegionPointer(node->signature);
  node->region.settle();
  return node->region;
}

std::size_t count_for(const Node* node) {
  return count_of(node->operands, static_cast<std::size_t>(Py_SIZE(node)));
}

// Nodes as a list; null with an error set.
PyObject* list_of(std::vector<Ref> nodes) {
  Ref all(PyList_New(static_cast<Py_ssize_t>(nodes.size())));
  for (std::size_t i = 0; all && i < nodes.size(); ++i) {
    PyList_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), nodes[i].release());
  }
  return all.release();
}

// The nodes that fulfil a condition, as a list; null with an error set.
template <typename Condition>
PyObject* nodes_where(const Condition& condition) {
  std::vector<Ref> found;
  for (Node* node = first_node; node != nullptr; node = node->after) {
    if (condition(node)) found.push_back(Ref::share(as_object(node)));
  }
  return list_of(std::move(found));
}

// What is recorded of a node's region and alive, but for what others of it need; null with an error
// set. That would seem to be held from outside, by this list.
Ref ends_of_region(Node* node) {
  std::vector<Node*> all;
  for (Node* x = first_node; x != nullptr; x = x->after) {
    if (x == node || x->value != nullptr || !x->region) continue;
    if (!(region_of(x) == node->region)) continue;
    x->uses = 0;
    all.push_back(x);
  }
  for (const Node* x : all) {
    for (Py_ssize_t i = 0; i < Py_SIZE(x); ++i) {
      if (Node* producer = producer_of(x->operands[i]); producer != nullptr) ++producer->uses;
    }
  }
  std::vector<Ref> ends;
  for (Node* x : all) {
    if (x->uses == 0) ends.push_back(Ref::share(as_object(x)));
  }
  return Ref(list_of(std::move(ends)));
}

// As _counted of eager.py, where the bound of the size is more than the limit; false with an error
// set. Run is what is recorded of the region and alive, and not only what the operation needs: what
// comes of the same operations, such as the losses that a loop collects, belongs to the same run.
bool count_operations(Node* node, std::int64_t limit) {
  node->size = 1 + static_cast<std::int64_t>(count_for(node));
  if (node->size <= limit) {
    node->region->since = counter - node->size;
    return true;
  }
  const Ref waiting = ends_of_region(node);
  if (!waiting || !Ref(PyObject_CallOneArg(python.run, waiting.get()))) return false;
  node->size = 1 + static_cast<std::int64_t>(count_for(node));
  node->begin = counter;
  node->region = RegionPointer();
  return true;
}

// What has to run for a new operation, as `_extent` of eager.py; false with an error set.
bool find_extent(Node* node, bool may_run) {
  const std::int64_t number = node->number = counter++;
  node->size = 1;
  node->begin = number;
  std::int64_t size = 0;
  for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
    Node* producer = producer_of(node->operands[i]);
    if (producer == nullptr) continue;
    const RegionPointer& region = region_of(producer);
    if (!node->region) {
      node->region = region;
    } else if (!(node->region == region)) {
      node->region = join(node->region, region, size, producer->size);
    }
    size += producer->size;
    node->begin = std::min(node->begin, producer->begin);
  }
  if (!node->region) return true;
  node->size = std::min(size, number - node->begin) + 1;
  if (!may_run || node->size <= python.most_nodes / 2) return true;
  const bool begins = node->region->begins_with(node->signature);
  std::int64_t limit = begins ? python.most_nodes / 2 : python.most_nodes;
  const std::int64_t patience = python.patience + (begins ? 0 : python.most_nodes);
  if (most_unseen() < patience) limit += python.patience;
  if (node->size <= limit || number - node->region->since <= limit) return true;
  return count_operations(node, limit);
}

// ---- nodes --------------------------------------------------------------------------------------

// Memory of nodes that have ended, by the number of operands that they had room for.
constexpr Py_ssize_t kMostKept = 4;
FreeList<1024> ended[kMostKept + 1];

// An operation without results, extent and line; null with an error set.
Ref allocate(PyObject* signature, PyObject* const* operands, std::size_t count, const Line& line) {
  const auto room = static_cast<Py_ssize_t>(count);
  PyObject* made = room <= kMostKept ? ended[room].take() : nullptr;
  if (made != nullptr) {
    PyObject_InitVar(reinterpret_cast<PyVarObject*>(made), python.node, room);
  } else {
    made = python.node->tp_alloc(python.node, room);
    if (made == nullptr) return Ref();
    PyObject_GC_UnTrack(made);  // a class made in Python is one of the collector's
  }
  Node* node = as_node(made);
  node->weak_references = node->value = node->parts = nullptr;
  node->room = room;
  node->signature = Py_NewRef(signature);
  new (&node->line) Line(line.share());
  new (&node->region) RegionPointer;
  node->held = 0;
  node->cut = 0;
  for (std::size_t i = 0; i < count; ++i) node->operands[i] = Py_NewRef(operands[i]);
  node->before = nullptr;
  node->after = first_node;
  if (first_node != nullptr) first_node->before = node;
  first_node = node;
  return Ref(made);
}

// The results of a node of several, which nobody refers to yet.
bool add_parts(Node* node, Py_ssize_t count, Results& results) {
  Ref parts(PyTuple_New(count));
  if (!parts) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref part(python.part->tp_alloc(python.part, 0)), number(PyLong_FromSsize_t(i));
    if (!part || !number) return false;
    slot(part.get(), python.of_part.node) = Py_NewRef(as_object(node));
    slot(part.get(), python.of_part.number) = number.release();
    slot(part.get(), python.of_part.value) = Py_NewRef(Py_None);
    PyObject* reference = PyWeakref_NewRef(part.get(), nullptr);
    if (reference == nullptr) return false;
    PyTuple_SET_ITEM(parts.get(), i, reference);
    results.push_back(std::move(part));
  }
  node->parts = parts.release();
  return true;
}

// Counts the arrays that a node keeps alive, if they are worth it; runs all if they are too many.
bool note_arrays(Node* node) {
  if (!facts_of(node->signature).holds) return true;
  PyObject* sizes = slot(node->signature, python.of_signature.operand_bytes);
  std::int64_t bytes = 0;
  for (Py_ssize_t i = 0; i < Py_SIZE(node); ++i) {
    PyObject* x = node->operands[i];
    if (Py_IS_TYPE(x, python.literal) || producer_of(x) != nullptr) continue;
    bytes += PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
  }
  if (bytes <= python.few_bytes) return true;
  node->held = bytes;
  held_bytes += bytes;
  held_bound = std::max(held_bound, static_cast<std::int64_t>(python.most_bytes));
  if (held_bytes <= python.most_bytes / 2) held_bound = python.most_bytes;
  if (held_bytes <= held_bound) return true;
  held_bound = held_bytes + python.most_bytes / 2;
  Ref holders(nodes_where([](const Node* x) { return x->held != 0 && x->value == nullptr; }));
  return holders && Ref(PyObject_CallOneArg(python.sweep, holders.get()));
}

// ---- the type -----------------------------------------------------------------------------------

// Chains of operations may be longer than the stack is deep: what is deeper waits for the
// outermost.
constexpr int kDeepest = 100;

void destroy(PyObject* self) {
  static int depth = 0;
  static std::vector<PyObject*> waiting;
  Node* node = as_node(self);
  if (node->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (++depth < kDeepest) {
    drop_operands(node);
  } else {
    unlink(node);
    waiting.insert(waiting.end(), node->operands, node->operands + Py_SIZE(node));
  }
  node->line.~Line();
  node->region.~RegionPointer();
  Py_DECREF(node->signature);
  Py_XDECREF(node->parts);
  Py_XDECREF(node->value);
  PyTypeObject* type = Py_TYPE(self);
  const bool kept = type == python.node && node->room <= kMostKept && ended[node->room].keep(self);
  if (!kept) type->tp_free(self);
  Py_DECREF(type);
  while (depth == 1 && !waiting.empty()) {
    PyObject* x = waiting.back();
    waiting.pop_back();
    Py_DECREF(x);
  }
  --depth;
}

Ref operands_of(const Node* node) {
  Ref all(PyTuple_New(Py_SIZE(node)));
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(all.get()); ++i) {
    PyTuple_SET_ITEM(all.get(), i, Py_NewRef(node->operands[i]));
  }
  return all;
}

PyObject* get_operands(PyObject* self, void*) { return operands_of(as_node(self)).release(); }

int set_operands(PyObject* self, PyObject* given, void*) {
  if (given == nullptr || !PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 0) {
    PyErr_SetString(PyExc_TypeError, "the operands of an operation can only be dropped");
    return -1;
  }
  drop_operands(as_node(self));
  return 0;
}

PyObject* get_value(PyObject* self, void*) {
  PyObject* value = as_node(self)->value;
  return Py_NewRef(value == nullptr ? Py_None : value);
}

int set_value(PyObject* self, PyObject* value, void*) {
  Py_XSETREF(as_node(self)->value, Py_XNewRef(value));
  return 0;
}

PyObject* get_parts(PyObject* self, void*) {
  PyObject* parts = as_node(self)->parts;
  return parts == nullptr ? PyTuple_New(0) : Py_NewRef(parts);
}

PyObject* get_source(PyObject* self, void*) { return Py_XNewRef(as_node(self)->line.object()); }

PyGetSetDef properties[] = {
    {"operands", get_operands, set_operands, "What it is applied to.", nullptr},
    {"value", get_value, set_value, "The raw result, when it is known.", nullptr},
    {"parts", get_parts, nullptr, "Of several results, those that somebody refers to.", nullptr},
    {"source", get_source, nullptr, "The user's line.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weak_references), READONLY, nullptr},
    {"signature", T_OBJECT, offsetof(Node, signature), READONLY, "What it is."},
    {"size", T_LONGLONG, offsetof(Node, size), READONLY, "A bound of what has to run for it."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("An operation that is recorded.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.EagerNode", offsetof(Node, operands), sizeof(PyObject*),
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

Line Line::share() const {
  Line shared;
  shared.object_ = Ref::share(object_.get());
  shared.code_ = Ref::share(code_.get());
  shared.offset_ = offset_;
  return shared;
}

PyObject* Line::object() {
  if (object_) return object_.get();
  if (!code_) return Py_None;
  Ref offset(PyLong_FromLong(offset_));
  Ref made(python.source_line->tp_alloc(python.source_line, 0));
  if (!made || !offset) return nullptr;
  slot(made.get(), python.of_source.code) = Py_NewRef(code_.get());
  slot(made.get(), python.of_source.offset) = offset.release();
  object_ = std::move(made);
  return object_.get();
}

Node* producer_of(PyObject* x) {
  if (is_node(x)) return as_node(x)->value == nullptr ? as_node(x) : nullptr;
  if (!Py_IS_TYPE(x, python.part) || slot(x, python.of_part.value) != Py_None) return nullptr;
  PyObject* node = slot(x, python.of_part.node);
  return node == Py_None ? nullptr : as_node(node);
}

void drop_operands(Node* node) {
  const Py_ssize_t count = Py_SIZE(node);
  Py_SET_SIZE(as_object(node), 0);
  unlink(node);
  for (Py_ssize_t i = 0; i < count; ++i) Py_DECREF(node->operands[i]);
}

bool user_line(Line& line) {
  if (PyObject* given = thread_state::source(); given != nullptr && given != Py_None) {
    line = Line(Ref::share(given));
    return true;
  }
#if PY_VERSION_HEX >= 0x030B0000
  if (!thread_state::in_scope()) return line_of_frame(line);
#endif
  line = Line(Ref(PyObject_CallNoArgs(python.user_line)));
  return static_cast<bool>(line);
}

PyObject* operand_of(PyObject* x, PyObject* strict) {
  if (!Py_IS_TYPE(x, python.array)) return x;  // a literal
  PyObject* raw = signature::buffer_of(x);
  if (raw == nullptr || raw == Py_None || Py_IS_TYPE(raw, python.borrowed)) return nullptr;
  if (!is_node(raw) && !Py_IS_TYPE(raw, python.part)) return raw;
  if (Node* node = producer_of(raw); node != nullptr) {
    return slot(node->signature, python.of_signature.strict) == strict ? raw : nullptr;
  }
  PyObject* value = is_node(raw) ? as_node(raw)->value : slot(raw, python.of_part.value);
  if (value == Py_None || PyTuple_Check(value)) return nullptr;
  signature::buffer_of(x) = Py_NewRef(value);
  Py_DECREF(raw);
  return value;
}

Ref new_node(PyObject* signature, PyObject* const* operands, std::size_t count, const Line& line,
             bool may_run) {
  Ref made = allocate(signature, operands, count, line);
  if (!made) return made;
  Node* node = as_node(made.get());
  return find_extent(node, may_run) && note_arrays(node) ? std::move(made) : Ref();
}

bool add_results(Ref node, Results& results) {
  const Facts& facts = facts_of(as_node(node.get())->signature);
  if (!facts.single) return add_parts(as_node(node.get()), facts.results, results);
  results.push_back(std::move(node));
  return true;
}

PyObject* make_node_type() { return PyType_FromSpec(&spec); }

void set_node_class(PyTypeObject* type) {
  type->tp_dealloc = destroy;  // it has no slots that Python would have to clear
  python.node = type;
}

PyObject* node_of(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (python.array == nullptr || count != 3 || !PyTuple_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "expected a signature, operands and a line");
    return nullptr;
  }
  Results results;
  const Line line(Ref::share(args[2]));
  const auto inputs = static_cast<std::size_t>(PyTuple_GET_SIZE(args[1]));
  Ref node = new_node(args[0], &PyTuple_GET_ITEM(args[1], 0), inputs, line);
  if (!node || !add_results(std::move(node), results)) return nullptr;
  Ref all(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (std::size_t i = 0; all && i < results.size(); ++i) {
    PyList_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), results[i].release());
  }
  return all.release();
}

PyObject* readers(PyObject*, PyObject* value) {
  return nodes_where([&](const Node* node) {
    PyObject* const* end = node->operands + Py_SIZE(node);
    return node->value == nullptr && std::find(node->operands, end, value) != end;
  });
}

PyObject* line(PyObject*, PyObject*) {
  if (python.user_line == nullptr) Py_RETURN_NONE;
  Line found;
  return user_line(found) ? Py_XNewRef(found.object()) : nullptr;
}

std::int64_t next_number() { return counter; }

PyObject* now(PyObject*, PyObject*) { return PyLong_FromLongLong(counter++); }

PyObject* unseen(PyObject*, PyObject*) { return PyLong_FromLongLong(most_unseen()); }

void note_look() {
  gap_before = gap;
  gap = counter - looked_at;
  looked_at = counter;
}

}  // namespace functrax::eager
