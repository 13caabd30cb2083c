"""What ``jax`` has and ``functrax`` has not, or has as its own: which JAX this is, and programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from functrax.compat.callback_errors import raising_as_jax
from functrax.compat.extension.programs import view
from functrax.compat.jax.version import (
    __version__ as __version__,
    __version_info__ as __version_info__,
)
from functrax.transforms.arguments import inspect_types
from functrax.transforms.operations import callbacks


def make_jaxpr(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """As ``functrax.make_jaxpr``; what it returns gives a program as JAX shows it."""
    traced: Any = inspect_types.make_jaxpr(fun, *args, **kwargs)

    @wraps(traced)
    def shown(*given: Any, **named: Any) -> Any:
        found = traced(*given, **named)
        if isinstance(found, tuple):  # with the types of the results
            return view(found[0]), *found[1:]
        return view(found)

    return shown


@wraps(callbacks.pure_callback)
def pure_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """As ``functrax.pure_callback``, with JAX's errors."""
    return callbacks.pure_callback(raising_as_jax(callback), *args, **kwargs)
