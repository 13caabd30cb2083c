"""Callbacks whose errors are JAX's: a ``JaxRuntimeError`` with the name and text of the error.

functrax lets an error of a callback through as it is.  Libraries written for JAX catch
``JaxRuntimeError`` and look for the name of their own error in its text.

Start at :func:`raising_as_jax`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

from functrax.errors import JaxRuntimeError


def raising_as_jax(callback: Callable[..., Any]) -> Callable[..., Any]:
    """A callback whose errors are also JAX's.

    Its errors stay what they are (``except ValueError`` finds a ``ValueError``), with their
    attributes.  They are :class:`~functrax.errors.JaxRuntimeError` too, and their text has the
    traceback, with the error's name.  What cannot be called is returned as it is.
    """
    if not callable(callback):
        return callback

    @wraps(callback)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*args, **kwargs)
        except Exception as error:
            raise _as_jax(error) from error

    return call


def _as_jax(error: Exception) -> Exception:
    text = "".join(traceback.format_exception(error)).strip()
    made = _class_of(type(error))
    new = made.__new__(made, *error.args)
    new.args = error.args
    new.__dict__.update(error.__dict__)
    new._text = f"INTERNAL: CpuCallback error calling callback: {text}"
    return new  # type: ignore[no-any-return]


def _class_of(kind: type[Exception]) -> Any:
    """The errors of a class, as errors of JAX."""
    bases = (kind,) if issubclass(kind, JaxRuntimeError) else (kind, JaxRuntimeError)
    return type(
        "JaxRuntimeError",
        bases,
        {"__module__": "jax.errors", "__str__": lambda self: self._text, "__doc__": kind.__doc__},
    )
