/* What drives programs for GPUs: the functions of NVIDIA's driver that they need, which libcuda is
 * asked for when a program is opened, and calls of a program's kernels.
 *
 * Nothing of CUDA's toolkit is needed to build it.  Names and types are those of the CUDA Driver
 * API: handles are pointers, addresses of the GPU's memory are integers of 64 bits.
 *
 * A program that was opened does not change, so threads may make calls of it at the same time. */
#ifndef FUNCTRAX_CUDA_H
#define FUNCTRAX_CUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The library of the driver. */
#ifndef FUNCTRAX_LIBCUDA
#define FUNCTRAX_LIBCUDA "libcuda.so.1"
#endif

/* Constants are literals of so many bytes. */
#define FUNCTRAX_CUDA_ROW VALUE_OF_ROW

#define FUNCTRAX_CUDA_FUNCTIONS(X)                                                                 \
  X(cuInit, (unsigned flags))                                                                      \
  X(cuGetErrorString, (int error, const char** text))                                              \
  X(cuDeviceGet, (int* device, int ordinal))                                                       \
  X(cuDeviceGetAttribute, (int* value, int attribute, int device))                                 \
  X(cuDevicePrimaryCtxRetain, (void** context, int device))                                        \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                                    \
  X(cuCtxPushCurrent_v2, (void* context))                                                          \
  X(cuCtxPopCurrent_v2, (void** context))                                                          \
  X(cuCtxGetDevice, (int* device))                                                                 \
  X(cuCtxSynchronize, (void))                                                                      \
  X(cuMemAlloc_v2, (uint64_t* place, size_t bytes))                                                \
  X(cuMemFree_v2, (uint64_t place))                                                                \
  X(cuMemcpyHtoD_v2, (uint64_t to, const void* from, size_t bytes))                                \
  X(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void* stream))                \
  X(cuMemcpyDtoHAsync_v2, (void* to, uint64_t from, size_t bytes, void* stream))                   \
  X(cuStreamSynchronize, (void* stream))                                                           \
  X(cuModuleLoadData, (void** module, const void* text))                                           \
  X(cuModuleGetFunction, (void** function, void* module, const char* name))                        \
  X(cuModuleUnload, (void* module))                                                                \
  X(cuLaunchKernel,                                                                                \
    (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     unsigned shared, void* stream, void** given, void** extra))

typedef struct functrax_cuda_driver {
#define FUNCTRAX_CUDA_MEMBER(name, parameters) int(*name) parameters;
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_MEMBER)
#undef FUNCTRAX_CUDA_MEMBER
} functrax_cuda_driver;

typedef struct functrax_cuda_kernel {
  int module;       /* in whose text it is */
  const char* name; /* NULL behind the last kernel */
  unsigned block;   /* how many threads a block has */
} functrax_cuda_kernel;

/* A program as its source has it. */
typedef struct functrax_cuda_code {
  const char* const* const* modules; /* texts of PTX in pieces; NULL behind the last ones */
  int module_count;
  const functrax_cuda_kernel* kernels;
  int kernel_count;
  const char* constants; /* rows of FUNCTRAX_CUDA_ROW bytes and a zero */
  size_t constant_bytes;
  int capability; /* of the GPU that it is for, 80 for 8.0 */
} functrax_cuda_code;

/* A program that was opened. */
typedef struct functrax_cuda_program {
  functrax_cuda_driver driver;
  const functrax_cuda_code* code;
  void* context;
  int device;         /* whose primary context is retained, or -1 */
  uint64_t constants; /* where they are in the memory of the GPU */
  void **modules, **functions;
} functrax_cuda_program;

/* A call of a program. */
typedef struct functrax_cuda_call {
  const functrax_cuda_program* program;
  const uint64_t *arguments, *results;
  uint64_t workspace, constants;
  void* stream;
  void** parameters; /* room for what a launch has */
  int error;         /* the first, a CUresult; nothing is done after one */
} functrax_cuda_call;

/* ---- calls ---------------------------------------------------------------------------------- */

/* Run a kernel over a grid, with the addresses of arrays and then a table of integers. */
static inline void functrax_cuda_launch(functrax_cuda_call* c, int kernel, unsigned grid,
                                        const uint64_t* places, int count, const int64_t* numbers) {
  const functrax_cuda_program* p = c->program;
  if (c->error) return;
  for (int n = 0; n < count; ++n) c->parameters[n] = (void*)(uintptr_t)&places[n];
  c->parameters[count] = (void*)(uintptr_t)numbers;
  c->error =
      p->driver.cuLaunchKernel(p->functions[kernel], grid, 1, 1, p->code->kernels[kernel].block, 1,
                               1, 0, c->stream, c->parameters, NULL);
}

