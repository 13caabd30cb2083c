"""``jax._src.public_test_util``: what libraries take from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from functrax.core.pytree.operations import tree_map
from functrax.core.types.dtypes import canonicalize_dtype

Tolerance: TypeAlias = "float | Mapping[Any, float] | None"


def check_close(
    xs: Any,
    ys: Any,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    err_msg: str = "",
) -> None:
    """Check that the arrays of two pytrees are close, and their shapes and dtypes the same.

    Without ``enable_x64``, arrays of 64 bits count as those of 32.

    Args:
      xs: a pytree of arrays.
      ys: another one of the same structure.
      atol: the absolute tolerance, or a dict of it by dtype; JAX's for the dtype if None.
      rtol: the relative tolerance, likewise.
      err_msg: more to say if they are not.

    Raises:
      AssertionError: if they are not.
    """

    def check(x: Any, y: Any) -> None:
        left, right = np.asarray(x), np.asarray(y)
        dtypes = [canonicalize_dtype(side.dtype) for side in (left, right)]
        assert dtypes[0] == dtypes[1], f"{left.dtype} and {right.dtype}; {err_msg}"
        assert left.shape == right.shape, f"{left.shape} and {right.shape}; {err_msg}"
        np.testing.assert_allclose(
            left.astype(_wide(left.dtype)),
            right.astype(_wide(right.dtype)),
            atol=_tolerance(left.dtype, atol),
            rtol=_tolerance(left.dtype, rtol),
            err_msg=err_msg,
        )

    tree_map(check, xs, ys)


def _wide(dtype: np.dtype[Any]) -> Any:
    return dtype if dtype.kind in "biuc" else np.float64


def _tolerance(dtype: np.dtype[Any], given: Tolerance) -> float:
    """The tolerance for a dtype; JAX's goes by the number of bits of a real number."""
    if isinstance(given, Mapping):
        given = {np.dtype(key): value for key, value in given.items()}.get(dtype)
    if given is not None:
        return given
    if dtype.kind in "biu":
        return 0.0
    bits = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return {8: 1e-1, 16: 1e-2 if dtype.name == "bfloat16" else 1e-3, 32: 1e-6, 64: 1e-15}[bits]
