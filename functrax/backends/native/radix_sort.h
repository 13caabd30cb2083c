// Items in upward order, without a branch that depends on them: no order costs more than another.
//
// A few are put where the number of lesser ones says. More are sorted by counting digits of their
// keys: a pass over all of them for each digit, the lowest one first. What is too much for a cache
// is divided by the highest digits before.
//
// Start at radix_sort.

#pragma once

#include <algorithm>
#include <utility>

#include "ordering_keys.h"

namespace functrax::library {

// Up to so many items every one is compared with all.
template <typename Item>
constexpr Index kFewItems = sizeof(Item) == 8 ? 96 : 48;

// So many bits are a digit.
constexpr int kDigit = 8;
constexpr Index kDigits = Index(1) << kDigit;

template <typename Item>
void sort_few(Item* items, Item* other, Index count) {
  for (Index i = 0; i < count; ++i) {
    std::int64_t lesser = 0;
    for (Index n = 0; n < count; ++n) lesser += items[n] < items[i];
    other[lesser] = items[i];
  }
  std::copy(other, other + count, items);
}

// More are divided, at most so many times.
constexpr Index kCachedItems = 1 << 14;
constexpr int kDivisions = 2;

template <typename Item>
std::uint64_t digit_of(Item item, int number) {
  return static_cast<std::uint64_t>(item >> (kKeyBits<Item> + number * kDigit)) & (kDigits - 1);
}

// From how many there are of each digit to where the first of them goes.
inline void add_up(std::uint32_t* counts) {
  std::uint32_t sum = 0;
  for (Index d = 0; d < kDigits; ++d) sum += std::exchange(counts[d], sum);
}

template <typename Item>
void move_by(int number, const Item* from, Item* to, Index count, std::uint32_t* places) {
  for (Index i = 0; i < count; ++i) to[places[digit_of(from[i], number)]++] = from[i];
}

// Sorts by some of the digits, the lowest ones.
template <typename Item>
void sort_by_digits(Item* items, Item* other, Index count, int digits) {
  std::uint32_t counts[kKeyBits<Item> / kDigit][kDigits] = {};
  for (Index i = 0; i < count; ++i) {
    for (int n = 0; n < digits; ++n) ++counts[n][digit_of(items[i], n)];
  }
  Item* from = items;
  Item* to = other;
  for (int n = 0; n < digits; ++n) {
    if (counts[n][digit_of(from[0], n)] == count) continue;  // all have the same one
    add_up(counts[n]);
    move_by(n, from, to, count, counts[n]);
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + count, items);
}

// Sorts items whose keys are equal but for some digits, the lowest ones.
template <int kTimes, typename Item>
void divide(Item* items, Item* other, Index count, int digits) {
  if (count <= kFewItems<Item>) return sort_few(items, other, count);
  if constexpr (kTimes > 0) {
    while (count > kCachedItems && digits > 0) {
      std::uint32_t ends[kDigits] = {};
      for (Index i = 0; i < count; ++i) ++ends[digit_of(items[i], digits - 1)];
      --digits;
      if (ends[digit_of(items[0], digits)] == count) continue;  // all have the same one
      add_up(ends);
      move_by(digits, items, other, count, ends);
      Index begin = 0;
      for (const Index end : ends) {
        divide<kTimes - 1>(other + begin, items + begin, end - begin, digits);
        begin = end;
      }
      std::copy(other, other + count, items);
      return;
    }
  }
  sort_by_digits(items, other, count, digits);
}

// Sorts `items`; `other` has room for as many. Items that have equal keys must come in the order of
// their places.
template <typename Item>
void radix_sort(Item* items, Item* other, Index count) {
  divide<kDivisions>(items, other, count, kKeyBits<Item> / kDigit);
}

}  // namespace functrax::library
