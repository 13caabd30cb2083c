// Arrays that are sorted together, by some of them, along rows.
//
// A kernel whose units are rows. The keys of a row are sorted with their positions, the least
// important array first; then all arrays are read in that order.
//
// Start at sort.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "library.h"
#include "ordering_keys.h"
#include "radix_sort.h"
#include "small_array.h"
#include "targets/native.h"

namespace functrax::library {
namespace {

constexpr std::size_t kInline = 512;

// What a row is sorted by: an array, or one part of complex numbers.
struct Part {
  Index operand;
  Numbers numbers;
  Index infinity, bytes;  // of the part: its bits, its size
  Index offset;           // bytes from an element to the part
};

// Of one operand, or of its result.
struct Line {
  char* first;
  Index step;  // bytes
};

// Items of a part in the order that the row has so far; null is its own.
template <typename Item, typename S>
void read(const Part& part, Line line, const std::uint32_t* order, Index length, Item* items) {
  const SortedOrder<S> sorted(part.numbers, static_cast<S>(part.infinity));
  for (Index i = 0; i < length; ++i) {
    S bits;
    const Index place = order == nullptr ? i : order[i];
    std::memcpy(&bits, line.first + place * line.step + part.offset, sizeof bits);
    items[i] = item_of<Item>(sorted.key(bits), i);
  }
}

template <typename Item>
void read_any(const Part& part, Line line, const std::uint32_t* order, Index length, Item* items) {
  if (part.bytes == 1) read<Item, std::int8_t>(part, line, order, length, items);
  if (part.bytes == 2) read<Item, std::int16_t>(part, line, order, length, items);
  if (part.bytes == 4) read<Item, std::int32_t>(part, line, order, length, items);
  if constexpr (sizeof(Item) > 8) {
    if (part.bytes == 8) read<Item, std::int64_t>(part, line, order, length, items);
  }
}

// Integers are often near one another, and then have fewer digits above the least of them.
template <typename Item>
void count_from_least(Item* items, Index count) {
  Item least = items[0];
  for (Index i = 0; i < count; ++i) least = std::min(least, items[i]);
  least = least >> kKeyBits<Item> << kKeyBits<Item>;
  for (Index i = 0; i < count; ++i) items[i] -= least;
}

template <std::size_t kBytes>
void move(Line from, Line to, const std::uint32_t* order, Index length) {
  for (Index i = 0; i < length; ++i) {
    std::memcpy(to.first + i * to.step, from.first + order[i] * from.step, kBytes);
  }
}

void move_any(Line from, Line to, Index bytes, const std::uint32_t* order, Index length) {
  if (bytes == 1) move<1>(from, to, order, length);
  if (bytes == 2) move<2>(from, to, order, length);
  if (bytes == 4) move<4>(from, to, order, length);
  if (bytes == 8) move<8>(from, to, order, length);
  if (bytes == 16) move<16>(from, to, order, length);
}

// Buffers: the operands, the results, and for one row perhaps memory for items and an order.
// Params: the length of a row, how many rows lie side by side, how many operands and parts there
// are, whether there is such memory, the bytes of each operand's elements, and the parts.
template <typename Item>
void sort(void** buffers, const Index* params, Index begin, Index end) {
  const Index length = params[0], inner = params[1], operands = params[2], parts = params[3];
  const bool has_scratch = params[4] != 0;
  const Index* const bytes = params + 5;
  const auto* const keys = reinterpret_cast<const Part*>(bytes + operands);
  SmallArray<Item, kInline> own_items(has_scratch ? 0 : 2 * length);
  SmallArray<std::uint32_t, kInline> own_order(has_scratch ? 0 : length);
  void* const* const scratch = buffers + 2 * operands;
  Item* const items = has_scratch ? static_cast<Item*>(scratch[0]) : own_items.data();
  Item* const other = items + length;
  auto* const order = has_scratch ? static_cast<std::uint32_t*>(scratch[1]) : own_order.data();
  for (Index unit = begin; unit < end; ++unit) {
    const Index first = unit / inner * length * inner + unit % inner;
    const auto line = [&](Index buffer, Index size) {
      return Line{static_cast<char*>(buffers[buffer]) + first * size, inner * size};
    };
    for (Index p = parts - 1; p >= 0; --p) {
      const Line read_from = line(keys[p].operand, bytes[keys[p].operand]);
      const bool is_first = p == parts - 1;
      read_any(keys[p], read_from, is_first ? nullptr : order, length, items);
      if (keys[p].numbers != Numbers::kFloat) count_from_least(items, length);
      radix_sort(items, other, length);
      if (!is_first) {
        for (Index i = 0; i < length; ++i) other[i] = order[place_of(items[i])];
      }
      const Item* const from = is_first ? items : other;
      for (Index i = 0; i < length; ++i) order[i] = place_of(from[i]);
    }
    for (Index n = 0; n < operands; ++n) {
      move_any(line(n, bytes[n]), line(operands + n, bytes[n]), bytes[n], order, length);
    }
  }
}

FUNCTRAX_WIDE void sort_by_4(void** buffers, const Index* params, Index begin, Index end) {
  sort<std::uint64_t>(buffers, params, begin, end);
}
FUNCTRAX_WIDE void sort_by_8(void** buffers, const Index* params, Index begin, Index end) {
  sort<unsigned __int128>(buffers, params, begin, end);
}

}  // namespace

const std::vector<Named>& sorting_loops() {
  static const std::vector<Named> all = {
      {"sort_by_4", sort_by_4},
      {"sort_by_8", sort_by_8},
  };
  return all;
}

}  // namespace functrax::library
