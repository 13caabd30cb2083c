"""What the generated tests of primitives are made of: operands, functions, comparisons.

A :class:`Case` is a primitive with one of its samples; :func:`cases` finds all of them.  Everything
else turns a case into arrays (:meth:`Case.operands`) and into a function of the operands that have
derivatives (:meth:`Case.function`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import functrax.backends.reference.reference_device
import functrax.core.prims  # noqa: F401  (fills the registry)
from functrax.core.arrays.array import ConcreteArray, from_numpy
from functrax.core.errors.typed import DTypeError
from functrax.core.tracing.primitive import Elementwise, Primitive, Sample, literal, registry
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: Operands by which a primitive has no derivative, and the text of the error.
NO_DERIVATIVE: dict[str, tuple[int, ...]] = {
    "geqp3": (0,),
    "geqrf": (0,),
    "hessenberg": (0,),
    "igamma_grad_a": (0, 1),
    "nextafter": (0, 1),
    "polygamma": (0,),
    "random_gamma_grad": (0, 1),
    "regularized_incomplete_beta": (0, 1),
    "schur": (0,),
    "tridiagonal": (0,),
    "zeta": (0,),
}
#: Operands by which only the first derivative exists.
FIRST_ORDER_ONLY: dict[str, tuple[int, ...]] = {"eig": (0,), "igamma": (0,), "igammac": (0,)}
#: Their derivative is not the limit of differences, by definition.
BY_CONVENTION = frozenset({"bitcast_convert_type", "reduce_precision", "stop_gradient"})
#: Complex results whose phase is arbitrary: LAPACK's choice is not smooth.
FREE_PHASE = frozenset({"eigh", "svd"})
#: Relative error of the inner products, where tangents are rounded.
ROUNDED: dict[str, float] = {"reduce_precision": 0.1}


@dataclass(frozen=True)
class Case:
    """A primitive, one of its samples, and the sample's number."""

    primitive: Primitive
    sample: Sample
    number: int

    def __repr__(self) -> str:
        return f"{self.primitive.name}-{self.number}"

    @property
    def tested_dtypes(self) -> list[np.dtype[Any]]:
        """The dtypes to test with; one if the sample leaves no choice."""
        accepted = sorted(self.primitive.accepts, key=str)
        fixed = self.sample.dtypes
        given = fixed and all(d is not None for d in fixed)
        free = not self.sample.shapes and None not in self.sample.params.values()
        if given or free:
            return accepted[:1]
        return [d for d in accepted if isinstance(self.primitive, Elementwise) or self.takes(d)]

    def takes(self, dtype: np.dtype[Any]) -> bool:
        """Whether the sample's parameters go with ``dtype``: complex numbers have no maximum."""
        kinds = self.operand_dtypes(dtype)
        avals = [ShapedArray(s, d) for s, d in zip(self.sample.shapes, kinds, strict=True)]
        try:
            self.primitive.infer(tuple(avals), self.params(dtype))
        except DTypeError:
            return False
        return True

    def params(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        """Parameters; ``dtype=None`` and ``fill=0`` take the dtype under test."""
        found = dict(self.sample.params)
        for name, value in found.items():
            if value is None and name.endswith("dtype"):
                found[name] = dtype
            elif name == "fill" and not hasattr(value, "aval"):
                found[name] = literal(value, dtype)
        return found

    def operand_dtypes(self, dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
        """The dtypes of the operands when ``dtype`` is under test."""
        given = self.sample.dtypes or (None,) * len(self.sample.shapes)
        return [dtype if d is None else d for d in given]

    def operands(
        self, dtype: np.dtype[Any], seed: int = 0, lead: Sequence[tuple[int, ...]] = ()
    ) -> list[ConcreteArray]:
        """Seeded operands; ``lead`` gives for each one axes to put in front of its shape."""
        rng = np.random.default_rng([seed, self.number])
        shapes = [
            (*front, *shape)
            for front, shape in zip(lead or ((),) * 9, self.sample.shapes, strict=False)
        ]
        kinds = self.operand_dtypes(dtype)
        ranges = self.sample.ranges
        ranges = ranges * len(shapes) if len(ranges) == 1 else ranges
        if self.sample.distinct and dtypes.is_inexact(dtype):
            return _distinct(rng, shapes, kinds, ranges[0])
        drawn = [_draw(rng, *args) for args in zip(shapes, kinds, ranges, strict=True)]
        if self.sample.diagonal:
            unit = np.eye(shapes[0][-1], dtype=drawn[0].dtype)
            drawn[0] = drawn[0] + unit * drawn[0].dtype.type(self.sample.diagonal)
        return [from_numpy(x) for x in drawn]

    def apply(self, *operands: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """The results, always as a tuple."""
        out = self.primitive.bind(*operands, **self.params(dtype))
        return tuple(out) if self.primitive.multiple_results else (out,)

    def function(
        self, dtype: np.dtype[Any], without: Sequence[int] = ()
    ) -> tuple[Callable[..., tuple[Any, ...]], list[ConcreteArray]]:
        """A function of the inexact operands to the inexact results, and where to take it.

        Operands numbered in ``without`` are constants.
        """
        operands = self.operands(dtype)
        free = [
            i
            for i, x in enumerate(operands)
            if dtypes.is_inexact(x.aval.dtype) and i not in without
        ]

        def function(*xs: Any) -> tuple[Any, ...]:
            full: list[Any] = list(operands)
            for i, x in zip(free, xs, strict=True):
                full[i] = x
            outs = self.apply(*full, dtype=dtype)
            return tuple(o for o in outs if dtypes.is_inexact(o.aval.dtype))

        return function, [operands[i] for i in free]


def cases() -> Iterator[Case]:
    """Every sample of every primitive."""
    for name in sorted(registry):
        primitive = registry[name]
        for number, sample in enumerate(primitive.samples()):
            yield Case(primitive, sample, number)


def first_cases() -> Iterator[Case]:
    """One case for each primitive."""
    return (case for case in cases() if case.number == 0)


def _draw(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    interval: tuple[float, float],
) -> np.ndarray[Any, Any]:
    low, high = interval
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = (min(max(int(v), int(info.min)), int(info.max)) for v in interval)
        return np.asarray(rng.integers(low, high, shape, dtype=dtype, endpoint=True))
    values = np.asarray(rng.uniform(low, high, shape))
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-0.5, 0.5, shape)
    return np.asarray(values).astype(dtype)


def _distinct(
    rng: np.random.Generator,
    shapes: Sequence[tuple[int, ...]],
    kinds: Sequence[np.dtype[Any]],
    interval: tuple[float, float],
) -> list[ConcreteArray]:
    """Arrays of evenly spaced values in random order, none of which occurs twice."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    low, high = interval
    pool = rng.permutation(np.linspace(low, high + 0.01, max(sum(sizes), 1)))
    parts = np.split(pool[: sum(sizes)], np.cumsum(sizes)[:-1])
    return [
        from_numpy(np.asarray(part.reshape(shape)).astype(kind))
        for part, shape, kind in zip(parts, shapes, kinds, strict=True)
    ]


def bits_of(x: Any) -> tuple[Any, ...]:
    """All that two equal results must agree in."""
    value = np.asarray(x)
    return value.dtype, value.shape, value.tobytes()


def assert_near(got: Any, wanted: Any, rtol: float, atol: float) -> None:
    """Closeness of two sequences of arrays, relative to the largest element of each pair."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        assert np.isfinite(b).all(), "the sample's domain includes a pole"
        if a.size:
            scale = float(np.max(np.abs(b)))
            np.testing.assert_allclose(a, b, rtol=0, atol=atol + rtol * scale)


def direction(xs: Sequence[ConcreteArray], seed: int) -> list[ConcreteArray]:
    """A random tangent for each array."""
    rng = np.random.default_rng([seed, 17])
    return [from_numpy(_draw(rng, x.aval.shape, x.aval.dtype, (0.3, 1.0))) for x in xs]


def moved(
    xs: Sequence[ConcreteArray], ts: Sequence[ConcreteArray], step: float
) -> list[ConcreteArray]:
    """``x + step * t`` for each pair."""
    return [
        from_numpy(np.asarray(x.value + step * t.value, x.aval.dtype))
        for x, t in zip(xs, ts, strict=True)
    ]


def difference(
    function: Callable[..., Sequence[Any]],
    xs: Sequence[ConcreteArray],
    ts: Sequence[ConcreteArray],
    step: float = 1e-6,
) -> list[np.ndarray[Any, Any]]:
    """The central difference of a function along ``ts``."""
    ahead, behind = function(*moved(xs, ts, step)), function(*moved(xs, ts, -step))
    return [
        (np.asarray(a) - np.asarray(b)) / (2 * step) for a, b in zip(ahead, behind, strict=True)
    ]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the sum of products, without conjugation."""
    pairs = zip(xs, ys, strict=True)
    return float(np.real(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in pairs)))
