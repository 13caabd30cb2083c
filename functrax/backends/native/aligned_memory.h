// Memory for numbers, which begins at a line of a cache.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace functrax {

template <typename T>
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t size) : own_(new char[size * sizeof(T) + kLine]) {
    const auto address = reinterpret_cast<std::uintptr_t>(own_.get());
    data_ = reinterpret_cast<T*>((address + kLine - 1) / kLine * kLine);
  }
  T* data() const { return data_; }

 private:
  static constexpr std::uintptr_t kLine = 64;

  std::unique_ptr<char[]> own_;
  T* data_;
};

}  // namespace functrax
