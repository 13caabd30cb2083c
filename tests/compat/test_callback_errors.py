"""What callbacks raise under compat is JAX's error and the callback's own at once."""

from __future__ import annotations

import numpy as np
import pytest


class OwnError(Exception):
    """An error with an argument that its text does not have, and an attribute."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what)
        self.number = number


def fails(x):
    raise OwnError("too cold", 7)


def callbacks():
    import jax
    from jax.experimental import io_callback

    shape = jax.ShapeDtypeStruct((), np.float32)
    return {
        "pure_callback": lambda x: jax.pure_callback(fails, shape, x),
        "io_callback": lambda x: io_callback(fails, shape, x),
        "debug.callback": lambda x: jax.debug.callback(fails, x),
    }


@pytest.mark.parametrize("name", ["pure_callback", "io_callback", "debug.callback"])
@pytest.mark.parametrize("jitted", [False, True])
def test_an_error_is_both(name, jitted):
    import jax

    function = callbacks()[name]
    with pytest.raises(jax.errors.JaxRuntimeError, match="OwnError: too cold") as caught:
        jax.block_until_ready((jax.jit(function) if jitted else function)(1.0))
    assert isinstance(caught.value, OwnError)
    assert caught.value.number == 7
    assert type(caught.value.__cause__) is OwnError
    assert "in fails" in str(caught.value)


@pytest.mark.parametrize(
    "error", [OSError(2, "no such file", "f"), KeyError("k"), StopAsyncIteration()]
)
def test_errors_of_the_language(error):
    import jax

    def raises():
        raise error

    with pytest.raises(type(error), match=type(error).__name__) as caught:
        jax.pure_callback(raises, None)
    assert isinstance(caught.value, jax.errors.JaxRuntimeError)
    assert caught.value.args == error.args
    assert getattr(caught.value, "errno", None) == getattr(error, "errno", None)


def test_ctrl_c_stays_ctrl_c():
    import jax

    def stops():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jax.pure_callback(stops, None)


def test_what_cannot_be_called_is_refused_by_name():
    import jax

    with pytest.raises(TypeError, match="pure_callback: the first argument is not a function"):
        jax.pure_callback(3, None)
