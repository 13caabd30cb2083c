/* Loops that show what the processor can do: read, copy, fused multiply-adds.

   Compiled by machine.py for the processor at hand; each is run in as many threads as are asked for,
   each thread on its own part of the data. */

#include <stddef.h>
#include <string.h>

typedef float Lanes __attribute__((vector_size(64)));
enum { CHAINS = 12 };

/* The sum of n floats (n a multiple of 128), through eight independent accumulators. */
float read_floats(const float *x, size_t n) {
  Lanes sums[8] = {0};
  for (size_t i = 0; i < n; i += 128)
    for (int k = 0; k < 8; ++k) sums[k] += *(const Lanes *)(x + i + 16 * k);
  float total = 0;
  for (int k = 0; k < 8; ++k)
    for (int j = 0; j < 16; ++j) total += sums[k][j];
  return total;
}

void copy_floats(float *to, const float *from, size_t n) { memcpy(to, from, 4 * n); }

/* rounds x CHAINS x 16 multiply-adds, in chains that do not depend on each other. */
float multiply_add(size_t rounds) {
  Lanes sums[CHAINS];
  Lanes factor = {0};
  factor += 0.999f;
  for (int k = 0; k < CHAINS; ++k) sums[k] = factor * (float)k;
  for (size_t i = 0; i < rounds; ++i)
    for (int k = 0; k < CHAINS; ++k) sums[k] = sums[k] * factor + factor;
  float total = 0;
  for (int k = 0; k < CHAINS; ++k)
    for (int j = 0; j < 16; ++j) total += sums[k][j];
  return total;
}
