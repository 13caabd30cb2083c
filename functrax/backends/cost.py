"""The model of cost: nanoseconds, of what a kernel does and moves, on a target.

What enters: how many steps the loops of a kernel take, the cycles of what is done at each depth of
them, and the bytes of its arrays.  What leaves: the nanoseconds of a launch on one thread.  All
numbers of a machine are in its :class:`~functrax.backends.targets.facts.Target`.
``backends/kernels/work.py`` counts the cycles of a kernel; ``python -m benchmarks.predictions``
prints how near the model is to what is measured.

Start at :func:`launch_ns`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

from functrax.backends.targets.facts import Target
from functrax.core.types.size_bounds import choice, estimate
from functrax.core.types.symbolic_sizes import applied


@lru_cache(maxsize=1 << 14)
def about(shape: tuple[int, ...]) -> int:
    """About how many elements an array has, or points a kernel: those of the classes of its sizes.

    What fusion decides by costs is the same for all sizes of a class, which so share a size-generic
    program.
    """
    return math.prod([applied(size_class, n) for n in shape])


@choice
@cache
def size_class(n: int) -> int:
    """A power of two, or what stands for the sizes between two of them: three quarters of one.

    So sizes of about as much are one to the compiler, and half as much too large or too small.
    """
    power = 1 << (n - 1).bit_length() if n > 2 else n
    return n if n == power else power // 4 * 3


def least(*costs: float) -> int:
    """Which of some costs is the least: the first one of those."""
    return costs.index(min(costs))


def cycles_ns(cycles: float, target: Target) -> float:
    """Nanoseconds of so many cycles."""
    return cycles * target.cycle_ns


def moving_ns(nbytes: float, target: Target) -> float:
    """Nanoseconds to read or write so many bytes, which lie in the smallest cache that has room."""
    if nbytes <= target.first_cache:
        return 0.0  # to load and to store are operations, whose cycles are counted
    if nbytes <= target.second_cache:
        return nbytes * target.cache_byte_ns
    return memory_ns(nbytes, target)


def memory_ns(nbytes: float, target: Target) -> float:
    """Nanoseconds to move bytes from one kernel to another by way of memory, one way."""
    return nbytes * target.byte_ns


def products_ns(products: int, itemsize: int, target: Target) -> float:
    """Nanoseconds to multiply numbers of so many bytes and to add up the products, in vectors."""
    return cycles_ns(products * itemsize / target.vector_bytes * target.operation_cycles, target)


def numpy_ns(elements: int, target: Target) -> int:
    """Nanoseconds of an operation in NumPy that goes over so many elements."""
    return target.numpy_ns + target.numpy_element_ns * elements


def launch_ns(
    extents: Sequence[int],
    cycles: Sequence[float],
    arrays: Sequence[tuple[int, int]],
    target: Target,
) -> int:
    """Nanoseconds of a launch on one thread; at least those of a launch that does nothing.

    Args:
      extents: how many steps each loop takes, outermost first.
      cycles: of what is done for each step of the first so many loops: outside of all of them
        first, so there is one more of them.
      arrays: elements of each array, and the bytes of one.
      target: the machine.
    """
    # One function of sizes, so that a size-generic program has one step for it, and no answers.
    found: int = applied(estimated_launch_ns, tuple(extents), tuple(cycles), tuple(arrays), target)
    return found


@estimate
def estimated_launch_ns(
    extents: tuple[int, ...],
    cycles: tuple[float, ...],
    arrays: tuple[tuple[int, int], ...],
    target: Target,
) -> int:
    """What :func:`launch_ns` gives, of plain numbers."""
    steps, done = 1, cycles[0]
    for extent, each in zip(extents, cycles[1:], strict=True):
        steps *= extent
        done += steps * each
    computing = cycles_ns(done, target)
    moving = moving_ns(sum([min(n, steps) * size for n, size in arrays]), target)
    longer, shorter = max(computing, moving), min(computing, moving)
    return math.trunc(target.launch_ns + longer + target.exposed * shorter)
