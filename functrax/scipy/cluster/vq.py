"""Vector quantisation: which code is nearest to each observation."""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.lazy import listing as _listing
from functrax.typing import ArrayLike


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest code of each observation.

    Args:
      obs: observations ``(m, n)``, or numbers ``(m,)``.
      code_book: codes ``(k, n)``, or numbers ``(k,)``.
      check_finite: accepted for compatibility.

    Returns:
      The number of the nearest code, the first of equal ones, int32 ``(m,)``; and how far it is.

    Raises:
      ShapeError: if observations and codes do not have one length.

    >>> import functrax.numpy as jnp
    >>> vq(jnp.array([0.2, 0.9]), jnp.array([0.0, 1.0]))[0]
    Array([0, 1], dtype=int32)
    """
    x, codes = jnp.asarray(obs), jnp.asarray(code_book)
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:]:
        raise ShapeError(
            "vq: observations and codes do not have one length",
            got=f"observations of shape {x.shape}, codes of shape {codes.shape}",
            fix="matrices (m, n) and (k, n), or vectors",
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    distances = jnp.linalg.norm(x[:, None] - codes[None], axis=-1)
    nearest = jnp.argmin(distances, axis=-1)
    return nearest, jnp.take_along_axis(distances, nearest[:, None], axis=1)[:, 0]


__dir__ = _listing(globals())
