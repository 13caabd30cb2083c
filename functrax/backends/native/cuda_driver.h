// The functions of NVIDIA's driver that functrax calls, as one table: follows
// functrax/backends/cuda/driver.py, which says what they are and who offers them.
//
// Their addresses come from Python. Nothing of NVIDIA's is needed to build this.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

namespace functrax::cuda {

using Place = std::uint64_t;  // an address of device memory
using Handle = void*;         // of a context, a stream, an event, a module, a function, a graph

// A launch in a graph: CUDA_KERNEL_NODE_PARAMS of the functions without a version.
struct KernelNode {
  Handle function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
};

// A copy in a graph: CUDA_MEMCPY3D.
struct CopyNode {
  struct Side {
    std::size_t x, y, z, level;
    unsigned kind;
    const void* host;
    Place device;
    Handle array, reserved;
    std::size_t pitch, height;
  };
  Side source, target;
  std::size_t width, height, depth;
};

using Condition = std::uint64_t;  // the handle of a condition, which conditional nodes decide by

// A conditional node of a graph: CUgraphNodeParams with CUDA_CONDITIONAL_NODE_PARAMS.
struct ConditionalNode {
  int type, reserved[3];
  Condition handle;
  int kind;
  unsigned size;
  Handle* bodies;
  Handle context;
  std::uint64_t rest[26];
};
static_assert(sizeof(ConditionalNode) == 256, "as in cuda.h");
static_assert(sizeof(KernelNode) == 56 && sizeof(CopyNode) == 200, "as in cuda.h");

#define FUNCTRAX_CUDA_FUNCTIONS(F)                                                                \
  F(cuInit, unsigned)                                                                             \
  F(cuDriverGetVersion, int*)                                                                     \
  F(cuGetErrorString, int, const char**)                                                          \
  F(cuDeviceGet, int*, int)                                                                       \
  F(cuDeviceGetCount, int*)                                                                       \
  F(cuDeviceGetName, char*, int, int)                                                             \
  F(cuDeviceGetAttribute, int*, int, int)                                                         \
  F(cuDevicePrimaryCtxRetain, Handle*, int)                                                       \
  F(cuCtxSetCurrent, Handle)                                                                      \
  F(cuMemAlloc_v2, Place*, std::size_t)                                                           \
  F(cuMemFree_v2, Place)                                                                          \
  F(cuMemcpyHtoDAsync_v2, Place, const void*, std::size_t, Handle)                                \
  F(cuMemcpyDtoHAsync_v2, void*, Place, std::size_t, Handle)                                      \
  F(cuMemcpyDtoDAsync_v2, Place, Place, std::size_t, Handle)                                      \
  F(cuMemsetD8Async, Place, unsigned char, std::size_t, Handle)                                   \
  F(cuMemsetD32Async, Place, unsigned, std::size_t, Handle)                                       \
  F(cuModuleLoadData, Handle*, const void*)                                                       \
  F(cuModuleGetFunction, Handle*, Handle, const char*)                                            \
  F(cuFuncGetAttribute, int*, int, Handle)                                                        \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, Handle, int, std::size_t)                  \
  F(cuLaunchKernel, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    Handle, void**, void**)                                                                       \
  F(cuStreamCreate, Handle*, unsigned)                                                            \
  F(cuStreamWaitEvent, Handle, Handle, unsigned)                                                  \
  F(cuEventCreate, Handle*, unsigned)                                                             \
  F(cuEventRecord, Handle, Handle)                                                                \
  F(cuEventQuery, Handle)

// Those that an old driver may lack.
#define FUNCTRAX_CUDA_GRAPH_FUNCTIONS(F)                                                        \
  F(cuGraphCreate, Handle*, unsigned)                                                           \
  F(cuGraphDestroy, Handle)                                                                     \
  F(cuGraphAddKernelNode, Handle*, Handle, const Handle*, std::size_t, const KernelNode*)       \
  F(cuGraphAddMemcpyNode, Handle*, Handle, const Handle*, std::size_t, const CopyNode*, Handle) \
  F(cuGraphInstantiateWithFlags, Handle*, Handle, std::uint64_t)                                \
  F(cuGraphExecKernelNodeSetParams, Handle, Handle, const KernelNode*)                          \
  F(cuGraphExecMemcpyNodeSetParams, Handle, Handle, const CopyNode*, Handle)                    \
  F(cuGraphLaunch, Handle, Handle)                                                              \
  F(cuGraphExecDestroy, Handle)

// Those of conditional nodes, too.
#define FUNCTRAX_CUDA_CONDITION_FUNCTIONS(F)                                        \
  F(cuGraphConditionalHandleCreate, Condition*, Handle, Handle, unsigned, unsigned) \
  F(cuGraphAddNode, Handle*, Handle, const Handle*, std::size_t, ConditionalNode*)

// CUresult, the flags of streams and events, and CUdevice_attribute.
constexpr int kSuccess = 0, kOutOfMemory = 2, kNotReady = 600, kNotSupported = 801;
constexpr unsigned kNonBlocking = 1, kDisableTiming = 2;
constexpr int kMajor = 75, kMinor = 76;
constexpr unsigned kDeviceMemory = 2;                             // of CUmemorytype
constexpr int kConditional = 13, kLoopNode = 1, kSwitchNode = 2;  // of CUgraphNodeType, and kinds

struct Driver {
#define FUNCTRAX_CUDA_MEMBER(name, ...) int (*name)(__VA_ARGS__);
  FUNCTRAX_CUDA_FUNCTIONS(FUNCTRAX_CUDA_MEMBER)
  // Null where they are missing.
  FUNCTRAX_CUDA_GRAPH_FUNCTIONS(FUNCTRAX_CUDA_MEMBER)
  FUNCTRAX_CUDA_CONDITION_FUNCTIONS(FUNCTRAX_CUDA_MEMBER)
#undef FUNCTRAX_CUDA_MEMBER

  bool has_graphs() const { return cuGraphCreate != nullptr; }
};

// Reads the addresses, by name; false with an error set where one is missing that has to be there.
bool read_driver(PyObject* addresses, Driver& driver);

// The addresses of functions that do nothing, by name: what a call costs without a driver.
PyObject* empty_functions(PyObject* module, PyObject* unused);

}  // namespace functrax::cuda
