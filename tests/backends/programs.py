"""Programs that the tests of the backends share, and an interpreter that takes no short cut."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrax.backends.reference.reference_device  # noqa: F401  (installs the device)
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import mapped
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.pytree.operations import tree_flatten
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import like, registry
from functrax.core.tracing.stage import close, stage


def dot(x: Any, w: Any) -> Any:
    """A matrix product."""
    (m, k), (_, n) = x.aval.shape, w.aval.shape
    left = broadcast_in_dim.bind(x, shape=(m, n, k), dims=(0, 2))
    right = broadcast_in_dim.bind(w, shape=(m, n, k), dims=(2, 1))
    return reduce_sum.bind(mul.bind(left, right), axes=(2,))


def conv_map(image: Sequence[int], weights: Sequence[int], stride: int = 1) -> IndexMap:
    """Windows of an image: ``[n, o, y, x, c, i, j] -> [n, c, y + i - 1, x + j - 1]``."""
    n, c, height, width = image
    o, _, kh, kw = weights
    rows, columns = -(-height // stride), -(-width // stride)
    b, _, y, x, channel, i, j = (Dim(k) for k in range(7))
    exprs = (b, channel, stride * y + i - kh // 2, stride * x + j - kw // 2)
    return IndexMap((n, o, rows, columns, c, kh, kw), tuple(image), exprs)


def conv(x: Any, w: Any, stride: int = 1) -> Any:
    """A convolution ``NCHW, OIHW`` with zeros around the image."""
    index_map = conv_map(x.aval.shape, w.aval.shape, stride)
    windows = mapped.reindex.bind(x, map=index_map, fill=like(x, 0))
    weights = broadcast_in_dim.bind(w, shape=index_map.domain, dims=(1, 4, 5, 6))
    return reduce_sum.bind(mul.bind(windows, weights), axes=(4, 5, 6))


def total(x: Any) -> Any:
    """The sum of all elements."""
    return reduce_sum.bind(x, axes=tuple(range(x.aval.ndim)))


def normal(seed: int, *shape: int, dtype: Any = np.float32) -> Any:
    """An array of random numbers."""
    draw = np.random.default_rng(seed).normal(size=shape)
    if np.dtype(dtype).kind in "iu":
        draw = np.round(8 * draw)
    return as_value(draw.astype(dtype))


def plainly(function: Callable[..., Any], *args: Any) -> list[np.ndarray[Any, Any]]:
    """The results by the primitives' references alone, one equation after the other."""
    jaxpr, consts = stage(lambda *xs: tree_flatten(function(*xs))[0], [x.aval for x in args])
    env = dict(zip(close(jaxpr).invars, [x.value for x in (*consts, *args)], strict=True))
    with np.errstate(all="ignore"):
        for eqn in jaxpr.eqns:
            operands = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
            out = registry[eqn.primitive.name].reference(*operands, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [np.asarray(x.val) if type(x) is Literal else env[x] for x in jaxpr.outvars]


def values(out: Any) -> list[np.ndarray[Any, Any]]:
    """The NumPy arrays of all leaves."""
    return [leaf.value for leaf in tree_flatten(out)[0]]


def peak(function: Callable[..., Any], *args: Any) -> int:
    """The most memory in bytes that a call holds beyond its arguments, results looked at."""
    tracemalloc.start()
    try:
        values(function(*args))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
