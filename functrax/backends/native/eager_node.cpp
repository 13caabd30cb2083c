// See eager_node.h. Start at record_node.

#include "eager_node.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eager_cut.h"
#include "eager_run.h"
#include "eager_state.h"
#include "eager_stress.h"
#include "free_list.h"
#include "thread_state.h"

namespace functrax::eager {
namespace {

constexpr std::size_t kMostRemembered = 1 << 14;

// Beside the host the bound is half of it, and a loop is cut where it begins again after so small a
// part: the device then works while the host records the next steps.
constexpr std::int64_t kDeviceParts = 8;

// Those that have operands, the last one first.
Node* first_node = nullptr;

// Bytes of arrays that nodes hold; an array counts once for each of them. Where they are more than
// the bound, what they hold really is looked at, and the next time some more later.
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

// Whether nothing that is recorded needs a node, and somebody may ask for it.
bool is_end(const Node* node) {
  bool owned = false;
  for (std::uint32_t k = 0; k < node->num_results; ++k) {
    const Result& result = node->results[k];
    if (result.readers != 0) return false;
    owned = owned || result.is_owned();
  }
  return owned;
}

// What is recorded of a node's region, but for what others of it need, and for the node itself.
std::vector<NodeReference> ends_of_region(Node* node) {
  std::vector<NodeReference> ends;
  for (Node* x = first_node; x != nullptr; x = x->after) {
    if (x == node || !x->region || !is_end(x)) continue;
    if (region_of(x) == node->region) ends.emplace_back(x);
  }
  return ends;
}

// As find_extent, where the bound of the size is more than the limit; false with an error set. Run
// is what is recorded of the region, and not only what the operation needs: what comes of the same
// operations, such as the losses that a loop collects, belongs to the same run.
bool count_operations(Node* node, std::int64_t limit) {
  node->size = 1 + static_cast<std::int64_t>(count_of(node->operands, node->num_operands));
  if (node->size <= limit) {
    node->region->since = counter - node->size;
    return true;
  }
  std::vector<NodeReference> ends = ends_of_region(node);
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    if (Node* producer = node->operands[i].producer(); producer != nullptr) {
      ends.emplace_back(producer);
    }
  }
  if (!run_unasked(ends)) return false;
  node->size = 1 + static_cast<std::int64_t>(count_of(node->operands, node->num_operands));
  node->begin = counter;
  node->region = RegionPointer();
  return true;
}

bool is_on_host(const Node* node) {
  PyObject* setting = slot(node->signature, python.of_signature.setting);
  return slot(setting, python.setting_on_host) == Py_True;
}

// What has to run for a new operation: its size, begin and region. Too much is run before; false
// with an error set.
bool find_extent(Node* node, bool may_run) {
  const std::int64_t number = node->number = counter++;
  node->size = 1;
  node->begin = number;
  if (node->num_pending == 0) return true;
  std::int64_t size = 0;
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    Node* producer = node->operands[i].producer();
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
  node->size = std::min(size, number - node->begin) + 1;
  const std::int64_t most = python.most_nodes;
  if (!may_run || node->size <= most / kDeviceParts) return true;
  const bool on_host = is_on_host(node);
  if (on_host && node->size <= most / 2) return true;
  const bool begins = node->region->begins_with(node->signature);
  std::int64_t limit = begins ? most / (on_host ? 2 : kDeviceParts) : most / (on_host ? 1 : 2);
  const std::int64_t patience = python.patience + (begins ? 0 : most);
  if (on_host && most_unseen() < patience) limit += python.patience;
  if (node->size <= limit || number - node->region->since <= limit) return true;
  return count_operations(node, limit);
}

// ---- memory that is kept alive ------------------------------------------------------------------

// The bytes of the arrays that an operation holds, of which those in `met` were counted before.
std::int64_t bytes_of(const Node* node, std::unordered_set<PyObject*>* met) {
  PyObject* sizes = slot(node->signature, python.of_signature.operand_bytes);
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < node->num_operands; ++i) {
    PyObject* known = node->operands[i].known();
    if (known == nullptr || Py_IS_TYPE(known, python.literal)) continue;
    if (met != nullptr && !met->insert(known).second) continue;
    bytes += PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, static_cast<Py_ssize_t>(i)));
  }
  return bytes;
}

// Runs operations that keep arrays alive, if these are many bytes; false with an error set.
bool sweep() {
  std::vector<NodeReference> holders;
  std::unordered_set<PyObject*> met;
  std::int64_t bytes = 0;
  for (Node* x = first_node; x != nullptr; x = x->after) {
    if (x->held == 0) continue;
    bytes += bytes_of(x, &met);
    holders.emplace_back(x);
  }
  if (bytes <= python.most_bytes / 2) return true;
  for (NodeReference& holder : holders) {
    std::vector<NodeReference> one;
    one.push_back(std::move(holder));
    if (!run_unasked(one)) return false;
  }
  return true;
}

