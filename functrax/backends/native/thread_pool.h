// A loop over units by several threads: follows functrax/backends/threads.py.
//
// A function of a range goes in; the units are cut into contiguous ranges, which the calling thread
// and the workers take one after the other. A loop inside a loop, and a loop that begins while
// another thread's loop runs, stays on the thread that began it. Workers never touch Python.

#pragma once

#include <cstdint>

namespace functrax::thread_pool {

using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
using Asked = bool (*)(void* context);

// Calls `function` for ranges that make up [0, units) and begin at multiples of `grain`. `cost` is
// an estimate of the whole in nanoseconds on one thread, by which the number of threads is chosen.
// Between long ranges, and while it waits for others, the calling thread asks whether the loop
// `ends` before all units are done; it returns when no thread is in `function` any more.
void parallel_for(RangeFunction function, void* context, std::int64_t units, std::int64_t grain,
                  std::int64_t cost, Asked ends);

// Copies bytes, in which threads take part if they are many; nothing if source and target are one.
void copy(void* target, const void* source, std::int64_t nbytes);

// Says of the calling thread that Python goes on beside it, so that one processor less is idle: it
// wakes others for twice as much work.
void run_beside_python();

// How many threads take part, the calling one among them.
int num_threads();
void set_num_threads(int threads);

}  // namespace functrax::thread_pool
