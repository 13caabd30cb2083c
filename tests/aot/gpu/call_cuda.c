/* Calls a program for GPUs from several threads, and compares what it gives with bytes in a file.
 *
 *   call FILE THREADS CALLS TIMED
 *
 * FILE has the bytes of all arguments, then those of all results.  Each of THREADS threads makes
 * CALLS calls of one program, in a stream, a workspace and arrays of its own; the first thread uses
 * the default stream, and the context of the device in which the others open the program.  Results
 * that may lie in the memory of an argument do in every third call.  Then one thread makes TIMED
 * calls, and says how many microseconds one took.
 * With CAPTURES, a call is made in a stream that is being captured, and the graph that it became is
 * launched twice.  HEADER is the program's header, and NAME its name.  With COUNTS, allocations are
 * counted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include HEADER

#include "functrax_cuda.h"

#define JOIN(a, b) a##b
#define MEMBER(name, member) JOIN(name, member)
#define PROGRAM MEMBER(NAME, _program)

enum {
  kArguments = sizeof MEMBER(NAME, _arguments) / sizeof(functrax_array),
  kResults = sizeof MEMBER(NAME, _results) / sizeof(functrax_array)
};

static const functrax_array* const all_arguments = MEMBER(NAME, _arguments);
static const functrax_array* const all_results = MEMBER(NAME, _results);
static unsigned char *given[kArguments], *wanted[kResults];
static int calls, timed;
static PROGRAM* program;
static functrax_cuda_driver driver;
static int (*new_stream)(void** stream, unsigned flags);
static void* context;
static double microseconds;

#ifdef COUNTS
static _Thread_local int inside, allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
void* malloc(size_t size) { return allocations += inside, __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return allocations += inside, __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return allocations += inside, __libc_realloc(p, size); }
#endif

/* Whether anything went wrong. */
static atomic_int failed;

static int good(int error, const char* what) {
  if (error == 0) return 1;
  fprintf(stderr, "%s: %s (error %d)\n", what, functrax_cuda_text(error), error);
  failed = 1;
  return 0;
}

static void* device_room(size_t bytes) {
  uint64_t place = 0;
  if (!good(driver.cuMemAlloc_v2(&place, bytes + 1), "cuMemAlloc")) return NULL;
  return (void*)(uintptr_t)place;
}

static uint64_t number(const void* place) { return (uint64_t)(uintptr_t)place; }

static void upload(void* place, const void* bytes, size_t count) {
  if (count) good(driver.cuMemcpyHtoD_v2(number(place), bytes, count), "cuMemcpyHtoD");
}

static void release(void** arguments, void** results, void* workspace) {
  for (int n = 0; n < kArguments; ++n) driver.cuMemFree_v2(number(arguments[n]));
  for (int n = 0; n < kResults; ++n) driver.cuMemFree_v2(number(results[n]));
  driver.cuMemFree_v2(number(workspace));
}

