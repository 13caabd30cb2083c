"""Minimization of functions of a vector, as in ``jax.scipy.optimize``.

The search is one ``while_loop``, so it runs inside ``jit`` and under ``vmap``.  The minimum itself
is best differentiated implicitly (``functrax.lax.custom_root`` of the gradient).

Start at :func:`minimize`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.transforms.differentiation.derivatives import value_and_grad
from functrax.typing import ArrayLike

#: A step must lower the value by this part of what the slope promises ...
_DECREASE = 1e-4
#: ... and the slope to this part of itself.
_CURVATURE = 0.9
_OPTIONS = {"gtol": 1e-5, "maxiter": None, "norm": math.inf, "line_search_maxiter": 30}


class OptimizeResults(NamedTuple):
    """What :func:`minimize` found.

    ``status`` is 0 if the gradient is small enough, 1 if the steps ran out, 3 if no step along the
    search direction lowered the value as it should have.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _Search(NamedTuple):
    """The carry of the loop; ``h`` approximates the inverse of the second derivative."""

    x: Any
    value: Any
    slope: Any
    h: Any
    steps: Any
    calls: Any
    stuck: Any


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str | None = None,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of a function, by the method of Broyden, Fletcher, Goldfarb and Shanno.

    Args:
      fun: takes a vector and ``args``, returns a scalar; it must be differentiable.
      x0: where to start, a vector.
      args: more arguments of ``fun``.
      method: "BFGS"; it has to be said.
      tol: the norm of the gradient at which to stop, if ``options`` do not say it.
      options: ``gtol`` (1e-5), ``norm`` of the gradient (the largest component), ``maxiter`` (200
        for each component) and ``line_search_maxiter`` (30).

    Returns:
      An :class:`OptimizeResults`; ``x`` is the best vector that was found, and ``success`` says
      whether the gradient is small enough there.

    Raises:
      ArgumentError: for another method, an unknown option, or an option that is not a number.
      ShapeError: if ``x0`` is no vector or ``fun`` returns no scalar.

    Nocedal and Wright, "Numerical Optimization", algorithm 6.1; steps by bisection between the
    two conditions of Wolfe (Lewis and Overton, "Nonsmooth optimization via quasi-Newton methods").

    >>> import functrax, functrax.numpy as jnp
    >>> found = functrax.scipy.optimize.minimize(
    ...     lambda x: jnp.sum((x - 1.0) ** 2), jnp.zeros(2), method="BFGS")
    >>> found.x.round(4)
    Array([1., 1.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise ArgumentError(
            "minimize: args of the function must be a tuple", got=repr(args), fix="args=(...,)"
        )
    given = _options(method, tol, options)
    x = jnp.asarray(x0)
    x = x.astype(jnp.result_type(x, float))
    if x.ndim != 1:
        raise ShapeError("minimize: x0 is not a vector", got=x.aval.str_short(), fix="x0.ravel()")
    both = value_and_grad(lambda x: fun(x, *args))
    most = given["maxiter"] if given["maxiter"] is not None else 200 * x.size

    def small(slope: Value) -> Value:
        return jnp.linalg.norm(slope, ord=given["norm"]) < given["gtol"]

    def goes_on(s: _Search) -> Value:
        return ~small(s.slope) & (s.steps < most) & ~s.stuck

    value, slope = both(x)
    start = _Search(x, value, slope, jnp.eye(x.size, dtype=x.dtype), 0, 1, False)
    s = lax.while_loop(goes_on, lambda s: _step(both, s, given["line_search_maxiter"]), start)
    done = small(s.slope)
    status = jnp.where(done, 0, jnp.where(s.stuck, 3, 1))
    return OptimizeResults(
        s.x, done, status, s.value, s.slope, s.h, s.calls, s.calls, s.steps
    )  # fmt: skip


def _options(
    method: str | None, tol: float | None, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    if method is None:
        raise ArgumentError("minimize: needs a method", got="none", fix="method='BFGS'")
    if str(method).lower() != "bfgs":
        raise ArgumentError("minimize: unknown method", got=repr(method), fix="method='BFGS'")
    unknown = sorted(set(options or ()) - set(_OPTIONS))
    if unknown:
        raise ArgumentError(
            "minimize: unknown options", got=", ".join(unknown), fix=", ".join(_OPTIONS)
        )
    given = {**({} if tol is None else {"tol": tol}), **(options or {})}
    for name, value in given.items():
        is_array = isinstance(value, (np.generic, np.ndarray, Array)) and not value.shape
        is_none = name == "maxiter" and value is None
        if not (is_array or is_none or isinstance(value, Real)):
            raise ArgumentError(
                f"minimize: {name} is not a number",
                got=f"{value!r} of type {type(value).__name__}",
                fix=f"a number as {name}",
            )
    given = {"gtol" if name == "tol" else name: value for name, value in given.items()}
    return {**_OPTIONS, **given}


def _step(both: Callable[[Value], Any], s: _Search, most: int) -> _Search:
    """One step along the direction of Newton's method."""
    direction = -(s.h @ s.slope)
    size, value, slope, tries, found = _line_search(both, s, direction, most)
    moved, bent = size * direction, slope - s.slope
    curvature = moved @ bent
    useful = found & (curvature > 0)
    rho = 1.0 / jnp.where(useful, curvature, 1.0)
    left = jnp.eye(moved.size, dtype=moved.dtype) - rho * jnp.outer(moved, bent)
    h = left @ s.h @ left.T + rho * jnp.outer(moved, moved)
    x = jnp.where(found, s.x + moved, s.x)
    return _Search(
        x,
        jnp.where(found, value, s.value),
        jnp.where(found, slope, s.slope),
        jnp.where(useful, h, s.h),
        s.steps + 1,
        s.calls + tries,
        jnp.all(x == s.x),  # and so would be all further steps
    )


def _line_search(
    both: Callable[[Value], Any], s: _Search, direction: Value, most: int
) -> tuple[Value, ...]:
    """A size of the step, the value and the slope there, the number of tries, and whether it fits.

    Sizes below ``low`` go too little downhill, those above ``high`` too far.
    """
    promised = s.slope @ direction

    def judge(size: Value) -> tuple[Value, Value, Value, Value]:
        value, slope = both(s.x + size * direction)
        too_far = ~(value <= s.value + _DECREASE * size * promised)
        too_near = ~too_far & (slope @ direction < _CURVATURE * promised)
        return value, slope, too_far, too_near

    def body(c: Any) -> Any:
        size, low, high, tries, (_, _, too_far, too_near) = c
        low, high = jnp.where(too_near, size, low), jnp.where(too_far, size, high)
        size = jnp.where(jnp.isinf(high), 2 * low, 0.5 * (low + high))
        return size, low, high, tries + 1, judge(size)

    def unfit(c: Any) -> Value:
        *_, tries, (_, _, too_far, too_near) = c
        return (too_far | too_near) & (tries < most)

    one = jnp.ones_like(s.value)
    start = (one, 0 * one, math.inf * one, 1, judge(one))
    size, _, _, tries, (value, slope, too_far, _) = lax.while_loop(unfit, body, start)
    return size, value, slope, tries, ~too_far


_explain_all(globals())
__dir__ = _listing(globals())
