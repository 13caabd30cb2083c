/* What the headers of all programs have in common. */
#ifndef FUNCTRAX_CALL_H
#define FUNCTRAX_CALL_H

#include <stddef.h>
#include <stdint.h>

/* Elements that C has no type for.  Floats of 16 bits are given as their bits: float16 as IEEE 754
 * has it, bfloat16 as the upper half of a float.  A bool is a uint8_t that is 0 or 1.  Complex
 * numbers lie as C's and C++'s own do. */
typedef uint16_t functrax_float16;
typedef uint16_t functrax_bfloat16;
typedef struct functrax_complex64 {
  float re, im;
} functrax_complex64;
typedef struct functrax_complex128 {
  double re, im;
} functrax_complex128;

/* An argument or a result.  Arrays lie dense and row-major. */
typedef struct functrax_array {
  const char* name;         /* in C */
  const char* path;         /* in Python */
  const char* dtype;        /* as NumPy calls it */
  int rank;                 /* how many axes it has */
  const int64_t* shape;     /* their sizes, -1 where they follow from a call's; NULL without axes */
  size_t elements;          /* how many there are; 0 where that follows from sizes */
  size_t bytes;             /* that they take; the same */
  size_t alignment;         /* its address must be a multiple of it */
  int shares;               /* of a result: the argument whose memory it may have, or -1 */
  const char* const* sizes; /* where sizes have names: each as text, such as "2*b"; else NULL */
} functrax_array;

/* A part of a call: units of work from `begin` to `end`. */
typedef void (*functrax_task)(void* context, int64_t begin, int64_t end);

/* Threads that take part in a call, if the caller has some.
 *
 * `run` calls `task(context, begin, end)` for ranges that make up [0, units), each unit once, in
 * any order and from any threads at the same time, and returns when all are done.  Each range
 * begins at a multiple of `grain`.  `cost` is an estimate of the whole, in nanoseconds on one
 * thread: work of a few microseconds is done sooner by one.  Results do not depend on the ranges.
 * `run` must not throw.  functrax_pool.h has threads of this kind. */
typedef struct functrax_threads {
  void* pool; /* given to `run` */
  void (*run)(void* pool, functrax_task task, void* context, int64_t units, int64_t grain,
              int64_t cost);
} functrax_threads;

/* What a call returns is 0, or a kind of error and the number of the argument or of the result. */
enum { VALUE_OF_ERRORS };
#define FUNCTRAX_ERROR_KIND(code) ((code) & 0xff)
#define FUNCTRAX_ERROR_INDEX(code) ((code) >> VALUE_OF_SHIFT)

/* What the address of a workspace must be a multiple of. */
#define FUNCTRAX_WORKSPACE_ALIGNMENT VALUE_OF_ALIGNMENT

#endif /* FUNCTRAX_CALL_H */
