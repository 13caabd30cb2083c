"""Random control-flow programs equal Python's loops and branches, under every transformation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import functrax
import functrax.numpy as jnp
from tests.transforms.control.programs import PYTHON, STAGED, WEIGHTS, programs, run
from tests.transforms.control.unrolled import close

OFTEN = settings(max_examples=12, deadline=None, derandomize=True, database=None)
SELDOM = settings(OFTEN, max_examples=5)
H = np.array([0.4, -0.6, 0.15])
MIX = np.cos(1.0 + np.arange(3.0))


@pytest.fixture(autouse=True, scope="module")
def _doubles() -> Iterator[None]:
    with functrax.enable_x64():
        yield


def meanings(program: Any) -> tuple[Any, Any]:
    """The program as two functions of its constants and its vector."""

    def meaning(flow: Any) -> Any:
        return lambda w, h: run(program, flow, w, (jnp.int32(1), h, jnp.asarray(False)))

    return meaning(STAGED), meaning(PYTHON)


def arguments(scale: float = 1.0) -> tuple[Any, Any]:
    return jnp.asarray(WEIGHTS * scale), jnp.asarray(H * scale)


def scalar(f: Any) -> Any:
    return lambda *args: jnp.sum(f(*args)[1] * MIX)


@OFTEN
@given(programs())
def test_values(program: Any) -> None:
    got, want = meanings(program)
    args = arguments()
    close(got(*args), want(*args), 1e-9)
    close(functrax.jit(got)(*args), want(*args), 1e-9)


@OFTEN
@given(programs())
def test_first_derivatives(program: Any) -> None:
    got, want = meanings(program)
    args = arguments()
    tangents = functrax.tree.map(jnp.cos, args)
    wanted = functrax.grad(scalar(want), (0, 1))(*args)
    close(functrax.grad(scalar(got), (0, 1))(*args), wanted, 1e-8)
    close(functrax.jit(functrax.grad(scalar(got), (0, 1)))(*args), wanted, 1e-8)
    if "custom_vjp" in repr(program):  # serves reverse mode only
        return
    forward = functrax.jvp(scalar(want), args, tangents)
    close(functrax.jvp(scalar(got), args, tangents), forward, 1e-8)
    close(functrax.linearize(scalar(got), *args)[1](*tangents), forward[1], 1e-8)


@SELDOM
@given(programs())
def test_second_derivatives(program: Any) -> None:
    got, want = map(scalar, meanings(program))
    args = arguments()
    tangents = functrax.tree.map(jnp.cos, args)

    def slope(f: Any) -> Any:
        def along(*args: Any) -> Any:
            gw, gh = functrax.grad(f, (0, 1))(*args)
            return jnp.sum(gw * jnp.sin(WEIGHTS)) + jnp.sum(gh * MIX)

        return along

    def speed(f: Any) -> Any:
        return lambda *args: functrax.jvp(f, args, tangents)[1]

    wanted = functrax.grad(slope(want), (0, 1))(*args)
    close(functrax.grad(slope(got), (0, 1))(*args), wanted, 1e-7)
    if "custom_vjp" in repr(program):
        return
    close(functrax.jvp(slope(got), args, tangents), functrax.jvp(slope(want), args, tangents), 1e-7)
    close(functrax.grad(speed(got), (0, 1))(*args), functrax.grad(speed(want), (0, 1))(*args), 1e-7)


@SELDOM
@given(programs())
def test_batched(program: Any) -> None:
    got, want = meanings(program)
    each = [arguments(s) for s in (1.0, -0.8, 1.4)]
    batch = functrax.tree.map(lambda *xs: jnp.stack(xs), *each)

    def rows(f: Any) -> Any:
        return functrax.tree.map(lambda *ys: jnp.stack(ys), *(f(*args) for args in each))

    close(functrax.vmap(got)(*batch), rows(want), 1e-9)
    if "custom_jvp" in repr(program) and "custom_vjp" in repr(program):
        return  # the one's rule here uses forward mode, which the other has not
    gradient, wanted = (functrax.grad(scalar(f), (0, 1)) for f in (got, want))
    close(functrax.vmap(gradient)(*batch), rows(wanted), 1e-8)
    total = lambda *args: jnp.sum(functrax.vmap(scalar(got))(*args))
    close(functrax.jit(functrax.grad(total, (0, 1)))(*batch), rows(wanted), 1e-8)
