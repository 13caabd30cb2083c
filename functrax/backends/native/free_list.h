// Memory of objects that have ended, for the next ones of the same size. Under the GIL.

#pragma once

#include <cstddef>

namespace functrax {

template <std::size_t kMost>
class FreeList {
 public:
  // The memory of an object that ended last; null if there is none.
  void* take() { return count_ == 0 ? nullptr : items_[--count_]; }

  // Keeps the memory of an object; false where it has to be freed.
  bool keep(void* memory) {
    if (count_ == kKept) return false;
    items_[count_++] = memory;
    return true;
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t kKept = 0;  // so that a use after the end is found
#else
  static constexpr std::size_t kKept = kMost;
#endif

  std::size_t count_ = 0;
  void* items_[kMost];
};

}  // namespace functrax
