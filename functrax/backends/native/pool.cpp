// See pool.h. Sizes come in eight steps per power of two; each class has a list of waiting blocks,
// and each small class another one that the GIL guards. A lock is taken with the GIL held, never
// the GIL with the lock held.

#include "pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

namespace functrax::pool {

constexpr std::size_t kLargestSmall = 1024;

SizeClass size_class(std::size_t nbytes) {
  nbytes = std::max<std::size_t>(nbytes, 1);
  if (nbytes <= kLargestSmall) {
    const std::size_t units = (nbytes + kAlignment - 1) / kAlignment;
    return {units * kAlignment, static_cast<int>(units) - 1};
  }
  const int bits = 64 - __builtin_clzll(nbytes - 1);  // 2^(bits-1) < nbytes <= 2^bits
  const std::size_t step = std::size_t{1} << (bits - 4);
  const std::size_t steps = (nbytes + step - 1) / step;  // 9 to 16
  return {steps * step, kSmallClasses + (bits - 11) * 8 + static_cast<int>(steps) - 9};
}

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLeastSpread = std::size_t{1} << 16;  // blocks that begin anywhere in a page
constexpr std::size_t kSpread = 5 * 64;                     // from one to the next
constexpr std::int64_t kMostSmall = 1 << 20;                // bytes that wait under the GIL
constexpr int kLarger = 4;  // a block may be so many classes larger: half as large again
constexpr std::size_t kLargest = std::size_t{1} << 48;

std::uint64_t default_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * page / 2
                               : std::uint64_t{4} << 30;
}

// Written by one thread at a time, under the lock or under the GIL; read by any.
class Count {
 public:
  std::int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void add(std::int64_t n) { value_.store(get() + n, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Bytes and blocks of one of the two sets of lists. A block may come from one set and go to the
// other, so what is in use may be negative here; the sum of both never is for long.
struct Counts {
  Count in_use, cached, allocations, hits;
};

struct State {
  std::mutex mutex;
  Block* waiting[kClasses] = {};  // under the lock
  Counts counts;
  Block* small[kSmallClasses] = {};  // under the GIL
  Counts small_counts;
  std::atomic<std::int64_t> peak{0};
  std::atomic<std::uint64_t> limit{default_limit()};
  std::atomic<std::uint64_t> most{kLargest};  // in use and cached

  std::int64_t in_use() const { return counts.in_use.get() + small_counts.in_use.get(); }
  std::int64_t cached() const { return counts.cached.get() + small_counts.cached.get(); }
  bool has_room(std::size_t size) const {
    const auto after = static_cast<std::uint64_t>(cached()) + size;
    return after <= limit.load(std::memory_order_relaxed);
  }
  void raise_peak() {
    const std::int64_t now = in_use();
    std::int64_t before = peak.load(std::memory_order_relaxed);
    while (now > before && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
  }
};

// Never destroyed: blocks may outlive the static objects of the process.
State& state() {
  static State* const the_state = [] {
    auto* made = new State;
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] { state().mutex.unlock(); });
    return made;
  }();
  return *the_state;
}

void* map_pages(std::size_t size) {
  void* whole =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(whole);
  const std::uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = begin + size + kHugePage;
  if (aligned > begin) munmap(whole, aligned - begin);
  if (end > aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
  void* data = reinterpret_cast<void*>(aligned);
  madvise(data, size, MADV_HUGEPAGE);
  return data;
}

void* system_allocate(std::size_t size) {
  return size >= kHugePage ? map_pages(size) : std::aligned_alloc(kAlignment, size);
}

// How far into its memory the next large block begins.
std::size_t next_place() {
  static std::atomic<std::size_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) * kSpread % kPage;
}

std::size_t room(std::size_t size) { return size < kLeastSpread ? size : size + kPage; }

void system_free(Block* block) {
  if (room(block->size) >= kHugePage) {
    munmap(block->memory, room(block->size));
  } else {
    std::free(block->memory);
  }
  delete block;
}

void free_all(Block* list) {
  while (list != nullptr) {
    Block* next = list->next;
    system_free(list);
    list = next;
  }
}

Block* take_first(Block*& list) {
  Block* block = list;
  list = block->next;
  block->references.store(1, std::memory_order_relaxed);
  return block;
}

void put_first(Block*& list, Block* block) {
  block->next = list;
  list = block;
}

// Returns what waits under the lock to the system, the largest first, down to `keep` bytes.
void trim_locked(std::uint64_t keep) {
  State& s = state();
  Block* dropped = nullptr;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    for (int k = kClasses - 1; k >= 0; --k) {
      while (s.waiting[k] != nullptr && static_cast<std::uint64_t>(s.counts.cached.get()) > keep) {
        Block* block = s.waiting[k];
        s.waiting[k] = block->next;
        s.counts.cached.add(-static_cast<std::int64_t>(block->size));
        put_first(dropped, block);
      }
    }
  }
  free_all(dropped);
}

// Moves the blocks that wait under the GIL, which is held, to those under the lock.
void give_up_small() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  for (int k = 0; k < kSmallClasses; ++k) {
    while (s.small[k] != nullptr) {
      Block* block = s.small[k];
      s.small[k] = block->next;
      put_first(s.waiting[k], block);
    }
  }
  const std::int64_t cached = s.small_counts.cached.get();
  s.small_counts.cached.add(-cached);
  s.counts.cached.add(cached);
}

