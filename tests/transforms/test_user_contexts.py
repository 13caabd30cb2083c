"""Contexts of the user's own: jitted functions have a program for each of their values."""

import threading

import pytest

import functrax as fx
from functrax.core.errors.typed import ArgumentError


def test_each_value_has_a_program_of_its_own():
    context = fx.make_user_context("none")
    seen = []

    @fx.jit
    def f(x):
        seen.append(context.value)
        return x

    f(1.0)
    for value in (1, 2, 1, (3, "a")):
        with context(value):
            f(1.0)
            assert context.value == value
    f(1.0)
    assert seen == ["none", 1, 2, (3, "a")]


def test_blocks_nest_and_contexts_are_apart():
    a, b = fx.make_user_context(), fx.make_user_context(0)
    with a(1), b(2):
        with a(3):
            assert (a.value, b.value) == (3, 2)
        assert (a.value, b.value) == (1, 2)
    assert (a.value, b.value) == (None, 0)


def test_a_decorator_and_one_object_entered_twice():
    context = fx.make_user_context(0)
    one = context(1)

    @one
    def read():
        with one:
            return context.value

    assert read() == 1
    assert context.value == 0


def test_other_threads_have_the_default():
    context, found = fx.make_user_context(0), []
    with context(1):
        thread = threading.Thread(target=lambda: found.append(context.value))
        thread.start()
        thread.join()
    assert found == [0]


def test_a_value_without_a_hash_is_refused():
    with pytest.raises(ArgumentError, match="hash"):
        fx.make_user_context()([1])


def test_the_value_of_all_threads() -> None:
    context = fx.make_user_context(1)
    f = fx.jit(lambda x: x * context.value)
    assert (context.get_global(), float(f(2.0))) == (1, 2.0)
    context.set_global(3)
    try:
        assert (context.get_global(), float(f(2.0))) == (3, 6.0)
        with context(5):
            assert (context.get_global(), float(f(2.0))) == (3, 10.0)
    finally:
        context.set_global(1)
    assert float(f(2.0)) == 2.0
