"""Who may ask for a recorded result: docs/decisions/0020-who-may-ask.md.

What exists is not what can be asked for: exceptions that are kept, debuggers and cycles refer to
frames, and these to whatever the frames' variables are.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends import eager, internal_errors
from functrax.backends.eager import run as eager_run
from functrax.core import native

pytestmark = pytest.mark.skipif(native.extension is None, reason="nothing is recorded")


def counts() -> tuple[int, int, int, int]:
    """How many operations ran, ran again, ran in two threads, and wait."""
    assert native.extension is not None
    return native.extension.eager_counts()


@pytest.fixture
def nothing_runs_again() -> Iterator[None]:
    """Operations that are not deferred run once."""
    again = counts()[1]
    yield
    assert counts()[1] == again


@pytest.fixture
def no_garbage_is_collected() -> Iterator[None]:
    """What is in a cycle stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def _matrix(side: int = 300) -> Any:
    return jnp.asarray(np.random.default_rng(0).random((side, side), np.float32))


def _loss(x: Any, w: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w) ** 2)


def _train(steps: int, after: Callable[[int, Any], object] = lambda step, w: None) -> Any:
    """A loop whose parameters are samples, and at which nobody looks."""
    key = functrax.random.PRNGKey(0)
    first, second = functrax.random.split(key)
    x = functrax.random.normal(first, (64, 32))
    w = functrax.random.normal(second, (32, 16)) * 0.3
    for step in range(steps):
        w = w - 0.1 * functrax.grad(_loss, argnums=1)(x, w)
        after(step, w)
    return np.asarray(w)


def _immediate(steps: int) -> Any:
    with functrax.eager("immediate"):
        return _train(steps)


