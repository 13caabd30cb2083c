// See blas_threads.h.

#include "blas_threads.h"

#include <mutex>

namespace functrax::blas_threads {
namespace {

int (*get_threads)() = nullptr;
void (*set_threads)(int) = nullptr;

std::mutex mutex;  // of what follows
int alive = 0;
int before = 0;

}  // namespace

void configure(std::uintptr_t get, std::uintptr_t set) {
  const std::lock_guard lock(mutex);
  get_threads = reinterpret_cast<int (*)()>(get);
  set_threads = reinterpret_cast<void (*)(int)>(set);
}

OneThread::OneThread(bool wanted) {
  // In a process that was forked while a thread had the lock, nobody will ever give it back.
  if (!wanted || !mutex.try_lock()) return;
  if (set_threads != nullptr) {
    counted_ = true;
    if (alive++ == 0) {
      before = get_threads();
      set_threads(1);
    }
  }
  mutex.unlock();
}

OneThread::~OneThread() {
  if (!counted_) return;
  const std::lock_guard lock(mutex);
  if (--alive == 0) set_threads(before);
}

}  // namespace functrax::blas_threads
