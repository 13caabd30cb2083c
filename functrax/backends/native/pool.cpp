// See pool.h. Sizes come in eight steps per power of two; each class has a list of waiting blocks.

#include "pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

namespace functrax::pool {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kSmallClasses = 16;  // multiples of 64 bytes up to 1024
constexpr int kClasses = kSmallClasses + 8 * 38;
constexpr std::size_t kLargest = std::size_t{1} << 48;

struct SizeClass {
  std::size_t size;
  int number;
};

SizeClass size_class(std::size_t nbytes) {
  nbytes = std::max<std::size_t>(nbytes, 1);
  if (nbytes <= 1024) {
    const std::size_t units = (nbytes + kAlignment - 1) / kAlignment;
    return {units * kAlignment, static_cast<int>(units) - 1};
  }
  const int bits = 64 - __builtin_clzll(nbytes - 1);  // 2^(bits-1) < nbytes <= 2^bits
  const std::size_t step = std::size_t{1} << (bits - 4);
  const std::size_t steps = (nbytes + step - 1) / step;  // 9 to 16
  return {steps * step, kSmallClasses + (bits - 11) * 8 + static_cast<int>(steps) - 9};
}

std::uint64_t default_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * page / 2
                               : std::uint64_t{4} << 30;
}

struct State {
  std::mutex mutex;
  Block* waiting[kClasses] = {};
  Stats stats = {};
  std::uint64_t limit = default_limit();
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
  void* whole = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

void system_free(Block* block) {
  if (block->size >= kHugePage) {
    munmap(block->data, block->size);
  } else {
    std::free(block->data);
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

Block* new_block(std::size_t size) {
  auto* block = new (std::nothrow) Block{nullptr, size, {1}, nullptr};
  if (block == nullptr) return nullptr;
  block->data = system_allocate(size);
  if (block->data != nullptr) return block;
  delete block;
  return nullptr;
}

}  // namespace

Block* allocate(std::size_t nbytes) {
  if (nbytes > kLargest) return nullptr;
  const SizeClass wanted = size_class(nbytes);
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.stats.in_use += wanted.size;
    s.stats.peak = std::max(s.stats.peak, s.stats.in_use);
    Block*& first = s.waiting[wanted.number];
    if (first != nullptr) {
      Block* block = first;
      first = block->next;
      block->references.store(1, std::memory_order_relaxed);
      ++s.stats.hits;
      s.stats.cached -= wanted.size;
      return block;
    }
    ++s.stats.allocations;
  }
  Block* block = new_block(wanted.size);
  if (block == nullptr) {
    trim(0);
    block = new_block(wanted.size);
  }
  if (block == nullptr) {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.stats.in_use -= wanted.size;
  }
  return block;
}

void release(Block* block) {
  if (block == nullptr) return;
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.stats.in_use -= block->size;
    if (s.stats.cached + block->size <= s.limit) {
      s.stats.cached += block->size;
      Block*& first = s.waiting[size_class(block->size).number];
      block->next = first;
      first = block;
      return;
    }
  }
  system_free(block);
}

Stats stats() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.stats;
}

void reset_peak() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.stats.peak = s.stats.in_use;
}

void trim(std::uint64_t keep) {
  State& s = state();
  Block* dropped = nullptr;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    for (int k = kClasses - 1; k >= 0; --k) {
      while (s.waiting[k] != nullptr && s.stats.cached > keep) {
        Block* block = s.waiting[k];
        s.waiting[k] = block->next;
        s.stats.cached -= block->size;
        block->next = dropped;
        dropped = block;
      }
    }
  }
  free_all(dropped);
}

std::uint64_t limit() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.limit;
}

void set_limit(std::uint64_t nbytes) {
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.limit = nbytes;
  }
  trim(nbytes);
}

}  // namespace functrax::pool
