"""Names that a public package lacks: where else they are, without frames of functrax."""

from __future__ import annotations

import importlib
import traceback
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.boundaries.namespaces import NAMESPACES


@pytest.mark.parametrize(
    ("package", "name", "found"),
    [
        (jnp, "relu", "functrax.nn.relu"),
        (jnp, "grad", "functrax.grad"),
        (functrax, "einsum", "functrax.numpy.einsum"),
        (jnp, "gamma", "functrax.random.gamma or functrax.scipy.special.gamma"),
        (jnp, "raveled", "functrax.numpy.ravel"),
        (functrax.scipy, "speciall", "functrax.scipy.special"),
    ],
)
def test_an_error_says_where_a_name_is(package: Any, name: str, found: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(package, name)
    module = package.__name__
    assert str(caught.value) == f"module {module!r} has no attribute {name!r}\n  try   {found}"
    assert type(caught.value) is AttributeError and caught.value.name == name


@pytest.mark.parametrize("name", ["nonsense", "__wrapped__"])
def test_nothing_is_said_of_names_that_are_nowhere(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(jnp, name)
    assert str(caught.value).endswith(f"has no attribute {name!r}") and not hasattr(jnp, name)


def test_the_traceback_ends_at_the_line_of_the_user() -> None:
    with pytest.raises(AttributeError) as caught:
        jnp.relu  # noqa: B018
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert files == {__file__}


def test_every_namespace_can_be_imported() -> None:
    for name in NAMESPACES:
        importlib.import_module(name)
