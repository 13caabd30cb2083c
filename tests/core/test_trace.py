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


def test_equal_values_are_objects_of_their_own():
    """An operation that a program has already is not written again, and yet callers tell them
    apart: as constants of a program that they take apart there is one for each.
    """
    jnp = functrax.numpy
    counts = []

    def f(x):
        a, b = jnp.zeros(3) + x, jnp.zeros(3) + x
        assert a is not b
        inner = functrax.make_jaxpr(lambda y: y + a * b)(x)
        counts.append(len(inner.consts))
        return functrax.jit(lambda y: y + a * b)(x)

    program = functrax.make_jaxpr(f)(1.0)
    assert counts == [2]
    names = [e.primitive.name for e in program.jaxpr.eqns]
    assert names.count("add") == 1
    (call,) = [e for e in program.jaxpr.eqns if e.primitive.name == "jit"]
    assert len(call.invars) == 2  # x, and what a and b are
