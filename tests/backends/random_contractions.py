"""Random contractions, and what they and their derivatives are by definition.

:func:`contraction` makes the case of a seed: a product of matrices with any batch and contracted
axes, an einsum, or a convolution in any layout.  A contraction of ``x`` and ``w`` is a list of
terms: numbers ``i``, ``j``, ``k`` for each product ``x[i] * w[j]`` that is added to ``out[k]``
(:class:`Terms`).  The list is written down from the definition by loops over indices; it uses
nothing of functrax.  From it follow, in float64, all that is compared:

- ``y``, the contraction;
- the gradients of ``loss(x, w) = sum(Re(c * y) + |y|**2 / 4)``, whose cotangent of ``y`` is
  ``c + conj(y) / 2``;
- how those gradients change along ``(u, v)``.

**The bound.**  With ``S[k]`` the sum of the absolute values of the terms of an element, ``K`` the
largest number of terms of any, ``e`` the distance of 1 from the next number in the dtype in which
terms are added up (float32 for 16 bits) and ``r`` that in the dtype of the result, the error of
an element is at most ::

    4 (K + 4) e S[k] + 2 r |exact[k]| + the least number of the dtype

and to this the errors of the operands, where those were computed or converted, go through the same
list of terms.  :class:`Bounded` carries both along.  Integers and truth values are exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from functrax import lax, numpy as jnp
from tests.lax.oracles import out_size

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DTYPES = (*FLOATS, "float32", "float64", "int8", "int32", "bool")
PREFERRED = {"int8": "int32", "bfloat16": "float32", "float16": "float32", "float32": "float64"}
SIZES = (1, 2, 3, 5, 7, 11, 13, 17)
MOST_TERMS = 20_000


@dataclass(frozen=True)
class Terms:
    """The products of a contraction: flat indices into both operands and into the result."""

    x: Array
    w: Array
    out: Array
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    out_shape: tuple[int, ...]

    def into(self, target: str, factors: dict[str, Array], dtype: Any) -> Array:
        """Add up products of the factors, elements of which stand at their places in the list."""
        shape = {"x": self.x_shape, "w": self.w_shape, "out": self.out_shape}[target]
        products = np.ones(len(self.x), dtype)
        for name, factor in factors.items():
            products = products * factor.reshape(-1)[getattr(self, name)]
        total = np.zeros(math.prod(shape), dtype)
        np.add.at(total, getattr(self, target), products)
        return total.reshape(shape)

    def longest(self, target: str) -> int:
        """The largest number of terms of an element."""
        return int(np.bincount(getattr(self, target), minlength=1).max()) if len(self.x) else 0


@dataclass(frozen=True)
class Case:
    """A contraction.

    Args:
      text: what it is, to say it of a failure.
      function: of ``x`` and ``w``.
      x: an operand.
      w: the other.
      terms: its definition.
      working: the dtype in which terms are added up.
      result: the dtype of the result.
    """

    text: str
    function: Callable[[Any, Any], Any]
    x: Array
    w: Array
    terms: Terms
    working: np.dtype[Any]
    result: np.dtype[Any]


# ---- dtypes and values ------------------------------------------------------------------------


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def is_inexact(dtype: np.dtype[Any]) -> bool:
    return dtype.name in FLOATS


def facts(dtype: np.dtype[Any]) -> Any:
    return ml_dtypes.finfo(dtype)


def wide(dtype: np.dtype[Any]) -> Any:
    """The dtype in which exact values of a dtype are computed."""
    if not is_inexact(dtype):
        return np.int64
    return np.complex128 if dtype.kind == "c" else np.float64


def summed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which terms are added up whose result has a dtype."""
    return np.dtype("float32") if dtype.name in ("float16", "bfloat16") else dtype


def values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], few: bool = False
) -> Array:
    """Numbers near 1, or integers: all of the dtype, or a few that no float overflows with."""
    if dtype.name == "bool":
        return np.asarray(rng.random(shape) < 0.3)
    if not is_inexact(dtype):
        info = np.iinfo(dtype)
        low, high = (-100, 100) if few else (info.min, info.max)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    numbers = rng.standard_normal(shape)
    if dtype.kind == "c":
        numbers = numbers + 1j * rng.standard_normal(shape)
    return np.asarray(numbers).astype(dtype)


# ---- what there is ----------------------------------------------------------------------------


def contraction(seed: int) -> Case:
    """The case of a seed: in turn a dot_general, an einsum and two convolutions."""
    rng = np.random.default_rng([seed, 5])
    make = (_dot_general, _einsum, _convolution, _convolution)[seed % 4]
    while True:
        case = make(rng)
        if case is not None:
            return case