/* Copy bytes, which are at another place of the GPU's memory or at the same. */
static inline void functrax_cuda_copy(functrax_cuda_call* c, uint64_t to, uint64_t from,
                                      size_t bytes) {
  if (c->error || to == from) return;
  c->error = c->program->driver.cuMemcpyDtoDAsync_v2(to, from, bytes, c->stream);
}

/* Wait for what decides how the program goes on. */
static inline void functrax_cuda_read(functrax_cuda_call* c, void* to, uint64_t from,
                                      size_t bytes) {
  const functrax_cuda_driver* driver = &c->program->driver;
  unsigned char found[8];
  if (c->error) return;
  c->error = driver->cuMemcpyDtoHAsync_v2(found, from, bytes, c->stream);
  if (!c->error) c->error = driver->cuStreamSynchronize(c->stream);
  if (!c->error) memcpy(to, found, bytes);
}

/* The code of the first address that is wrong, or 0.  A mask has the bits that an address may not
 * have, and is negative for what has no elements. */
static inline int functrax_cuda_check(const uint64_t* places, const int* masks, int count,
                                      int kind) {
  for (int n = 0; n < count; ++n) {
    if (masks[n] < 0) continue;
    if (places[n] == 0) return kind | n << VALUE_OF_SHIFT;
    if (places[n] & (uint64_t)masks[n]) return (kind + 1) | n << VALUE_OF_SHIFT;
  }
  return 0;
}

