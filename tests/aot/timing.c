/* The least nanoseconds that a call takes: timing FILE THREADS MILLISECONDS.
 *
 * FILE, HEADER and NAME are those of call.c.  Processor time of one thread counts without a pool,
 * and time on the clock with one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include HEADER

#include "functrax_pool.h"

#define JOIN(a, b) a##b
#define MEMBER(name, member) JOIN(name, member)

enum {
  kArguments = sizeof MEMBER(NAME, _arguments) / sizeof(functrax_array),
  kResults = sizeof MEMBER(NAME, _results) / sizeof(functrax_array)
};

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void* room(size_t nbytes) {
  void* memory = aligned_alloc(64, (nbytes + 64) / 64 * 64);
  if (memory == NULL) exit(2);
  return memory;
}

int main(int count, char** words) {
  void *arguments[kArguments], *results[kResults];
  void* workspace = room(MEMBER(NAME, _workspace_bytes)());
  if (count != 4) return 2;
  FILE* file = fopen(words[1], "rb");
  const int several = atoi(words[2]);
  if (file == NULL) return 2;
  for (int n = 0; n < kArguments; ++n) {
    const size_t nbytes = MEMBER(NAME, _arguments)[n].bytes;
    arguments[n] = room(nbytes);
    if (nbytes && fread(arguments[n], nbytes, 1, file) != 1) return 2;
  }
  for (int n = 0; n < kResults; ++n) results[n] = room(MEMBER(NAME, _results)[n].bytes);
  fclose(file);
  functrax_pool* pool = functrax_pool_create(several);
  const functrax_threads threads = functrax_pool_threads(pool);
  const clockid_t clock = several > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  const double end = now(CLOCK_MONOTONIC) + 1e6 * atof(words[3]);
  double least = 1e18;
  for (int calls = 1; now(CLOCK_MONOTONIC) < end;) {
    const double begin = now(clock);
    for (int n = 0; n < calls; ++n) {
      const int code = MEMBER(NAME, _call)((const void* const*)arguments, results, NULL, workspace,
                                           several > 1 ? &threads : NULL);
      if (code != 0) return 1;
    }
    const double each = (now(clock) - begin) / calls;
    if (each < least) least = each;
    if (each * calls < 2e4) calls *= 2;
  }
  printf("%.0f\n", least);
  functrax_pool_destroy(pool);
  return 0;
}