// Lets memory go that waits, where that and what is in use would be too much. False if what is in
// use is too much already.
bool make_room() {
  State& s = state();
  const std::uint64_t most = s.most.load(std::memory_order_relaxed);
  const auto used = static_cast<std::uint64_t>(std::max<std::int64_t>(s.in_use(), 0));
  if (used > most) return false;
  if (static_cast<std::uint64_t>(s.counts.cached.get()) > most - used) trim_locked(most - used);
  return true;
}

Block* new_block(std::size_t size) {
  auto* block = new (std::nothrow) Block{nullptr, size, nullptr, {1}, nullptr};
  if (block == nullptr) return nullptr;
  block->memory = system_allocate(room(size));
  if (block->memory == nullptr) {
    delete block;
    return nullptr;
  }
  const std::size_t begin = size < kLeastSpread ? 0 : next_place();
  block->data = static_cast<char*>(block->memory) + begin;
  return block;
}

}  // namespace

Block* allocate(std::size_t nbytes) {
  if (nbytes > kLargest) return nullptr;
  const SizeClass wanted = size_class(nbytes);
  const auto size = static_cast<std::int64_t>(wanted.size);
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const int most = wanted.size <= kLargestSmall ? 0 : kLarger;
    for (int more = 0; more <= most; ++more) {
      Block*& first = s.waiting[std::min(wanted.number + more, kClasses - 1)];
      if (first == nullptr) continue;
      Block* block = take_first(first);
      const auto taken = static_cast<std::int64_t>(block->size);
      s.counts.in_use.add(taken);
      s.raise_peak();
      s.counts.hits.add(1);
      s.counts.cached.add(-taken);
      return block;
    }
    s.counts.in_use.add(size);
    s.raise_peak();
    s.counts.allocations.add(1);
  }
  Block* block = nullptr;
  if (make_room()) {
    block = new_block(wanted.size);
    if (block == nullptr) {
      trim_locked(0);
      block = new_block(wanted.size);
    }
  }
  if (block == nullptr) {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.counts.in_use.add(-size);
  }
  return block;
}

Block* allocate_with_gil(std::size_t nbytes) {
  if (nbytes > kLargestSmall) return allocate(nbytes);
  const SizeClass wanted = size_class(nbytes);
  const auto size = static_cast<std::int64_t>(wanted.size);
  State& s = state();
  Block*& first = s.small[wanted.number];
  if (first == nullptr) return allocate(nbytes);
  s.small_counts.in_use.add(size);
  s.small_counts.cached.add(-size);
  s.small_counts.hits.add(1);
  s.raise_peak();
  return take_first(first);
}

namespace {

// Keeps a block that has no owner any more, or gives it back to the system.
void keep(Block* block) {
  const auto size = static_cast<std::int64_t>(block->size);
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.counts.in_use.add(-size);
    if (s.has_room(block->size)) {
      s.counts.cached.add(size);
      put_first(s.waiting[size_class(block->size).number], block);
      return;
    }
  }
  system_free(block);
}

}  // namespace

void release(Block* block) {
  if (block == nullptr) return;
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) == 1) keep(block);
}

void release_with_gil(Block* block) {
  if (block == nullptr) return;
  // Who holds the only reference needs no atomic subtraction: only an owner can make another one.
  if (!is_sole(block)) return release(block);
  State& s = state();
  const auto size = static_cast<std::int64_t>(block->size);
  if (block->size > kLargestSmall || s.small_counts.cached.get() + size > kMostSmall ||
      !s.has_room(block->size)) {
    return keep(block);
  }
  s.small_counts.in_use.add(-size);
  s.small_counts.cached.add(size);
  put_first(s.small[size_class(block->size).number], block);
}

Stats stats() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto number = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {number(s.in_use()), number(s.cached()), number(s.peak.load(std::memory_order_relaxed)),
          number(s.counts.allocations.get()),
          number(s.counts.hits.get() + s.small_counts.hits.get())};
}

void reset_peak() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.peak.store(s.in_use(), std::memory_order_relaxed);
}

void trim(std::uint64_t keep) {
  give_up_small();
  trim_locked(keep);
}

std::uint64_t limit() { return state().limit.load(std::memory_order_relaxed); }

std::uint64_t most() { return state().most.load(std::memory_order_relaxed); }

void set_most(std::uint64_t nbytes) { state().most.store(nbytes, std::memory_order_relaxed); }

void set_limit(std::uint64_t nbytes) {
  state().limit.store(nbytes, std::memory_order_relaxed);
  trim(nbytes);
}

}  // namespace functrax::pool
