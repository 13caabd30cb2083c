"""What tests of recorded operations share: an array, and what waits to be computed."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax.backends import eager
from functrax.core import native
from functrax.core.arrays.array import Pending

N = 600  # elements a side: too much work for the reference


def square(seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).random((N, N), np.float32))


def is_pending(x: Any) -> bool:
    return isinstance(x._buffer, Pending) and x._buffer.value is None


def waiting() -> int:
    """How many operations are recorded and not computed."""
    assert native.extension is not None
    return native.extension.eager_counts()[3]


def operations(x: Any) -> list[str]:
    """The operations that looking at an array would run."""
    program = eager.pending_program(x)
    return [] if program is None else [e.primitive.name for e in program.eqns]


def num_outputs(x: Any) -> int:
    program = eager.pending_program(x)
    assert program is not None
    return len(program.outvars)
