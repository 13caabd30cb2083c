"""A table of calls of JAX's names, each with an independent answer.

A :class:`Sample` is one call, written once for functrax and for JAX: ``run(root, *args)``, where
``root`` is either of the two packages; ``want(*args)`` is what NumPy, SciPy or a formula gives.
:class:`Table` collects samples under the names ``jax.module.name``; the other modules of this
folder fill :data:`TABLE`, and :mod:`tests.tier1.tables` imports them all.  :func:`check_value`
and :func:`check_derivatives` compare a sample with its answer.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import functrax
from functrax.tree_util import tree_flatten, tree_unflatten

STEP = 1e-6
BF16 = np.dtype(ml_dtypes.bfloat16)
HALVES = {np.dtype("f2"): 2e-3, BF16: 2e-2}
_rng = np.random.default_rng(2024)


class Sample(NamedTuple):
    """One call.

    ``args`` are pytrees; their NumPy arrays of inexact dtypes are what ``diff`` says to
    differentiate by.  ``tol`` is the relative error of a value in single precision.
    """

    run: Callable[..., Any]
    want: Callable[..., Any]
    args: tuple[Any, ...]
    diff: bool
    tol: float


class Table:
    """Samples by name."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = {}

    def __call__(
        self,
        name: str,
        *args: Any,
        want: Callable[..., Any] | None = None,
        run: Callable[..., Any] | None = None,
        diff: bool = True,
        tol: float = 2e-5,
        **kwargs: Any,
    ) -> None:
        """Add a call of ``name`` (after ``jax.``); keywords go to it and to NumPy's namesake.

        Args:
          name: such as ``numpy.sum``.
          *args: its arguments.
          want: the answer; without it, the function of that name in ``numpy``.
          run: another call than of the name itself.
          diff: whether derivatives are compared with differences of ``want``.
          tol: relative error in single precision.
          **kwargs: passed by keyword to both.
        """
        oracle = want if want is not None else resolve(np, name.removeprefix("numpy."))
        call = run if run is not None else lambda root, *xs, **kw: resolve(root, name)(*xs, **kw)
        self.samples.setdefault("jax." + name, []).append(
            Sample(
                lambda root, *xs: call(root, *xs, **kwargs),
                lambda *xs: oracle(*xs, **kwargs),
                args,
                diff,
                tol,
            )
        )


TABLE = Table()


def resolve(root: Any, name: str) -> Any:
    """``root.a.b`` for the name ``a.b``, where ``a`` may be a module to import."""
    *path, last = name.split(".")
    module = root.__name__
    found = root
    for part in path:
        module += "." + part
        found = importlib.import_module(module)
    return getattr(found, last)


def draw(shape: Any, low: float = -2.0, high: float = 2.0, dtype: Any = "f4") -> Any:
    """Numbers of an interval; whole ones for integer dtypes, complex ones in a square."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return _rng.random(shape) < 0.5
    if kind in "iu":
        start = max(math.floor(low), 0) if kind == "u" else math.floor(low)
        return _rng.integers(start, max(math.ceil(high), start + 3), shape).astype(dtype)
    x = _rng.uniform(low, high, shape)
    if kind == "c":
        x = x + 1j * _rng.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)


def distinct(shape: Any, dtype: Any = "f4") -> Any:
    """Numbers of which no two are near each other."""
    size = int(np.prod(shape))
    return (_rng.permutation(size).reshape(shape) - size // 3).astype(dtype)


def leaves_of(tree: Any) -> list[Any]:
    return tree_flatten(tree)[0]


def is_inexact(x: Any) -> bool:
    return hasattr(x, "dtype") and (x.dtype == BF16 or np.dtype(x.dtype).kind in "fc")


def widened(sample: Sample) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The arguments to differentiate by in double precision, and how to put others in."""
    flat, tree = tree_flatten(sample.args)
    places = [k for k, x in enumerate(flat) if isinstance(x, np.ndarray) and is_inexact(x)]

    def rebuild(xs: Any) -> Any:
        full = list(flat)
        for place, x in zip(places, xs, strict=True):
            full[place] = x
        return tree_unflatten(tree, full)

    return [flat[k].astype("c16" if flat[k].dtype.kind == "c" else "f8") for k in places], rebuild


def answer(sample: Sample, args: Any) -> list[Any]:
    """The leaves of what NumPy gives; 16-bit floats are computed in single precision."""
    flat, tree = tree_flatten(args)
    wide = [x.astype("f4") if isinstance(x, np.ndarray) and x.dtype in HALVES else x for x in flat]
    with np.errstate(all="ignore"):
        return leaves_of(sample.want(*tree_unflatten(tree, wide)))


