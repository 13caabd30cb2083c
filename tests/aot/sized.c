/* Calls a program with named sizes, for several values of them, and compares bytes in a file.
 *
 *   sized FILE CASES
 *
 * FILE has for each case the sizes, as int64_t, then the bytes of all arguments and of all results.
 * Each case is called by itself and with a pool.  HEADER is the program's header, and NAME its
 * name. With COUNTS, allocations are counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#include "functrax_pool.h"

#define JOIN(a, b) a##b
#define MEMBER(name, member) JOIN(name, member)

enum {
  kSizes = COUNT_OF_SIZES,
  kArguments = sizeof MEMBER(NAME, _arguments) / sizeof(functrax_array),
  kResults = sizeof MEMBER(NAME, _results) / sizeof(functrax_array),
  kAll = kArguments + kResults,
  kGuard = 256
};

#ifdef COUNTS
static int inside, allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) { return allocations += inside, __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return allocations += inside, __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return allocations += inside, __libc_realloc(p, size); }
void* aligned_alloc(size_t a, size_t size) {
  return allocations += inside, __libc_memalign(a, size);
}
#endif

static const functrax_array* array_of(int n) {
  return n < kArguments ? &MEMBER(NAME, _arguments)[n] : &MEMBER(NAME, _results)[n - kArguments];
}

static size_t item_of(const functrax_array* x) {
  static const struct {
    const char* name;
    size_t bytes;
  } kinds[] = {{"bool", 1}, {"int32", 4}, {"float32", 4}, {"float64", 8}};
  for (size_t n = 0; n < sizeof kinds / sizeof *kinds; ++n) {
    if (strcmp(x->dtype, kinds[n].name) == 0) return kinds[n].bytes;
  }
  exit(3);
}

static size_t bytes_of(int n, const int64_t* sizes) {
  const functrax_array* x = array_of(n);
  int64_t shape[8];
  size_t bytes = item_of(x);
  if (MEMBER(NAME, _shape)(sizes, n, shape) != x->rank) exit(4);
  for (int k = 0; k < x->rank; ++k) {
    if (x->shape[k] >= 0 && x->shape[k] != shape[k]) exit(5);
    if (x->shape[k] < 0 && x->sizes == NULL) exit(6);
    bytes *= (size_t)shape[k];
  }
  if (x->sizes == NULL && bytes != x->bytes) exit(7);
  return bytes;
}

/* Memory of so many bytes, then a guard. */
static unsigned char* room(size_t bytes) {
  unsigned char* memory = aligned_alloc(64, (bytes + kGuard + 63) / 64 * 64);
  if (memory == NULL) exit(2);
  memset(memory, 0xA5, bytes + kGuard);
  return memory;
}

static void check_guard(const unsigned char* memory, size_t bytes, const char* what) {
  for (int n = 0; n < kGuard; ++n) {
    if (memory[bytes + (size_t)n] != 0xA5) {
      fprintf(stderr, "%s: written %d bytes behind its end\n", what, n);
      exit(1);
    }
  }
}

int main(int count, char** words) {
  if (count != 3) return 2;
  FILE* file = fopen(words[1], "rb");
  const int cases = atoi(words[2]);
  functrax_pool* pool = functrax_pool_create(3);
  const functrax_threads threads = functrax_pool_threads(pool);
  if (file == NULL) return 2;
  for (int n = 0; n < cases; ++n) {
    int64_t sizes[kSizes];
    size_t bytes[kAll];
    unsigned char *places[kAll], *wanted[kResults];
    if (fread(sizes, sizeof sizes, 1, file) != 1) return 2;
    for (int k = 0; k < kAll; ++k) {
      bytes[k] = bytes_of(k, sizes);
      places[k] = room(bytes[k]);
      unsigned char* read = places[k];
      if (k >= kArguments) read = wanted[k - kArguments] = room(bytes[k]);
      if (fread(read, bytes[k], 1, file) != 1) return 2;
    }
    const size_t needed = WORKSPACE_BYTES;
    unsigned char* workspace = room(needed);
    for (int call = 0; call < 4; ++call) {
      for (int k = 0; k < kResults; ++k)
        memset(places[kArguments + k], 0x5A, bytes[kArguments + k]);
#ifdef COUNTS
      inside = 1;
#endif
      const int code =
          MEMBER(NAME, _call)((const void* const*)places, (void* const*)(places + kArguments),
                              sizes, workspace, call % 2 ? &threads : NULL);
#ifdef COUNTS
      inside = 0;
      if (allocations != 0) return fprintf(stderr, "%d allocations\n", allocations), 1;
#endif
      if (code != 0) return fprintf(stderr, "%s\n", MEMBER(NAME, _error_text)(code)), 1;
      for (int k = 0; k < kResults; ++k) {
        if (memcmp(places[kArguments + k], wanted[k], bytes[kArguments + k]) != 0) {
          return fprintf(stderr, "case %d: %s is wrong\n", n, array_of(kArguments + k)->name), 1;
        }
      }
      check_guard(workspace, needed, "workspace");
      for (int k = 0; k < kAll; ++k) check_guard(places[k], bytes[k], array_of(k)->name);
    }
    for (int k = 0; k < kAll; ++k) free(places[k]);
    for (int k = 0; k < kResults; ++k) free(wanted[k]);
    free(workspace);
  }
  fclose(file);
  functrax_pool_destroy(pool);
  printf("%d cases\n", cases);
  return 0;
}
