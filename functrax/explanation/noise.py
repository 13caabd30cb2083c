"""What rounding can do to the results of a program: a run in which every operation is off.

Each rounded operation is off by one unit in the last place at random (Vignes' stochastic
arithmetic).  A sum is off by more, for it may be added up in any order, and its products may be
rounded or not: by a share of the error bound of sums, which follows from the number of terms and
from the sum of their magnitudes.  That holds for a sum of products that is never stored, too
(``backends/reference/deferred.py``): the magnitudes are contracted as the products are.

Start at :func:`noisy_results`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.passes.groups import Group
from functrax.backends.reference import strided
from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.reference_device import rule_of
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.prims.cumulative import cumsum
from functrax.core.prims.mapped import Update, scatter
from functrax.core.prims.reduce import ReindexReduce, reduce_prod, reduce_sum
from functrax.core.tracing.primitive import HigherOrder
from functrax.core.types import dtypes

Array: TypeAlias = np.ndarray[Any, Any]

#: What differs by so many times the noise is wrong; the bound of a sum is as large.
NOISE: Final = 32


def noisy_results(jaxpr: Jaxpr, values: Sequence[Any], random: np.random.Generator) -> list[Any]:
    """The results of a program on the reference device, inputs and operations off at random.

    Args:
      jaxpr: the program, without constants.
      values: a NumPy array for each input.
      random: decides who is off which way.
    """
    return _run(jaxpr, [_off(x, random) for x in values], random)


def raw(x: Any) -> Any:
    """A value of the reference device, computed if it was put off."""
    return x.materialize() if hasattr(x, "materialize") else x


def _run(jaxpr: Jaxpr, values: Sequence[Any], random: np.random.Generator) -> list[Any]:
    env: dict[Atom, Any] = dict(zip(jaxpr.invars, values))

    def value(x: Atom) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        operands = [value(x) for x in eqn.invars]
        env.update(zip(eqn.outvars, _results(eqn, operands, random)))
    return [np.asarray(raw(value(x))) for x in jaxpr.outvars]


def _results(eqn: Eqn, operands: list[Any], random: np.random.Generator) -> list[Any]:
    inner = _calls(eqn)
    if inner is not None:
        return _run(inner, operands, random)
    if _is_sum(eqn):
        return [_noisy_sum(eqn, operands, random)]
    if _is_product(eqn):
        factors = operands[0].size / max(eqn.outvars[0].aval.size, 1)
        operands = [_off(raw(operands[0]), random, max(factors, 1.0) ** 0.5), *operands[1:]]
    out = _apply(eqn, operands)
    outs = list(out) if eqn.primitive.multiple_results else [out]
    return outs if _is_exact(eqn) else [_off(x, random) for x in outs]


def _apply(eqn: Eqn, operands: Sequence[Any]) -> Any:
    return rule_of(eqn.primitive)(eqn.primitive, operands, dict(eqn.params))


def _calls(eqn: Eqn) -> Jaxpr | None:
    """The program that an equation does nothing but run."""
    params = dict(eqn.params)
    if isinstance(eqn.primitive, Group):
        return params["jaxpr"]  # type: ignore[no-any-return]
    return eqn.primitive.inlines(params) if isinstance(eqn.primitive, HigherOrder) else None


def _is_exact(eqn: Eqn) -> bool:
    """Whether an equation rounds nothing, so that noise would break what is true of its results."""
    if isinstance(eqn.primitive, ReindexReduce):
        return not _is_product(eqn)
    return eqn.primitive.rounds_nothing


def _is_product(eqn: Eqn) -> bool:
    return eqn.primitive is reduce_prod or eqn.params.get("op") == "mul"


def _off(x: Any, random: np.random.Generator, units: float = 1.0) -> Any:
    """A value with every element off by units in the last place; what is put off as it is."""
    if hasattr(x, "materialize") or not dtypes.is_inexact(np.asarray(x).dtype):
        return x
    array = np.asarray(x)
    eps = float(dtypes.finfo(array.dtype).eps) * units
    wide = _wide(array.dtype)
    return (array.astype(wide) * (1 + random.choice([-eps, eps], array.shape))).astype(array.dtype)


def _wide(dtype: np.dtype[Any]) -> Any:
    return np.complex128 if dtypes.is_complex(dtype) else np.float64


# ---- sums ---------------------------------------------------------------------------------------


def _is_sum(eqn: Eqn) -> bool:
    if not dtypes.is_inexact(eqn.outvars[0].aval.dtype):
        return False
    adds = isinstance(eqn.primitive, Update) and eqn.params["op"] == "add"
    return adds or eqn.primitive in (reduce_sum, cumsum)


def _noisy_sum(eqn: Eqn, operands: Sequence[Any], random: np.random.Generator) -> Array:
    """The sum, off by a share of its error bound either way.

    Terms are rounded in their own type, and partial sums in the type in which they are added up:
    n of them are off by n units of the sum of magnitudes at most, and by a multiple of sqrt(n)
    where they are rounded up as often as down.
    """
    out = np.asarray(raw(_apply(eqn, operands)))
    summed = 2 if eqn.primitive is scatter else 1  # operands that are
    magnitudes = [*map(_magnitude, operands[:summed]), *operands[summed:]]
    sizes = np.abs(np.asarray(raw(_apply(eqn, magnitudes)))).astype(np.float64)
    terms = _terms(eqn, operands, summed)
    carried = dtypes.float32 if out.dtype in dtypes.HALF else out.dtype
    eps = np.minimum(terms, 4 * np.sqrt(terms) + 4) * float(dtypes.finfo(carried).eps)
    bound = (eps + float(dtypes.finfo(out.dtype).eps)) * sizes / NOISE
    moved = out.astype(_wide(out.dtype)) + random.choice([-1, 1], out.shape) * bound
    return np.asarray(_off(moved.astype(out.dtype), random))


def _terms(eqn: Eqn, operands: Sequence[Any], summed: int) -> Any:
    """How many terms each element of a sum has."""
    if eqn.primitive is cumsum:
        return float(operands[0].shape[eqn.params["axis"]])
    if eqn.primitive is reduce_sum:
        return max(math.prod(operands[0].shape) / max(eqn.outvars[0].aval.size, 1), 1.0)
    ones = [np.broadcast_to(np.float32(1), x.shape) for x in operands[:summed]]
    return np.asarray(_apply(eqn, [*ones, *operands[summed:]]), np.float64)


def _magnitude(x: Any) -> Any:
    """The magnitudes of the terms of a value, not computed if that is put off."""
    if type(x) is Deferred:
        return Deferred([_magnitude(factor) for factor in x.factors])
    return np.broadcast_to(np.abs(strided.core(x)), x.shape) if np.ndim(x) else np.abs(x)
