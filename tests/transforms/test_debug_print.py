"""``debug.print`` and ``debug.callback``: options, messages, how arrays look."""

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import FormatError


def test_options_may_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    functrax.debug.print(ordered=True)("x: {x}", x=42)
    seen: list[Any] = []
    functrax.debug.callback(ordered=True)(seen.append, 100)
    functrax.effects_barrier()
    assert capsys.readouterr().out == "x: 42\n" and seen == [100]


@pytest.mark.parametrize("name", ["print", "callback"])
def test_only_options_may_come_first(name: str) -> None:
    function = getattr(functrax.debug, name)
    message = f"debug_{name} received unexpected arguments in the two-call form"
    with pytest.raises(TypeError, match=message):
        function(ordered=True, a=42)
    with pytest.raises(TypeError, match=message):
        function(None, 42)


@pytest.mark.parametrize(
    ("fmt", "args", "kwargs", "error", "message"),
    [
        ("{x}", (1,), {}, KeyError, "do not go together"),
        ("{}", (), {"x": 1}, IndexError, "do not go together"),
        ("{x}", (), {"x": 1, "y": 2}, ValueError, r"Unused keyword arguments .*\['y'\]"),
        ("text", (1,), {}, ValueError, "Unused positional arguments"),
        ("text 3", (), {"x": 3}, ValueError, "You may be passing an f-string"),
    ],
)
def test_values_that_do_not_fit_the_text(
    fmt: str, args: Any, kwargs: Any, error: type[Exception], message: str
) -> None:
    for kind in (error, FormatError):
        with pytest.raises(kind, match=message):
            functrax.debug.print(fmt, *args, **kwargs)


def test_numpys_print_options_count_where_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    @functrax.jit
    def f(x: Any) -> None:
        with np.printoptions(precision=2, suppress=True):
            functrax.debug.print("{}", x)

    f(jnp.array([1.2345, 2.3456, 1e-9]))
    functrax.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.35 0.  ]\n"
