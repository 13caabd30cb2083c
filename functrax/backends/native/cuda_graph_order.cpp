// See cuda_graph_order.h. Start at order_of.

#include "cuda_graph_order.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace functrax::cuda {
namespace {

// A set of nodes.
class Nodes {
 public:
  explicit Nodes(std::size_t count) : words_(count / kBits + 1) {}
  bool has(int node) const { return (words_[node / kBits] >> (node % kBits) & 1) != 0; }
  void add(int node) { words_[node / kBits] |= std::uint64_t{1} << (node % kBits); }
  void add(const Nodes& others) {
    for (std::size_t k = 0; k < words_.size(); ++k) words_[k] |= others.words_[k];
  }

 private:
  static constexpr int kBits = 64;
  std::vector<std::uint64_t> words_;
};

struct Range {
  Place begin, end;
};

// An access that later nodes may have to come after.
struct Live {
  Access access;
  int node;
};

Place settled(const std::vector<SharedPlace>& shared, Place place) {
  for (std::size_t k = 0; k < shared.size();) {
    const SharedPlace& x = shared[k];
    const bool inside = x.begin <= place && place < x.end;
    k = inside ? 0 : k + 1;
    if (inside) place = x.other + (place - x.begin);
  }
  return place;
}

std::vector<std::vector<Access>> settled(const std::vector<std::vector<Access>>& nodes,
                                         const std::vector<SharedPlace>& shared) {
  std::vector<std::vector<Access>> found(nodes);
  for (auto& accesses : found) {
    for (Access& x : accesses) {
      const Place begin = settled(shared, x.begin);
      x = {begin, begin + (x.end - x.begin), x.writes};
    }
  }
  return found;
}

// What nodes write, in order and disjoint.
std::vector<Range> written(const std::vector<std::vector<Access>>& nodes) {
  std::vector<Range> all, found;
  for (const auto& accesses : nodes) {
    for (const Access& x : accesses) {
      if (x.writes) all.push_back({x.begin, x.end});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (const Range& x : all) {
    if (found.empty() || found.back().end < x.begin) {
      found.push_back(x);
    } else {
      found.back().end = std::max(found.back().end, x.end);
    }
  }
  return found;
}

bool meet(const Access& x, const std::vector<Range>& ranges) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), x.begin,
                                      [](Place p, const Range& r) { return p < r.end; });
  return after != ranges.end() && after->begin < x.end;
}

}  // namespace

void share(std::vector<SharedPlace>& shared, Place one, Place other, std::size_t nbytes) {
  const Place first = settled(shared, one), second = settled(shared, other);
  if (first != second) shared.push_back({second, second + nbytes, first});
}

std::vector<std::vector<int>> order_of(const std::vector<std::vector<Access>>& nodes,
                                       const std::vector<SharedPlace>& shared) {
  const std::vector<std::vector<Access>> all = settled(nodes, shared);
  const std::vector<Range> changing = written(all);
  std::vector<std::vector<int>> order(all.size());
  std::vector<Nodes> before;
  std::vector<Live> live;
  for (std::size_t n = 0; n < all.size(); ++n) {
    std::vector<Access> own;
    std::copy_if(all[n].begin(), all[n].end(), std::back_inserter(own),
                 [&](const Access& x) { return x.begin < x.end && meet(x, changing); });
    std::vector<int> found;
    for (const Access& x : own) {
      for (const Live& y : live) {
        const bool overlaps = x.begin < y.access.end && y.access.begin < x.end;
        if (overlaps && (x.writes || y.access.writes)) found.push_back(y.node);
      }
    }
    std::sort(found.begin(), found.end(), std::greater<>());
    Nodes& passed = before.emplace_back(all.size());
    for (int node : found) {
      if (passed.has(node)) continue;
      order[n].push_back(node);
      passed.add(before[node]);
      passed.add(node);
    }
    // Who comes after this node comes after what this one comes after.
    for (const Access& x : own) {
      const auto hidden = [&](const Live& y) {
        const bool inside = x.begin <= y.access.begin && y.access.end <= x.end;
        return inside && (x.writes || !y.access.writes) && passed.has(y.node);
      };
      live.erase(std::remove_if(live.begin(), live.end(), hidden), live.end());
    }
    for (const Access& x : own) live.push_back({x, static_cast<int>(n)});
  }
  return order;
}

}  // namespace functrax::cuda
