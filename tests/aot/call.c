/* Calls a program from many threads, and compares what it gives with bytes in a file.
 *
 *   call FILE THREADS CALLS POOL
 *
 * FILE has the bytes of all arguments, then those of all results.  Each of THREADS threads makes
 * CALLS calls with memory of its own, in turn by itself and with a pool of POOL threads that all
 * share.  Results that may lie in the memory of an argument do in every third call.
 * HEADER is the program's header, and NAME its name.  With COUNTS, allocations are counted.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#include "functrax_pool.h"

#define JOIN(a, b) a##b
#define MEMBER(name, member) JOIN(name, member)

enum {
  kArguments = sizeof MEMBER(NAME, _arguments) / sizeof(functrax_array),
  kResults = sizeof MEMBER(NAME, _results) / sizeof(functrax_array)
};

static const functrax_array* const all_arguments = MEMBER(NAME, _arguments);
static const functrax_array* const all_results = MEMBER(NAME, _results);
static unsigned char *given[kArguments], *wanted[kResults];
static int calls;
static functrax_pool* pool;

#ifdef COUNTS
static _Thread_local int inside, allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) { return allocations += inside, __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return allocations += inside, __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return allocations += inside, __libc_realloc(p, size); }
void* aligned_alloc(size_t a, size_t size) {
  return allocations += inside, __libc_memalign(a, size);
}
#endif

static void* room(size_t nbytes) {
  void* memory = aligned_alloc(64, (nbytes + 64) / 64 * 64);
  if (memory == NULL) exit(2);
  return memory;
}

static void read_all(unsigned char** places, const functrax_array* arrays, int count, FILE* file) {
  for (int n = 0; n < count; ++n) {
    places[n] = room(arrays[n].bytes);
    if (arrays[n].bytes && fread(places[n], arrays[n].bytes, 1, file) != 1) exit(2);
  }
}

static void* make_calls(void* unused) {
  void *arguments[kArguments], *results[kResults], *places[kResults];
  void* workspace = room(MEMBER(NAME, _workspace_bytes)());
  const functrax_threads threads = functrax_pool_threads(pool);
  (void)unused;
  for (int n = 0; n < kArguments; ++n) arguments[n] = room(all_arguments[n].bytes);
  for (int n = 0; n < kResults; ++n) results[n] = room(all_results[n].bytes);
  for (int call = 0; call < calls; ++call) {
    for (int n = 0; n < kArguments; ++n) memcpy(arguments[n], given[n], all_arguments[n].bytes);
    for (int n = 0; n < kResults; ++n) {
      const int shares = call % 3 == 2 ? all_results[n].shares : -1;
      places[n] = shares < 0 ? results[n] : arguments[shares];
      if (shares < 0) memset(places[n], 0xA5, all_results[n].bytes);
    }
#ifdef COUNTS
    inside = 1;
#endif
    const int code = MEMBER(NAME, _call)((const void* const*)arguments, places, NULL, workspace,
                                         call % 2 ? &threads : NULL);
#ifdef COUNTS
    inside = 0;
    if (allocations != 0) {
      fprintf(stderr, "%d allocations\n", allocations);
      exit(1);
    }
#endif
    if (code != 0) {
      fprintf(stderr, "code %d: %s\n", code, MEMBER(NAME, _error_text)(code));
      exit(1);
    }
    for (int n = 0; n < kResults; ++n) {
      if (memcmp(places[n], wanted[n], all_results[n].bytes) != 0) {
        fprintf(stderr, "call %d: %s is wrong\n", call, all_results[n].name);
        exit(1);
      }
    }
  }
  for (int n = 0; n < kArguments; ++n) free(arguments[n]);
  for (int n = 0; n < kResults; ++n) free(results[n]);
  free(workspace);
  return NULL;
}

int main(int count, char** words) {
  pthread_t threads[64];
  if (count != 5) return 2;
  FILE* file = fopen(words[1], "rb");
  const int several = atoi(words[2]);
  calls = atoi(words[3]);
  pool = functrax_pool_create(atoi(words[4]));
  if (file == NULL || pool == NULL || several > 64) return 2;
  read_all(given, all_arguments, kArguments, file);
  read_all(wanted, all_results, kResults, file);
  fclose(file);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
#ifdef COUNTS
  pthread_attr_setstacksize(&attributes, 512 << 10); /* which docs/aot.md says is enough */
#endif
  for (int n = 0; n < several; ++n) {
    if (pthread_create(&threads[n], &attributes, make_calls, NULL) != 0) return 2;
  }
  for (int n = 0; n < several; ++n) pthread_join(threads[n], NULL);
  for (int n = 0; n < kArguments; ++n) free(given[n]);
  for (int n = 0; n < kResults; ++n) free(wanted[n]);
  functrax_pool_destroy(pool);
  printf("%d calls\n", several * calls);
  return 0;
}
