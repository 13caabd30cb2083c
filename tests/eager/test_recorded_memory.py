"""Lazy eager mode: the memory of arrays that recorded operations read, and how much they keep."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends import eager
from functrax.core.arrays.array import ConcreteArray
from functrax.errors import DonatedBufferError
from tests.eager.recording import N, is_pending, operations, square


def test_deleted_and_donated_arrays() -> None:
    x = square()
    expected = np.asarray(x) + 1
    y = x + 1
    x.delete()
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(DonatedBufferError):
        x + 1
    z = y * 2  # recorded before its operand's memory is given away
    functrax.jit(lambda a: a * 0, donate_argnums=0)(y)
    np.testing.assert_array_equal(z, expected * 2)


def test_an_array_is_deleted_as_soon_as_its_memory_is_given_away() -> None:
    x = square() + 1
    expected = np.asarray(x)
    found: list[Any] = []

    def use(value: Any) -> Any:
        try:
            found.append(x + 1)  # while the program runs that may write to x's memory
        except DonatedBufferError as error:
            found.append(error)
        return np.asarray(value)

    def program(a: Any) -> Any:
        small = functrax.pure_callback(use, functrax.ShapeDtypeStruct((), np.float32), a[0, 0])
        return a * 2.0 + small

    step = functrax.jit(program, donate_argnums=0)
    for _ in range(2):  # the second call takes no way through Python
        np.testing.assert_allclose(step(x), expected * 2 + expected[0, 0], rtol=1e-6)
        x = square() + 1
        jnp.asarray(x).block_until_ready()
    assert len(found) == 2
    for seen in found:
        if not isinstance(seen, DonatedBufferError):
            np.testing.assert_array_equal(seen, expected + 1)


def test_recorded_operations_do_not_keep_much_memory() -> None:
    totals = []
    for k in range(3 * eager.MAX_BYTES // (N * N * 4)):
        totals.append(jnp.sum(jnp.asarray(np.full((N, N), k % 7, np.float32))))
    waiting = sum(is_pending(x) for x in totals)
    assert waiting * N * N * 4 <= eager.MAX_BYTES
    assert [float(x) for x in totals] == [(k % 7) * N * N for k in range(len(totals))]


@pytest.mark.usefixtures("usual_cuts")
def test_arrays_and_operations_whose_memory_is_used_again_are_new() -> None:
    x = square()

    def made() -> Any:
        return x + 1

    code = made.__code__
    references = sys.getrefcount(code)
    for _ in range(3):
        arrays = [made() for _ in range(1500)]
        gc.collect()
        assert all(type(y) is ConcreteArray for y in arrays)
        assert {id(y) for y in functrax.live_arrays()} >= {id(y) for y in arrays}
        died = weakref.ref(arrays[0])
        del arrays
        assert died() is None
        assert weakref.getweakrefcount(made()) == 0
    assert sys.getrefcount(code) - references < 10  # what was recorded kept it


@pytest.mark.usefixtures("usual_cuts")
def test_an_array_counts_once_however_often_it_is_held() -> None:
    x = square()
    most = eager.MAX_BYTES // x.nbytes
    pending = [x + float(k + 1) for k in range(2 * most)]
    assert all(map(is_pending, pending))
    np.testing.assert_array_equal(pending[-1], np.asarray(x) + np.float32(2 * most))


@pytest.mark.usefixtures("usual_cuts")
def test_memory_that_there_is_not_names_the_line() -> None:
    x = jnp.asarray(np.ones(1 << 24, np.float32))
    y = jnp.sin(x[:, None] * x)
    for _ in range(2):
        with pytest.raises(MemoryError) as info:
            y.block_until_ready()
        assert "f32[16777216,16777216], of test_recorded_memory.py" in info.value.__notes__[0]
    assert functrax.pending_program(y) is not None
    assert float(jnp.sum(x)) == 1 << 24
    del y, info  # for the error holds this frame


def test_arrays_of_one_value_share_it() -> None:
    x = square() + 1
    y = ConcreteArray(x._buffer, x.aval)
    np.testing.assert_array_equal(x, y)


def test_memory_that_is_given_away_was_read_before() -> None:
    x = jnp.asarray(np.zeros(100, np.float32))
    unread, y = x + 2, jnp.sin(x + 1)
    del unread
    np.from_dlpack(x)
    assert eager.pending_program(y) is None or operations(y) == ["sin"]
    np.testing.assert_allclose(y, np.sin(np.ones(100)), rtol=1e-6)


@pytest.mark.parametrize("mode", ["lazy", "immediate"])
def test_memory_that_others_write_to_is_read_at_once(mode: str) -> None:
    memory = np.arange(6, dtype=np.float32).reshape(2, 3)
    with functrax.eager(mode):
        x = jnp.asarray(memory, copy=False)
        found = [x + 1, x.T, x[1:], jnp.broadcast_to(x, (2, 2, 3)), x.reshape(6) * 2]
        expected = [np.array(y) for y in found]
        again = [x + 1, x.T, x[1:], jnp.broadcast_to(x, (2, 2, 3)), x.reshape(6) * 2]
        memory[:] = -1
        for y, value in zip(again, expected):
            np.testing.assert_array_equal(y, value)
        assert float(x[0, 0]) == -1
