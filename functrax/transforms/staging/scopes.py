"""Blocks that change how what is inside them is traced: computed at once, or given a name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import ParamSpec, TypeVar

from functrax.core.errors.source import scopes
from functrax.core.errors.typed import ArgumentError
from functrax.core.options.config import Override
from functrax.transforms.arguments.flat import check_callable, name_of

P = ParamSpec("P")
R = TypeVar("R")


def ensure_compile_time_eval() -> Override:
    """Within the block known arrays are computed with at once, also while a function is traced.

    Operations on traced values, and on values made of them, are traced as elsewhere.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> @functrax.jit
    ... def f(x):
    ...     with functrax.ensure_compile_time_eval():
    ...         size = int(jnp.prod(jnp.array([2, 3])))
    ...     return jnp.full(size, x)
    >>> f(1.0).shape
    (6,)
    """
    return Override("eager_constant_folding", True)


class named_scope(ContextDecorator):  # noqa: N801  # a function to its users, as JAX's
    """Name a part of a program, as a block or as a decorator; it computes nothing else.

    A printed program has the name behind each operation's line, with those of the scopes around.

    Args:
      name: a string.

    Raises:
      ArgumentError: if the name is no string; it is a TypeError in kind.

    >>> import functrax, functrax.numpy as jnp
    >>> def f(x):
    ...     with functrax.named_scope("layer"):
    ...         return jnp.sin(x)
    >>> str(functrax.make_jaxpr(f)(1.0)).count(", layer")
    1
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ArgumentError(
                "named_scope: the name is a string", got=repr(name), fix="named_scope('layer')"
            )
        self.name = name

    def __enter__(self) -> None:
        """Add the name to those around."""
        around = scopes.name
        scopes.name = f"{around}/{self.name}" if around else self.name

    def __exit__(self, *exception: object) -> None:
        """Back to the names around."""
        inner = scopes.name
        scopes.name = inner[: -len(self.name) - 1] if len(inner) > len(self.name) else ""


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """A function within a :class:`named_scope`, by which its operations are known in programs.

    Args:
      fun: the function; its arguments may be anything.
      name: the scope; the function's own name if None.

    Returns:
      A function of the same arguments and results.

    Raises:
      ArgumentError: if ``fun`` is not a function, or the name is no string.

    >>> import functrax, functrax.numpy as jnp
    >>> double = functrax.named_call(lambda x: x * 2, name="doubling")
    >>> str(functrax.make_jaxpr(double)(1.0)).count(", doubling")
    1
    """
    check_callable("named_call", fun)
    return named_scope(name_of(fun) if name is None else name)(fun)
