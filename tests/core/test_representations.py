"""How arrays and programs show themselves: in an interpreter, a terminal, a notebook."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.core.errors.typed import DonatedBufferError
from functrax.core.ir import coloring
from tests.explanation.pages import Page


def test_arrays_whose_elements_are_left_out_show_their_shape() -> None:
    assert repr(jnp.zeros((2, 2), np.int32)).endswith("[0, 0]], dtype=int32)")
    assert repr(jnp.zeros((40, 50))).endswith("0.]], shape=(40, 50), dtype=float32)")
    with jnp.printoptions(threshold=3):
        shown = repr(jnp.arange(5))
    assert shown == "Array([0, 1, 2, 3, 4], shape=(5,), dtype=int32)"


def test_shortened_arrays_of_a_gpu_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        assert repr(jnp.ones((60, 50)) + 1).endswith("dtype=float32, device=cuda:0)")
        assert repr(jnp.ones(2) + 1) == "Array([2., 2.], dtype=float32)"


def test_arrays_that_are_gone_say_so() -> None:
    x = jnp.arange(3.0)
    y = functrax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert repr(x) == "Array(shape=(3,), dtype=float32, deleted)" and repr([x])[1:-1] == repr(x)
    assert repr(y) == "Array([1., 2., 3.], dtype=float32)"
    with pytest.raises(DonatedBufferError):
        str(x)  # text of elements that are not there would be a wrong result
    weak = jnp.asarray(2.0)
    weak.delete()
    assert repr(weak) == "Array(shape=(), dtype=float32, weak_type=True, deleted)"


def program() -> Any:
    return functrax.make_jaxpr(lambda x: (lax.scan(lambda c, a: (c * 2.5e-3 + a, c), x[0], x), x))(
        jnp.ones((3, 3))
    )


class Printer:
    text_so_far = ""

    def text(self, text: str) -> None:
        self.text_so_far += text


def shown_in_terminal(value: Any) -> str:
    printer = Printer()
    value._repr_pretty_(printer, False)
    return printer.text_so_far


def test_programs_have_colours_in_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = program()
    assert shown_in_terminal(closed) == str(closed)  # this is no terminal
    monkeypatch.setattr(sys, "__stdout__", sys.stdout)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for value in (closed, closed.jaxpr):
        coloured = shown_in_terminal(value)
        assert "\x1b[1;34mscan\x1b[0m" in coloured and "\x1b[32m0.0025\x1b[0m" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == str(value) == repr(value)
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown_in_terminal(closed) == str(closed)


def test_programs_in_notebooks() -> None:
    closed = program()
    page = Page(closed._repr_html_())
    assert page.text == str(closed)
    assert '<span class="operation">scan</span>' in closed.jaxpr._repr_html_()


def test_colours_can_be_read() -> None:
    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    def contrast(one: str, other: str) -> float:
        more, less = sorted((light(one), light(other)), reverse=True)
        return (more + 0.05) / (less + 0.05)

    for on_light, on_dark in coloring._PAGE.values():
        assert contrast(on_light, "#ffffff") >= 4.5 and contrast(on_dark, "#14171b") >= 4.5
