/* A libcuda whose functions are given to it: `fake_libcuda_set(name, function)`.
 *
 * It exports the functions that programs ask for, by their names; one that nobody gave returns 999,
 * which CUDA calls an unknown error. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FUNCTIONS(X)                                                                              \
  X(cuInit, (unsigned a), (a))                                                                    \
  X(cuGetErrorString, (int a, const char** b), (a, b))                                            \
  X(cuDeviceGet, (int* a, int b), (a, b))                                                         \
  X(cuDeviceGetAttribute, (int* a, int b, int c), (a, b, c))                                      \
  X(cuDevicePrimaryCtxRetain, (void** a, int b), (a, b))                                          \
  X(cuDevicePrimaryCtxRelease_v2, (int a), (a))                                                   \
  X(cuCtxPushCurrent_v2, (void* a), (a))                                                          \
  X(cuCtxPopCurrent_v2, (void** a), (a))                                                          \
  X(cuCtxGetDevice, (int* a), (a))                                                                \
  X(cuCtxSynchronize, (void), ())                                                                 \
  X(cuMemAlloc_v2, (uint64_t* a, size_t b), (a, b))                                               \
  X(cuMemFree_v2, (uint64_t a), (a))                                                              \
  X(cuMemcpyHtoD_v2, (uint64_t a, const void* b, size_t c), (a, b, c))                            \
  X(cuMemcpyDtoDAsync_v2, (uint64_t a, uint64_t b, size_t c, void* d), (a, b, c, d))              \
  X(cuMemcpyDtoHAsync_v2, (void* a, uint64_t b, size_t c, void* d), (a, b, c, d))                 \
  X(cuStreamCreate, (void** a, unsigned b), (a, b))                                               \
  X(cuStreamSynchronize, (void* a), (a))                                                          \
  X(cuModuleLoadData, (void** a, const void* b), (a, b))                                          \
  X(cuModuleGetFunction, (void** a, void* b, const char* c), (a, b, c))                           \
  X(cuModuleUnload, (void* a), (a))                                                               \
  X(cuLaunchKernel,                                                                               \
    (void* a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h, \
     void* i, void** j, void** k),                                                                \
    (a, b, c, d, e, f, g, h, i, j, k))

#define DEFINE(name, parameters, arguments) \
  static int(*given_##name) parameters;     \
  extern int name parameters;               \
  int name parameters { return given_##name == NULL ? 999 : given_##name arguments; }
FUNCTIONS(DEFINE)

extern int fake_libcuda_set(const char* name, void* function);
int fake_libcuda_set(const char* name, void* function) {
#define SET(known, parameters, arguments) \
  if (strcmp(name, #known) == 0) return memcpy(&given_##known, &function, sizeof function), 0;
  FUNCTIONS(SET)
  return 1;
}
