"""Contexts of a user's own that jitted functions are traced again for: ``make_user_context``."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

from functrax.core.errors.typed import ArgumentError
from functrax.core.options.config import Override, State, config, state

P = ParamSpec("P")
R = TypeVar("R")


class UserContext:
    """A value of the running thread that is a part of what jitted functions are remembered by.

    ``with context(value):`` sets it, ``context.value`` reads it.  Made by
    :func:`make_user_context`.
    """

    __slots__ = ("__weakref__", "_default")

    def __init__(self, default: Hashable) -> None:
        self._default = default

    @property
    def value(self) -> Any:
        """The value in the running thread: of the innermost block, or the default."""
        return dict(state.user_contexts).get(self, self._default)

    def get_global(self) -> Any:
        """The value of threads that are in no block: the one last set, or the default."""
        return dict(State.user_contexts).get(self, self._default)

    def set_global(self, value: Hashable) -> None:
        """Set the value of all threads that are in no block.

        Raises:
          ArgumentError: if the value has no hash.
        """
        given = self(value)._value
        others = [pair for pair in State.user_contexts if pair[0] is not self]
        config.update("user_contexts", (*others, (self, given)))

    def __call__(self, value: Hashable) -> ContextValue:
        """What sets the value within a ``with`` block, or while a function that it decorates runs.

        Raises:
          ArgumentError: if the value has no hash.
        """
        if not isinstance(value, Hashable):
            raise ArgumentError(
                "make_user_context: the value has no hash",
                got=repr(value),
                fix="a value that can be a key of a dictionary",
            )
        return ContextValue(self, value)


class ContextValue:
    """A context manager, or a decorator, that sets a :class:`UserContext` in the running thread."""

    __slots__ = ("_context", "_entered", "_value")

    def __init__(self, context: UserContext, value: Hashable) -> None:
        self._context, self._value = context, value
        self._entered = threading.local()  # of each thread its blocks, innermost last

    def __enter__(self) -> None:
        others = [pair for pair in state.user_contexts if pair[0] is not self._context]
        block = Override("user_contexts", (*others, (self._context, self._value)))
        block.__enter__()
        vars(self._entered).setdefault("blocks", []).append(block)

    def __exit__(self, *exception: object) -> None:
        self._entered.blocks.pop().__exit__(*exception)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return within


def make_user_context(default_value: Hashable = None) -> UserContext:
    """A context whose value jitted functions are traced again for.

    Code that a jitted function calls may depend on such a value; within ``with context(value):``
    the function has another program for each value.

    Args:
      default_value: the value outside of all blocks.

    Returns:
      The context: ``context(value)`` sets a value within a block, ``context.value`` reads it.

    Example:
      >>> import functrax
      >>> scale = functrax.make_user_context(1.0)
      >>> @functrax.jit
      ... def scaled(x):
      ...     return scale.value * x
      >>> with scale(3.0):
      ...     scaled(2.0)
      Array(6., dtype=float32, weak_type=True)
      >>> scaled(2.0)
      Array(2., dtype=float32, weak_type=True)
    """
    return UserContext(default_value)
