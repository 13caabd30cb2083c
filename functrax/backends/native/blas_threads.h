// How many threads NumPy's BLAS takes for a while: one, where more take longer.
//
// OpenBLAS shares matrices of some hundred rows between threads, which then wait for each other and
// go on looking for work for 20 ms, on cores that kernels want. Its number of threads is one of the
// process, so others who call it meanwhile have one thread, too.

#pragma once

#include <cstdint>

namespace functrax::blas_threads {

// The addresses of openblas_get_num_threads and openblas_set_num_threads. Without them nothing is
// changed.
void configure(std::uintptr_t get, std::uintptr_t set);

// While one lives, so does one thread; then there are as many as before the first of several.
class OneThread {
 public:
  explicit OneThread(bool wanted);
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  bool counted_ = false;
};

}  // namespace functrax::blas_threads
