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

from functrax.typing import ArrayLike

__all__ = ["array_repr", "array_str", "get_printoptions", "printoptions", "set_printoptions"]


def get_printoptions() -> dict[str, Any]:
    """The options with which NumPy, and functrax, show arrays.

    Returns:
      A dictionary; changing it changes nothing.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.get_printoptions()["threshold"]
      1000
    """
    return dict(np.get_printoptions())


def set_printoptions(**options: Any) -> None:
    """Change the options of :func:`get_printoptions`, such as ``precision`` and ``threshold``.

    Args:
      **options: those of ``numpy.set_printoptions``, in whose place this may be called.

    Raises:
      TypeError: for an option that NumPy does not have.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.set_printoptions(precision=8)
    """
    np.set_printoptions(**options)


def printoptions(**options: Any) -> AbstractContextManager[Any]:
    """:func:`set_printoptions` for the time of a ``with`` statement.

    Args:
      **options: those of ``numpy.set_printoptions``.

    Returns:
      A context manager.

    Raises:
      TypeError: for an option that NumPy does not have, on entering.

    Example:
      >>> import functrax.numpy as jnp
      >>> with jnp.printoptions(precision=2):
      ...     print(jnp.array([3.14159]))
      [3.14]
    """
    return np.printoptions(**options)


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The elements as NumPy shows an array in a session.

    Args:
      arr: an array, whose values are known.
      max_line_width: characters on a line; 75 if None.
      precision: digits after the point; NumPy's option if None.
      suppress_small: show numbers that are 0 at that precision as 0.

    Returns:
      A text such as ``array([1, 2])``, as NumPy has it.

    Raises:
      TracerArrayConversionError: for a traced array.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.array_repr(jnp.array([1.5, 2.0]))
      'array([1.5, 2. ], dtype=float32)'
    """
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The elements as NumPy prints an array.

    Args:
      a: an array, whose values are known.
      max_line_width: characters on a line; 75 if None.
      precision: digits after the point; NumPy's option if None.
      suppress_small: show numbers that are 0 at that precision as 0.

    Returns:
      A text such as ``[1 2]``.

    Raises:
      TracerArrayConversionError: for a traced array.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.array_str(jnp.array([1.5, 2.0]))
      '[1.5 2. ]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)
