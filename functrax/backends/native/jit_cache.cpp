// See jit_cache.h.

#include "jit_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cuda_executable.h"
#include "executable.h"
#include "pytree.h"
#include "reference.h"

namespace functrax::jit_cache {
namespace {

using program::Kind;
using program::Program;
using program::Slot;
using signature::Layout;
using signature::Leaf;
using signature::Role;
using signature::Signature;
using signature::Word;

constexpr std::size_t kMostEntries = 4096;  // of one function; then it begins anew

// False with an error set.
bool hash_of(const Signature& signature, std::uint64_t& hash) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15u;
  hash = signature.words.size();
  for (Word word : signature.words) hash = (hash ^ (hash >> 29) ^ word) * kPrime;
  for (PyObject* object : signature.objects.list()) {
    std::uint64_t value;
    if (!pytree::hash_object(object, value)) return false;
    hash = (hash ^ (hash >> 29) ^ value) * kPrime;
  }
  return true;
}

bool is_scalar(Leaf leaf) { return leaf != Leaf::kArray && leaf != Leaf::kNumpyArray; }

// Whether a scalar can be written as an element of this form.
bool can_hold(Leaf leaf, const numpy_arrays::ScalarForm& form) {
  switch (leaf) {
    case Leaf::kBool:
      return form.kind == 'b';
    case Leaf::kInt:
      return form.kind == 'i';
    case Leaf::kFloat:
      return form.kind == 'f';
    case Leaf::kComplex:
      return form.kind == 'c';
    default:
      return form.kind != 0;
  }
}

}  // namespace

Entry::~Entry() {
  for (PyObject* x : owned_) Py_DECREF(x);
}

// `prepared` is (executable, constants, types of the results, structure of the results).
Entry* Entry::make(const Signature& signature, const Role& donated, PyObject* prepared) {
  PyObject *executable, *consts, *avals, *out_tree;
  if (!PyArg_ParseTuple(prepared, "OO!O!O", &executable, &PyTuple_Type, &consts, &PyTuple_Type,
                        &avals, &out_tree)) {
    return nullptr;
  }
  Layout layout;
  if (!lay_out(signature, donated, layout)) return nullptr;
  Hold made(new Entry);
  made->release();  // the hold is the only owner
  Entry& e = *made.get();
  e.program_ = executable::program_of(executable);
  if (e.program_ == nullptr) {
    e.program_ = cuda::program_of(executable);
    e.on_gpu_ = e.program_ != nullptr;
  }
  const std::size_t inputs = PyTuple_GET_SIZE(consts) + layout.leaves.size();
  if (e.program_ == nullptr || e.program_->inputs.size() != inputs ||
      e.program_->outputs.size() != static_cast<std::size_t>(PyTuple_GET_SIZE(avals)) ||
      pytree::num_leaves(out_tree) != PyTuple_GET_SIZE(avals)) {
    return nullptr;
  }
  e.executable_ = e.own(executable);
  e.out_tree_ = e.own(out_tree);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(consts); ++k) {
    e.consts_.push_back(e.own(PyTuple_GET_ITEM(consts, k)));
  }
  e.own(avals);
  e.retains_ = e.program_->calls_python;
  e.words_.assign(signature.words.begin(), signature.words.end());
  for (PyObject* x : layout.pointed) e.own(x);
  for (PyObject* x : signature.objects.list()) e.objects_.push_back(e.own(x));
  if (!e.add_inputs(layout)) return nullptr;
  e.add_outputs(avals);
  e.retain();
  return &e;
}

bool Entry::add_inputs(const Layout& layout) {
  std::vector<bool> returned(program_->inputs.size());
  for (int output : program_->outputs) {
    const Slot& slot = program_->slots[output];
    if (slot.kind == Kind::kInput) returned[slot.number] = true;
  }
  for (std::size_t k = 0; k < layout.leaves.size(); ++k) {
    Input input{};
    input.leaf = layout.leaves[k];
    input.number = static_cast<int>(consts_.size()) + layout.places[k];
    input.slot = program_->inputs[input.number];
    input.donated = layout.donated[k];
    input.keep = retains_ || returned[input.number];
    donates_ = donates_ || input.donated;
    if (is_scalar(input.leaf)) {
      input.scalar = scalars_++;
      PyObject* dtype = program_->slots[input.slot].dtype.ptr();
      if (!numpy_arrays::element_form(dtype, input.form)) return false;
      if (!can_hold(input.leaf, input.form)) return false;
    }
    inputs_.push_back(input);
  }
  return true;
}

