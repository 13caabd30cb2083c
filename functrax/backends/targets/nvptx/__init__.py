"""GPUs of NVIDIA, for which LLVM writes PTX: the machine code of a virtual processor.

What is known of one is its *compute capability*.  A thread computes one element at a time: there
are no vectors in registers, and neighbouring threads read and write neighbouring elements at once.

Start at :func:`target_of`.
"""

from __future__ import annotations

from typing import Final

from functrax.backends.targets.facts import Target
from functrax.core.errors.typed import ArgumentError
from functrax.core.records import replace

#: Threads that run in step.
WARP: Final = 32
#: Threads of a block of which each, or each warp, has work of its own.
BLOCK: Final = 256
#: How well LLVM selects instructions for them, 0 to 3.
OPTIMIZATION: Final = 3
#: The compute capabilities that code is made for, as numbers: 80 is 8.0.
CAPABILITIES: Final = (75, 80, 86, 89, 90, 100, 120)

#: Nanoseconds that the host takes to ask for a launch, for a graph, and for a node of it with other
#: addresses.  The first two are NVIDIA's (docs/decisions/0058); to change a node is taken to cost
#: half a launch.  No GPU has measured them here.
ENQUEUE_NS, GRAPH_NS, GRAPH_NODE_NS = 2500.0, 2500.0, 1450.0

#: What a GPU takes for a node of a graph that waits for another, for a node that decides between
#: others, and to copy a byte: of an H200 (docs/decisions/0066, benchmarks/RESULTS_GPU.md).
NODE_NS, BRANCH_NS, MOVED_BYTE_NS = 830.0, 7300.0, 0.0005

#: One thread.  ``vector_bytes`` is what it computes at once, so that kernels are scalar.
_THREAD: Final = Target(
    "an NVIDIA GPU",
    folder=__name__,
    triple="nvptx64-nvidia-cuda",
    warp=WARP,
    largest_group=1024,
    row_points=16,
    sort_points=8,
    busy_threads=1 << 17,
    resident=1024,
    search_operations=22,
    digit_operations=191,
    wave_ns=4.5,
    access_bytes=16,
    block=BLOCK,
    shared_bytes=48 << 10,
    vector_bytes=4,
    registers=255,
    shuffled_bytes=4,
    cache_line=128,
    least_lanes=1,
    enqueue_ns=ENQUEUE_NS,
    graph_ns=GRAPH_NS,
    graph_node_ns=GRAPH_NODE_NS,
    node_ns=NODE_NS,
    branch_ns=BRANCH_NS,
    moved_byte_ns=MOVED_BYTE_NS,
    graph_nodes=4096,
    functions=frozenset(("fma", "float16")),
)


def block_of(group: int) -> int:
    """How many threads a block has whose groups have so many."""
    return group if group > WARP else BLOCK


def target_of(capability: int, strict: bool = False, libraries: bool = False) -> Target:
    """The target of GPUs of a compute capability.

    PTX for a chip runs on later ones, too: one that is not known gets what the newest known one
    before it takes.

    Args:
      capability: 80 for 8.0.
      strict: whether functions are computed as on other targets, by exact operations alone.
      libraries: whether NVIDIA's libraries may compute what has no kernel.

    Raises:
      ArgumentError: the chip is older than the oldest one that code is made for.
    """
    known = [x for x in CAPABILITIES if x <= capability]
    if not known:
        raise ArgumentError(
            "a GPU of a compute capability that no code is made for",
            got=f"{capability // 10}.{capability % 10}",
            fix=f"use one of {CAPABILITIES[0] // 10}.{CAPABILITIES[0] % 10} or more",
        )
    name = f"sm_{known[-1]}"
    more = [*(["near"] if not strict else []), *(["extremum"] if known[-1] >= 80 else [])]
    functions = _THREAD.functions.union(more)
    own = {"name": name, "identity": name, "cpu": name}
    return replace(_THREAD, **own, functions=functions, libraries=libraries)
