/* A libcuda without a GPU: memory is the host's, copies copy, kernels do nothing.
 *
 * It counts what it is asked for in the same way from any thread, so that sanitizers and counters
 * of allocations look at the loader alone. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name, parameters) \
  extern int name parameters;    \
  int name parameters

EXPORT(cuInit, (unsigned flags)) { return (int)flags; }
EXPORT(cuGetErrorString, (int error, const char** text)) { return *text = "idle", error < 0; }
EXPORT(cuDeviceGet, (int* device, int ordinal)) { return *device = ordinal, ordinal != 0; }
EXPORT(cuDeviceGetAttribute, (int* value, int attribute, int device)) {
  return *value = attribute == 75 ? 9 : 0, device;
}
EXPORT(cuDevicePrimaryCtxRetain, (void** context, int device)) {
  static int one;
  return *context = &one, device;
}
EXPORT(cuDevicePrimaryCtxRelease_v2, (int device)) { return device; }
EXPORT(cuCtxPushCurrent_v2, (void* context)) { return context == NULL; }
EXPORT(cuCtxPopCurrent_v2, (void** context)) { return *context = NULL, 0; }
EXPORT(cuCtxGetDevice, (int* device)) { return *device = 0; }
EXPORT(cuCtxSynchronize, (void)) { return 0; }
EXPORT(cuMemAlloc_v2, (uint64_t* place, size_t bytes)) {
  void* found = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (found == NULL) return 2;
  memset(found, 0, bytes);
  return *place = (uint64_t)(uintptr_t)found, 0;
}
EXPORT(cuMemFree_v2, (uint64_t place)) { return free((void*)(uintptr_t)place), 0; }
EXPORT(cuMemcpyHtoD_v2, (uint64_t to, const void* from, size_t bytes)) {
  return memcpy((void*)(uintptr_t)to, from, bytes), 0;
}
EXPORT(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void* stream)) {
  (void)stream;
  return memmove((void*)(uintptr_t)to, (void*)(uintptr_t)from, bytes), 0;
}
EXPORT(cuMemcpyDtoHAsync_v2, (void* to, uint64_t from, size_t bytes, void* stream)) {
  (void)stream;
  return memcpy(to, (void*)(uintptr_t)from, bytes), 0;
}
EXPORT(cuStreamCreate, (void** stream, unsigned flags)) { return *stream = stream, flags != 1; }
EXPORT(cuStreamSynchronize, (void* stream)) { return (void)stream, 0; }
EXPORT(cuModuleLoadData, (void** module, const void* text)) {
  *module = malloc(1);
  return *module == NULL || strstr(text, ".entry") == NULL;
}
EXPORT(cuModuleGetFunction, (void** function, void* module, const char* name)) {
  return *function = module, *name == 0;
}
EXPORT(cuModuleUnload, (void* module)) { return free(module), 0; }
EXPORT(cuLaunchKernel,
       (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
        unsigned bz, unsigned shared, void* stream, void** given, void** extra)) {
  uint64_t first;
  (void)stream;
  memcpy(&first, given[0], sizeof first);
  return function == NULL || gx == 0 || bx == 0 || gy * gz * by * bz != 1 || shared != 0 ||
         extra != NULL;
}
EXPORT(cuStreamBeginCapture_v2, (void* stream, int mode)) { return stream == NULL || mode != 1; }
EXPORT(cuStreamEndCapture, (void* stream, void** graph)) { return *graph = stream, 0; }
EXPORT(cuGraphInstantiateWithFlags, (void** executable, void* graph, uint64_t flags)) {
  return *executable = graph, flags != 0;
}
EXPORT(cuGraphLaunch, (void* executable, void* stream)) { return executable != stream; }
