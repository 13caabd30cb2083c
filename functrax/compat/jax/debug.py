"""``jax.debug``: what raises JAX's errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from functrax.compat.callback_errors import raising_as_jax
from functrax.transforms.operations import callbacks


@wraps(callbacks.debug_callback)
def callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """As ``functrax.debug.callback``, with JAX's errors."""
    callbacks.debug_callback(raising_as_jax(callback), *args, **kwargs)
