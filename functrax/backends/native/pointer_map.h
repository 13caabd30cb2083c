// A hash table from addresses of objects to numbers: small, without deletion, of one allocation.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace functrax {

class PointerMap {
 public:
  // The number of an object, or null.
  const std::int64_t* find(const void* key) const {
    if (count_ == 0) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.key == nullptr ? nullptr : &slot.value;
  }

  // The number of an object; one that is new has the number given.
  std::int64_t& at(const void* key, std::int64_t first = 0) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == nullptr) {
      slot = {key, first};
      ++count_;
    }
    return slot.value;
  }

  void clear() {
    if (count_ != 0) std::fill(slots_.begin(), slots_.end(), Slot());
    count_ = 0;
  }

 private:
  static constexpr std::size_t kFirst = 256;  // a power of two

  struct Slot {
    const void* key = nullptr;
    std::int64_t value = 0;
  };

  // Where a key is, or would be.
  std::size_t place_of(const void* key) const {
    const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15u;
    std::size_t place = static_cast<std::size_t>(mixed >> 32) & (slots_.size() - 1);
    while (slots_[place].key != nullptr && slots_[place].key != key) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }

  void grow() {
    std::vector<Slot> before(slots_.empty() ? kFirst : 2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.key != nullptr) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace functrax
