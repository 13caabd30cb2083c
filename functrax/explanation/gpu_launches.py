"""How the kernels of a program are launched on a GPU, and what they take there.

Start at :func:`launches_of`.
"""

from __future__ import annotations

from functrax.backends.compilation.codegen import DeviceKernelCode
from functrax.backends.executables.program import HostCall
from functrax.core.records import record
from functrax.explanation.record import Explanation


@record
class GpuLaunch:
    """One kernel of a program on a GPU.

    Args:
      number: of the :class:`KernelFacts` that it is a part of.
      name: of its function, as NVIDIA's tools show it.
      grid: how many blocks.
      block: how many threads each has.
      group: how many threads share a unit of work.
      shared: bytes that a block shares.
      registers: of a thread; None where only a driver of a GPU could tell.
      local: bytes of memory that a thread has of its own; None as before.
      occupancy: the share of a multiprocessor's threads that can be there at once; None as before.
    """

    number: int
    name: str
    grid: int
    block: int
    group: int
    shared: int
    registers: int | None
    local: int | None
    occupancy: float | None


@record
class GpuGraph:
    """Launches that the driver is asked for as one CUDA graph, from the second run on.

    Args:
      nodes: how many launches and copies it is at most.
      numbers: of the :class:`KernelFacts` that are in it.
    """

    nodes: int
    numbers: tuple[int, ...]


def graphs_of(e: Explanation) -> tuple[GpuGraph, ...]:
    """The graphs of a program that was compiled for a GPU; none of another one."""
    if not e.compiled.target.warp:
        return ()
    from functrax.backends.cuda import choice, graphs

    table = choice.gpu().table
    if not table.has_graphs:
        return ()
    found, conditions = [], graphs.gpu_decides(table)
    for graph in graphs.planned_graphs(e.compiled.program, e.compiled.target, conditions):
        inside = set(graph.instructions)
        numbers = tuple(k.number for k in e.kernels if inside & set(k.instructions))
        found.append(GpuGraph(graph.nodes, numbers))
    return tuple(found)


def calls_of(e: Explanation) -> tuple[str, ...]:
    """Who computes what is no kernel, of a program that was compiled for a GPU: a line for each."""
    if not e.compiled.target.warp:
        return ()
    from functrax.backends.cuda import choice
    from functrax.backends.cuda.libraries.opened import libraries_of

    libraries = libraries_of(choice.gpu().table)
    return tuple(
        f"#{kernel.number} {x.name} {libraries.who(x.device)}"
        for kernel in e.kernels
        for x in kernel.instructions
        if isinstance(x, HostCall) and x.device is not None
    )


def launches_of(e: Explanation) -> tuple[GpuLaunch, ...]:
    """The launches of a program that was compiled for a GPU; none of another one."""
    if not e.compiled.target.warp:
        return ()
    from functrax.backends.cuda import choice, usage  # which only programs of a GPU need

    found, gpu = [], choice.gpu()
    for kernel in e.kernels:
        for x in kernel.codes:
            assert isinstance(x, DeviceKernelCode), "it was compiled for a GPU"
            code = x.code
            taken = usage.usage(gpu, gpu.load(code.ptx, code.name), code.block)
            found.append(
                GpuLaunch(
                    kernel.number,
                    code.name,
                    code.grid(x.units),
                    code.block,
                    code.group,
                    taken.shared,
                    taken.registers,
                    taken.local,
                    taken.occupancy,
                )
            )
    return tuple(found)
