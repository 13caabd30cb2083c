// What something is made of, written as words: numbers, and addresses of objects that somebody
// keeps alive. Equal words, equal things; they are keys of hash tables.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace functrax {

using Words = std::vector<std::uintptr_t>;

struct WordsHash {
  std::size_t operator()(const Words& words) const {
    std::uint64_t h = words.size();
    for (const std::uintptr_t word : words) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return h;
  }
};

}  // namespace functrax
