// See cuda_graph_order.h. Start at order_in_bodies.

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

// The same bytes, in order and disjoint.
std::vector<Range> joined(std::vector<Range> all) {
  std::vector<Range> found;
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

// What nodes write, in order and disjoint.
std::vector<Range> written(const std::vector<const NodeMemory*>& nodes) {
  std::vector<Range> all;
  for (const NodeMemory* node : nodes) {
    for (const Access& x : node->accesses) {
      if (x.writes) all.push_back({x.begin, x.end});
    }
  }
  return joined(std::move(all));
}

// Adds what nodes access to the accesses of another, in as few ranges as it takes.
void add_together(std::vector<Access>& to, const std::vector<const NodeMemory*>& nodes) {
  for (const bool writes : {false, true}) {
    std::vector<Range> all;
    for (const NodeMemory* node : nodes) {
      for (const Access& x : node->accesses) {
        if (x.writes == writes) all.push_back({x.begin, x.end});
      }
    }
    for (const Range& x : joined(std::move(all))) to.push_back({x.begin, x.end, writes});
  }
}

bool meet(const Access& x, const std::vector<Range>& ranges) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), x.begin,
                                      [](Place p, const Range& r) { return p < r.end; });
  return after != ranges.end() && after->begin < x.end;
}

// The order of the nodes of one body, by their numbers in it.
std::vector<std::vector<int>> order_of(const std::vector<const NodeMemory*>& all) {
  const std::vector<Range> changing = written(all);
  std::vector<std::vector<int>> order(all.size());
  std::vector<Nodes> before;
  std::vector<Live> live;
  for (std::size_t n = 0; n < all.size(); ++n) {
    const std::vector<Access>& accesses = all[n]->accesses;
    std::vector<Access> own;
    std::copy_if(accesses.begin(), accesses.end(), std::back_inserter(own),
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

}  // namespace

void share(std::vector<SharedPlace>& shared, Place one, Place other, std::size_t nbytes) {
  const Place first = settled(shared, one), second = settled(shared, other);
  if (first != second) shared.push_back({second, second + nbytes, first});
}

std::vector<std::vector<int>> order_in_bodies(std::vector<NodeMemory> nodes,
                                              const std::vector<SharedPlace>& shared) {
  std::vector<std::vector<int>> inside(1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (Access& x : nodes[n].accesses) {
      const Place begin = settled(shared, x.begin);
      x = {begin, begin + (x.end - x.begin), x.writes};
    }
    inside.resize(std::max<std::size_t>(inside.size(), nodes[n].first_body + nodes[n].bodies));
    inside[nodes[n].body].push_back(static_cast<int>(n));
  }
  const auto members = [&](int body) {
    std::vector<const NodeMemory*> found;
    for (int n : inside[body]) found.push_back(&nodes[n]);
    return found;
  };
  for (std::size_t n = nodes.size(); n-- > 0;) {
    std::vector<const NodeMemory*> all;
    for (int k = 0; k < nodes[n].bodies; ++k) {
      const auto found = members(nodes[n].first_body + k);
      all.insert(all.end(), found.begin(), found.end());
    }
    add_together(nodes[n].accesses, all);
  }
  std::vector<std::vector<int>> order(nodes.size());
  for (std::size_t body = 0; body < inside.size(); ++body) {
    const auto found = order_of(members(static_cast<int>(body)));
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (int m : found[k]) order[inside[body][k]].push_back(inside[body][m]);
    }
  }
  return order;
}

}  // namespace functrax::cuda
