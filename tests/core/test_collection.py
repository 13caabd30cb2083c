"""Pauses of Python's collector of cyclic garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from functrax.core.process.gc_pause import paused


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """The collector runs before a test and after it."""
    gc.enable()
    yield
    gc.enable()


def test_collector_rests_and_goes_on() -> None:
    with paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="wrong"), paused():
        raise ValueError("wrong")
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with paused(), paused():
        pass
    assert not gc.isenabled()
