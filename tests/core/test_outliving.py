"""Nothing of a caller outlives its call: no frame, no array, no function, with the collector off.

What is kept of a call (programs, errors, recorded operations) must hold neither the frames that it
went through nor their local variables, else memory stays in use until a collection, and what asks
who still holds an array is told wrong.
"""

from __future__ import annotations

import builtins
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.kept import KeptError


class Witness:
    """Something in a caller's frame that can be watched."""


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + i, x)


def scan(x: Any) -> Any:
    return lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x)


def wide_scan(x: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.tanh(c @ x[:4, :4]), row.sum()), x[:4, :4], x)[1]


def sorting_loop(x: Any) -> Any:  # no kernel
    return lax.fori_loop(0, 3, lambda i, y: jnp.sort(y @ y * 0.1, axis=0), x)


def sorting_scan(x: Any) -> Any:  # no kernel
    return lax.scan(lambda c, row: (jnp.sort(c * row, axis=0), c.sum()), x, x)


def sorting_branch(x: Any) -> Any:
    return lax.cond(x.sum() > 0, sorting_loop, sorting_scan_carry, x)


def sorting_scan_carry(x: Any) -> Any:
    return sorting_scan(x)[0]


def repeat(x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]


def choice(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: jnp.cos(y), x)


def layers(x: Any) -> Any:
    return jnp.tanh(x @ x.T).sum()


def calls_back(x: Any) -> Any:
    return functrax.pure_callback(
        lambda a: np.asarray(a) * 2, functrax.ShapeDtypeStruct(x.shape, x.dtype), x
    )


def debugs(x: Any) -> Any:
    functrax.debug.callback(lambda a: None, x)
    return x + 1


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: jnp.sin(x) * 2 + x.mean(axis=0),
    "fori_loop": loop,
    "scan": scan,
    "wide scan": wide_scan,
    "sorting loop": sorting_loop,
    "sorting scan": sorting_scan,
    "sorting branch": sorting_branch,
    "while_loop": repeat,
    "cond": choice,
    "layers": layers,
    "sort": lambda x: jnp.sort(x, axis=0)[::-1],
    "pure_callback": calls_back,
    "debug callback": debugs,
}

WAYS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "eager": lambda f: f,
    "jit": functrax.jit,
    "jit of vmap": lambda f: functrax.jit(functrax.vmap(lambda y: f(y.reshape(4, 4)))),
    "grad": lambda f: functrax.grad(lambda x: sum_of(f(x))),
    "jit of grad": lambda f: functrax.jit(functrax.grad(lambda x: sum_of(f(x)))),
    "value_and_grad of jit": lambda f: functrax.value_and_grad(
        functrax.jit(lambda x: sum_of(f(x)))
    ),
    "vjp": lambda f: lambda x: functrax.vjp(lambda y: sum_of(f(y)), x)[1](1.0),
    "lower": lambda f: lambda x: functrax.jit(f).lower(x).compile()(x),
    "make_jaxpr": lambda f: lambda x: functrax.make_jaxpr(f)(x) and None,
}
WITHOUT_GRADIENT = {"pure_callback", "while_loop"}


def sum_of(tree: Any) -> Any:
    return sum(leaf.astype("float32").sum() for leaf in functrax.tree.leaves(tree))


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def watched(way: str, function: Callable[[Any], Any], times: int) -> list[weakref.ref[Any]]:
    """Call something from a frame with local variables; what it held, watched."""
    witness = Witness()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(16, 16)).astype("float32"))
    outer = jnp.ones((16, 16)) * 0.5
    shape = (4, 4) if "vmap" in way else (16, 16)

    def closure(y: Any) -> Any:
        assert witness is not None
        return function(y * outer[: shape[0], : shape[1]])

    call = WAYS[way](closure)
    for _ in range(times):
        result = call(x)
        functrax.block_until_ready(result)
    return [weakref.ref(a) for a in (witness, x, outer, closure)]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("eager", ["lazy", "immediate"])
def test_after_a_call(eager: str, way: str, name: str, times: int) -> None:
    if name in WITHOUT_GRADIENT and ("grad" in way or "vjp" in way):
        pytest.skip("has no derivative backwards")
    if name == "pure_callback" and "vmap" in way:
        pytest.skip("has no batching rule")
    with functrax.eager(eager):
        refs = watched(way, FUNCTIONS[name], times)
    assert [r() for r in refs if r() is not None] == []


def bad_user_code(x: Any) -> Any:
    return x / (0 // int(x.ndim - x.ndim))


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: x @ x[:3],
    "keyword": lambda x: jnp.sum(x, axes=0),
    "missing argument": lambda x: jnp.dot(x),
    "bool": lambda x: x if (x > 0) else -x,
    "user's error": bad_user_code,
    "carry": lambda x: lax.scan(lambda c, r: (c.sum(), r), x, x),
    "branches": lambda x: lax.cond(x.sum() > 0, lambda y: y, lambda y: y[0], x),
    "index": lambda x: x["name"],
    "axis": lambda x: jnp.sum(x, axis=5),
    "callback": lambda x: functrax.pure_callback(
        lambda a: 1 / 0, functrax.ShapeDtypeStruct((), np.float32), x
    ),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y @ y[:2], x),
    "wait": lambda x: functrax.fork(lambda: x @ x[:3]).wait(),
    "fetch": lambda x: functrax.fetch(x, lambda a: 1 / 0).wait(),
}


