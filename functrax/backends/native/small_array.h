// An array whose size is known when it is made, on the stack if it is small.

#pragma once

#include <cstddef>
#include <memory>

namespace functrax {

template <typename T, std::size_t kInline>
class SmallArray {
 public:
  explicit SmallArray(std::size_t size)
      : size_(size), large_(size > kInline ? new T[size] : nullptr) {}

  std::size_t size() const { return size_; }
  T* data() { return large_ ? large_.get() : small_; }
  T& operator[](std::size_t k) { return data()[k]; }

 private:
  std::size_t size_;
  std::unique_ptr<T[]> large_;
  T small_[kInline];
};

}  // namespace functrax