def check_value(sample: Sample) -> None:
    """functrax gives what NumPy gives: structure, shapes, kinds of dtype, values."""
    got = leaves_of(sample.run(functrax, *sample.args))
    want = answer(sample, sample.args)
    where = describe(sample)
    assert len(got) == len(want), (where, got, want)
    seen = [*leaves_of(sample.args), *got]
    half = max([HALVES.get(getattr(x, "dtype", None), 0) for x in seen], default=0)
    for mine, theirs in zip(got, want, strict=True):
        if not hasattr(theirs, "dtype"):
            assert mine == theirs or np.asarray(mine) == theirs, (where, mine, theirs)
            continue
        x, y = np.asarray(mine), np.asarray(theirs)
        assert x.shape == y.shape, (where, x.shape, y.shape)
        assert is_inexact(x) == is_inexact(y), (where, x.dtype, y.dtype)
        assert (x.dtype == bool) == (y.dtype == bool), (where, x.dtype, y.dtype)
        tol = max(sample.tol, half) if is_inexact(x) else 0
        y = y.astype("c16" if y.dtype.kind == "c" else "f8")
        x = x.astype("c16" if x.dtype.kind == "c" else "f8")
        scale = np.abs(y[np.isfinite(y)]).max(initial=0)
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol * scale, err_msg=where)


def directions(xs: list[Any]) -> list[Any]:
    rng = np.random.default_rng(5)
    return [
        rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else 0)
        for x in xs
    ]


def differentiable(samples: list[Sample]) -> Iterator[Sample]:
    """Samples to differentiate: they have inexact arrays among the arguments and results."""
    for sample in samples:
        if sample.diff and widened(sample)[0]:
            yield sample


def check_derivatives(sample: Sample) -> None:
    """jvp equals central differences of NumPy's function, and vjp is its transpose."""
    xs, rebuild = widened(sample)
    ds = directions(xs)
    where = describe(sample)
    ahead, behind = (
        answer(sample, rebuild([x + h * d for x, d in zip(xs, ds, strict=True)]))
        for h in (STEP, -STEP)
    )

    def inexact(*xs: Any) -> list[Any]:
        return [y for y in leaves_of(sample.run(functrax, *rebuild(xs))) if is_inexact(y)]

    with functrax.enable_x64(True):
        outs, tangents = functrax.jvp(inexact, tuple(xs), tuple(ds))
        if not outs:
            return
        cts = directions([np.asarray(y) for y in outs])
        _, pull = functrax.vjp(inexact, *xs)
        gradients = pull([np.asarray(c).astype(y.dtype) for c, y in zip(cts, outs, strict=True)])
    differences = [
        (np.asarray(a) - b) / (2 * STEP)
        for a, b in zip(ahead, behind, strict=True)
        if is_inexact(a)
    ]
    assert len(differences) == len(tangents), where
    forward = 0.0
    for tangent, difference, ct in zip(tangents, differences, cts, strict=True):
        scale = 1 + np.abs(difference).max(initial=0)
        np.testing.assert_allclose(
            np.asarray(tangent), difference, rtol=1e-5, atol=1e-5 * scale, err_msg=where
        )
        forward += np.sum(ct * np.asarray(tangent)).real
    backward = sum(np.sum(np.asarray(g) * d).real for g, d in zip(gradients, ds, strict=True))
    assert abs(forward - backward) <= 1e-8 * (1 + abs(forward)), (where, forward, backward)


def check_batched(sample: Sample) -> None:
    """vmap gives what single calls give, and jit what eager calls give."""
    xs, rebuild = widened(sample)
    where = describe(sample)

    def inexact(*xs: Any) -> list[Any]:
        return [y for y in leaves_of(sample.run(functrax, *rebuild(xs))) if is_inexact(y)]

    with functrax.enable_x64(True):
        singles = [inexact(*xs), inexact(*[0.9 * x for x in xs])]
        together = functrax.vmap(inexact)(*[np.stack([x, 0.9 * x]) for x in xs])
        compiled = functrax.jit(inexact)(*xs)
    for got, first, second in zip(together, *singles, strict=True):
        want = np.stack([np.asarray(first), np.asarray(second)])
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-9, err_msg=where)
    for got, first in zip(compiled, singles[0], strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(first), rtol=1e-9, err_msg=where)


def describe(sample: Sample) -> str:
    """The arguments, for a message."""

    def short(x: Any) -> str:
        return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)

    return "arguments " + ", ".join(map(short, leaves_of(sample.args)))