void Entry::add_outputs(PyObject* avals) {
  for (std::size_t n = 0; n < program_->outputs.size(); ++n) {
    Output output{};
    output.slot = program_->outputs[n];
    output.aval = PyTuple_GET_ITEM(avals, n);
    const Slot& slot = program_->slots[output.slot];
    output.number = slot.number;
    output.source = -1;
    if (slot.kind == Kind::kInput) {
      output.kind = Output::kInput;
    } else if (slot.kind == Kind::kConst) {
      output.kind = Output::kConst;
    } else {
      output.kind = slot.number == static_cast<int>(n) ? Output::kOwn : Output::kSame;
    }
    outputs_.push_back(output);
  }
  for (const auto& [result, source] : program_->aliases) {
    const auto found =
        std::find_if(inputs_.begin(), inputs_.end(), [source = source](const Input& i) {
          return i.number == source && i.donated && i.leaf == Leaf::kArray;
        });
    if (found != inputs_.end()) {
      outputs_[result].source = static_cast<int>(found - inputs_.begin());
    }
  }
}

bool Entry::same_words(const Signature& signature) const {
  const auto& words = signature.words;
  return words.size() == words_.size() &&
         std::memcmp(words.data(), words_.data(), words_.size() * sizeof(Word)) == 0;
}

int Entry::same_objects(const Signature& signature) const {
  const auto& given = signature.objects.list();
  for (std::size_t k = 0; k < objects_.size(); ++k) {
    const int same = PyObject_RichCompareBool(given[k], objects_[k], Py_EQ);
    if (same != 1) return same;
  }
  return 1;
}

int Entry::traverse(visitproc visit, void* arg) const {
  for (PyObject* x : owned_) Py_VISIT(x);
  return 0;
}

Hold Cache::find(const Signature& signature, bool& failed) {
  failed = false;
  if (last_ != nullptr && last_->same_words(signature)) {
    Hold entry(last_);
    const int same = entry->same_objects(signature);
    failed = same < 0;
    entry.get()->used_ = true;
    if (same != 0) return failed ? Hold() : std::move(entry);
  }
  if (entries_.empty()) return Hold();
  return search(signature, failed);
}

Hold Cache::search(const Signature& signature, bool& failed) {
  std::uint64_t hash;
  failed = !hash_of(signature, hash);
  if (failed) return Hold();
  // Comparing objects may call Python, and so change the cache.
  std::vector<Hold> candidates;
  const auto [begin, end] = entries_.equal_range(hash);
  for (auto at = begin; at != end; ++at) candidates.emplace_back(at->second);
  for (Hold& entry : candidates) {
    const int same = entry->same_words(signature) ? entry->same_objects(signature) : 0;
    failed = same < 0;
    if (failed) return Hold();
    if (same == 0) continue;
    entry->used_ = true;
    const auto [first, last] = entries_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (at->second == entry.get()) last_ = entry.get();
    }
    return std::move(entry);
  }
  return Hold();
}

bool Cache::add(const Signature& signature, Entry* entry) {
  Hold hold(entry);
  entry->release();  // the caller's share
  if (!hash_of(signature, entry->hash_)) return false;
  if (entries_.size() >= kMostEntries) clear();
  entries_.emplace(entry->hash_, entry);
  entry->retain();
  last_ = entry;
  return true;
}

void Cache::clear() {
  last_ = nullptr;
  std::unordered_multimap<std::uint64_t, Entry*> before;
  before.swap(entries_);
  for (const auto& [hash, entry] : before) entry->release();
}

bool Cache::drop_unused(PyObject* kept) {
  // What comes and goes may call Python, which may clear the cache: that is left until the end.
  std::vector<Hold> used, dropped;
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry* entry = at->second;
    if (std::exchange(entry->used_, false)) {
      used.emplace_back(entry);
      ++at;
      continue;
    }
    dropped.emplace_back(entry);
    entry->release();
    if (last_ == entry) last_ = nullptr;
    at = entries_.erase(at);
  }
  for (const Hold& entry : used) {
    if (PyList_Append(kept, entry->executable()) != 0) return false;
  }
  return true;
}

int Cache::traverse(visitproc visit, void* arg) const {
  for (const auto& [hash, entry] : entries_) {
    const int result = entry->traverse(visit, arg);
    if (result != 0) return result;
  }
  return 0;
}

}  // namespace functrax::jit_cache
