// What something is made of, written as words: numbers, and addresses of objects that somebody
// keeps alive. Equal words, equal things; they are keys of hash tables.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace functrax {

using Words = std::vector<std::uintptr_t>;

// Words that are somewhere else.
struct WordsView {
  const std::uintptr_t* first;
  std::size_t count;
};

inline bool operator==(const Words& words, const WordsView& view) {
  return words.size() == view.count && std::equal(words.begin(), words.end(), view.first);
}

struct WordsHash {
  std::size_t operator()(const Words& words) const {
    return (*this)(WordsView{words.data(), words.size()});
  }
  std::size_t operator()(const WordsView& words) const {
    const auto mixed = [](std::uint64_t h, std::uint64_t word) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;
      return h ^ (h >> 29);
    };
    // Long lists go four ways, none of which waits for another.
    std::uint64_t h = words.count, ways[] = {1, 2, 3};
    std::size_t i = 0;
    for (; i + 4 <= words.count; i += 4) {
      h = mixed(h, words.first[i]);
      for (std::size_t k = 0; k < 3; ++k) ways[k] = mixed(ways[k], words.first[i + 1 + k]);
    }
    for (; i < words.count; ++i) h = mixed(h, words.first[i]);
    for (const std::uint64_t way : ways) h = mixed(h, way);
    return h;
  }
};

}  // namespace functrax
