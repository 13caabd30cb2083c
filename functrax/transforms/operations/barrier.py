"""Where fusion stops, for users who want to say so.

A pytree of arrays enters and leaves as it is; kernels end before it and begin after it.  The
primitive is ``core/prims/identity.py``'s ``optimization_barrier``, which has all rules.
"""

from __future__ import annotations

from typing import TypeVar

from functrax.core.prims.identity import optimization_barrier as barrier_p
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value

Tree = TypeVar("Tree")


def stop_fuse(x: Tree) -> Tree:
    """``x`` as it is, computed by kernels that end here, and read by others.

    Under ``jit``, what comes before and what comes after share no kernel, and the values are
    stored between them; neither is anything simplified or moved across.  Use it where a fused
    kernel is too large, or to have a value stored that would be computed again.  Derivatives stop
    fusion at the same place.

    A loop whose points are independent (``scan``, ``while_loop``) becomes one kernel all the same.

    Args:
      x: a pytree of arrays.

    Returns:
      An equal pytree.

    Raises:
      DTypeError: if a leaf is not an array or a number.

    >>> import functrax.numpy as jnp
    >>> from functrax import explain, jit
    >>> x = jnp.arange(3.0)
    >>> len(explain(jit(lambda x: jnp.exp(jnp.sin(x))))(x).kernels)
    1
    >>> len(explain(jit(lambda x: jnp.exp(stop_fuse(jnp.sin(x)))))(x).kernels)
    2
    """
    leaves, treedef = tree_flatten(x)
    if not leaves:
        return x
    held: Tree = tree_unflatten(treedef, barrier_p.bind(*map(as_value, leaves)))
    return held


def optimization_barrier(operand: Tree) -> Tree:
    """JAX's name for :func:`stop_fuse`.

    Args:
      operand: a pytree of arrays.

    Returns:
      An equal pytree.

    Raises:
      DTypeError: if a leaf is not an array or a number.

    >>> from functrax import lax
    >>> lax.optimization_barrier({"x": 1.0})
    {'x': Array(1., dtype=float32, weak_type=True)}
    """
    return stop_fuse(operand)
