"""Tracers, as libraries hold them."""

from __future__ import annotations

import gc
import weakref

import functrax


def test_tracers_can_be_referred_to_weakly():
    """Libraries that remember what they computed from an argument do so."""
    seen = []

    def f(x):
        seen.append(weakref.ref(x))
        assert seen[-1]() is x
        return functrax.numpy.sum(x * 2.0)

    x = functrax.numpy.ones(3)
    for transformed in (functrax.jit(f), functrax.vmap(f), functrax.grad(f), functrax.grad(f)):
        transformed(x)
    gc.collect()
    assert len(seen) == 4 and all(r() is None for r in seen)
