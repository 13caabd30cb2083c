"""Arrays as text, by NumPy's own functions and options.

>>> import functrax.numpy as jnp
>>> with jnp.printoptions(precision=2):
...     jnp.array([3.14159])
Array([3.14], dtype=float32)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

__all__ = ["array_repr", "array_str", "get_printoptions", "printoptions", "set_printoptions"]


def get_printoptions() -> dict[str, Any]:
    """The options with which NumPy, and functrax, show arrays."""
    return dict(np.get_printoptions())


def set_printoptions(**options: Any) -> None:
    """Change the options of :func:`get_printoptions`, such as ``precision`` and ``threshold``."""
    np.set_printoptions(**options)


def printoptions(**options: Any) -> AbstractContextManager[Any]:
    """:func:`set_printoptions` for the time of a ``with`` statement."""
    return np.printoptions(**options)


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The elements as NumPy shows an array in a session."""
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The elements as NumPy prints an array.

    >>> import functrax.numpy as jnp
    >>> jnp.array_str(jnp.array([1.5, 2.0]))
    '[1.5 2. ]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)
