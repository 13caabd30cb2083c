// See eager_parts.h. Start at Parts::find.
//
// Operations of different parts are connected by nothing at all, or by values that a program would
// have to store anyway: sums over whole arrays, and numbers that all leaves are multiplied by.
// Values go from a stage to later ones, so whatever the operations are, parts can be run one after
// the other.

#include "eager_parts.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "eager_state.h"

namespace functrax::eager {
namespace {

// Fewer parts are one program: their launches are few.
constexpr std::size_t kFewest = 16;
// A value of at most so many bytes is a number, or nearly; that many operations on nothing else are
// a part.
constexpr long long kNumber = 16;
constexpr std::uint32_t kMostInRow = 32;

using Numbers = std::vector<std::uint32_t>;

// Where the operations of a cut belong, by their places in it.
struct Labels {
  Numbers part;  // the place of the first operation of the part
  Numbers stage;
};

std::uint32_t first_of(Numbers& part, std::uint32_t n) {
  while (part[n] != n) n = part[n] = part[part[n]];
  return n;
}

bool is_number(const Node* node) {
  const Facts& facts = facts_of(node->signature);
  return facts.results == 1 && facts.out_bytes <= kNumber;
}

// Whether an operation is made of more than numbers.
bool reads_arrays(const Node* node) {
  PyObject* sizes = slot(node->signature, python.of_signature.operand_bytes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); ++i) {
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)) > kNumber) return true;
  }
  return false;
}

// Parts that have nothing in common; with `stages` also those that have numbers in common alone.
Labels label(const Cut& cut, bool stages) {
  const std::size_t count = cut.nodes.size();
  Labels found = {Numbers(count), Numbers(count, 0)};
  std::iota(found.part.begin(), found.part.end(), 0);
  Numbers row(stages ? count : 0, 0);          // of numbers, how many come before in the part
  std::vector<bool> sums(stages ? count : 0);  // numbers that arrays were reduced to
  const auto is_border = [&](std::size_t from, const Node* node) {
    if (!stages || !is_number(cut.nodes[from].get())) return false;
    if (cut.nodes[from].get()->single.uses >= kFewest) return true;  // all leaves read it
    return sums[from] || !is_number(node) || row[from] >= kMostInRow;
  };
  for (std::uint32_t n = 0; n < count; ++n) {
    const Node* node = cut.nodes[n].get();
    const auto each = [&](const auto& visit) {
      for (std::uint32_t i = 0; i < node->num_operands; ++i) {
        const Node* producer = node->operands[i].producer();
        if (producer != nullptr) visit(static_cast<std::uint32_t>(producer->place));
      }
    };
    std::uint32_t& stage = found.stage[n];
    each([&](std::uint32_t from) {
      stage = std::max(stage, found.stage[from] + is_border(from, node));
    });
    if (stages && is_number(node)) {
      sums[n] = reads_arrays(node);
      row[n] = 1;
    }
    each([&](std::uint32_t from) {
      if (found.stage[from] != stage) return;
      if (stages) row[n] = std::max(row[n], row[from] + 1);
      const std::uint32_t one = first_of(found.part, from), other = first_of(found.part, n);
      found.part[std::max(one, other)] = std::min(one, other);
    });
  }
  for (std::uint32_t n = 0; n < count; ++n) found.part[n] = first_of(found.part, n);
  return found;
}

}  // namespace

Parts::Parts(const Cut& cut) : whole_(cut) {
  const std::size_t count = cut.nodes.size();
  if (count < kFewest) return;
  codes_.reserve(count);
  local_.resize(count);
  std::size_t codes = 0;
  for (std::uint32_t n = 0; n < count; ++n) {
    const Node* node = cut.nodes[n].get();
    codes_.push_back(codes);
    results_.push_back(place_.size());
    codes += node->num_operands;
    place_.insert(place_.end(), node->num_results, n);
  }
  if (!find(false)) find(true);
}

