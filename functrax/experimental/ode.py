"""Ordinary differential equations, as in ``jax.experimental.ode``.

Steps adapt to the error of the method of Dormand and Prince.  They are ``while_loop``s inside a
``scan`` over the times, which every transformation goes through: forward mode, reverse mode (from
checkpoints, see ``docs/control_flow.md``), ``vmap``.  What is differentiated are the steps as they
were taken; their sizes count as constants.

Start at :func:`odeint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.flatten_util import ravel_pytree
from functrax.transforms.mapping.vmap import vmap

#: Where in a step the function is asked, and what of the earlier answers leads there
#: (Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980).
_STAGES = (
    (1 / 5, (1 / 5,)),
    (3 / 10, (3 / 40, 9 / 40)),
    (4 / 5, (44 / 45, -56 / 15, 32 / 9)),
    (8 / 9, (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729)),
    (1.0, (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656)),
    (1.0, (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)),
)
#: The difference between the results of fifth and of fourth order.
_ERROR = (
    35 / 384 - 5179 / 57600, 0.0, 500 / 1113 - 7571 / 16695, 125 / 192 - 393 / 640,
    -2187 / 6784 + 92097 / 339200, 11 / 84 - 187 / 2100, -1 / 40,
)  # fmt: skip

#: Takes a flat state and a time.
Field = Callable[[Value, Value], Value]


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """The solution of ``dy/dt = func(y, t, *args)`` at given times.

    Args:
      func: takes the state, the time and ``args``; returns a pytree like the state.
      y0: the state at the first time, a pytree of floating arrays.
      t: the times, an increasing vector.
      args: pytrees of arrays; the solution is differentiated by them, by ``y0`` and by ``t``.
      rtol: the error of a step relative to the state that is allowed ...
      atol: ... and the error that is allowed besides.
      mxstep: at most so many steps between two times; what follows is then wrong.
      hmax: the longest step.

    Returns:
      A pytree like the state, whose arrays have an axis of the times in front.

    Raises:
      ShapeError: if ``t`` is no vector.

    >>> import functrax.numpy as jnp
    >>> from functrax.experimental.ode import odeint
    >>> odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0])).round(4)
    Array([1.    , 0.3679], dtype=float32)
    """
    state, unravel = ravel_pytree(y0)
    times = jnp.asarray(t)
    if times.ndim != 1 or times.shape[0] == 0:
        raise ShapeError(
            "odeint: the times are not a vector",
            got=times.aval.str_short(),
            fix="at least one time",
        )
    times = times.astype(jnp.result_type(times, float))
    state = state.astype(jnp.result_type(state, float))

    def field(y: Value, time: Value) -> Value:
        return ravel_pytree(func(unravel(y), time, *args))[0].astype(y.dtype)

    tolerances = (rtol, atol)
    slope = field(state, times[0])
    step = jnp.minimum(_first_step(field, state, slope, times[0], tolerances), hmax)

    def advance(carry: Any, stop: Value) -> Any:
        carry = _integrate(field, (*carry, 0), stop, tolerances, mxstep, hmax)[:-1]
        return carry, carry[0]

    start = (state, slope, times[0], step)
    _, states = lax.scan(advance, start, times[1:])
    return vmap(unravel)(jnp.concatenate([state[None], states]))


def _norm(x: Value) -> Value:
    """The root of the mean square."""
    return jnp.sqrt(jnp.mean(x * x)) if x.size else jnp.zeros((), x.dtype)


def _first_step(
    field: Field, y: Value, slope: Value, time: Value, tolerances: tuple[float, float]
) -> Value:
    """Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4."""
    y, slope, time = (lax.stop_gradient(v) for v in (y, slope, time))
    rtol, atol = tolerances
    scale = atol + jnp.abs(y) * rtol
    size, speed = _norm(y / scale), _norm(slope / scale)
    usual = (size >= 1e-5) & (speed >= 1e-5)
    short = jnp.where(usual, 0.01 * size / jnp.where(usual, speed, 1.0), 1e-6)
    bend = _norm((field(y + short * slope, time + short) - slope) / scale) / short
    most = jnp.maximum(speed, bend)
    long = jnp.where(most <= 1e-15, jnp.maximum(1e-6, short * 1e-3), (0.01 / most) ** 0.2)
    return lax.stop_gradient(jnp.minimum(100 * short, long)).astype(time.dtype)


def _integrate(
    field: Field,
    carry: Any,
    stop: Value,
    tolerances: tuple[float, float],
    mxstep: float,
    hmax: float,
) -> Any:
    """Steps until a time.  The carry: state, slope, time, size of the next step, steps taken."""
    rtol, atol = tolerances

    def goes_on(c: Any) -> Value:
        return (c[2] < stop) & (c[4] < mxstep)

    def body(c: Any) -> Any:
        y, slope, time, size, steps = c
        last = time + size >= stop
        h = jnp.where(last, stop - time, size)
        new, new_slope, error = _one_step(field, y, slope, time, h)
        allowed = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(new))
        ratio = lax.stop_gradient(_norm(lax.stop_gradient(error / allowed)))
        taken = ratio <= 1
        grow = jnp.clip(0.9 * jnp.where(ratio > 0, ratio, 1e-10) ** -0.2, 0.2, 10.0)
        next_size = jnp.where(last & taken, jnp.maximum(size, h), h) * jnp.where(
            last & taken, 1.0, grow
        )
        next_size = lax.stop_gradient(jnp.minimum(next_size, hmax)).astype(size.dtype)
        return (
            jnp.where(taken, new, y),
            jnp.where(taken, new_slope, slope),
            jnp.where(taken, jnp.where(last, stop, time + h), time),
            next_size,
            steps + 1,
        )

    return lax.while_loop(goes_on, body, carry)


def _one_step(
    field: Field, y: Value, slope: Value, time: Value, h: Value
) -> tuple[Value, Value, Value]:
    """The state after a step, the slope there, and the error of the step."""
    slopes = [slope]
    new = y
    h = h.astype(y.dtype)
    for place, weights in _STAGES:
        new = y + h * sum(w * k for w, k in zip(weights, slopes, strict=True))
        slopes.append(field(new, time + place * h))
    error = h * sum(e * k for e, k in zip(_ERROR, slopes, strict=True))
    return new, slopes[-1], jnp.asarray(error)


__dir__ = _listing(globals())
