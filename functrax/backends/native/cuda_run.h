// Runs of programs on a GPU: asks for the work of a program, in order.
//
// The loops that are no kernels are counted here, and where a number on the GPU decides what is
// done next this waits for it.

#pragma once

#include <vector>

#include "cuda_gpu.h"
#include "cuda_graph.h"
#include "executor.h"
#include "program.h"

namespace functrax::cuda {

// Addresses of a frame's slots.
inline Place as_place(const void* address) { return reinterpret_cast<Place>(address); }
inline void* as_address(Place place) { return reinterpret_cast<void*>(place); }

// Asks for the work of a program whose slots have addresses, for that of some parts as graphs;
// false with an error set. Where `events` is not null each instruction is waited for, and its time
// is added.
bool ask_for(Gpu& gpu, const program::Program& program, executor::Frame& frame, Graphs& graphs,
             std::vector<executor::Event>* events);

}  // namespace functrax::cuda
