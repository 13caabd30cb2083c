"""Whether results agree with those of the reference device, as closely as they must.

Integers and truth values must be equal; floats may differ by a few units in the last place, and
NaNs and infinities must stand at the same places.  Where an element differs by more, the program's
own *noise* decides: it is run several times with every rounded operation off by one unit at random
(Vignes' stochastic arithmetic), and the spread of the results is what rounding can do to them.  An
element that is farther off than a multiple of that is wrong.

Start at :class:`Judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.passes.groups import Group
from functrax.backends.reference import Program, rule_of
from functrax.core import dtypes
from functrax.core.config import Override
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.primitive import HigherOrder
from functrax.core.records import record

Array: TypeAlias = np.ndarray[Any, Any]

#: Units in the last place that are never too many, and multiples of the noise that are.
ULPS: Final = 8
NOISE: Final = 32
_RUNS = 4  # with noise
_LARGEST = 1 << 24  # elements of a product that is computed to be made noisy
#: What rounds nothing, and gets no noise.
_EXACT = frozenset(
    {"select_n", "neg", "abs", "sign", "max", "min", "copy", "stop_gradient", "clamp", "real",
     "imag", "complex", "conj", "bitcast_convert_type", "floor", "ceil", "round", "scatter"}
)  # fmt: skip


@record
class Mismatch:
    """The worst element of a result that is wrong.

    Args:
      result: the number of the result.
      index: of the element.
      got: its value.
      wanted: the reference's.
      count: how many elements of the result are wrong.
      size: of how many.
    """

    result: int
    index: tuple[int, ...]
    got: Any
    wanted: Any
    count: int
    size: int

    def __str__(self) -> str:
        where = f"result {self.result}" + (f" at index {self.index}" if self.index else "")
        return f"{where}: {self.got} for {self.wanted}; {self.count} of {self.size} elements differ"


class Judge:
    """Compares results with those of a program on the reference device.

    Args:
      jaxpr: the program, without constants.
      values: a NumPy array for each input.
    """

    def __init__(self, jaxpr: Jaxpr, values: Sequence[Any]) -> None:
        self.jaxpr = jaxpr
        self.values = list(values)
        self.largest = 0.0  # units in the last place by which results differed

    @cached_property
    def wanted(self) -> list[Array]:
        """The results of the reference device."""
        return run_reference(self.jaxpr, self.values)

    @cached_property
    def noise(self) -> list[Array]:
        """For each element of the results what rounding can do to it."""
        spread: list[Array] = [np.zeros(np.shape(w)) for w in self.wanted]
        for seed in range(_RUNS):
            noisy = _noisy_run(self.jaxpr, self.values, np.random.default_rng(seed))
            spread = [np.maximum(s, _distance(x, w)) for s, x, w in zip(spread, noisy, self.wanted)]
        return spread

    def mismatch(self, results: Sequence[Any]) -> Mismatch | None:
        """The first result that is wrong, or None."""
        for k, (result, wanted) in enumerate(zip(results, self.wanted, strict=True)):
            got = np.asarray(result)
            assert got.shape == wanted.shape and got.dtype == wanted.dtype, "results have its types"
            if got.dtype == dtypes.float0 or not got.size:
                continue
            found = self._compare(k, got, wanted)
            if found is not None:
                return found
        return None

    def _compare(self, k: int, got: Array, wanted: Array) -> Mismatch | None:
        distance = _distance(got, wanted)
        unit = _unit(wanted)
        with np.errstate(all="ignore"):
            wrong = ~(distance <= ULPS * unit)
            close = (
                distance[np.isfinite(distance)]
                / np.broadcast_to(unit, distance.shape)[np.isfinite(distance)]
            )
        if wrong.any():
            wrong &= ~(distance <= NOISE * self.noise[k])
        if not wrong.any():
            if close.size and dtypes.is_inexact(wanted.dtype):
                self.largest = max(self.largest, float(close.max()))
            return None
        worst = np.where(wrong, np.where(np.isnan(distance), np.inf, distance), -1.0)
        index = tuple(int(i) for i in np.unravel_index(int(worst.argmax()), worst.shape))
        return Mismatch(k, index, got[index], wanted[index], int(wrong.sum()), wrong.size)


def run_reference(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Array]:
    """The results of a program on the reference device."""
    with _reference_device():
        return [np.asarray(_known(x)) for x in Program(jaxpr)(list(values))]


@contextmanager
def _reference_device() -> Iterator[None]:
    """Programs inside programs run there too, and nothing looks for NaNs."""
    with (
        Override("backend", "interp"),
        Override("debug_nans", False),
        Override("debug_infs", False),
        np.errstate(all="ignore"),
    ):
        yield


def _known(x: Any) -> Any:
    return x.materialize() if hasattr(x, "materialize") else x


def _distance(got: Any, wanted: Array) -> Array:
    """How far elements are apart: 0 where both are NaN or the same infinity, NaN where one is."""
    x = np.asarray(_known(got))
    if not dtypes.is_inexact(wanted.dtype):
        return np.asarray(x != wanted, np.float64)
    wide = np.complex128 if dtypes.is_complex(wanted.dtype) else np.float64
    a, b = x.astype(wide), wanted.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
    return np.asarray(apart)


def _unit(wanted: Array) -> Array:
    """One unit in the last place of each element, never less than the smallest normal number's."""
    if not dtypes.is_inexact(wanted.dtype):
        return np.zeros(wanted.shape)
    info = dtypes.finfo(wanted.dtype)
    wide = np.complex128 if dtypes.is_complex(wanted.dtype) else np.float64
    with np.errstate(all="ignore"):
        size = np.abs(wanted.astype(wide))
        size = np.where(np.isfinite(size), size, 0.0)
    return np.asarray(np.maximum(size, float(info.tiny)) * float(info.eps))