def _sizes(rng: np.random.Generator, names: Sequence[Any]) -> dict[Any, int]:
    sizes = {name: int(rng.choice(SIZES)) for name in names}
    if names and rng.random() < 0.05:
        sizes[names[rng.integers(len(names))]] = 0
    return sizes


def _product(
    lhs: Sequence[Any], rhs: Sequence[Any], out: Sequence[Any], sizes: dict[Any, int]
) -> Terms | None:
    """The terms of a product in index notation; None if they are too many."""
    names = sorted({*lhs, *rhs, *out})
    if math.prod(sizes[n] for n in names) > MOST_TERMS:
        return None
    count = math.prod(sizes[n] for n in names)
    grid = dict(zip(names, np.indices([sizes[n] for n in names]).reshape(len(names), count)))
    shapes = [tuple(sizes[n] for n in letters) for letters in (lhs, rhs, out)]
    flat = []
    for letters, shape in zip((lhs, rhs, out), shapes):
        index = np.zeros(count, np.int64)
        for name, n in zip(letters, shape):
            index = index * n + grid[name]
        flat.append(index)
    return Terms(*flat, *shapes)


def _types(
    rng: np.random.Generator, promote: Callable[..., Any]
) -> tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any], Any]:
    """Dtypes of the operands and of the result, and the preferred one or None."""
    first = dtype_named(rng.choice(DTYPES))
    second = first if rng.random() < 0.6 else dtype_named(rng.choice(DTYPES))
    result, preferred = promote(first, second), None
    if result.name in PREFERRED and rng.random() < 0.3:
        result = preferred = dtype_named(PREFERRED[result.name])
    return first, second, result, preferred


