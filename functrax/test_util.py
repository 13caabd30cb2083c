"""Derivatives against finite differences: ``check_grads``, ``check_jvp``, ``check_vjp``.

>>> import functrax.numpy as jnp
>>> from functrax.test_util import check_grads
>>> check_grads(jnp.sin, (1.0,), order=2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import keystr, tree_flatten_with_path, tree_leaves, tree_map
from functrax.core.tracing.inputs import as_value
from functrax.core.types import dtypes
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.differentiation.derivatives import jvp, vjp

#: For the bits of a float: the step of a difference, and the tolerance of what it gives.  A longer
#: step would be more precise, and cross more corners (of ``max``, say), where no difference helps.
_STEPS = {16: 2.5e-1, 32: 5e-4, 64: 1e-6}
_TOLERANCES = {16: 2e-1, 32: 5e-2, 64: 1e-5}

#: One for all dtypes, or one for each; a dtype that is not named has the default.
Tolerance: TypeAlias = "float | Mapping[Any, float] | None"


def _inexact_dtypes(tree: Any) -> set[np.dtype[Any]]:
    found = {as_value(x).aval.dtype for x in tree_leaves(tree)}
    return {d for d in found if dtypes.is_inexact(d)}


def _bits(dtype: np.dtype[Any]) -> int:
    """The bits of a real number."""
    return 8 * dtype.itemsize // (2 if dtypes.is_complex(dtype) else 1)


def _tolerance(given: Tolerance, found: set[np.dtype[Any]]) -> float:
    """The tolerance for values of some dtypes: what the least precise of them needs."""
    if given is not None and not isinstance(given, Mapping):
        return given
    named = {np.dtype(d): tolerance for d, tolerance in (given or {}).items()}
    each = (named.get(d, _TOLERANCES[_bits(d)]) for d in found)
    return max(each, default=_TOLERANCES[64])


def _wide(x: Any) -> Any:
    """An inexact leaf in double precision; others as they are."""
    found = np.asarray(x)
    dtype = as_value(x).aval.dtype
    if not dtypes.is_inexact(dtype):
        return found
    return found.astype(np.complex128 if dtypes.is_complex(dtype) else np.float64)


def _away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    found = rng.standard_normal(shape)
    return found + np.where(found < 0, -0.5, 0.5)


def _random_like(rng: np.random.Generator, x: Any) -> Any:
    """A direction in which a leaf may move; what is wrong by a factor shows."""
    dtype = as_value(x).aval.dtype
    shape = np.shape(x)
    if not dtypes.is_inexact(dtype):
        return np.zeros(shape, dtypes.float0)
    found = _away_from_zero(rng, shape)
    if dtypes.is_complex(dtype):
        return (found + 1j * _away_from_zero(rng, shape)).astype(dtype)
    return found.astype(dtype)


def _difference(f: Callable[..., Any], primals: Any, tangents: Any, step: float) -> Any:
    """The derivative in a direction, by a central difference."""

    def moved(by: float) -> Any:
        def leaf(x: Any, t: Any) -> Any:
            if np.asarray(t).dtype == dtypes.float0:
                return x
            return (_wide(x) + by * _wide(t)).astype(as_value(x).aval.dtype)

        return f(*tree_map(leaf, primals, tangents))

    def quotient(up: Any, down: Any) -> Any:
        if not dtypes.is_inexact(as_value(up).aval.dtype):
            return np.zeros(np.shape(up))
        a, b = _wide(up), _wide(down)
        still = np.isinf(a) & (a == b)  # an infinite value that stays
        return np.subtract(a, b, out=np.zeros_like(a), where=~still) / (2 * step)

    return tree_map(quotient, moved(step), moved(-step))


def _wide_tangent(t: Any) -> Any:
    found = np.asarray(t)
    return np.zeros(found.shape) if found.dtype == dtypes.float0 else _wide(t)


def _inexact(tree: Any) -> list[Any]:
    """The leaves that can be differentiated again: those of integers are of float0."""
    return [x for x in tree_leaves(tree) if x.dtype != dtypes.float0]


def _compare(what: str, got: Any, wanted: Any, atol: float, rtol: float) -> None:
    pairs = zip(tree_flatten_with_path(got)[0], tree_leaves(wanted), strict=True)
    for (path, x), y in pairs:
        place = f" at {keystr(path)}" if path else ""
        np.testing.assert_allclose(
            x, y, rtol=rtol, atol=atol, err_msg=f"{what}{place} is not the difference quotient"
        )


def _resolved(
    here: Any, atol: Tolerance, rtol: Tolerance, eps: float | None
) -> tuple[float, float, float]:
    """The tolerances and the step, by what is least precise of the values given."""
    found = _inexact_dtypes(here)
    step = _STEPS[min(map(_bits, found), default=64)] if eps is None else eps
    return _tolerance(atol, found), _tolerance(rtol, found), step


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare a forward derivative with a difference quotient, in a random direction.

    Args:
      f: a function of pytrees of arrays.
      f_jvp: ``(args, tangents) -> (results, tangents of the results)``.
      args: where the derivative is taken, one entry for each argument.
      atol: absolute tolerance, or a mapping from dtypes to tolerances; by default, and for dtypes
        that the mapping lacks, that of the least precise argument.
      rtol: relative tolerance, likewise.
      eps: the step of the difference, likewise.
      err_msg: what an error begins with.

    Raises:
      AssertionError: if they differ.

    >>> import functrax
    >>> check_jvp(lambda x: x * x, lambda x, t: functrax.jvp(lambda x: x * x, x, t), (3.0,))
    """
    primals = tuple(args)
    here = f(*primals)
    atol, rtol, step = _resolved((primals, here), atol, rtol, eps)
    rng = np.random.default_rng(0)
    tangents = tree_map(lambda x: _random_like(rng, x), primals)
    value, tangent = f_jvp(primals, tangents)
    name = err_msg or f"jvp of {name_of(f)}"
    _compare(f"{name}: the value", tree_map(_wide, value), tree_map(_wide, here), atol, rtol)
    wanted = _difference(f, primals, tangents, step)
    _compare(f"{name}: the tangent", tree_map(_wide_tangent, tangent), wanted, atol, rtol)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare a backward derivative with a difference quotient: one number of random directions.

    Args:
      f: a function of pytrees of arrays.
      f_vjp: ``(*args) -> (results, function of their cotangents)``, as ``vjp`` of ``f``.
      args, atol, rtol, eps, err_msg: as for :func:`check_jvp`.

    Raises:
      AssertionError: if they differ.

    >>> import functrax
    >>> check_vjp(lambda x: x * x, lambda x: functrax.vjp(lambda x: x * x, x), (3.0,))
    """
    primals = tuple(args)
    here = f(*primals)
    atol, rtol, step = _resolved((primals, here), atol, rtol, eps)
    rng = np.random.default_rng(0)
    tangents = tree_map(lambda x: _random_like(rng, x), primals)
    value, backward = f_vjp(*primals)
    name = err_msg or f"vjp of {name_of(f)}"
    _compare(f"{name}: the value", tree_map(_wide, value), tree_map(_wide, here), atol, rtol)
    cotangents = tree_map(lambda x: _random_like(rng, x), value)
    pulled = tree_map(_wide_tangent, backward(cotangents))
    moved = _difference(f, primals, tangents, step)

    def inner(a: Any, b: Any) -> Any:
        terms = zip(tree_leaves(a), tree_leaves(b), strict=True)
        return np.real(sum(np.sum(_wide_tangent(x) * _wide_tangent(y)) for x, y in terms))

    _compare(f"{name}: <ct, J t>", inner(tangents, pulled), inner(moved, cotangents), atol, rtol)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives up to an order with difference quotients, in random directions.

    Args:
      f: a function of pytrees of arrays.
      args: where the derivatives are taken, one entry for each argument.
      order: the highest order that is compared.
      modes: ``"fwd"``, ``"rev"``, or both; for higher orders in all combinations.
      atol, rtol, eps: as for :func:`check_jvp`.

    Raises:
      AssertionError: if they differ.
      ArgumentError: if a mode is neither.

    >>> import functrax.numpy as jnp
    >>> check_grads(lambda x, y: x * jnp.sin(y), (jnp.ones(3), jnp.arange(3.0)), order=2)
    """
    check_callable("check_grads", f)
    primals = tuple(args)
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ArgumentError(
                "check_grads: unknown mode", got=repr(mode), fix="modes=('fwd', 'rev')"
            )
    if order < 1:
        return
    rng = np.random.default_rng(order)
    if "fwd" in modes:
        check_jvp(f, partial(jvp, f), primals, atol, rtol, eps)
        tangents = tree_map(lambda x: _random_like(rng, x), primals)
        check_grads(
            lambda *xs: _inexact(jvp(f, xs, tangents)[1]),
            primals,
            order - 1,
            modes,
            atol,
            rtol,
            eps,
        )
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), primals, atol, rtol, eps)
        cotangents = tree_map(lambda x: _random_like(rng, x), f(*primals))
        check_grads(
            lambda *xs: _inexact(vjp(f, *xs)[1](cotangents)),
            primals,
            order - 1,
            modes,
            atol,
            rtol,
            eps,
        )


__dir__ = _listing(globals())