// Finds parts; none, and false, where taking the cut apart leaves about as much to be compiled.
bool Parts::find(bool stages) {
  const std::size_t count = whole_.nodes.size();
  Labels labels = label(whole_, stages);
  part_ = std::move(labels.part);
  Numbers sizes(count, 0), firsts;
  for (std::uint32_t n = 0; n < count; ++n) {
    if (sizes[part_[n]]++ == 0) firsts.push_back(n);
  }
  if (firsts.size() < kFewest) return false;

  comes_out_.assign(whole_.results, false);
  for (const Cut::Output& output : whole_.outputs) comes_out_[output.number] = true;
  // What a part does, as far as one pass can tell: of each operation its signature, and how far its
  // operands are before it.
  std::vector<std::uint64_t> kinds(count, 0);  // at the first operation of a part
  Numbers sizes_so_far(count, 0), numbers(count);
  for (std::uint32_t n = 0; n < count; ++n) {
    const Node* node = whole_.nodes[n].get();
    std::uint64_t& kind = kinds[part_[n]];
    const auto add = [&](std::uint64_t word) {
      kind = (kind ^ word) * 0x9E3779B97F4A7C15u;
      kind ^= kind >> 29;
    };
    numbers[n] = sizes_so_far[part_[n]]++;
    add(reinterpret_cast<std::uintptr_t>(node->signature));
    for (std::size_t i = 0; i < node->num_operands; ++i) {
      const Cut::Code& code = whole_.codes[codes_[n] + i];
      const bool is_result = code.literal == nullptr && code.number >= 0;
      const std::uint32_t from = is_result ? place_[static_cast<std::size_t>(code.number)] : n;
      if (part_[from] == part_[n]) {
        add(numbers[n] - numbers[from]);
      } else {
        const auto number = static_cast<std::size_t>(code.number);
        // A large array that nobody holds may never be stored if the cut is one program.
        const Node* producer = whole_.nodes[from].get();
        const bool is_large = facts_of(producer->signature).out_bytes > python.small_bytes;
        if (is_large && !comes_out_[number]) return false;
        comes_out_[number] = true;
        add(1);
      }
    }
  }
  std::unordered_map<std::uint64_t, std::size_t> alike;
  std::size_t compiled = 0;
  for (const std::uint32_t first : firsts) {
    if (alike[kinds[first]]++ == 0) compiled += sizes[first];
  }
  if (2 * compiled > count) return false;

  std::stable_sort(firsts.begin(), firsts.end(), [&](std::uint32_t one, std::uint32_t other) {
    return labels.stage[one] < labels.stage[other];
  });
  Numbers next(count);  // where the next operation of a part goes
  std::size_t total = 0;
  for (const std::uint32_t first : firsts) {
    next[first] = static_cast<std::uint32_t>(total);
    parts_.push_back({total, total + sizes[first], labels.stage[first], alike[kinds[first]]});
    total += sizes[first];
  }
  nodes_.resize(count);
  for (std::uint32_t n = 0; n < count; ++n) nodes_[next[part_[n]]++] = n;
  for (const Part& part : parts_) {
    std::size_t results = 0;
    for (std::size_t k = part.begin; k < part.end; ++k) {
      local_[nodes_[k]] = results;
      results += whole_.nodes[nodes_[k]].get()->num_results;
    }
  }
  return true;
}

void Parts::describe(std::size_t k, Cut& cut, std::vector<int>& inputs,
                     std::vector<int>& outputs) const {
  const Part& part = parts_[k];
  const auto before = static_cast<int>(whole_.inputs.size());
  cut.words.push_back(whole_.words.front());
  for (std::size_t m = part.begin; m < part.end; ++m) {
    const std::uint32_t n = nodes_[m];
    PyObject* signature = whole_.nodes[n].get()->signature;
    PyObject* avals = slot(signature, python.of_signature.avals);
    cut.nodes.emplace_back(whole_.nodes[n].get());
    cut.words.push_back(reinterpret_cast<std::uintptr_t>(signature));
    for (Py_ssize_t i = 0; i < facts_of(signature).operands; ++i) {
      const Cut::Code& code = whole_.codes[codes_[n] + static_cast<std::size_t>(i)];
      if (code.literal != nullptr) {
        cut.codes.push_back(code);
        cut.literals.push_back(Ref::share(code.literal));
        cut.words.push_back(reinterpret_cast<std::uintptr_t>(code.literal));
        continue;
      }
      const std::uint32_t from =
          code.number < 0 ? 0 : place_[static_cast<std::size_t>(code.number)];
      if (code.number >= 0 && part_[from] == part_[n]) {
        const std::size_t of_node = static_cast<std::size_t>(code.number) - results_[from];
        cut.codes.push_back({nullptr, static_cast<std::int64_t>(local_[from] + of_node)});
        cut.words.push_back(2 * (local_[from] + of_node));
        continue;
      }
      const int value = static_cast<int>(code.number < 0 ? -1 - code.number : before + code.number);
      auto found = std::find(inputs.begin(), inputs.end(), value);
      if (found == inputs.end()) {
        const bool given = code.number < 0;
        const Cut::Input* input = given ? &whole_.inputs[static_cast<std::size_t>(value)] : nullptr;
        PyObject* aval = given ? input->aval : PyTuple_GET_ITEM(avals, i);
        cut.inputs.push_back({nullptr, aval, -1});
        cut.words.push_back(given ? reinterpret_cast<std::uintptr_t>(Py_TYPE(input->value)) : 1);
        found = inputs.insert(found, value);
      }
      cut.codes.push_back({nullptr, -1 - (found - inputs.begin())});
      cut.words.push_back(2 * static_cast<std::uintptr_t>(found - inputs.begin()) + 3);
    }
  }
  cut.words.push_back(0);
  for (std::size_t m = part.begin; m < part.end; ++m) {
    const Node* node = whole_.nodes[nodes_[m]].get();
    for (std::uint32_t r = 0; r < node->num_results; ++r) {
      const std::size_t number = results_[nodes_[m]] + r;
      if (!comes_out_[number]) continue;
      cut.outputs.push_back({whole_.nodes[nodes_[m]].get(), r, local_[nodes_[m]] + r});
      outputs.push_back(before + static_cast<int>(number));
      cut.words.push_back(2 * (local_[nodes_[m]] + r));
    }
  }
}

}  // namespace functrax::eager
