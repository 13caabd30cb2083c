// What the wrappers of all programs have in common.
#ifndef FUNCTRAX_VIEW_HPP
#define FUNCTRAX_VIEW_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace functrax {

// Neighbouring elements, which somebody else owns; as std::span of C++20.
template <class T>
class span {
 public:
  constexpr span() noexcept = default;
  constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  // A vector, an array, a std::span: whatever has its elements in one place.
  template <class Container,
            class = std::enable_if_t<
                !std::is_array<std::remove_reference_t<Container>>::value &&
                !std::is_same<std::decay_t<Container>, span>::value &&
                std::is_convertible<decltype(std::declval<Container&>().data()), T*>::value>>
  constexpr span(Container&& x) : data_(x.data()), size_(x.size()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t n) const { return data_[n]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// The elements of an array, dense and row-major, and its shape where the caller says it.  Whoever
// gives neighbouring elements alone is asked for their number.
template <class T, std::size_t Rank>
class view {
 public:
  using shape_type = std::array<std::int64_t, Rank>;

  view(span<T> elements) : elements_(elements) {}
  view(T* data, const shape_type& shape)
      : elements_(data, count(shape)), shape_(shape), has_shape_(true) {}
  template <class Container,
            class = std::enable_if_t<std::is_constructible<span<T>, Container&&>::value &&
                                     !std::is_same<std::decay_t<Container>, view>::value &&
                                     !std::is_same<std::decay_t<Container>, span<T>>::value>>
  view(Container&& x) : elements_(std::forward<Container>(x)) {}
  // A number, as an array without axes.
  template <class U = T, class = std::enable_if_t<Rank == 0 && sizeof(U) != 0>>
  view(T& x) : elements_(&x, 1) {}

  T* data() const { return elements_.data(); }

  // Throws std::invalid_argument unless this is an array of a shape.
  T* checked(const char* name, const shape_type& shape) const {
    const bool fits = has_shape_ ? shape_ == shape : elements_.size() == count(shape);
    if (fits) return elements_.data();
    throw std::invalid_argument(
        std::string(name) + ": an array of shape " + text(shape) + " is needed, and it has " +
        (has_shape_ ? "shape " + text(shape_) : std::to_string(elements_.size()) + " elements"));
  }

 private:
  static std::size_t count(const shape_type& shape) {
    std::size_t found = 1;
    for (const std::int64_t n : shape) found *= static_cast<std::size_t>(n);
    return found;
  }
  static std::string text(const shape_type& shape) {
    std::string found = "[";
    for (const std::int64_t n : shape) found += (found.size() > 1 ? "," : "") + std::to_string(n);
    return found + "]";
  }

  span<T> elements_;
  shape_type shape_{};
  bool has_shape_ = false;
};

// The shape of an array for some sizes, which a program's function of C tells.
template <std::size_t Rank>
std::array<std::int64_t, Rank> shape_of(int (*shape)(const std::int64_t*, int, std::int64_t*),
                                        const std::int64_t* sizes, int array) {
  std::array<std::int64_t, Rank + 1> found{};
  shape(sizes, array, found.data());
  std::array<std::int64_t, Rank> out{};
  for (std::size_t k = 0; k < Rank; ++k) out[k] = found[k];
  return out;
}

// Memory for calls, aligned; one for each thread that makes calls.
class workspace {
 public:
  explicit workspace(std::size_t nbytes) { reserve(nbytes); }

  // Memory of so many bytes at least: it grows, and keeps nothing.
  void reserve(std::size_t nbytes) {
    const std::size_t alignment = FUNCTRAX_WORKSPACE_ALIGNMENT;
    if (nbytes <= size_) return;
    memory_.reset(new unsigned char[nbytes + alignment]);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = memory_.get() + (alignment - address % alignment) % alignment;
    size_ = nbytes;
  }
  void* data() const { return data_; }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<unsigned char[]> memory_;
  unsigned char* data_ = nullptr;
};

}  // namespace functrax

#endif  // FUNCTRAX_VIEW_HPP