// Counts the arrays that a node keeps alive, if they are worth it; runs all if they are too many.
bool note_arrays(Node* node) {
  if (!facts_of(node->signature).holds || node->num_operands == node->num_pending) return true;
  const std::int64_t bytes = bytes_of(node, nullptr);
  if (bytes <= python.few_bytes) return true;
  node->held = bytes;
  held_bytes += bytes;
  held_bound = std::max(held_bound, static_cast<std::int64_t>(python.most_bytes));
  if (held_bytes <= python.most_bytes / 2) held_bound = python.most_bytes;
  if (held_bytes <= held_bound) return true;
  held_bound = held_bytes + python.most_bytes / 2;
  return sweep();
}

// What is to be done about a new node, so that little waits and little memory is held; false with
// an error set.
bool keep_bounded(Node* node, bool may_run) {
  return find_extent(node, may_run) && note_arrays(node) && stress::after_operation();
}

// ---- nodes --------------------------------------------------------------------------------------

// Memory of nodes that have ended, by the number of operands that they had room for.
constexpr std::size_t kMostKept = 4;
FreeList<1024> ended[kMostKept + 1];

// An operation without extent, which has no owner yet.
Node* allocate(PyObject* signature, const Operand* operands, std::size_t count, Line&& line) {
  void* memory = count <= kMostKept ? ended[count].take() : nullptr;
  if (memory == nullptr) memory = std::malloc(sizeof(Node) + count * sizeof(Operand));
  if (memory == nullptr) throw std::bad_alloc();
  Node* node = new (memory) Node(std::move(line));
  node->signature = Py_NewRef(signature);
  node->room = node->num_operands = static_cast<std::uint32_t>(count);
  node->num_results = static_cast<std::uint32_t>(facts_of(signature).results);
  node->results = node->num_results == 1 ? &node->single : new Result[node->num_results];
  for (std::uint32_t k = 0; k < node->num_results; ++k) {
    Py_SET_TYPE(reinterpret_cast<PyObject*>(node->results + k), &value_type);
    node->results[k].node = node;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Result* result = operands[i].result();
    if (result != nullptr && result->known == nullptr) {
      new (node->operands + i) Operand(*result);
      ++result->node->references;
      ++result->readers;
      ++node->num_pending;
    } else {
      new (node->operands + i) Operand(Py_NewRef(operands[i].known()));
    }
  }
  node->after = first_node;
  if (first_node != nullptr) first_node->before = node;
  first_node = node;
  return node;
}

// Lets go of a node's operands.
inline void drop(Node* node) {
  const std::uint32_t count = std::exchange(node->num_operands, 0);
  unlink(node);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (Result* result = node->operands[i].result(); result != nullptr) {
      --result->readers;
      disown(result);
    } else {
      Py_DECREF(node->operands[i].known());
    }
  }
}

// Nodes that end while another does.
std::vector<Node*> waiting;
bool ending = false;

// Ends a node. What it refers to ends with it, which may run Python.
void destroy(Node* node) {
  drop(node);
  Py_DECREF(node->signature);
  for (std::uint32_t k = 0; k < node->num_results; ++k) Py_XDECREF(node->results[k].known);
  if (node->results != &node->single) delete[] node->results;
  const std::size_t room = node->room;
  node->~Node();
  if (room > kMostKept || !ended[room].keep(node)) std::free(node);
}

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

// Chains of operations may be longer than the stack is deep: what ends while another node does
// waits for the outermost.
void end(Node* node) {
  if (ending) return waiting.push_back(node);
  ending = true;
  destroy(node);
  while (!waiting.empty()) {
    Node* next = waiting.back();
    waiting.pop_back();
    destroy(next);
  }
  ending = false;
}

void drop_operands(Node* node) { drop(node); }

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

Held record_single(PyObject* signature, const Operand* operands, std::size_t count, Line&& line,
                   bool may_run) {
  Node* node = allocate(signature, operands, count, std::move(line));
  Held result(Operand(node->single));
  if (!keep_bounded(node, may_run)) result = Held();
  return result;
}

bool record_node(PyObject* signature, const Operand* operands, std::size_t count, const Line& line,
                 Results& results, bool may_run) {
  if (facts_of(signature).results == 1) {
    Held result = record_single(signature, operands, count, line.share(), may_run);
    if (!result) return false;
    results.push_back(std::move(result));
    return true;
  }
  Node* node = allocate(signature, operands, count, line.share());
  const NodeReference alive(node);
  for (std::uint32_t k = 0; k < node->num_results; ++k) {
    results.push_back(Held(Operand(node->results[k])));
  }
  return keep_bounded(node, may_run);
}

Node* newest_node() { return first_node; }

PyObject* settle(PyObject*, PyObject* value) {
  std::vector<NodeReference> readers;
  for (Node* x = first_node; x != nullptr; x = x->after) {
    const auto reads = [&](const Operand& operand) { return operand.known() == value; };
    if (std::any_of(x->operands, x->operands + x->num_operands, reads)) readers.emplace_back(x);
  }
  if (!run_unasked(readers)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* line(PyObject*, PyObject*) {
  if (python.user_line == nullptr) Py_RETURN_NONE;
  Line found;
  return user_line(found) ? Py_XNewRef(found.object()) : nullptr;
}

std::int64_t next_number() { return counter; }

void note_look() {
  gap_before = gap;
  gap = counter - looked_at;
  looked_at = counter;
}

}  // namespace functrax::eager
