"""Step sizes as functions of the step, which may be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from functrax import numpy as jnp
from functrax.core.errors.typed import ArgumentError, ShapeError

Schedule: TypeAlias = Callable[[Any], Any]


def constant(step_size: Any) -> Schedule:
    """The same at every step."""
    return lambda step: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """``step_size * decay_rate ** (step / decay_steps)``."""
    return lambda step: step_size * decay_rate ** (step / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """``step_size / (1 + decay_rate * step / decay_steps)``, or in jumps each ``decay_steps``."""
    if staircase:
        return lambda step: step_size / (1 + decay_rate * jnp.floor(step / decay_steps))
    return lambda step: step_size / (1 + decay_rate * step / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> Schedule:
    """From ``step_size`` to ``final_step_size`` in ``decay_steps``, and constant from there."""

    def schedule(step: Any) -> Any:
        left = 1 - jnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """``values[k]``, where ``k`` counts the boundaries that the step is beyond.

    Raises:
      ShapeError: if there is not one value more than boundaries.
    """
    bounds, sizes = jnp.array(boundaries), jnp.array(values)
    if not bounds.ndim == sizes.ndim == 1 or len(bounds) + 1 != len(sizes):
        raise ShapeError(
            "piecewise_constant: there is one value more than boundaries",
            got=f"boundaries {bounds.aval.str_short()}, values {sizes.aval.str_short()}",
            fix="two sequences, the second longer by one",
        )
    return lambda step: sizes[jnp.sum(step > bounds)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is, a number as the schedule that is constant.

    Raises:
      ArgumentError: for anything else.
    """
    if callable(scalar_or_schedule):
        schedule: Schedule = scalar_or_schedule
        return schedule
    if np.ndim(scalar_or_schedule) != 0:
        raise ArgumentError(
            "make_schedule: a step size is a number or a function of the step",
            got=repr(scalar_or_schedule),
            fix="a number, or a function such as exponential_decay(...)",
        )
    return constant(scalar_or_schedule)