/* Compare a result with what it should be. */
static void compare(int n, const void* place, void* stream, unsigned char* memory) {
  const functrax_array* x = &all_results[n];
#ifdef NO_VALUES
  return;
#endif
  if (x->bytes == 0) return;
  good(driver.cuMemcpyDtoHAsync_v2(memory, number(place), x->bytes, stream), "cuMemcpyDtoH");
  good(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  const size_t size = x->bytes / x->elements;
  size_t wrong = 0, first = 0;
  for (size_t k = x->elements; k-- > 0;) {
    if (memcmp(memory + k * size, wanted[n] + k * size, size) == 0) continue;
    first = k;
    ++wrong;
  }
  if (wrong == 0) return;
  fprintf(stderr, "%s: %zu of %zu elements are wrong, the first is number %zu:", x->name, wrong,
          x->elements, first);
  for (size_t k = size; k-- > 0;) fprintf(stderr, " %02x", memory[first * size + k]);
  fprintf(stderr, " instead of");
  for (size_t k = size; k-- > 0;) fprintf(stderr, " %02x", wanted[n][first * size + k]);
  fprintf(stderr, "\n");
  failed = 1;
}

static void make_calls(PROGRAM* opened, int one, void* stream, unsigned char* memory) {
  void *arguments[kArguments], *results[kResults], *places[kResults];
  void* workspace = device_room(MEMBER(NAME, _workspace_bytes)());
  for (int n = 0; n < kArguments; ++n) arguments[n] = device_room(all_arguments[n].bytes);
  for (int n = 0; n < kResults; ++n) results[n] = device_room(all_results[n].bytes);
  for (int call = 0; call < calls && !failed; ++call) {
    for (int n = 0; n < kArguments; ++n) upload(arguments[n], given[n], all_arguments[n].bytes);
    good(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    for (int n = 0; n < kResults; ++n) {
      const int shares = call % 3 == 2 ? all_results[n].shares : -1;
      places[n] = shares < 0 ? results[n] : arguments[shares];
    }
#ifdef COUNTS
    inside = 1;
#endif
    const int code =
        MEMBER(NAME, _call)(opened, (const void* const*)arguments, places, NULL, workspace, stream);
#ifdef COUNTS
    inside = 0;
    if (allocations != 0) {
      fprintf(stderr, "%d allocations\n", allocations);
      failed = 1;
    }
#endif
    if (code != 0) {
      fprintf(stderr, "code %d: %s\n", code, MEMBER(NAME, _error_text)(code));
      failed = 1;
    }
    for (int n = 0; n < kResults && !failed; ++n) compare(n, places[n], stream, memory);
  }
  if (one && timed > 0 && !failed) {
    struct timespec begin, end;
    for (int n = 0; n < kArguments; ++n) upload(arguments[n], given[n], all_arguments[n].bytes);
    good(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int call = 0; call < timed && !failed; ++call)
      failed = MEMBER(NAME, _call)(opened, (const void* const*)arguments, results, NULL, workspace,
                                   stream) != 0;
    good(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    clock_gettime(CLOCK_MONOTONIC, &end);
    microseconds =
        (1e6 * (double)(end.tv_sec - begin.tv_sec) + 1e-3 * (double)(end.tv_nsec - begin.tv_nsec)) /
        timed;
  }
  release(arguments, results, workspace);
}

/* A thread; the first gets a null pointer, others a program to open in a context. */
static void* work(void* other) {
  void *stream = NULL, *popped;
  PROGRAM* own = program;
  size_t most = 1;
  for (int n = 0; n < kResults; ++n)
    most = all_results[n].bytes > most ? all_results[n].bytes : most;
  unsigned char* memory = malloc(most);
  if (memory == NULL || !good(driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")) {
    failed = 1;
    free(memory);
    return NULL;
  }
  if (other != NULL && good(new_stream(&stream, 1), "cuStreamCreate"))
    failed |= MEMBER(NAME, _open_in)(context, &own) != 0;
  if (own != NULL && !failed) make_calls(own, other == NULL, stream, memory);
  if (own != program) MEMBER(NAME, _close)(own);
  driver.cuCtxPopCurrent_v2(&popped);
  free(memory);
  return NULL;
}

#ifdef CAPTURES
/* A function of the driver that programs do not need. */
#define FIND(name)                                            \
  do {                                                        \
    found = dlsym(dlopen(FUNCTRAX_LIBCUDA, RTLD_NOW), #name); \
    if (found == NULL && !good(500, #name)) return;           \
    memcpy(&name, &found, sizeof found);                      \
  } while (0)

/* A call in a stream that is being captured, and two launches of the graph. */
static void captured(unsigned char* memory) {
  int (*cuStreamBeginCapture_v2)(void* stream, int mode);
  int (*cuStreamEndCapture)(void* stream, void** graph);
  int (*cuGraphInstantiateWithFlags)(void** executable, void* graph, uint64_t flags);
  int (*cuGraphLaunch)(void* executable, void* stream);
  void *arguments[kArguments], *results[kResults], *stream, *graph, *executable, *found, *popped;
  FIND(cuStreamBeginCapture_v2);
  FIND(cuStreamEndCapture);
  FIND(cuGraphInstantiateWithFlags);
  FIND(cuGraphLaunch);
  if (!good(driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")) return;
  void* workspace = device_room(MEMBER(NAME, _workspace_bytes)());
  for (int n = 0; n < kArguments; ++n) arguments[n] = device_room(all_arguments[n].bytes);
  for (int n = 0; n < kResults; ++n) results[n] = device_room(all_results[n].bytes);
  for (int n = 0; n < kArguments; ++n) upload(arguments[n], given[n], all_arguments[n].bytes);
  good(driver.cuCtxSynchronize(), "cuCtxSynchronize");
  good(new_stream(&stream, 1), "cuStreamCreate");
  if (!failed && good(cuStreamBeginCapture_v2(stream, 1), "cuStreamBeginCapture")) {
    const int code = MEMBER(NAME, _call)(program, (const void* const*)arguments, results, NULL,
                                         workspace, stream);
    if (code != 0) fprintf(stderr, "captured: %s\n", MEMBER(NAME, _error_text)(code));
    failed |= code != 0;
    good(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    if (!failed) good(cuGraphInstantiateWithFlags(&executable, graph, 0), "cuGraphInstantiate");
    for (int n = 0; n < 2 && !failed; ++n) good(cuGraphLaunch(executable, stream), "cuGraphLaunch");
    for (int n = 0; n < kResults && !failed; ++n) compare(n, results[n], stream, memory);
  }
  release(arguments, results, workspace);
  driver.cuCtxPopCurrent_v2(&popped);
}
#endif

static int read_all(unsigned char** places, const functrax_array* arrays, int count, FILE* file) {
  for (int n = 0; n < count; ++n) {
    places[n] = malloc(arrays[n].bytes + 1);
    if (places[n] == NULL) return 0;
    if (arrays[n].bytes && fread(places[n], arrays[n].bytes, 1, file) != 1) return 0;
  }
  return 1;
}

int main(int count, char** words) {
  pthread_t threads[64];
  int device, several;
  void* found;
  if (count != 5) return 2;
  FILE* file = fopen(words[1], "rb");
  several = atoi(words[2]);
  calls = atoi(words[3]);
  timed = atoi(words[4]);
  if (file == NULL || several < 1 || several > 64) return 2;
  if (!read_all(given, all_arguments, kArguments, file)) return 2;
  if (!read_all(wanted, all_results, kResults, file)) return 2;
  fclose(file);
  const int code = MEMBER(NAME, _open)(0, &program);
  if (code != 0) {
    fprintf(stderr, "open: code %d: %s\n", code, MEMBER(NAME, _error_text)(code));
    return 1;
  }
  if (functrax_cuda_functions(&driver) != 0) return 1;
  found = dlsym(dlopen(FUNCTRAX_LIBCUDA, RTLD_NOW), "cuStreamCreate");
  memcpy(&new_stream, &found, sizeof found);
  if (found == NULL || !good(driver.cuDeviceGet(&device, 0), "cuDeviceGet")) return 1;
  if (!good(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"))
    return 1;
  for (int n = 1; n < several; ++n) {
    if (pthread_create(&threads[n], NULL, work, &program) != 0) return 2;
  }
  work(NULL);
  for (int n = 1; n < several; ++n) pthread_join(threads[n], NULL);
#ifdef CAPTURES
  size_t most = 1;
  for (int n = 0; n < kResults; ++n) most += all_results[n].bytes;
  unsigned char* memory = malloc(most);
  if (memory == NULL) return 2;
  captured(memory);
  free(memory);
#endif
  MEMBER(NAME, _close)(program);
  good(driver.cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease");
  for (int n = 0; n < kArguments; ++n) free(given[n]);
  for (int n = 0; n < kResults; ++n) free(wanted[n]);
  if (!failed) printf("%d calls, %.2f us\n", several * calls, microseconds);
  fflush(stdout);
  return failed;
}