def _rank(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """What a product of two dtypes takes the larger of, as XLA does."""
    if not is_inexact(dtype):
        return (False, -1, -1, 0 if dtype.name == "bool" else dtype.itemsize)
    info = facts(dtype)
    return (dtype.kind == "c", info.maxexp, info.nmant, dtype.itemsize)


def _larger(first: np.dtype[Any], second: np.dtype[Any]) -> np.dtype[Any]:
    return max(first, second, key=_rank)


def _dot_general(rng: np.random.Generator) -> Case | None:
    batch, summed, left, right = (rng.integers(0, n) for n in (3, 3, 3, 3))
    names = [f"b{k}" for k in range(batch)], [f"s{k}" for k in range(summed)]
    own = [f"l{k}" for k in range(left)], [f"r{k}" for k in range(right)]
    lhs = [str(n) for n in rng.permutation([*names[0], *names[1], *own[0]])]
    rhs = [str(n) for n in rng.permutation([*names[0], *names[1], *own[1]])]
    out = [*names[0], *(n for n in lhs if n in own[0]), *(n for n in rhs if n in own[1])]
    sizes = _sizes(rng, sorted({*lhs, *rhs}))
    terms = _product(lhs, rhs, out, sizes)
    if terms is None:
        return None
    first, second, result, preferred = _types(rng, _larger)
    numbers = tuple(tuple(tuple(side.index(n) for n in of) for side in (lhs, rhs))
                    for of in (names[1], names[0]))  # fmt: skip

    def function(x: Any, w: Any) -> Any:
        return lax.dot_general(x, w, numbers, preferred_element_type=preferred)

    text = f"dot_general {first}{terms.x_shape} {second}{terms.w_shape} {numbers} -> {result}"
    return Case(
        text,
        function,
        values(rng, terms.x_shape, first, is_inexact(result)),
        values(rng, terms.w_shape, second, is_inexact(result)),
        terms,
        summed_in(result),
        result,
    )


def _einsum(rng: np.random.Generator) -> Case | None:
    letters = list("abcdef"[: rng.integers(1, 7)])
    lhs = [str(a) for a in rng.choice(letters, rng.integers(0, 5))]
    rhs = [str(a) for a in rng.choice(letters, rng.integers(0, 5))]
    used = sorted({*lhs, *rhs})
    out = [str(a) for a in rng.permutation(used)[: rng.integers(0, len(used) + 1)]]
    sizes = _sizes(rng, used)
    terms = _product(lhs, rhs, out, sizes)
    if terms is None:
        return None
    first, second, result, preferred = _types(rng, jnp.promote_types)
    text = f"{''.join(lhs)},{''.join(rhs)}->{''.join(out)}"

    def function(x: Any, w: Any) -> Any:
        return jnp.einsum(text, x, w, preferred_element_type=preferred)

    return Case(
        f"einsum {text} {first}{terms.x_shape} {second}{terms.w_shape} -> {result}",
        function,
        values(rng, terms.x_shape, first, is_inexact(result)),
        values(rng, terms.w_shape, second, is_inexact(result)),
        terms,
        summed_in(result),
        result,
    )


@dataclass(frozen=True)
class _Window:
    """One spatial axis of a convolution."""

    size: int
    taps: int
    stride: int
    low: int
    high: int
    base: int
    dilation: int

    @property
    def out(self) -> int:
        row = (self.stride, self.low, self.base, self.dilation)
        return out_size(self.size, self.taps, self.low, self.high, row)


def _window(rng: np.random.Generator) -> _Window:
    size, taps = int(rng.choice((1, 2, 4, 5, 8, 11, 13))), int(rng.choice((1, 1, 2, 3, 3, 5)))
    stride, base, dilation = (int(rng.choice((1, 1, 1, 2, 3))) for _ in range(3))
    low, high = (int(n) for n in rng.integers(-2, 5, 2))
    if rng.random() < 0.03:
        size = 0
    room = (size - 1) * base + 1 if size else 0
    low, high = max(low, -room), max(high, -room)
    if room + low + high < 0:
        low = high = 0
    return _Window(size, taps, stride, low, high, base, dilation)


def _convolution(rng: np.random.Generator) -> Case | None:
    windows = [_window(rng) for _ in range(rng.integers(1, 4))]
    group = int(rng.choice((1, 1, 2, 3)))
    batched = bool(group > 1 and rng.random() < 0.5)  # batch groups, not feature groups
    batch, taken, made = (int(rng.choice((1, 2, 3, 5))) for _ in range(3))
    if rng.random() < 0.15:
        taken = 1  # depthwise, if there are groups
    features, per_group = (taken, made) if batched else (taken * group, made)
    examples = batch * group if batched else batch
    space = (batch, group, per_group, *(a.out for a in windows), taken, *(a.taps for a in windows))
    if math.prod(space) > MOST_TERMS:
        return None
    rank = len(windows)
    index = np.indices(space).reshape(len(space), math.prod(space))
    n, g, o, i = index[0], index[1], index[2], index[3 + rank]
    places, taps = index[3 : 3 + rank], index[4 + rank :]
    valid, spots = np.ones(index.shape[1], bool), []
    for axis, place, tap in zip(windows, places, taps):
        spot = place * axis.stride + tap * axis.dilation - axis.low
        valid &= (spot % axis.base == 0) & (spot >= 0) & (spot < axis.size * axis.base)
        spots.append(spot // axis.base)
    example, feature = (n + g * batch, i) if batched else (n, i + g * taken)
    shapes = [
        (examples, features, *(a.size for a in windows)),
        (per_group * group, taken, *(a.taps for a in windows)),
        (batch, per_group * group, *(a.out for a in windows)),
    ]
    coordinates = [
        (example, feature, *spots),
        (g * per_group + o, i, *taps),
        (n, g * per_group + o, *places),
    ]
    orders = [tuple(map(int, rng.permutation(2 + rank))) for _ in range(3)]
    flat, laid_out = [], []
    for shape, at, order in zip(shapes, coordinates, orders):
        laid_out.append(tuple(shape[k] for k in order))
        where = np.zeros(index.shape[1], np.int64)
        for k in order:
            where = where * shape[k] + at[k]
        flat.append(where[valid])
    terms = Terms(*flat, *laid_out)
    first, _, result, preferred = _types(rng, lambda a, b: a)
    spec = tuple("".join(names[k] for k in order)
                 for names, order in zip(("NC012", "OI012", "NC012"), orders))  # fmt: skip
    ordered = [windows[k - 2] for k in orders[1] if k >= 2]  # as in the kernel's layout
    options = {
        "window_strides": tuple(a.stride for a in ordered),
        "padding": tuple((a.low, a.high) for a in ordered),
        "lhs_dilation": tuple(a.base for a in ordered),
        "rhs_dilation": tuple(a.dilation for a in ordered),
        "dimension_numbers": spec,
        "feature_group_count": 1 if batched else group,
        "batch_group_count": group if batched else 1,
        "preferred_element_type": preferred,
    }

    def function(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **options)

    return Case(
        f"conv {first}{terms.x_shape} {first}{terms.w_shape} {options}",
        function,
        values(rng, terms.x_shape, first),
        values(rng, terms.w_shape, first),
        terms,
        summed_in(result),
        result,
    )


# ---- exact values and bounds ------------------------------------------------------------------


@dataclass(frozen=True)
class Bounded:
    """An exact array, and how far off a computed one may be, element by element."""

    value: Array
    error: Array

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.value + other.value, self.error + other.error)

    def rounded(self, dtype: np.dtype[Any]) -> Bounded:
        """In a dtype; a part of it if that is real."""
        value = self.value.real if dtype.kind != "c" else self.value
        info = facts(dtype)
        least = float(info.smallest_subnormal)
        error = self.error + 2 * float(info.eps) * np.abs(value) + least
        overflows = np.abs(value) + error > float(info.max)
        return Bounded(value, np.where(overflows, np.inf, error))

    def scaled(self, factor: float, conjugate: bool = False) -> Bounded:
        value = self.value.conj() if conjugate else self.value
        return Bounded(factor * value, factor * self.error)


def exactly(x: Array) -> Bounded:
    return Bounded(x.astype(wide(x.dtype)), np.zeros(x.shape))


def operand(x: Array, result: np.dtype[Any]) -> Bounded:
    """An operand in the dtype of the result, to which integers and wider floats are rounded."""
    exact = exactly(x)
    rounds = not is_inexact(x.dtype) or facts(x.dtype).eps < facts(result).eps
    return Bounded(exact.value, rounds * float(facts(result).eps) * np.abs(exact.value))


def sums(case: Case, target: str, factors: dict[str, Bounded], dtype: np.dtype[Any]) -> Bounded:
    """A contraction of bounded arrays into an array of a dtype."""
    terms = case.terms
    (first, a), (second, b) = factors.items()
    kind = np.complex128 if "c" in (a.value.dtype.kind, b.value.dtype.kind) else np.float64
    value = terms.into(target, {first: a.value, second: b.value}, kind)
    most = {first: np.abs(a.value) + a.error, second: np.abs(b.value) + b.error}
    sizes = terms.into(target, most, np.float64)
    epsilon = float(facts(case.working).eps)
    error = 4 * (terms.longest(target) + 4) * epsilon * sizes
    error += terms.into(target, {first: a.error, second: most[second]}, np.float64)
    error += terms.into(target, {first: most[first], second: b.error}, np.float64)
    return Bounded(value, error).rounded(dtype)


def integers(case: Case) -> Array:
    """The result for integers and truth values, which wraps around."""
    x, w = (a.astype(np.int64) for a in (case.x, case.w))
    total = case.terms.into("out", {"x": x, "w": w}, np.int64)
    return (total != 0) if case.result.name == "bool" else total.astype(case.result)


@dataclass(frozen=True)
class Expected:
    """The result, the gradients with respect to ``x`` and ``w``, and the changes of those."""

    result: Bounded
    first: tuple[Bounded, Bounded]
    second: tuple[Bounded, Bounded]


def expected(case: Case, c: Array, u: Array, v: Array) -> Expected:
    """All that is compared, for a case with floats.

    Args:
      case: the contraction.
      c: the numbers in the loss, of the result's shape.
      u: a direction for ``x``; 0 if that is not differentiated.
      v: a direction for ``w``.
    """
    x, w = operand(case.x, case.result), operand(case.w, case.result)
    du, dv = exactly(u), exactly(v)
    y = sums(case, "out", {"x": x, "w": w}, case.result)
    dy = (
        sums(case, "out", {"x": du, "w": w}, case.result)
        + sums(case, "out", {"x": x, "w": dv}, case.result)
    ).rounded(case.result)
    ct = (exactly(c) + y.scaled(0.5, conjugate=True).rounded(case.result)).rounded(case.result)
    dct = dy.scaled(0.5, conjugate=True).rounded(case.result)
    types = [a.dtype if is_inexact(a.dtype) else case.result for a in (case.x, case.w)]
    first = (
        sums(case, "x", {"out": ct, "w": w}, types[0]),
        sums(case, "w", {"x": x, "out": ct}, types[1]),
    )
    second = (
        (
            sums(case, "x", {"out": dct, "w": w}, types[0])
            + sums(case, "x", {"out": ct, "w": dv}, types[0])
        ).rounded(types[0]),
        (
            sums(case, "w", {"x": x, "out": dct}, types[1])
            + sums(case, "w", {"x": du, "out": ct}, types[1])
        ).rounded(types[1]),
    )
    return Expected(y, first, second)


def outside(got: Any, want: Bounded) -> str:
    """How an array breaks the bound; empty if it does not."""
    value = np.asarray(got)
    if value.shape != want.value.shape:
        return f"shape {value.shape} instead of {want.value.shape}"
    kind = np.complex128 if value.dtype.kind == "c" else np.float64
    off = np.abs(value.astype(kind) - want.value)
    bad = ~(off <= want.error)
    if not bad.any():
        return ""
    at = next(iter(_places(bad)))
    return f"{bad.sum()} of {bad.size}: {value[at]} for {want.value[at]} ± {want.error[at]} at {at}"


def _places(bad: Array) -> Iterator[tuple[int, ...]]:
    return (at for at in itertools.product(*map(range, bad.shape)) if bad[at])
