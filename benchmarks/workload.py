"""What a row of the suite is: a workload, how it is measured, and what it must reach.

A ``Workload`` knows how to make its inputs (NumPy arrays in nests of tuples, lists and dicts, the
same in every process) and the function to time, once per framework:

* ``text`` is the function for functrax and for JAX: one text, given the library as its argument.
* ``peers`` holds those written by hand: ``torch`` (a builder that gets ``torch`` and ``staged``,
  which is ``torch.compile`` for the peer "inductor" and the identity for the peer "torch"), and
  ``numpy``, ``numba`` and ``drjit`` (builders that get the module).

``Target`` is one condition of a row.  Start reading at ``Workload``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

FRAMEWORKS = ("functrax", "jax", "torch", "inductor", "numpy", "drjit", "numba")
NAMES = {
    "functrax": "functrax",
    "jax": "JAX jit",
    "torch": "PyTorch",
    "inductor": "torch.compile",
    "numpy": "NumPy",
    "drjit": "Dr.Jit",
    "numba": "numba",
    "best": "best peer",
}

Kind = Literal["ratio", "time", "copy", "read", "flops", "excess"]
Mode = Literal[
    "steady",  # staged, called again and again, blocking on each result
    "eager",  # the same, without jit
    "record",  # eager, and nobody looks at the results
    "cold",  # the first call in a new process with an empty cache directory
    "first",  # the same of a program that stages itself: it is called without jit
    "warm disk",  # the first call in a new process, after another one that filled the directory
    "new sizes",  # first calls with sizes not seen before, in one new process
    "memory",  # growth of the resident memory over the first ten calls, in bytes
    "import",  # a process that imports the library, in microseconds
    "installed",  # the files of the library and of all that it depends on, in bytes
]
UNITS: Mapping[str, str] = {"memory": "bytes", "installed": "bytes"}  # others: microseconds


@dataclasses.dataclass(frozen=True)
class Target:
    """One condition that a row must hold; see the functions below for the kinds."""

    kind: Kind
    value: float
    peer: str = ""


def faster(value: float, peer: str = "jax") -> Target:
    """The peer's figure is at least so many times functrax's; "best" is the best of all peers."""
    return Target("ratio", value, peer)


def at_most(value: float) -> Target:
    """functrax's figure is at most this (microseconds or bytes)."""
    return Target("time", value)


def exceeds_numpy(value: float) -> Target:
    """functrax's figure exceeds NumPy's by at most this."""
    return Target("excess", value, "numpy")


def of_copy(share: float) -> Target:
    """The row's bytes move at this share of the measured copy bandwidth or more."""
    return Target("copy", share)


def of_read(share: float) -> Target:
    """The row's bytes are read at this share of the measured read bandwidth or more."""
    return Target("read", share)


def of_peak(share: float) -> Target:
    """The row's flops happen at this share of the measured fma peak or more."""
    return Target("flops", share)


@dataclasses.dataclass(frozen=True)
class Workload:
    """One row: a name, inputs, a function per framework, targets, and what it must move and do.

    ``bytes`` and ``flops`` are the least that a call must move and compute: each input read once,
    each output written once.  ``read_only`` says that the bytes are nearly all reads.  ``per`` is
    the number of steps in a call, for rows stated per step.  ``compared`` is false where outputs
    cannot be alike (sizes, imports); ``not_compared`` names peers with other random numbers.
    ``at_size`` gives the inputs at a size, where rows about new sizes do not cut the last input.
    ``tolerance`` bounds ‖a - b‖/‖b‖ of each output between two frameworks, where outputs whose
    root mean square is below ``noise`` count as that large.
    """

    name: str
    inputs: Callable[[], tuple[Any, ...]] = tuple
    text: Callable[[Any], Callable[..., Any]] | None = None
    targets: tuple[Target, ...] = ()
    peers: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    mode: Mode = "steady"
    bytes: float = 0
    flops: float = 0
    per: int = 1
    read_only: bool = False
    tolerance: float = 1e-3
    noise: float = 0.0
    not_compared: frozenset[str] = frozenset()
    note: str = ""
    at_size: Callable[[int], tuple[Any, ...]] | None = None

    def frameworks(self) -> tuple[str, ...]:
        """The frameworks that the row can be run on, functrax and JAX first."""
        if self.mode in ("import", "installed"):
            return ("functrax", "jax", "torch", "numpy")
        has = set(self.peers)
        if self.text is not None:
            has |= {"functrax", "jax"}
        if "torch" in has and self.mode not in ("eager", "record"):
            has.add("inductor")
        return tuple(f for f in FRAMEWORKS if f in has)


def floats(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], tuple[np.ndarray, ...]]:
    """Inputs: float32 arrays of these shapes, normal with this scale, always the same."""

    def make() -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        return tuple(np.float32(scale) * rng.standard_normal(s, np.float32) for s in shapes)

    return make
