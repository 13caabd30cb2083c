"""Pytrees of classes that take only arrays, tracers and plain objects for leaves.

Libraries have such classes (distrax's distributions): whatever else is among their attributes is
part of the structure, so that what fills a structure must not be numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.errors import DTypeError


@functrax.tree_util.register_pytree_node_class
class Normal:
    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    def tree_flatten(self) -> Any:
        values = [self.loc, self.scale]
        keep = tuple(isinstance(x, (Array, np.ndarray)) or type(x) is object for x in values)
        children = [x for x, k in zip(values, keep) if k]
        return children, (keep, tuple(None if k else x for x, k in zip(values, keep)))

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Normal:
        given = iter(children)
        keep, fixed = data
        return cls(*[next(given) if k else x for k, x in zip(keep, fixed)])


X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def test_results_of_vmap() -> None:
    found = functrax.vmap(lambda x: Normal(x.sum(), 2.0))(X)
    np.testing.assert_array_equal(found.loc, [3, 12])
    assert found.scale == 2.0
    found = functrax.vmap(lambda x: Normal(x, x.sum()), out_axes=-1)(X)
    assert (found.loc.shape, found.scale.shape) == ((3, 2), (2,))


def test_arguments_and_results_of_jit() -> None:
    @functrax.jit
    def doubled(d: Normal) -> Normal:
        return Normal(d.loc * 2, d.scale)

    found = doubled(Normal(X, 3.0))
    np.testing.assert_array_equal(found.loc, 2 * X)
    assert found.scale == 3.0
    with pytest.raises(TypeError, match="integer scalar arrays"):
        of_shape = functrax.jit(lambda d: jnp.zeros(d.loc))
        of_shape(Normal(X, 3.0))


def test_cotangents_of_custom_rules() -> None:
    @functrax.custom_vjp
    def density(d: Normal, x: Any) -> Any:
        return jnp.sum(x * d.loc) * d.scale

    density.defvjp(
        lambda d, x: (density(d, x), (d, x)), lambda kept, ct: (Normal(7 * ct * X, 3.0), ct * X)
    )
    slope = functrax.grad(density)(Normal(X, 3.0), X)
    np.testing.assert_array_equal(slope.loc, 7 * X)


def test_branches_that_differ() -> None:
    with pytest.raises(DTypeError, match="branches return different types"):
        lax.cond(True, lambda: Normal(jnp.ones(3), 1.0), lambda: Normal(jnp.ones(2), 1.0))
