"""What errors advise fits what was given, and arrays are called what they print as."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.errors import FunctraxError
from functrax.scipy import linalg

CUBE = jnp.ones((16, 32, 45))


class Plain:
    """A class that is no container of arrays."""


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: jnp.take_along_axis(CUBE, jnp.zeros((16, 32), int), 2), "indices[..., None]"),
        (lambda: jnp.take_along_axis(CUBE, jnp.zeros((16, 45), int), 1), "indices[:, None]"),
        (lambda: jnp.take_along_axis(CUBE, jnp.zeros((32, 45), int), -3), "indices[None]"),
        (lambda: jnp.take_along_axis(CUBE, jnp.zeros(45, int), 2), "as many axes"),
        (
            lambda: functrax.jit(lambda n: random.split(random.key(0), n))(3),
            "a Python integer; mark arguments",
        ),
        (lambda: random.key("1"), "int(text)"),
        (lambda: linalg.expm(jnp.ones((2, 3))), "matrices whose last two sizes are equal"),
        (lambda: functrax.grad(lambda a: 1.0)(Plain()), "register_dataclass for Plain"),
    ],
)
def test_advice_fits(call: Callable[[], Any], advice: str) -> None:
    with pytest.raises(FunctraxError) as caught:
        call()
    assert advice in caught.value.fix


def test_numbers_of_keys_are_not_called_shapes() -> None:
    with pytest.raises(FunctraxError, match=r"^split: num is not a known integer"):
        functrax.jit(lambda n: random.split(random.key(0), n))(3)


def test_arrays_are_called_arrays() -> None:
    x = jnp.ones(3)
    with pytest.raises(AttributeError, match=r"^'Array' object has no attribute 'shpae'"):
        x.shpae  # noqa: B018
    assert pickle.loads(pickle.dumps(type(x))) is type(x)
    assert (pickle.loads(pickle.dumps(x)) == x).all()
