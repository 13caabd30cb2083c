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


@pytest.mark.parametrize(
    ("fmt", "args", "kwargs", "field"),
    [
        ("a {} b {:.2f}", (jnp.ones(2), jnp.ones(2)), {}, "{:.2f} of"),
        ("{1:.2f} {0:.1f}", (jnp.ones(2), jnp.ones(())), {}, "{0:.1f} of"),
        ("{x} {y:>9}", (), {"x": 1, "y": np.ones((0, 2))}, "{y:>9} of"),
        ("{x:d}", (), {"x": 1.5}, "{x:d} of"),
        ("{x:nonsense}", (), {"x": 1}, "{x:nonsense} of"),
    ],
)
def test_a_format_that_a_value_does_not_have(
    fmt: str, args: Any, kwargs: Any, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def traced(args: Any, kwargs: Any) -> None:
        functrax.debug.print(fmt, *args, **kwargs)

    for f in (traced, functrax.jit(traced)):
        with pytest.raises(FormatError, match=r"debug\.print: a field of the format") as caught:
            f(args, kwargs)
        assert caught.value.got.startswith(field)
        assert "test_debug_print.py" in str(caught.value)
        assert caught.traceback[-1].path.name == "test_debug_print.py"
    with pytest.raises(FormatError, match=r"debug\.log: a field of the format"):
        functrax.debug.log(fmt, *args, **kwargs)
    functrax.effects_barrier()
    assert capsys.readouterr().out == ""


def test_formats_that_values_have(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> None:
        functrax.debug.print("{0:.2f} {n:>4} {0:.1e}", x[0], n=jnp.int32(3))
        functrax.debug.print("{!s:>12} {x[0]:.1f} {x.shape[0]:02d}", x, x=x)
        functrax.debug.print("{:>6} {name:>4} {:g}", "text", x[1], name="a")

    f(jnp.arange(2.0))
    functrax.jit(f)(jnp.arange(2.0))
    functrax.vmap(lambda x: functrax.debug.print("{:.1f}", x))(jnp.arange(2.0))
    functrax.effects_barrier()
    once = ["0.00    3 0.0e+00", "     [0. 1.] 0.0 02", "  text    a 1"]
    assert capsys.readouterr().out.splitlines() == [*once, *once, "0.0", "1.0"]
