"""Arguments of ``pmap``."""

from __future__ import annotations

import pytest

import functrax
import functrax.numpy as jnp


def test_static_arguments_have_to_be_given_by_position() -> None:
    g = functrax.pmap(lambda a, b: a + b, static_broadcasted_argnums=(1,))
    with pytest.raises(ValueError, match="called with only 1 positional argument"):
        g(jnp.ones((1, 1)), b=1)
