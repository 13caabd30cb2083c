// See eager_region.h.

#include "eager_region.h"

#include <algorithm>

namespace functrax::eager {

RegionPointer::RegionPointer(PyObject* entry) : region_(new Region) {
  region_->entries.push_back(Py_NewRef(entry));
}

RegionPointer::RegionPointer(const RegionPointer& other) : region_(other.region_) {
  if (region_ != nullptr) ++region_->references;
}

RegionPointer::~RegionPointer() {
  if (region_ == nullptr || --region_->references != 0) return;
  for (PyObject* entry : region_->entries) Py_DECREF(entry);
  delete region_;
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
