// The largest elements of rows, in order, and where they are; ties go to the first.
//
// A kernel for rows of bits that a TotalOrder makes keys of. The largest element of each block of a
// row is found, then a number that the k largest of these reach: it is a bound, below which nothing
// is among the k largest elements. Only blocks that reach it are looked at again, and what reaches
// it is sorted. No order of the elements costs much more than another.
//
// Start at of_rows.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "library.h"
#include "ordering_keys.h"
#include "radix_sort.h"
#include "small_array.h"
#include "targets/native.h"

namespace functrax::library {
namespace {

constexpr std::size_t kInline = 512;

// Elements that are looked at together, before anything is done with one of them.
constexpr Index kChunk = 16;

// Rows that lie side by side and are read together.
constexpr Index kLanes = 16;

template <typename S>
struct Row {
  using Item = ItemOf<S>;

  const S* bits;
  Index length, step;
  TotalOrder<S> order;

  S key(Index i) const { return order.key(bits[i * step]); }
  // The largest keys have the smallest items.
  Item item(Index i) const { return item_of<Item>(static_cast<S>(~key(i)), i); }

  // For a step of 1.
  bool any_reaches(Index begin, Index end, S bound) const {
    int found = 0;
    for (Index i = begin; i < end; ++i) found |= order.key(bits[i]) >= bound;
    return found != 0;
  }
};

// The largest key of each block; of `lanes` rows that lie side by side, one row after the other.
template <typename S>
void find_maxima(const Row<S>& first, Index lanes, Index width, Index blocks, S* maxima) {
  for (Index b = 0; b < blocks; ++b) {
    const Index begin = b * width, end = std::min(begin + width, first.length);
    if (first.step == 1) {
      S most = first.order.key(first.bits[begin]);
      for (Index i = begin; i < end; ++i) most = std::max(most, first.order.key(first.bits[i]));
      maxima[b] = most;
      continue;
    }
    if (lanes < kLanes) {
      for (Index n = 0; n < lanes; ++n) {
        const S* const x = first.bits + n;
        S most = first.order.key(x[begin * first.step]);
        for (Index i = begin; i < end; ++i)
          most = std::max(most, first.order.key(x[i * first.step]));
        maxima[n * blocks + b] = most;
      }
      continue;
    }
    S most[kLanes];
    std::fill(most, most + kLanes, std::numeric_limits<S>::min());
    for (Index i = begin; i < end; ++i) {
      const S* const x = first.bits + i * first.step;
      for (Index n = 0; n < kLanes; ++n) most[n] = std::max(most[n], first.order.key(x[n]));
    }
    for (Index n = 0; n < kLanes; ++n) maxima[n * blocks + b] = most[n];
  }
}

// How many keys above `k` may reach a bound.
Index slack(Index k) { return k / 4; }

// A bound that at least k of the keys reach; and at most `slack` more, but for keys that equal it.
template <typename S>
S bound_of(const S* keys, Index count, Index k) {
  using Unsigned = std::make_unsigned_t<S>;
  S low = keys[0], high = keys[0];  // at least k reach `low`
  for (Index i = 0; i < count; ++i) {
    low = std::min(low, keys[i]);
    high = std::max(high, keys[i]);
  }
  while (low < high) {
    const auto apart = static_cast<Unsigned>(static_cast<Unsigned>(high) - Unsigned(low));
    const S middle = static_cast<S>(Unsigned(low) + (apart / 2 + apart % 2));
    std::int32_t reach = 0;
    for (Index i = 0; i < count; ++i) reach += keys[i] >= middle;
    if (reach < k) {
      high = static_cast<S>(middle - 1);
      continue;
    }
    low = middle;
    if (reach <= k + slack(k)) break;
  }
  return low;
}

// Collects what may be among the k largest: all that is larger than a bound, and the first k that
// equal it. Returns how many there are.
template <typename S>
Index collect(const Row<S>& row, Index k, Index width, const S* maxima, ItemOf<S>* items) {
  const Index blocks = (row.length + width - 1) / width;
  const S bound = bound_of(maxima, blocks, k);
  Index count = 0, ties = 0;
  for (Index b = 0; b < blocks; ++b) {
    if (maxima[b] < bound || (maxima[b] == bound && ties >= k)) continue;
    const Index last = std::min((b + 1) * width, row.length);
    for (Index begin = b * width; begin < last; begin += kChunk) {
      const Index end = std::min(begin + kChunk, last);
      if (row.step == 1 && !row.any_reaches(begin, end, bound)) continue;
      for (Index i = begin; i < end; ++i) {
        const S key = row.key(i);
        items[count] = row.item(i);
        count += (key > bound) | ((key == bound) & (ties < k));
        ties += key == bound;
      }
    }
  }
  return count;
}

// Items for `collect`: those of all blocks that reach the bound, ties, and one that is left out.
Index room_for(Index length, Index k, Index width) {
  return std::min(length, (k + slack(k)) * width + k) + 1;
}

// The k smallest items in front, in order.
template <typename Item>
void keep_smallest(Item* items, Item* other, Index count, Index k) {
  if (4 * k < count) {
    std::copy(items, items + count, other);
    std::nth_element(other, other + k, other + count);
    const Item last = other[k];
    Index kept = 0;  // in the order of their places
    for (Index i = 0; i < count; ++i) {
      const Item item = items[i];
      items[kept] = item;
      kept += item < last;
    }
    count = k;
  }
  radix_sort(items, other, count);
}

// Buffers: the operand; values and places. Params: how many are asked for, the length of a row, how
// many rows lie side by side, the width of blocks (0: all elements are collected), and what numbers
// there are. A unit is a row, or at most `kLanes` rows side by side.
template <typename S>
void of_rows(void** buffers, const Index* params, Index begin, Index end) {
  using Item = ItemOf<S>;
  const Index k = params[0], length = params[1], inner = params[2], width = params[3];
  const TotalOrder<S> order(static_cast<Numbers>(params[4]));
  S* const values = static_cast<S*>(buffers[1]);
  auto* const places = static_cast<std::int32_t*>(buffers[2]);
  const Index blocks = width == 0 ? 0 : (length + width - 1) / width;
  const Index room = width == 0 ? length : room_for(length, k, width);
  SmallArray<Item, kInline> items(room), other(room);
  SmallArray<S, kInline> maxima(blocks * std::min(inner, kLanes));
  const Index groups = (inner + kLanes - 1) / kLanes;
  for (Index unit = begin; unit < end; ++unit) {
    const Index outer = unit / groups, side = unit % groups * kLanes;
    const Index lanes = std::min(inner - side, kLanes);
    Row<S> row{static_cast<const S*>(buffers[0]) + outer * length * inner + side, length, inner,
               order};
    if (width != 0) find_maxima(row, lanes, width, blocks, maxima.data());
    for (Index lane = 0; lane < lanes; ++lane, ++row.bits) {
      Index count = length;
      if (width != 0) {
        count = collect(row, k, width, maxima.data() + lane * blocks, items.data());
      } else {
        for (Index i = 0; i < length; ++i) items[i] = row.item(i);
      }
      keep_smallest(items.data(), other.data(), count, k);
      const Index first = outer * k * inner + side + lane;
      for (Index n = 0; n < k; ++n) {
        const Index place = place_of(items[n]);
        values[first + n * inner] = row.bits[place * inner];
        places[first + n * inner] = static_cast<std::int32_t>(place);
      }
    }
  }
}

FUNCTRAX_WIDE void top_k_1(void** buffers, const Index* params, Index begin, Index end) {
  of_rows<std::int8_t>(buffers, params, begin, end);
}
FUNCTRAX_WIDE void top_k_2(void** buffers, const Index* params, Index begin, Index end) {
  of_rows<std::int16_t>(buffers, params, begin, end);
}
FUNCTRAX_WIDE void top_k_4(void** buffers, const Index* params, Index begin, Index end) {
  of_rows<std::int32_t>(buffers, params, begin, end);
}
FUNCTRAX_WIDE void top_k_8(void** buffers, const Index* params, Index begin, Index end) {
  of_rows<std::int64_t>(buffers, params, begin, end);
}

}  // namespace

const std::vector<Named>& selection_loops() {
  static const std::vector<Named> all = {
      {"top_k_1", top_k_1},
      {"top_k_2", top_k_2},
      {"top_k_4", top_k_4},
      {"top_k_8", top_k_8},
  };
  return all;
}

}  // namespace functrax::library
