// A list that begins on the stack: for plain values, whose number is known only at the end.

#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

namespace functrax {

template <typename T, std::size_t kInline>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowingArray() = default;
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;

  void push_back(T value) {
    if (size_ == capacity_) grow();
    data_[size_++] = value;
  }
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t k) { return data_[k]; }
  T operator[](std::size_t k) const { return data_[k]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void grow() {
    std::unique_ptr<T[]> larger(new T[capacity_ * 4]);
    std::memcpy(larger.get(), data_, size_ * sizeof(T));
    large_ = std::move(larger);
    data_ = large_.get();
    capacity_ *= 4;
  }

  std::size_t size_ = 0, capacity_ = kInline;
  T small_[kInline];
  T* data_ = small_;
  std::unique_ptr<T[]> large_;
};

}  // namespace functrax