@pytest.mark.usefixtures("nothing_runs_again", "no_garbage_is_collected")
def test_frames_that_are_kept_change_nothing() -> None:
    frames: list[Any] = []

    def keep(step: int, w: Any) -> None:
        frames.append(sys._getframe(1))
        try:
            raise ValueError("a mistake")
        except ValueError as error:
            frames.append(error)  # with its traceback

    np.testing.assert_allclose(_train(150, keep), _immediate(150), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("nothing_runs_again", "no_garbage_is_collected")
def test_frames_of_functrax_that_are_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[Any] = []
    compile_one = eager_run._compile_one

    def keep(jaxpr: Any) -> Any:
        frame = sys._getframe()
        while frame is not None:
            frames.append(frame)
            frames.append(dict(frame.f_locals))
            frame = frame.f_back  # type: ignore[assignment]
        return compile_one(jaxpr)

    eager_run.forget()
    monkeypatch.setattr(eager_run, "_compile_one", keep)
    assert np.isfinite(_train(120)).all() and frames
    np.testing.assert_allclose(_train(120), _immediate(120), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("nothing_runs_again")
def test_lists_of_all_objects_change_nothing() -> None:
    kept: list[Any] = []

    def look(step: int, w: Any) -> None:
        if step % 40 == 0:
            kept.append(gc.get_objects())
            kept.append(gc.get_referrers(w._buffer))

    np.testing.assert_allclose(_train(100, look), _immediate(100), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("nothing_runs_again", "no_garbage_is_collected")
def test_arrays_in_a_cycle_can_be_asked_for() -> None:
    class Holder:
        pass

    x = _matrix()
    holders = []
    for k in range(5):
        holder = Holder()
        holder.me, holder.array = holder, jnp.sin(x) + k  # type: ignore[attr-defined]
        holders.append(weakref.ref(holder))
    del holder
    y = x
    for _ in range(300):
        y = jnp.where(y > 0.5, y - 0.25, y + 0.5)
    found = [h() for h in holders]
    assert None not in found
    for k, held in enumerate(found):
        np.testing.assert_allclose(held.array, np.sin(np.asarray(x)) + k, rtol=1e-5)  # type: ignore[union-attr]


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.usefixtures("no_garbage_is_collected")
def test_what_nobody_may_ask_for_ends_at_once() -> None:
    x = _matrix()
    before = counts()[3]
    y = jnp.sin(x)
    key = functrax.random.key(0)
    keys = functrax.random.split(key, 3)
    z = y + functrax.random.normal(keys[0], (300, 300))
    assert counts()[3] > before
    del y, z, keys, key
    assert counts()[3] == before


@pytest.mark.usefixtures("nothing_runs_again", "no_garbage_is_collected")
def test_values_that_a_tape_holds_come_out_of_a_look() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        z = jnp.exp(y) * y
        assert np.isfinite(float(jnp.sum(z)))  # z's residuals are held by the tape
        return jnp.sum(z * z)

    x = _matrix()
    with functrax.eager("immediate"):
        expected = np.asarray(functrax.grad(f)(x))
    for _ in range(2):
        np.testing.assert_allclose(functrax.grad(f)(x), expected, rtol=1e-5)


def test_an_array_that_is_made_of_an_old_one_can_be_asked_for() -> None:
    from functrax.core.arrays.array import ConcreteArray

    x = _matrix() + 1
    y = ConcreteArray(x._buffer, x.aval)
    del x
    z = y * 2
    np.testing.assert_allclose(z, (np.asarray(_matrix()) + 1) * 2, rtol=1e-6)


def test_deferred_results_run_again_where_they_are_used() -> None:
    x = jnp.arange(2000.0)
    product = jnp.sin(x)[:, None] * x[None, :]
    again = counts()[1]
    first, second = float(jnp.sum(product)), float(jnp.max(product))
    assert counts()[1] == again
    expected = np.sin(np.arange(2000.0, dtype=np.float32))[:, None] * np.arange(
        2000, dtype=np.float32
    )
    assert first == pytest.approx(float(expected.sum(dtype=np.float64)), rel=1e-3)
    assert second == pytest.approx(float(expected.max()), rel=1e-6)


# ---- errors -----------------------------------------------------------------------------------


_BROKEN = """
class BrokenError(Exception):
    pass

def fail(*args):
    raise BrokenError("a fault of the compiler")

def failing(executable, where):
    return lambda values: fail() if where else executable(values)
"""
_inside: dict[str, Any] = {"__name__": eager_run.__name__}
exec(compile(_BROKEN, eager_run.__file__, "exec"), _inside)  # as if it were functrax's own code
_fail, _BrokenError = _inside["fail"], _inside["BrokenError"]


def _step(x: Any) -> Any:
    return jnp.tanh(x) @ x + 1


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.usefixtures("nothing_runs_again")
def test_an_internal_error_is_reported_and_the_value_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with functrax.eager("immediate"):
        expected = np.asarray(_step(_matrix(250)))
    eager_run.forget()
    monkeypatch.setattr(eager_run, "_compiled", _fail)
    monkeypatch.setattr(internal_errors, "observers", [])
    y = _step(_matrix(250))
    with pytest.warns(RuntimeWarning, match="fault of the compiler.*test_ownership.py"):
        np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.usefixtures("usual_cuts")
def test_an_internal_error_fails_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Exception] = []
    monkeypatch.setattr(internal_errors, "observers", [seen.append])
    monkeypatch.setattr(eager_run, "_compiled", _fail)
    eager_run.forget()
    _step(_matrix(251)).block_until_ready()
    assert [type(e) for e in seen] == [_BrokenError]


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.usefixtures("nothing_runs_again")
def test_a_known_program_that_fails_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Exception] = []
    monkeypatch.setattr(internal_errors, "observers", [seen.append])
    fails: list[bool] = []
    compile_one = eager_run._compile_one
    eager_run.forget()
    monkeypatch.setattr(
        eager_run, "_compile_one", lambda jaxpr: _inside["failing"](compile_one(jaxpr), fails)
    )
    first = np.asarray(_step(_matrix(252)))
    fails.append(True)
    np.testing.assert_allclose(_step(_matrix(252)), first, rtol=1e-5)
    eager_run.forget()
    assert [type(e) for e in seen] == [_BrokenError]


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.usefixtures("nothing_runs_again")
def test_an_interrupt_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    eager_run.forget()
    y = _step(_matrix(253))
    z = y * 2
    with monkeypatch.context() as patch:
        patch.setattr(eager_run, "_compiled", interrupt)
        with pytest.raises(KeyboardInterrupt):
            y.block_until_ready()
    np.testing.assert_array_equal(z, np.asarray(y) * 2)


@pytest.mark.usefixtures("nothing_runs_again", "usual_cuts")
def test_what_a_handler_of_signals_raises_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    class TimeIsOverError(Exception):
        pass

    def stop(*args: Any) -> Any:
        raise TimeIsOverError

    eager_run.forget()
    y = _step(_matrix(254))
    with monkeypatch.context() as patch:
        patch.setattr(eager_run, "_compiled", stop)  # as a handler, while something compiles
        with pytest.raises(TimeIsOverError):
            y.block_until_ready()
    assert np.isfinite(np.asarray(y)).all()


# ---- the stress mode --------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_runs_again", "usual_cuts", "small_collections")
@pytest.mark.parametrize(
    "where", ["every=1", "every=2", "every=7", "every=19,collect", "every=300"]
)
def test_cuts_after_every_so_many_operations(where: str) -> None:
    expected = _immediate(12)
    with eager.stress(where):
        np.testing.assert_allclose(_train(12), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("nothing_runs_again", "usual_cuts", "small_collections")
@pytest.mark.parametrize("seed", range(1, 9))
def test_cuts_at_random(seed: int) -> None:
    expected = _immediate(12)
    with eager.stress(f"seed={seed}" + (",collect" if seed % 4 == 0 else "")):
        np.testing.assert_allclose(_train(12), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("text", ["often", "every=", "every=x", "seed=-1"])
def test_another_form_of_stress_is_refused(text: str) -> None:
    refused = pytest.raises(functrax.errors.ArgumentError, match="FUNCTRAX_EAGER_STRESS")
    with refused, eager.stress(text):
        pass


@pytest.mark.usefixtures("usual_cuts")
def test_threads_under_stress() -> None:
    expected = _immediate(10)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            np.testing.assert_allclose(_train(10), expected, rtol=1e-4, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    with eager.stress("seed=5"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures
