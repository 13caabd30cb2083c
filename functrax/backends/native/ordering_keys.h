// Elements of arrays as integers that have the order of the elements.
//
// An element is read as a signed integer of its size, its bits. A Key goes with it, and an Item
// holds both the key and the place of an element, so that items are never equal and their order is
// stable. Floats of all formats that have a sign, then an exponent, then a fraction are alike.

#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace functrax::library {

using Index = std::int64_t;

// What the bits of a dtype stand for; `_kind` in functrax/backends/libraries/ordering_calls.py.
enum class Numbers : Index { kFloat, kSigned, kUnsigned };

// Signed integers that have the total order of the elements: of floats -NaN, -inf, -0, 0, inf, NaN.
template <typename S>
class TotalOrder {
 public:
  explicit TotalOrder(Numbers numbers)
      : negative_(numbers == Numbers::kFloat ? kMost : 0),
        all_(numbers == Numbers::kUnsigned ? std::numeric_limits<S>::min() : 0) {}

  S key(S bits) const { return static_cast<S>(bits ^ ((bits >> kSign) & negative_) ^ all_); }

 private:
  static constexpr S kMost = std::numeric_limits<S>::max();
  static constexpr int kSign = 8 * sizeof(S) - 1;

  S negative_, all_;  // what is turned, of negative numbers and of all
};

// The same in the order of lax.sort: the two zeros are equal, and all NaN, which come last.
template <typename S>
class SortedOrder {
 public:
  // `infinity`: its bits, which say how long the exponent of a float is.
  SortedOrder(Numbers numbers, S infinity)
      : total_(numbers), is_float_(numbers == Numbers::kFloat), infinity_(infinity) {}

  S key(S bits) const {
    const S size = bits & std::numeric_limits<S>::max();
    if (is_float_ && size > infinity_) return std::numeric_limits<S>::max();
    return total_.key(is_float_ && size == 0 ? S(0) : bits);
  }

 private:
  TotalOrder<S> total_;
  bool is_float_;
  S infinity_;
};

// A key in the upper half of a number, and the place in the lower half.
template <typename S>
using ItemOf = std::conditional_t<sizeof(S) <= 4, std::uint64_t, unsigned __int128>;

template <typename Item>
constexpr int kKeyBits = 4 * sizeof(Item);

// Items in upward order have upward keys, and upward places where the keys are equal.
template <typename Item, typename S>
Item item_of(S key, Index place) {
  using Unsigned = std::conditional_t<sizeof(Item) == 8, std::uint32_t, std::uint64_t>;
  constexpr int kBits = kKeyBits<Item>;
  // A short key has the upper bits, so that the lower ones are no digits to sort by.
  const auto left = static_cast<Unsigned>(key) << (kBits - 8 * sizeof(S));
  return Item{left ^ Unsigned(1) << (kBits - 1)} << kBits | static_cast<std::uint32_t>(place);
}

template <typename Item>
std::uint32_t place_of(Item item) {
  return static_cast<std::uint32_t>(item);
}

}  // namespace functrax::library