def watched_mistake(way: str, function: Callable[[Any], Any]) -> list[weakref.ref[Any]]:
    witness = Witness()
    x = jnp.asarray(np.ones((16, 16), np.float32))

    def closure(y: Any) -> Any:
        assert witness is not None
        return function(y)

    call = WAYS[way](closure)
    for _ in range(2):
        try:
            functrax.block_until_ready(call(x))
        except Exception:
            continue
        pytest.fail("no error")
    return [weakref.ref(a) for a in (witness, x, closure)]


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("way", ["eager", "jit", "grad", "jit of grad", "jit of vmap"])
@pytest.mark.parametrize("eager", ["lazy", "immediate"])
def test_after_an_error_is_dropped(eager: str, way: str, name: str) -> None:
    if name == "fetch" and way != "eager":
        pytest.skip("fetch needs values")
    if name == "callback" and "vmap" in way:
        pytest.skip("has no batching rule")
    with functrax.eager(eager):
        refs = watched_mistake(way, MISTAKES[name])
    assert [r() for r in refs if r() is not None] == []


def failed_fork() -> tuple[Any, list[weakref.ref[Any]]]:
    witness, x = Witness(), jnp.ones(3)

    def function() -> Any:
        assert witness is not None
        return x / (0 // 0)

    fork = functrax.fork(function)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as info:
            fork.wait()
        (note,) = info.value.__notes__
        told, line = note.splitlines()
        assert told.startswith("raised by a fork, made at test_outliving.py")
        assert line.startswith("  at test_outliving.py") and line.endswith("in function")
    del info
    return fork, [weakref.ref(witness), weakref.ref(x), weakref.ref(function)]


def test_a_failed_fork_that_is_kept() -> None:
    _fork, refs = failed_fork()
    assert [r() for r in refs if r() is not None] == []


def failed_fetch() -> tuple[Any, list[weakref.ref[Any]]]:
    witness, x = Witness(), jnp.ones(3)

    def callback(values: Any) -> None:
        assert witness is not None
        raise ValueError("no", values.shape)

    fetched = functrax.fetch(x, callback)
    for _ in range(2):
        with pytest.raises(ValueError, match="no") as info:
            fetched.wait()
        assert info.value.args == ("no", (3,))
    del info
    return fetched, [weakref.ref(witness), weakref.ref(x), weakref.ref(callback)]


def test_a_failed_fetch_that_is_kept() -> None:
    _fetched, refs = failed_fetch()
    assert [r() for r in refs if r() is not None] == []


class OwnError(Exception):
    __slots__ = ("extra",)

    def __init__(self, first: int, *, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.second = second
        self.extra = [first]


def caught(raiser: Callable[[], Any]) -> BaseException:
    try:
        raiser()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raise_own() -> None:
    raise OwnError(1, second=2)


def raise_from() -> None:
    try:
        {}["a"]
    except KeyError as error:
        raise RuntimeError("outer") from error


def raise_group() -> None:
    group = vars(builtins)["ExceptionGroup"]  # from Python 3.11 on
    raise group("two", [ValueError("a"), caught(raise_own)])


RAISERS: dict[str, Callable[[], Any]] = {
    "os": lambda: os.stat("/no/such/file"),
    "unicode": lambda: b"\xff".decode("ascii"),
    "import": lambda: __import__("no_such_module"),
    "attribute": lambda: object().nothing,  # type: ignore[attr-defined]
    "syntax": lambda: compile("a b", "file.py", "exec"),
    "stop": lambda: next(iter(())),
    "exit": lambda: sys.exit(3),
    "own": raise_own,
    "cause": raise_from,
    "functrax": lambda: jnp.ones(3) @ jnp.ones(4),
}
if sys.version_info >= (3, 11):
    RAISERS["group"] = raise_group


@pytest.mark.parametrize("name", RAISERS)
def test_a_kept_error_is_raised_anew(name: str) -> None:
    error = caught(RAISERS[name])
    kept = KeptError(error)
    for _ in range(2):
        again = kept.again()
        assert again is not error and type(again) is type(error)
        assert str(again) == str(error) and again.__traceback__ is None
        assert repr(again) == repr(error)
        for field in ("errno", "filename", "start", "reason", "name", "lineno", "code", "second"):
            assert getattr(again, field, None) == getattr(error, field, None)
        assert again.__suppress_context__ == error.__suppress_context__
        assert again.__context__ is None
    if name == "own":
        assert isinstance(again, OwnError) and again.extra == [1]
    if name == "cause":
        assert isinstance(again.__cause__, KeyError) and again.__cause__.__traceback__ is None
    if name == "group":
        assert [x.__traceback__ for x in again.exceptions] == [None, None]  # type: ignore[attr-defined]


def test_without_the_extension() -> None:
    if os.environ.get("FUNCTRAX_NATIVE") == "0":
        pytest.skip("this is it")
    chosen = "(immediate and 1) or error or kept or failed"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen],
        env={**os.environ, "FUNCTRAX_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
