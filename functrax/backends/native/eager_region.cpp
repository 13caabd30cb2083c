// See eager_region.h.

#include "eager_region.h"

#include <algorithm>
#include <memory>

namespace functrax::eager {

namespace {

// Regions without references, which keep the memory of their entries: most live as long as an
// operation that waits for the next one.
constexpr std::size_t kMostSpare = 256;
std::vector<std::unique_ptr<Region>> spare;

}  // namespace

RegionPointer::RegionPointer(PyObject* entry) {
  if (spare.empty()) {
    region_ = new Region;
  } else {
    region_ = spare.back().release();
    spare.pop_back();
    region_->references = 1;
    region_->since = 0;
  }
  region_->entries.push_back(Py_NewRef(entry));
}

RegionPointer::RegionPointer(const RegionPointer& other) : region_(other.region_) {
  if (region_ != nullptr) ++region_->references;
}

RegionPointer::~RegionPointer() {
  if (region_ == nullptr || --region_->references != 0) return;
  for (PyObject* entry : region_->entries) Py_DECREF(entry);
  region_->entries.clear();
  region_->joined = RegionPointer();
  if (spare.size() < kMostSpare) {
    spare.emplace_back(region_);
  } else {
    delete region_;
  }
}

void RegionPointer::settle() {
  while (region_->joined) *this = RegionPointer(region_->joined);
}

bool Region::begins_with(PyObject* signature) const {
  return std::binary_search(entries.begin(), entries.end(), signature);
}

RegionPointer join(RegionPointer one, RegionPointer other, std::int64_t mine, std::int64_t others) {
  const std::int64_t since = std::max(one->since - others, other->since - mine);
  if (one->entries.size() > other->entries.size()) std::swap(one, other);
  std::vector<PyObject*>& entries = other->entries;
  for (PyObject*& entry : one->entries) {
    const auto place = std::lower_bound(entries.begin(), entries.end(), entry);
    if (place == entries.end() || *place != entry) entries.insert(place, Py_NewRef(entry));
  }
  other->since = since;
  one->joined = other;
  return other;
}

}  // namespace functrax::eager
