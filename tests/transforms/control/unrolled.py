"""The meaning of the loops: Python loops over the same operations, and how results are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax.tree_util import tree_leaves, tree_map, tree_structure


def scan(
    f: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """What ``lax.scan`` means, for at least one step."""
    steps = length if length is not None else tree_leaves(xs)[0].shape[0]
    carry, results = init, []
    for i in reversed(range(steps)) if reverse else range(steps):
        carry, y = f(carry, tree_map(lambda x, i=i: x[i], xs))
        results.append(y)
    if reverse:
        results.reverse()
    return carry, tree_map(lambda *ys: jnp.stack(ys), *results)


def while_loop(cond: Any, body: Any, init: Any) -> Any:
    """What ``lax.while_loop`` means, where the condition is known."""
    carry = init
    while bool(cond(carry)):
        carry = body(carry)
    return carry


def fori_loop(lower: int, upper: int, body: Any, init: Any) -> Any:
    """What ``lax.fori_loop`` means."""
    carry = init
    for i in range(lower, upper):
        carry = body(i, carry)
    return carry


def close(got: Any, want: Any, tol: float = 2e-5) -> None:
    """Two pytrees have one structure, equal dtypes and shapes, and nearly equal numbers."""
    assert tree_structure(got) == tree_structure(want)
    for a, b in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert a.dtype == b.dtype, (a, b)
        assert a.shape == b.shape, (a, b)
        x, y = (np.asarray(v).astype(np.float64) for v in (a, b))
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)


def same(got: Any, want: Any) -> None:
    """Two pytrees are equal bit for bit."""
    assert tree_structure(got) == tree_structure(want)
    for a, b in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def summed(f: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar of all floating results, with weights that no symmetry cancels."""

    def total(*args: Any) -> Any:
        out = jnp.zeros(())
        for n, leaf in enumerate(tree_leaves(f(*args))):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                weights = np.cos(1.0 + n + np.arange(float(leaf.size))).reshape(leaf.shape)
                out = out + jnp.sum(leaf.astype("float32") * weights.astype("float32"))
        return out

    return total


def derivatives_agree(got: Any, want: Any, args: tuple[Any, ...], tol: float = 2e-4) -> None:
    """First and second derivatives of two functions of floating arrays agree, by every mode."""
    argnums = tuple(range(len(args)))
    f, g = summed(got), summed(want)
    tangents = tuple(tree_map(lambda x: jnp.cos(x + 0.3), a) for a in args)

    def forward(h: Any) -> Any:
        return functrax.jvp(h, args, tangents)

    def reverse(h: Any) -> Any:
        return functrax.grad(h, argnums)

    def slope(h: Any) -> Any:
        return lambda *xs: summed(reverse(h))(*xs)

    close(forward(f), forward(g), tol)
    close(reverse(f)(*args), reverse(g)(*args), tol)
    close(forward(slope(f)), forward(slope(g)), tol)
    close(reverse(slope(f))(*args), reverse(slope(g))(*args), tol)
    close(functrax.jit(reverse(f))(*args), reverse(g)(*args), tol)