# ---- noise ---------------------------------------------------------------------------------------


def _noisy_run(jaxpr: Jaxpr, values: Sequence[Any], random: np.random.Generator) -> list[Any]:
    with _reference_device():
        return _noisy(jaxpr, [_off(x, random) for x in values], random)


def _noisy(jaxpr: Jaxpr, values: Sequence[Any], random: np.random.Generator) -> list[Any]:
    env: dict[Atom, Any] = dict(zip(jaxpr.invars, values))

    def value(x: Atom) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        operands = [value(x) for x in eqn.invars]
        env.update(zip(eqn.outvars, _noisy_results(eqn, operands, random)))
    return [np.asarray(_known(value(x))) for x in jaxpr.outvars]


def _calls(eqn: Eqn) -> Jaxpr | None:
    """The program that an equation does nothing but run."""
    params = dict(eqn.params)
    if isinstance(eqn.primitive, Group):
        return params["jaxpr"]  # type: ignore[no-any-return]
    return eqn.primitive.inlines(params) if isinstance(eqn.primitive, HigherOrder) else None


def _noisy_results(eqn: Eqn, operands: list[Any], random: np.random.Generator) -> list[Any]:
    inner = _calls(eqn)
    if inner is not None:
        return _noisy(inner, operands, random)
    if _is_exact(eqn):
        out = rule_of(eqn.primitive)(eqn.primitive, operands, dict(eqn.params))
        return list(out) if eqn.primitive.multiple_results else [out]
    if eqn.primitive.family == "reindex_reduce":
        operands = [_noisy_operand(eqn, operands[0], random), *operands[1:]]
    out = rule_of(eqn.primitive)(eqn.primitive, operands, dict(eqn.params))
    outs = list(out) if eqn.primitive.multiple_results else [out]
    return [_off(x, random) for x in outs]


def _is_exact(eqn: Eqn) -> bool:
    """Whether an equation rounds nothing, so that noise would break what is true of its results."""
    family, name = eqn.primitive.family, eqn.primitive.name
    if family == "reindex_reduce":
        adds = ("reduce_sum", "reduce_prod", "reindex_reduce")
        return name not in adds or eqn.params.get("op") in ("max", "min")
    return family == "reindex" or name in _EXACT


def _noisy_operand(eqn: Eqn, x: Any, random: np.random.Generator) -> Any:
    """The operand of a reduction: so far off that it stands for the rounding of partial sums.

    Partial sums of n terms grow as sqrt(n), and each is rounded.
    """
    terms = x.size / max(eqn.outvars[0].aval.size, 1)
    if hasattr(x, "materialize") and x.size <= _LARGEST:
        x = x.materialize()
    return _off(x, random, max(terms, 1.0) ** 0.5)


def _off(x: Any, random: np.random.Generator, units: float = 1.0) -> Any:
    """A value with every element off by units in the last place; what is put off as it is."""
    if hasattr(x, "materialize") or not dtypes.is_inexact(np.asarray(x).dtype):
        return x
    array = np.asarray(x)
    eps = float(dtypes.finfo(array.dtype).eps) * units
    wide = np.complex128 if dtypes.is_complex(array.dtype) else np.float64
    return (array.astype(wide) * (1 + random.choice([-eps, eps], array.shape))).astype(array.dtype)
