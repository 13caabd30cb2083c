// Regions: what recorded operations have in common that need one another. As Region of
// backends/eager/graph.py.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace functrax::eager {

struct Region;

// A counted reference to a region.
class RegionPointer {
 public:
  RegionPointer() = default;
  explicit RegionPointer(PyObject* entry);  // a new region of one operation
  RegionPointer(const RegionPointer& other);
  RegionPointer(RegionPointer&& other) noexcept : region_(std::exchange(other.region_, nullptr)) {}
  RegionPointer& operator=(RegionPointer other) noexcept {
    std::swap(region_, other.region_);
    return *this;
  }
  ~RegionPointer();

  Region* operator->() const { return region_; }
  explicit operator bool() const { return region_ != nullptr; }
  bool operator==(const RegionPointer& other) const { return region_ == other.region_; }

  // Follows what the region has become part of.
  void settle();

 private:
  Region* region_ = nullptr;
};

struct Region {
  std::size_t references = 1;
  std::vector<PyObject*> entries;  // signatures of operations that need no other; owned, sorted
  // For operation number n at most n - since are expected to have to run.
  std::int64_t since = 0;
  RegionPointer joined;  // what this one has become part of

  bool begins_with(PyObject* signature) const;
};

// The region of an operation that needs both. At most `mine` operations have to run for what it
// needs of the first one, and `others` for what it needs of the second.
RegionPointer join(RegionPointer one, RegionPointer other, std::int64_t mine, std::int64_t others);

}  // namespace functrax::eager
