"""JAX's results as recorded in JSON files: arrays as dtype, shape and bytes in hexadecimal."""

from __future__ import annotations

import json
import pathlib

import ml_dtypes
import numpy as np


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def decoded(x):
    """An argument or result from JSON; lists are shapes."""
    if isinstance(x, dict):
        dtype = np.dtype(getattr(ml_dtypes, x["dtype"], x["dtype"]))
        return np.frombuffer(bytes.fromhex(x["hex"]), dtype).reshape(x["shape"])
    return tuple(x) if isinstance(x, list) else x


def assert_close(got, expected, ulps, scale=1.0):
    """Equal types; elements that differ by some units in the last place, of at least ``scale``."""
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), expected.astype(wide), rtol=ulps * eps, atol=ulps * eps * scale
    )
