"""JAX's results as recorded in JSON files: arrays as dtype, shape and bytes in hexadecimal.

:func:`sampled` makes the result of a case, with JAX when it is recorded and with functrax when it
is tested: the names are the same.
"""

from __future__ import annotations

import json
import pathlib

import ml_dtypes
import numpy as np


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def encoded(x):
    """An array as JSON."""
    array = np.asarray(x)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "hex": array.tobytes().hex()}


def decoded(x):
    """An argument or result from JSON; lists are shapes."""
    if isinstance(x, dict):
        dtype = np.dtype(getattr(ml_dtypes, x["dtype"], x["dtype"]))
        return np.frombuffer(bytes.fromhex(x["hex"]), dtype).reshape(x["shape"])
    return tuple(x) if isinstance(x, list) else x


def sampled(library, case, seed=None):
    """The sample of a case, made by ``jax`` or ``functrax``, as a NumPy array.

    ``under`` says how: "" plainly, "jit", "vmap" over three keys, or "batch", which is jit of vmap
    over three keys and over the first axis of all array arguments.
    """
    random, under = library.random, case["under"]
    sampler = getattr(random, case["name"])
    kwargs = {name: decoded(v) for name, v in case["kwargs"].items()}
    args = [decoded(x) for x in case["args"]]
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]

    def draw(key, *values):
        placed = dict(zip(arrays, values, strict=True))
        out = sampler(key, *(placed.get(i, x) for i, x in enumerate(args)), **kwargs)
        typed = library.numpy.issubdtype(out.dtype, library.dtypes.prng_key)
        return random.key_data(out) if typed else out

    with library.enable_x64(case["x64"]):
        make = random.key if case["typed"] else random.PRNGKey
        key = make(case["seed"] if seed is None else seed)
        given = [args[i] for i in arrays]
        if under == "jit":
            return np.asarray(library.jit(draw)(key, *given))
        if under == "vmap":
            in_axes = (0, *(None for _ in given))
            return np.asarray(library.vmap(draw, in_axes)(random.split(key, 3), *given))
        if under == "batch":
            return np.asarray(library.jit(library.vmap(draw))(random.split(key, 3), *given))
        return np.asarray(draw(key, *given))


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
