"""Classes of errors: users find them in ``functrax.errors``, and other processes get them whole."""

from __future__ import annotations

import pickle

import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.core.errors import typed

CLASSES = [
    x for x in vars(typed).values() if isinstance(x, type) and issubclass(x, errors.FunctraxError)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_where_a_class_is_found(kind: type) -> None:
    assert kind.__module__ == "functrax.errors"
    assert getattr(errors, kind.__name__) is kind


def test_an_error_from_another_process() -> None:
    with pytest.raises(errors.ShapeError) as raised:
        jnp.ones(3) @ jnp.ones(4)
    error = raised.value
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.ShapeError
    assert str(again) == str(error) and "test_error_classes.py" in str(again.where)
    assert (again.what, again.got, again.fix) == (error.what, error.got, error.fix)


def test_an_error_of_a_traced_value_from_another_process() -> None:
    with pytest.raises(errors.TracerBoolConversionError) as raised:
        functrax.jit(lambda x: 1 if x > 0 else 2)(1.0)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
