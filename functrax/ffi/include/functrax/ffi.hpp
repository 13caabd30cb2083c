// Handlers in C++: arrays and attributes with their types, and exceptions for errors.
//
//     #include <functrax/ffi.hpp>
//
//     FUNCTRAX_FFI_HANDLER(scaled, frame) {
//       const auto x = frame.argument<float>(0);
//       const auto y = frame.result<float>(0);
//       const auto a = frame.attribute<float>("a");
//       if (x.size() != y.size()) throw functrax::ffi::Error("sizes differ");
//       for (std::int64_t i = 0; i < x.size(); ++i) y[i] = a * x[i];
//     }
//
// This defines the C function `scaled`, which register_ffi_target takes. What an array's elements
// are is compared when it is asked for. See ffi.h for the interface itself.

#ifndef FUNCTRAX_FFI_HPP
#define FUNCTRAX_FFI_HPP

#include <functrax/ffi.h>

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace functrax::ffi {

// The number of a type of elements; those of fewer than 32 bits that C++ lacks are asked for by
// their number: argument<std::uint16_t>(0, FUNCTRAX_FFI_BF16).
template <typename T>
struct TypeOf;
template <>
struct TypeOf<bool> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_BOOL> {};
template <>
struct TypeOf<std::int8_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_I8> {};
template <>
struct TypeOf<std::int16_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_I16> {};
template <>
struct TypeOf<std::int32_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_I32> {};
template <>
struct TypeOf<std::int64_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_I64> {};
template <>
struct TypeOf<std::uint8_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_U8> {};
template <>
struct TypeOf<std::uint16_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_U16> {};
template <>
struct TypeOf<std::uint32_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_U32> {};
template <>
struct TypeOf<std::uint64_t> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_U64> {};
template <>
struct TypeOf<float> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_F32> {};
template <>
struct TypeOf<double> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_F64> {};
template <>
struct TypeOf<std::complex<float>> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_C64> {};
template <>
struct TypeOf<std::complex<double>> : std::integral_constant<std::int32_t, FUNCTRAX_FFI_C128> {};

// Ends the call with an error.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::int32_t code = FUNCTRAX_FFI_INVALID_ARGUMENT)
      : std::runtime_error(message), code_(code) {}
  std::int32_t code() const { return code_; }

 private:
  std::int32_t code_;
};

// Elements that lie side by side.
template <typename T>
class Span {
 public:
  Span(T* data, std::int64_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  T& operator[](std::int64_t k) const { return data_[k]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_;
  std::int64_t size_;
};

// A dense, row-major array.
template <typename T>
class Array : public Span<T> {
 public:
  explicit Array(const functrax_ffi_buffer& buffer)
      : Span<T>(static_cast<T*>(buffer.data), functrax_ffi_elements(&buffer)), buffer_(&buffer) {}
  std::int64_t rank() const { return buffer_->rank; }
  std::int64_t dim(std::int64_t axis) const { return buffer_->dims[axis]; }

 private:
  const functrax_ffi_buffer* buffer_;
};

// A call.
class Frame {
 public:
  explicit Frame(functrax_ffi_frame& frame) : frame_(frame) {}

  functrax_ffi_frame& raw() const { return frame_; }
  std::int64_t arguments() const { return frame_.arguments.count; }
  std::int64_t results() const { return frame_.results.count; }

  template <typename T>
  Array<const T> argument(std::int64_t number, std::int32_t type = TypeOf<T>::value) const {
    return array<const T>(frame_.arguments, "argument", number, type);
  }
  template <typename T>
  Array<T> result(std::int64_t number, std::int32_t type = TypeOf<T>::value) const {
    return array<T>(frame_.results, "result", number, type);
  }

  // A number; a std::string_view; or a Span<const T> of numbers.
  template <typename T>
  T attribute(const char* name) const {
    if constexpr (std::is_same_v<T, std::string_view>) {
      const auto& found = value<functrax_ffi_string>(name, FUNCTRAX_FFI_ATTRIBUTE_STRING);
      return {found.data, found.size};
    } else if constexpr (std::is_class_v<T> && !is_complex<T>::value) {
      using Element = std::remove_reference_t<decltype(std::declval<T>()[0])>;
      const auto& found = value<functrax_ffi_array>(name, FUNCTRAX_FFI_ATTRIBUTE_ARRAY);
      check(name, found.type, TypeOf<std::remove_const_t<Element>>::value);
      return {static_cast<Element*>(found.data), static_cast<std::int64_t>(found.size)};
    } else {
      const auto& found = value<functrax_ffi_scalar>(name, FUNCTRAX_FFI_ATTRIBUTE_SCALAR);
      check(name, found.type, TypeOf<T>::value);
      return *static_cast<const T*>(found.value);
    }
  }

 private:
  template <typename T>
  struct is_complex : std::false_type {};
  template <typename T>
  struct is_complex<std::complex<T>> : std::true_type {};

  static void check(const std::string& what, std::int32_t found, std::int32_t wanted) {
    if (found == wanted) return;
    throw Error(what + " is of type " + std::to_string(found) + ", not " + std::to_string(wanted));
  }

  template <typename T>
  static Array<T> array(const functrax_ffi_values& all, const char* kind, std::int64_t number,
                        std::int32_t type) {
    const std::string what = std::string(kind) + " " + std::to_string(number);
    if (number < 0 || number >= all.count) throw Error("there is no " + what);
    const auto& buffer = *static_cast<const functrax_ffi_buffer*>(all.values[number]);
    check(what, buffer.type, type);
    return Array<T>(buffer);
  }

  template <typename T>
  const T& value(const char* name, std::int32_t kind) const {
    const functrax_ffi_attributes& all = frame_.attributes;
    for (std::int64_t k = 0; k < all.count; ++k) {
      if (std::string_view(all.names[k]->data, all.names[k]->size) != name) continue;
      if (all.kinds[k] == kind) return *static_cast<const T*>(all.values[k]);
    }
    throw Error(std::string("no attribute ") + name + " of kind " + std::to_string(kind));
  }

  functrax_ffi_frame& frame_;
};

// What a handler is: answers what it is asked, and makes errors of exceptions.
template <typename Function>
functrax_ffi_error* handle(functrax_ffi_frame* frame, Function&& function) {
  if (functrax_ffi_wants_metadata(frame)) return functrax_ffi_metadata(frame);
  try {
    function(Frame(*frame));
  } catch (const Error& error) {
    return functrax_ffi_fail(frame, error.code(), error.what());
  } catch (const std::exception& error) {
    return functrax_ffi_fail(frame, FUNCTRAX_FFI_INTERNAL, error.what());
  }
  return nullptr;
}

}  // namespace functrax::ffi

#define FUNCTRAX_FFI_HANDLER(name, frame)                            \
  static void name##_of_functrax(const functrax::ffi::Frame& frame); \
  extern "C" functrax_ffi_error* name(functrax_ffi_frame* call) {    \
    return functrax::ffi::handle(call, name##_of_functrax);          \
  }                                                                  \
  static void name##_of_functrax([[maybe_unused]] const functrax::ffi::Frame& frame)

#endif  // FUNCTRAX_FFI_HPP
