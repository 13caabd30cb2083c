"""Models train as they do with JAX: the losses of each step are JAX's.

JAX's losses are recorded (``record_jax.py``).  In float64 twenty steps agree to ``CLOSE``, for
rounding has no time to grow.  In float32 the losses may differ from JAX's by ``NEAR`` and by
``TIMES`` as much as JAX's own differ from those in float64 up to that step, relative to the largest
loss of the network.

The default run takes the first steps in float32, of DCGAN none, whose steps take seconds; all of
them, and float64::

    pytest -m slow tests/models/test_training.py        # about five minutes
    pytest -m jax tests/models/test_training.py         # records again, and compares
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from tests.models.record_jax import record, recorded
from tests.models.training import MODELS, STEPS, losses

FIRST = 2
CLOSE = 1e-8
NEAR, TIMES = 1e-5, 10


def check_float32(got: Any, jax32: Any, jax64: Any) -> None:
    steps = len(got)
    scale = np.max(np.abs(jax64), axis=0)
    rounding = np.maximum.accumulate(np.abs(jax32 - jax64), axis=0)[:steps]
    off = np.abs(got - jax32[:steps])
    np.testing.assert_array_less(off, NEAR * scale + TIMES * rounding)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "DCGAN"])
def test_first_losses_are_those_of_jax(name: str) -> None:
    of_jax = recorded()[name]
    check_float32(losses(functrax, name, FIRST, "float32"), of_jax["float32"], of_jax["float64"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_jax(name: str) -> None:
    of_jax = recorded()[name]
    check_float32(losses(functrax, name, STEPS, "float32"), of_jax["float32"], of_jax["float64"])
    with functrax.enable_x64():
        exact = losses(functrax, name, STEPS, "float64")
    np.testing.assert_allclose(exact, of_jax["float64"], CLOSE, CLOSE)


def test_models_learn() -> None:
    """The recorded runs are training: losses without an opponent fall."""
    for name in ("LSTM", "GPT", "ResNet"):
        of_model = recorded()[name]["float64"]
        assert of_model[-1, 0] < 0.9 * of_model[0, 0]


@pytest.mark.jax
def test_recorded_losses_are_those_of_jax() -> None:
    before = recorded()
    for name, of_model in record().items():
        np.testing.assert_allclose(of_model["float64"], before[name]["float64"], CLOSE, CLOSE)
        check_float32(of_model["float32"], before[name]["float32"], before[name]["float64"])
