// A hash table of one allocation, from keys to values of which an empty one is none.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace functrax {

template <typename Key, typename Value, typename Hash>
class OpenTable {
 public:
  // The value of a key, or of what equals it and has its hash; null if there is none.
  template <typename Like>
  const Value* find(const Like& key) const {
    if (count_ == 0) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.value ? &slot.value : nullptr;
  }

  // Puts a value in its place, if there is none yet.
  void add(Key key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.value) return;
    slot.key = std::move(key);
    slot.value = std::move(value);
    ++count_;
  }

  std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t kFirst = 16;  // a power of two

  struct Slot {
    Key key = {};
    Value value = {};
  };

  // Where a key is, or would be.
  template <typename Like>
  std::size_t place_of(const Like& key) const {
    std::size_t place = Hash()(key) & (slots_.size() - 1);
    while (slots_[place].value && !(slots_[place].key == key)) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }

  void grow() {
    std::vector<Slot> before(slots_.empty() ? kFirst : 2 * slots_.size());
    before.swap(slots_);
    for (Slot& slot : before) {
      if (slot.value) slots_[place_of(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace functrax
