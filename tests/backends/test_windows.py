"""Short reductions that are written out, as those of windows, and what these read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.kernels import lower
from functrax.core.options.config import Override
from functrax.scipy import signal

RNG = np.random.default_rng(0)
BLUR = RNG.normal(size=(3, 3)).astype(np.float32)


@contextmanager
def written_out(always: bool) -> Iterator[None]:
    """Within it short reductions are written out, however little that saves; or none is."""
    before = lower._pays
    lower._pays = lambda *_: always  # type: ignore[assignment]
    try:
        yield
    finally:
        lower._pays = before


def sample(shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "bool":
        return RNG.normal(size=shape) > 0
    if dtype == "complex64":
        return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)
    return (9 * RNG.normal(size=shape)).astype(dtype)


def pool(op: Any, start: Any, window: tuple[int, int], padding: Any = "SAME") -> Any:
    return lambda x: lax.reduce_window(x, start, op, window, (1,) * x.ndim, padding)


def stacked(x: Any) -> Any:
    """Neighbours of each element beside it, those beyond the edge zero."""
    wide = jnp.pad(x, 1)
    n, m = x.shape
    return jnp.stack([wide[i : i + n, j : j + m] for i in range(3) for j in range(3)], 0)


def spread(x: Any) -> Any:
    """A variance, which is two reductions, one after the other."""
    return jnp.var(stacked(x), 0) + 1


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": pool(lax.add, np.float32(0), (3, 5)),
    "max": pool(lax.max, np.float32(-np.inf), (3, 5)),
    "min in the interior": pool(lax.min, np.float32(np.inf), (2, 3), "VALID"),
    "product": pool(lax.mul, np.float32(1), (2, 2)),
    "convolution": lambda x: signal.convolve2d(x, BLUR, "same"),
    "complex convolution": lambda x: signal.convolve2d(x * (1 + 2j), BLUR, "valid"),
    "strided": lambda x: lax.conv(x[None, None], BLUR[None, None], (2, 3), "SAME"),
    "wrapped": lambda x: signal.convolve2d(jnp.pad(x, 1, mode="wrap"), BLUR, "valid"),
    "reflected": lambda x: signal.convolve2d(jnp.pad(x, 3, mode="reflect"), BLUR, "full"),
    "several reductions": spread,
    "place of the largest": lambda x: jnp.argmax(stacked(x), 0),
    "place of the least": lambda x: jnp.argmin(stacked(x).astype(jnp.int32), 0),
    "columns": lambda x: (x[:4] * x[1:5]).sum(0),
    "gradient": functrax.grad(lambda x: (signal.convolve2d(x, BLUR, "same") ** 2).sum()),
    "second gradient": functrax.grad(
        lambda x: (functrax.grad(lambda y: (pool(lax.max, -np.inf, (3, 1))(y) ** 3).sum())(x)).sum()
    ),
}


#: Several long rows that are reduced in one loop.
ROWS: dict[str, Callable[[Any], Any]] = {
    "gradient of a filter": lambda x: functrax.grad(
        lambda k: (signal.convolve2d(x, k, "same") ** 2).mean()
    )(BLUR),
    "gradient of a long filter": lambda x: functrax.grad(
        lambda k: (signal.convolve2d(x, k, "same") ** 2).mean()
    )(BLUR.reshape(1, 9).repeat(3, 0)),
    "sums": lambda x: stacked(x).sum((1, 2)),
    "variances": lambda x: jnp.var(stacked(x), (1, 2)),
    "places": lambda x: jnp.argmax(stacked(x).reshape(9, -1), 1),
    "several results": lambda x: (stacked(x).max((1, 2)), stacked(x).min((1, 2)) * 2),
    "columns of long arrays": lambda x: (x[:, :3] * x[:, 1:4]).max(0),
}
REDUCTIONS |= ROWS


@pytest.mark.parametrize("shape", [(6, 40), (37, 70), (33, 4), (300, 300)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_are_those_of_the_reference(name: str, shape: tuple[int, int]) -> None:
    x = sample(shape, "float32")
    f = REDUCTIONS[name]
    with written_out(True):
        results = functrax.tree.leaves(functrax.jit(f)(x))
    with Override("backend", "interp"):
        wanted = functrax.tree.leaves(functrax.jit(f)(x))
    for result, value in zip(results, wanted, strict=True):
        found, expected = np.asarray(result), np.asarray(value)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("name", ["sum", "max", "convolution", "strided", "wrapped", "reflected"])
def test_bits_are_those_of_loops(name: str) -> None:
    x, found = sample((60, 130), "float32"), []
    for always in (True, False):
        with written_out(always):
            found.append(np.asarray(functrax.jit(lambda y: REDUCTIONS[name](y))(x)))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect", "constant"])
def test_other_dtypes(dtype: str, mode: str) -> None:
    x = sample((20, 70), "int32" if dtype == "bfloat16" else dtype)

    def largest(x: Any) -> Any:
        x = x.astype(dtype)
        start = np.False_ if dtype == "bool" else np.asarray(0, x.dtype)
        op = lax.bitwise_or if dtype == "bool" else lax.max
        return pool(op, start, (3, 3), "VALID")(jnp.pad(x, 1, mode=mode)).astype(jnp.float32)

    def total(x: Any) -> Any:
        x = jnp.pad(x.astype(jnp.int32), 1, mode=mode)
        return pool(lax.add, np.int32(0), (3, 3), "VALID")(x)

    for f in (largest, total):
        with written_out(True):
            found = functrax.jit(f)(x)
        with Override("backend", "interp"):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(functrax.jit(f)(x)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_special_values(value: float) -> None:
    x = np.full((20, 70), -0.0, np.float32)
    x[7, 9] = value
    for name in ("sum", "max", "convolution"):
        with written_out(True):
            found = np.asarray(functrax.jit(lambda y, name=name: REDUCTIONS[name](y))(x))
        with Override("backend", "interp"):
            expected = np.asarray(functrax.jit(REDUCTIONS[name])(x))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def total(window: tuple[int, int], strides: tuple[int, int], padding: Any, **how: Any) -> Any:
    """The sum of the squares of sums over windows."""

    def f(x: Any) -> Any:
        sums = lax.reduce_window(x, np.float32(0), lax.add, window, strides, padding, **how)
        return (sums * sums).sum()

    return f


@pytest.mark.parametrize(
    ("window", "strides", "padding", "how"),
    [
        ((3, 3), (1, 1), "SAME", {}),
        ((2, 5), (1, 1), "VALID", {}),
        ((3, 1), (1, 1), ((4, 0), (0, 2)), {}),
        ((3, 3), (2, 2), "SAME", {}),
        ((2, 2), (2, 2), "VALID", {}),
        ((2, 3), (1, 1), "SAME", {"window_dilation": (2, 1)}),
        ((2, 3), (1, 1), "SAME", {"base_dilation": (1, 2)}),
    ],
)
def test_gradients_of_sums_over_windows(
    window: Any, strides: Any, padding: Any, how: dict[str, Any]
) -> None:
    x = sample((20, 70), "float32")
    f = functrax.grad(total(window, strides, padding, **how))
    found = functrax.jit(f)(x)
    with Override("backend", "interp"):
        np.testing.assert_allclose(found, functrax.jit(f)(x), rtol=1e-5, atol=1e-4)


def test_the_gradient_of_a_sum_over_windows_scatters_nothing() -> None:
    x = np.zeros((20, 70), np.float32)
    text = str(
        run_pipeline(functrax.make_jaxpr(functrax.grad(total((3, 3), (1, 1), "SAME")))(x).jaxpr)[
            "fuse"
        ].program
    )
    assert "reindex_reduce" not in text


def loops(f: Callable[..., Any], *args: Any) -> list[str]:
    return [str(kernel.loops) for kernel in functrax.explain(f)(*args).kernels]


def test_windows_of_large_images_have_no_loop() -> None:
    x = np.zeros((300, 300), np.float32)
    for f in (REDUCTIONS["convolution"], pool(lax.max, -np.inf, (5, 5))):
        for text in loops(f, x):
            assert "carry" not in text


def test_long_rows_that_share_what_they_read_have_one_loop() -> None:
    x = np.zeros((300, 300), np.float32)
    blocks = [text for text in loops(ROWS["gradient of a filter"], x) if ".blocks" in text]
    assert max(text.split("extents")[0].count("out b") for text in blocks) == 10


def test_long_rows_small_arrays_and_strict_sums_have_loops() -> None:
    small, large = np.zeros((9, 9), np.float32), np.zeros((300, 300), np.float32)
    assert any("carry" in text for text in loops(REDUCTIONS["convolution"], small))
    assert any("carry" in text for text in loops(lambda x: jnp.exp(x).sum(0), large))
    with Override("strict", True):
        assert any("carry" in text for text in loops(REDUCTIONS["convolution"], large))


@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect"])
def test_what_windows_read_in_pieces_is_stored(mode: str) -> None:
    x = np.zeros((300, 300), np.float32)
    blur = lambda x: signal.convolve2d(jnp.pad(x, 2, mode=mode), np.ones((5, 5), "f4"), "valid")
    explained = functrax.explain(blur)(x)
    assert [k.name for k in explained.kernels] == ["concatenate", "reduce_sum_mul"]
    assert "the view is stored" in str(explained)
    # One that is read once is not.
    halves = lambda x: lax.reduce_window(
        jnp.pad(x, 1, mode=mode), -np.inf, lax.max, (2, 2), (2, 2), "VALID"
    )
    assert len(functrax.explain(halves)(x).kernels) == 1
