"""Derivatives by sparse arrays: sparse arrays of the same places."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.experimental.sparse.base import JAXSparse
from functrax.transforms.arguments.flat import normalize_argnums
from functrax.transforms.differentiation import derivatives, jacobians
from functrax.transforms.mapping.vmap import vmap


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


class _ByData:
    """A function of the arrays that it is differentiated by, and the way back.

    Args:
      fun: the function.
      argnums: which of its arguments count; of sparse arrays only the data do.
      args, kwargs: its arguments.
    """

    def __init__(
        self, fun: Callable[..., Any], argnums: int | Sequence[int], args: Any, kwargs: Any
    ) -> None:
        self.single = isinstance(argnums, int)
        wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self.chosen = normalize_argnums("sparse.grad", fun, wanted, len(args))
        self.fun, self.args, self.kwargs = fun, args, kwargs
        self.flat = [tree_flatten(args[i], is_leaf=_is_sparse) for i in self.chosen]
        self.values = [[x.data if _is_sparse(x) else x for x in leaves] for leaves, _ in self.flat]

    def __call__(self, values: Any) -> Any:
        full = list(self.args)
        for i, (leaves, tree), given in zip(self.chosen, self.flat, values, strict=True):
            parts = [_with_data(x, v) for x, v in zip(leaves, given, strict=True)]
            full[i] = tree_unflatten(tree, parts)
        return self.fun(*full, **self.kwargs)

    def back(self, found: Any) -> Any:
        """Gradients by the data as those by the arguments."""
        grads = []
        for (leaves, tree), given in zip(self.flat, found, strict=True):
            parts = [_of_gradient(x, g) for x, g in zip(leaves, given, strict=True)]
            grads.append(tree_unflatten(tree, parts))
        return grads[0] if self.single else tuple(grads)


def _with_data(leaf: Any, value: Any) -> Any:
    if not _is_sparse(leaf):
        return value
    buffers, tree = tree_flatten(leaf)
    return tree_unflatten(tree, [value, *buffers[1:]])


def _of_gradient(leaf: Any, gradient: Any) -> Any:
    """A sparse array of a gradient; axes in front, of a Jacobian's results, become a batch."""
    if not _is_sparse(leaf):
        return gradient

    def made(g: Any) -> Any:
        return _with_data(leaf, g)

    for _ in range(gradient.ndim - leaf.data.ndim):
        made = vmap(made)
    return made(gradient)


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As ``functrax.value_and_grad``; by a sparse array the gradient is one of the same places.

    >>> import functrax.numpy as jnp
    >>> from functrax.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.arange(6.0))
    >>> sparse.value_and_grad(lambda x, y: x @ y)(x, jnp.ones(6))
    (Array(15., dtype=float32), BCOO(float32[6], nse=5))
    """

    @functools.wraps(fun)
    def value_and_gradient(*args: Any, **named: Any) -> Any:
        by_data = _ByData(fun, argnums, args, named)
        found = derivatives.value_and_grad(by_data, has_aux=has_aux, **kwargs)(by_data.values)
        return found[0], by_data.back(found[1])

    return value_and_gradient


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As ``functrax.grad``; by a sparse array the gradient is one of the same places."""
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @functools.wraps(fun)
    def gradient(*args: Any, **named: Any) -> Any:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def _jacobian(transform: Callable[..., Any]) -> Callable[..., Any]:
    def jacobian(
        fun: Callable[..., Any],
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        **kwargs: Any,
    ) -> Callable[..., Any]:
        """As functrax's function of this name; the result of ``fun`` must be one array."""

        @functools.wraps(fun)
        def of_args(*args: Any, **named: Any) -> Any:
            by_data = _ByData(fun, argnums, args, named)
            found = transform(by_data, has_aux=has_aux, **kwargs)(by_data.values)
            if has_aux:
                return by_data.back(found[0]), found[1]
            return by_data.back(found)

        return of_args

    jacobian.__name__ = jacobian.__qualname__ = transform.__name__
    return jacobian


jacfwd = _jacobian(jacobians.jacfwd)
jacrev = _jacobian(jacobians.jacrev)
jacobian = jacrev
