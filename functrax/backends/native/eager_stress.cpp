// See eager_stress.h.

#include "eager_stress.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "eager_node.h"
#include "eager_run.h"
#include "pool.h"
#include "thread_state.h"

namespace functrax::eager::stress {

bool is_on = false;

namespace {

constexpr std::uint64_t kMeanDistance = 16;

std::uint64_t every = 0, seed = 0, recorded = 0;
bool collects = false;

// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016.
std::uint64_t draw(std::uint64_t bound) {
  seed ^= seed >> 12;
  seed ^= seed << 25;
  seed ^= seed >> 27;
  return (seed * 0x2545F4914F6CDD1Du >> 32) % bound;
}

bool is_due() { return seed != 0 ? draw(kMeanDistance) == 0 : ++recorded % every == 0; }

std::vector<NodeReference> pending() {
  std::vector<NodeReference> all;
  for (Node* node = newest_node(); node != nullptr; node = node->after) all.emplace_back(node);
  return all;
}

// Runs everything together, or one operation after the other from a random one on, or one of them;
// as if nobody had asked, or somebody.
bool run_some() {
  std::vector<NodeReference> all = pending();
  if (seed == 0 || all.empty()) return run_unasked(all);
  const std::uint64_t way = draw(4);
  if (way == 0) return run_unasked(all);
  std::size_t first = draw(all.size());
  if (way == 1) return compute({all[first].get()});
  const std::size_t last = way == 2 ? first + 1 : all.size();
  for (; first < last; ++first) {
    std::vector<NodeReference> one;
    one.push_back(std::move(all[first]));
    if (!run_unasked(one)) return false;
  }
  return true;
}

}  // namespace

bool cut() {
  static bool cutting = false;
  if (cutting || !is_due()) return true;
  cutting = true;
  if (collects) PyGC_Collect();
  const bool done = run_some();
  pool::trim(0);
  cutting = false;
  return done;
}

PyObject* configure(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected a distance, a seed and whether to collect garbage");
    return nullptr;
  }
  every = PyLong_AsUnsignedLongLong(args[0]);
  seed = PyLong_AsUnsignedLongLong(args[1]);
  if (PyErr_Occurred()) return nullptr;
  collects = PyObject_IsTrue(args[2]) == 1;
  recorded = 0;
  is_on = every != 0 || seed != 0;
  Py_RETURN_NONE;
}

}  // namespace functrax::eager::stress
