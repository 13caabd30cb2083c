"""``jax.experimental``: what raises JAX's errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from functrax.compat.callback_errors import raising_as_jax
from functrax.transforms.operations import callbacks


@wraps(callbacks.io_callback)
def io_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """As ``functrax.experimental.io_callback``, with JAX's errors."""
    return callbacks.io_callback(raising_as_jax(callback), *args, **kwargs)
