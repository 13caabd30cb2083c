// Memory that is kept and used again: follows functrax/backends/runtime/pool.py.
//
// A number of bytes goes in, a Block with one reference comes out, aligned to 64 bytes and padded
// to a multiple of 64. When its last reference goes, its memory waits in the pool for the next who
// asks for that size class. Blocks of 2 MB and more are in huge pages where the system has them.
// Large blocks begin at different places of a page, so that what is at the same index of several
// arrays does not compete for the same lines of a cache.
// Any thread may use the pool, also after a fork. Threads that hold the GIL have lists of small
// blocks to themselves, which need no lock: a call with many small results spends its time there.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace functrax::pool {

constexpr std::size_t kAlignment = 64;

struct Block {
  void* data;
  std::size_t size;  // from data on
  void* memory;      // what the system gave
  std::atomic<int> references;
  Block* next;  // in the list of those that wait
};

// The size that is given to one who asks for so many bytes: eight steps per power of two.
struct SizeClass {
  std::size_t size;
  int number;
};
constexpr int kSmallClasses = 16;  // multiples of 64 bytes up to 1,024
constexpr int kClasses = kSmallClasses + 8 * 38;
SizeClass size_class(std::size_t nbytes);

struct Stats {
  std::uint64_t in_use, cached, peak, allocations, hits;
};

// A block of at least `nbytes` bytes with any content; null where the system has no more memory.
Block* allocate(std::size_t nbytes);

inline void retain(Block* block) { block->references.fetch_add(1, std::memory_order_relaxed); }
void release(Block* block);  // null is allowed

// The same with the GIL held.
Block* allocate_with_gil(std::size_t nbytes);
void release_with_gil(Block* block);

// Whether nobody else refers to the block.
inline bool is_sole(const Block* block) {
  return block->references.load(std::memory_order_acquire) == 1;
}

// All of these with the GIL held.
Stats stats();
void reset_peak();
void trim(std::uint64_t keep);
std::uint64_t limit();
void set_limit(std::uint64_t nbytes);
std::uint64_t most();  // that there may be, in use and cached
void set_most(std::uint64_t nbytes);

// Owns one reference to a block.
class Hold {
 public:
  explicit Hold(Block* block) : block_(block) {}
  ~Hold() { release(block_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Block* get() const { return block_; }

 private:
  Block* block_;
};

}  // namespace functrax::pool
