"""Traced values that outlive their transformation."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.arrays.array import ConcreteArray
from functrax.core.tracing.trace import Tracer
from functrax.errors import LeakedTracerError


def line_of(function: Any, offset: int) -> str:
    return f"test_leaks.py:{function.__code__.co_firstlineno + offset} in {function.__name__}"


TRANSFORMS = {
    "jit": functrax.jit,
    "grad": functrax.grad,
    "vmap": lambda f: lambda x: functrax.vmap(f)(x[None]),
    "jvp": lambda f: lambda x: functrax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: functrax.linearize(f, x),
    "checkpoint": functrax.checkpoint,
    "jacfwd": functrax.jacfwd,
    "make_jaxpr": functrax.make_jaxpr,
    "jit of grad": lambda f: functrax.jit(functrax.grad(f)),
    "grad of jit": lambda f: functrax.grad(functrax.jit(f)),
    "vmap of jit": lambda f: lambda x: functrax.vmap(functrax.jit(f))(x[None]),
}
KNOWS_THE_LINE = [t for t in TRANSFORMS if t not in ("vmap", "jvp", "jacfwd")]

USES = {
    "operator": lambda x: x + 1,
    "function": lambda x: jnp.sin(x),
    "jit": lambda x: functrax.jit(lambda y: y * x)(2.0),
    "jit argument": lambda x: functrax.jit(lambda y: y)(x),
    "grad": lambda x: functrax.grad(lambda y: y * x)(2.0),
    "vmap": lambda x: functrax.vmap(lambda y: y * x)(jnp.ones(2)),
    "returned": lambda x: functrax.jit(lambda y: x)(2.0),
    "make_jaxpr": lambda x: functrax.make_jaxpr(lambda y: y + x)(2.0),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_use_after_the_end(transform: str, use: str) -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(jnp.sin(x))
        return x * 1.0

    TRANSFORMS[transform](leaky)(jnp.array(2.0))
    with pytest.raises(LeakedTracerError) as info:
        USES[use](kept[0])
    text = str(info.value)
    assert text.startswith("Encountered an unexpected tracer: a traced value leaked out of leaky: ")
    assert "\n  at    test_leaks.py:" in text and "\n  try   return the value" in text
    if transform in KNOWS_THE_LINE:
        assert "made while leaky was being traced, at " + line_of(leaky, 1) in text
    else:
        assert "as one of its arguments" not in text
    assert float(jnp.array(1.0) + 1) == 2.0


@pytest.mark.parametrize("transform", ["jit", "checkpoint", "grad of jit"])
def test_leaked_argument_is_called_one(transform: str) -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x)
        return x * 1.0

    TRANSFORMS[transform](leaky)(jnp.array(2.0))
    with pytest.raises(LeakedTracerError, match="leaky was being traced, as one of its arguments"):
        kept[0] + 1


def test_leak_by_an_exception_is_harmless() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x)
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        functrax.jit(leaky)(1.0)
    with pytest.raises(LeakedTracerError, match="leaked out of leaky"):
        jnp.sin(kept[0])


def test_leak_from_an_inner_to_an_outer_function() -> None:
    def outer(x: Any) -> Any:
        kept: list[Any] = []

        def inner(y: Any) -> Any:
            kept.append(y * x)
            return y * x

        functrax.grad(inner)(2.0)
        return kept[0] * x

    for f in (
        outer,
        functrax.jit(outer),
        functrax.grad(outer),
        lambda x: functrax.vmap(outer)(x[None]),
    ):
        with pytest.raises(LeakedTracerError, match="leaked out of inner"):
            f(jnp.array(3.0))


def test_tracers_of_another_thread() -> None:
    errors: list[Exception] = []

    def f(x: Any) -> Any:
        def work() -> None:
            try:
                jnp.sin(x)
            except LeakedTracerError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x

    functrax.jit(f)(1.0)
    assert len(errors) == 1


def test_checking_leaks_raises_at_once_and_names_the_holder() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(jnp.sin(x))
        return x * 1.0

    with functrax.checking_leaks():
        with pytest.raises(LeakedTracerError) as info:
            functrax.jit(leaky)(1.0)
        text = str(info.value)
        assert text.startswith("Leaked trace StagingTrace: a traced value leaked out of leaky")
        assert "list" in text and line_of(leaky, 1) in text
        kept.clear()
        functrax.clear_caches()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_checking_leaks_is_quiet_about_sound_functions(transform: str) -> None:
    def sound(x: Any) -> Any:
        y = [jnp.sin(x), x]
        inner = functrax.jit(lambda z: z * x + y[0])
        return inner(x) * functrax.grad(lambda z: z * x)(2.0)

    with functrax.checking_leaks():
        TRANSFORMS[transform](sound)(jnp.array(2.0))


@pytest.mark.parametrize("transform", ["grad", "vmap", "jvp", "linearize"])
def test_checking_leaks_covers_eager_transformations(transform: str) -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(jnp.sin(x))
        return x * 1.0

    with functrax.checking_leaks(), pytest.raises(LeakedTracerError, match="leaked out of leaky"):
        TRANSFORMS[transform](leaky)(jnp.array(2.0))


def test_option_of_the_process() -> None:
    kept: list[Any] = []
    functrax.config.update("check_tracer_leaks", True)
    try:
        with pytest.raises(LeakedTracerError):
            functrax.jit(lambda x: kept.append(x))(1.0)
    finally:
        functrax.config.update("check_tracer_leaks", False)


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t not in ("vmap", "jvp")])
def test_nothing_waits_for_the_garbage_collector(transform: str) -> None:
    """Residuals and captured arrays are freed as soon as the last reference is gone."""
    alive: list[Any] = []

    def f(x: Any) -> Any:
        captured = jnp.ones(()) * 3.0
        y = jnp.exp(jnp.sin(x) * captured)
        value = getattr(y, "primal", y)
        alive.extend(weakref.ref(a) for a in (captured, value) if type(a) is ConcreteArray)
        inner = functrax.jit(lambda z: z * captured * y)
        return inner(x) * y

    def tracers() -> set[int]:
        return {id(t) for t in gc.get_objects() if isinstance(t, Tracer)}

    functrax.clear_caches()
    gc.collect()
    before = tracers()
    gc.disable()
    try:
        x = jnp.array(2.0)
        TRANSFORMS[transform](f)(x)
        functrax.clear_caches()
        assert [r() for r in alive if r() is not None] == []
        assert tracers() <= before
    finally:
        gc.enable()
