// The largest elements of rows, in order, and where they are.
//
// A kernel whose units are rows, of one stride. What may be among the largest is collected; when
// there is no more room, the best of it stay, and the last one of these has to be beaten by what
// comes. Most blocks of a row have nothing that beats it, and no order of a row costs much more
// than another.
//
// Start at top_k.

#include <algorithm>
#include <cstdint>

#include "library.h"
#include "small_array.h"
#include "targets/native.h"

namespace functrax::library {
namespace {

using Index = std::int64_t;

// Elements that are looked at before anything is done with one of them.
constexpr Index kBlock = 64;
constexpr Index kInline = 1024;

// NaN counts as larger than all numbers.
template <typename T>
bool beats(T x, T y) {
  return x > y || (x != x && y == y);
}

template <typename T>
struct Item {
  T value;
  std::int32_t place;

  // Of equal elements the first one comes first.
  bool operator<(const Item& o) const {
    return beats(value, o.value) || (!beats(o.value, value) && place < o.place);
  }
};

// The best of a row so far, and others.
template <typename T>
class Candidates {
 public:
  Candidates(Item<T>* items, Index wanted, Index room)
      : items_(items), wanted_(wanted), room_(room) {}

  bool is_bounded() const { return bounded_; }
  T least() const { return least_; }

  void add(T x, Index place) {
    if (bounded_ && !beats(x, least_)) return;
    items_[count_++] = {x, static_cast<std::int32_t>(place)};
    if (count_ == room_) keep_best();
  }

  const Item<T>* sorted() {
    if (count_ > wanted_) keep_best();
    std::sort(items_, items_ + wanted_);
    return items_;
  }

 private:
  void keep_best() {
    std::nth_element(items_, items_ + wanted_ - 1, items_ + count_);
    count_ = wanted_;
    least_ = items_[wanted_ - 1].value;
    bounded_ = true;
  }

  Item<T>* items_;
  Index wanted_, room_, count_ = 0;
  T least_{};
  bool bounded_ = false;
};

// Whether an element of a block beats a number; a NaN beats it in any case.
template <typename T>
bool any_beats(const T* x, T least) {
  int found = 0;
  for (Index i = 0; i < kBlock; ++i) found |= !(x[i] <= least);
  return found != 0;
}

template <typename T>
void select(const T* x, Index length, Index step, Candidates<T>& best) {
  Index i = 0;
  while (i < length) {
    const bool scans = step == 1 && best.is_bounded() && i + kBlock <= length;
    if (scans && !any_beats(x + i, best.least())) {
      i += kBlock;
      continue;
    }
    const Index end = std::min(i + kBlock, length);
    for (; i < end; ++i) best.add(x[i * step], i);
  }
}

// Buffers: the operand; values and places. Params: the length of a row, how many are asked for, and
// how many rows lie side by side.
template <typename T>
void top_k(void** buffers, const Index* params, Index begin, Index end) {
  const Index length = params[0], size = params[1], inner = params[2];
  const T* const x = static_cast<const T*>(buffers[0]);
  T* const values = static_cast<T*>(buffers[1]);
  auto* const places = static_cast<std::int32_t*>(buffers[2]);
  const Index room = std::min(length, 4 * size + kBlock);
  SmallArray<Item<T>, kInline> items(room + 1);
  for (Index unit = begin; unit < end; ++unit) {
    const Index outer = unit / inner, side = unit % inner;
    Candidates<T> best(items.data(), size, room + 1);
    select(x + outer * length * inner + side, length, inner, best);
    const Item<T>* const found = best.sorted();
    const Index first = outer * size * inner + side;
    for (Index k = 0; k < size; ++k) {
      values[first + k * inner] = found[k].value;
      places[first + k * inner] = found[k].place;
    }
  }
}

FUNCTRAX_WIDE void top_k_f4(void** buffers, const Index* p, Index begin, Index end) {
  top_k<float>(buffers, p, begin, end);
}
FUNCTRAX_WIDE void top_k_f8(void** buffers, const Index* p, Index begin, Index end) {
  top_k<double>(buffers, p, begin, end);
}
FUNCTRAX_WIDE void top_k_i4(void** buffers, const Index* p, Index begin, Index end) {
  top_k<std::int32_t>(buffers, p, begin, end);
}
FUNCTRAX_WIDE void top_k_i8(void** buffers, const Index* p, Index begin, Index end) {
  top_k<std::int64_t>(buffers, p, begin, end);
}

}  // namespace

const std::vector<Named>& selection_loops() {
  static const std::vector<Named> all = {
      {"top_k_f4", top_k_f4},
      {"top_k_f8", top_k_f8},
      {"top_k_i4", top_k_i4},
      {"top_k_i8", top_k_i8},
  };
  return all;
}

}  // namespace functrax::library
