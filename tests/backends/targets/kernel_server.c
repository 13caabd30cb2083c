/* Runs kernels that another process compiled: for tests on emulated processors.
 *
 * Requests come on standard input and answers go to standard output, in the machine's byte order,
 * which is that of the other process.  Numbers are of 64 bits.
 *
 *   'L' size entry, then size bytes: an image of code.  Answer: the address of its function.
 *   'R' function begin end regions buffers params, then
 *       for each region its size, its address modulo 64, and its bytes,
 *       for each buffer the number of its region and where it is inside, and the params.
 *       Answer: the bytes of all regions.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void (*kernel_t)(void **, int64_t *, int64_t, int64_t);

enum { kPage = 4096, kSpare = 4096 };

static void receive(void *place, size_t size) {
  if (size && fread(place, 1, size, stdin) != size) exit(0);
}

static int64_t number(void) {
  int64_t value;
  receive(&value, sizeof value);
  return value;
}

static void send(const void *place, size_t size) {
  if (size && fwrite(place, 1, size, stdout) != size) exit(1);
}

static void load(void) {
  int64_t size = number(), entry = number();
  char *code = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) exit(2);
  receive(code, size);
  if (mprotect(code, size, PROT_READ | PROT_EXEC)) exit(2);
  __builtin___clear_cache(code, code + size);
  int64_t address = (int64_t)(code + entry);
  send(&address, sizeof address);
}

static void run(void) {
  kernel_t kernel = (kernel_t)number();
  int64_t begin = number(), end = number();
  int64_t regions = number(), buffers = number(), params = number();
  char *memory[256], *owned[256];
  int64_t size[256], values[1024];
  void *places[256];
  if (regions > 255 || buffers > 254 || params > 1023) exit(3);
  for (int64_t k = 0; k < regions; ++k) {
    size[k] = number();
    int64_t shift = number();
    owned[k] = aligned_alloc(kPage, (size[k] + 64 + kSpare + kPage) / kPage * kPage);
    if (!owned[k]) exit(2);
    memory[k] = owned[k] + shift;
    receive(memory[k], size[k]);
  }
  places[0] = NULL; /* a long kernel asks nobody whether it is to end */
  for (int64_t k = 0; k < buffers; ++k) {
    int64_t region = number();
    places[k + 1] = memory[region] + number();
  }
  receive(values, params * sizeof *values);
  kernel(places + 1, values, begin, end);
  for (int64_t k = 0; k < regions; ++k) {
    send(memory[k], size[k]);
    free(owned[k]);
  }
}

int main(void) {
  int what;
  while ((what = getchar()) != EOF) {
    if (what == 'L') load();
    else if (what == 'R') run();
    else return 4;
    fflush(stdout);
  }
  return 0;
}