/* Run a program in its context; the thread's is as it was when this returns. */
static inline int functrax_cuda_run(functrax_cuda_call* c, void (*run)(functrax_cuda_call*)) {
  const functrax_cuda_driver* driver = &c->program->driver;
  void* popped;
  c->error = driver->cuCtxPushCurrent_v2(c->program->context);
  if (!c->error) {
    run(c);
    const int error = driver->cuCtxPopCurrent_v2(&popped);
    if (!c->error) c->error = error;
  }
  return c->error ? FUNCTRAX_CUDA | c->error << VALUE_OF_SHIFT : 0;
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* The functions of the driver, which stays loaded. */
static inline int functrax_cuda_functions(functrax_cuda_driver* driver) {
  void *library = dlopen(FUNCTRAX_LIBCUDA, RTLD_NOW | RTLD_LOCAL), *found;
  if (library == NULL) return FUNCTRAX_NO_CUDA;
#define FUNCTRAX_CUDA_FIND(name, parameters)   \
  found = dlsym(library, #name);               \
  if (found == NULL) return FUNCTRAX_OLD_CUDA; \
  memcpy(&driver->name, &found, sizeof driver->name);
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_FIND)
#undef FUNCTRAX_CUDA_FIND
  return 0;
}

/* Whether the GPU of the current context runs the code. */
static inline int functrax_cuda_fits(const functrax_cuda_program* p) {
  int device, major, minor, error;
  error = p->driver.cuCtxGetDevice(&device);
  if (!error) error = p->driver.cuDeviceGetAttribute(&major, 75, device);
  if (!error) error = p->driver.cuDeviceGetAttribute(&minor, 76, device);
  if (error) return FUNCTRAX_CUDA | error << VALUE_OF_SHIFT;
  if (10 * major + minor < p->code->capability)
    return FUNCTRAX_LESSER_GPU | (10 * major + minor) << VALUE_OF_SHIFT;
  return 0;
}

/* Load the kernels of a text that is in pieces. */
static inline int functrax_cuda_load(functrax_cuda_program* p, int module) {
  const char* const* pieces = p->code->modules[module];
  size_t length = 0;
  for (int n = 0; pieces[n] != NULL; ++n) length += strlen(pieces[n]);
  char* text = malloc(length + 1);
  if (text == NULL) return FUNCTRAX_NO_MEMORY;
  char* end = text;
  for (int n = 0; pieces[n] != NULL; ++n) {
    const size_t size = strlen(pieces[n]);
    memcpy(end, pieces[n], size);
    end += size;
  }
  *end = 0;
  int error = p->driver.cuModuleLoadData(&p->modules[module], text);
  free(text);
  for (int n = 0; n < p->code->kernel_count && !error; ++n) {
    const functrax_cuda_kernel* kernel = &p->code->kernels[n];
    if (kernel->module != module) continue;
    error = p->driver.cuModuleGetFunction(&p->functions[n], p->modules[module], kernel->name);
  }
  return error ? FUNCTRAX_CUDA | error << VALUE_OF_SHIFT : 0;
}

/* Copy the constants to the GPU. */
static inline int functrax_cuda_fill(functrax_cuda_program* p) {
  const size_t bytes = p->code->constant_bytes,
               rows = (bytes + FUNCTRAX_CUDA_ROW - 1) / FUNCTRAX_CUDA_ROW;
  if (bytes == 0) return 0;
  char* block = malloc(rows * FUNCTRAX_CUDA_ROW);
  if (block == NULL) return FUNCTRAX_NO_MEMORY;
  for (size_t n = 0; n < rows; ++n)
    memcpy(block + n * FUNCTRAX_CUDA_ROW, p->code->constants + n * (FUNCTRAX_CUDA_ROW + 1),
           FUNCTRAX_CUDA_ROW);
  int error = p->driver.cuMemAlloc_v2(&p->constants, bytes);
  if (!error) error = p->driver.cuMemcpyHtoD_v2(p->constants, block, bytes);
  if (!error) error = p->driver.cuCtxSynchronize(); /* other streams do not wait for the copy */
  free(block);
  return error ? FUNCTRAX_CUDA | error << VALUE_OF_SHIFT : 0;
}

/* Give back what a program has; all of its work is waited for. */
static inline void functrax_cuda_close(functrax_cuda_program* p) {
  void* popped;
  if (p == NULL) return;
  if (p->context != NULL && !p->driver.cuCtxPushCurrent_v2(p->context)) {
    p->driver.cuCtxSynchronize();
    for (int n = 0; n < p->code->module_count && p->modules != NULL; ++n)
      if (p->modules[n] != NULL) p->driver.cuModuleUnload(p->modules[n]);
    if (p->constants) p->driver.cuMemFree_v2(p->constants);
    p->driver.cuCtxPopCurrent_v2(&popped);
  }
  if (p->device >= 0) p->driver.cuDevicePrimaryCtxRelease_v2(p->device);
  free(p->modules);
  free(p->functions);
  free(p);
}

/* Make a program ready, in the context that it has. */
static inline int functrax_cuda_prepare(functrax_cuda_program* p) {
  void* popped;
  const functrax_cuda_code* code = p->code;
  const int error = p->driver.cuCtxPushCurrent_v2(p->context);
  if (error) return FUNCTRAX_CUDA | error << VALUE_OF_SHIFT;
  p->modules = calloc((size_t)code->module_count + 1, sizeof *p->modules);
  p->functions = calloc((size_t)code->kernel_count + 1, sizeof *p->functions);
  int failed = p->modules == NULL || p->functions == NULL ? FUNCTRAX_NO_MEMORY : 0;
  if (!failed) failed = functrax_cuda_fits(p);
  for (int n = 0; n < code->module_count && !failed; ++n) failed = functrax_cuda_load(p, n);
  if (!failed) failed = functrax_cuda_fill(p);
  p->driver.cuCtxPopCurrent_v2(&popped);
  return failed;
}

/* Open a program in a context, or if that is NULL in the primary context of a device. */
static inline int functrax_cuda_open(const functrax_cuda_code* code, int ordinal, void* context,
                                     functrax_cuda_program** opened) {
  *opened = NULL;
  functrax_cuda_program* p = calloc(1, sizeof *p);
  if (p == NULL) return FUNCTRAX_NO_MEMORY;
  p->code = code;
  p->device = -1;
  int failed = functrax_cuda_functions(&p->driver), error = 0, device = 0;
  if (failed) {
    free(p);
    return failed;
  }
  p->context = context;
  error = p->driver.cuInit(0);
  if (!error && context == NULL) {
    error = p->driver.cuDeviceGet(&device, ordinal);
    if (!error) error = p->driver.cuDevicePrimaryCtxRetain(&p->context, device);
    if (!error) p->device = device;
  }
  failed = error ? FUNCTRAX_CUDA | error << VALUE_OF_SHIFT : functrax_cuda_prepare(p);
  if (failed)
    functrax_cuda_close(p);
  else
    *opened = p;
  return failed;
}

/* What the driver says of a CUresult. */
static inline const char* functrax_cuda_text(int error) {
  functrax_cuda_driver driver;
  const char* text = NULL;
  if (functrax_cuda_functions(&driver) || driver.cuGetErrorString(error, &text)) return NULL;
  return text;
}

#endif /* FUNCTRAX_CUDA_H */
