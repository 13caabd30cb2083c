"""Lazy eager mode: what is recorded, when it runs, and what comes out."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends import eager
from functrax.backends.compilation import assembly
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.device import device_of
from functrax.backends.eager import run as eager_run, single_operations
from functrax.backends.threads import thread_pool
from functrax.core import native
from functrax.core.arrays.array import Pending
from functrax.core.events.recorder import recorder
from functrax.errors import ShapeError
from tests.eager.failing import failing_operation
from tests.eager.recording import N, is_pending, num_outputs, operations, square, waiting


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize(
    "look",
    [
        float,
        int,
        bool,
        complex,
        str,
        repr,
        np.asarray,
        pickle.dumps,
        pytest.param(
            memoryview,
            marks=pytest.mark.skipif(
                native.extension is None and sys.version_info < (3, 12),
                reason="before Python 3.12 the buffer protocol needs the extension",
            ),
        ),
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.block_until_ready(),
        lambda x: np.from_dlpack(x),
        lambda x: f"{x}",
        lambda x: functrax.device_get(x),
        lambda x: functrax.jit(lambda y: y + 1)(x),
        lambda x: [1, 2, 3][x.astype(int)],
    ],
)
def test_a_value_that_is_needed_is_computed(look: Any) -> None:
    x = jnp.float32(1.0) + jnp.float32(0.5)
    assert is_pending(x)
    look(x)
    assert not is_pending(x)
    assert float(x) == 1.5


@pytest.mark.usefixtures("usual_cuts")
def test_only_what_a_value_depends_on_runs() -> None:
    x = square()
    kept, other = jnp.sin(x), jnp.cos(x)
    total = jnp.sum(kept * 2)
    assert operations(total) == ["sin", "broadcast_in_dim", "mul", "reduce_sum"]
    float(total)
    assert not is_pending(total)
    assert is_pending(other)
    assert not is_pending(kept)  # it was alive, and on the way
    np.testing.assert_allclose(kept, np.sin(np.asarray(x)), rtol=1e-5)


@pytest.mark.usefixtures("usual_cuts")
def test_what_nobody_can_ask_for_is_not_stored() -> None:
    x = square()
    a = jnp.sin(x)
    b = jnp.cos(a)
    c = b + 1
    assert num_outputs(c) == 3
    del a
    assert num_outputs(c) == 2
    del b
    assert num_outputs(c) == 1


@pytest.mark.usefixtures("usual_cuts")
def test_what_a_recorded_operation_needs_comes_out() -> None:
    x = square()
    a = jnp.sin(x)
    later = jnp.cos(a)
    total = jnp.sum(a)
    del a
    assert num_outputs(total) == 2
    float(total)
    assert operations(later) == ["cos"]
    np.testing.assert_allclose(later, np.cos(np.sin(np.asarray(x))), rtol=1e-5)


@pytest.mark.usefixtures("usual_cuts")
def test_operations_with_several_results() -> None:
    q, r = jnp.linalg.qr(square()[:100, :100])
    a, b = jnp.divmod(square() * 7, 2)
    assert operations(b)
    del a
    assert num_outputs(b) == 1
    np.testing.assert_allclose(b, np.asarray(square() * 7) % 2, atol=1e-5)
    np.testing.assert_allclose(q @ r, np.asarray(square())[:100, :100], atol=1e-4)
    frac, exponent = jnp.frexp(square() + 1)
    np.testing.assert_array_equal(jnp.ldexp(frac, exponent), square() + 1)


@pytest.mark.usefixtures("usual_cuts")
def test_large_products_are_not_stored_while_they_are_recorded() -> None:
    x = jnp.arange(3000.0)
    product = x[:, None] * x  # 36 MB
    total = product.sum()
    program = eager.pending_program(total)
    assert program is not None and all(v.aval.size <= 3000 for v in program.outvars)
    assert is_pending(product)
    assert float(total) == pytest.approx(float(np.arange(3000.0).sum()) ** 2, rel=1e-5)
    assert is_pending(product)  # cheaper to compute again than to keep
    np.testing.assert_array_equal(product[5], 5 * np.arange(3000, dtype=np.float32))


@pytest.mark.usefixtures("usual_cuts")
def test_numbers_are_no_part_of_a_program() -> None:
    eager_run.forget()
    x = square()
    for rate in (0.1, 0.01, 0.5, 3):
        y = x - rate * jnp.sin(x)
        np.testing.assert_allclose(
            y, np.asarray(x) - np.float32(rate) * np.sin(np.asarray(x)), rtol=1e-5, atol=1e-6
        )
    assert len(eager_run._programs) == 1


@pytest.mark.usefixtures("usual_cuts")
def test_a_long_step_that_is_looked_at_is_one_program() -> None:
    eager_run.forget()
    step, w, most, programs = jnp.int32(0), [square(k)[:32, :32] for k in range(20)], 0, []
    for _ in range(5):
        step = step + 1
        rate = 0.1 / (1 - 0.9**step)  # a number that changes, in a power
        w = [x - rate * jnp.tanh(x * x + jnp.sin(x) / 3.0 - jnp.cos(x) * 2) for x in w]
        total = sum(x.sum() for x in w)
        most = max(most, total._buffer.size)
        assert np.isfinite(float(total))
        programs.append(len(eager_run._programs))
    assert most > eager.MAX_NODES
    assert programs[1] == programs[-1]  # the first step begins with what is known


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize(
    "look",
    [
        functrax.block_until_ready,
        functrax.device_get,
        lambda tree: functrax.fetch(tree, lambda values: None).wait(),
    ],
)
def test_a_tree_is_computed_by_one_program(look: Any) -> None:
    eager_run.forget()
    x = square()
    for _ in range(2):  # with a program that is new, and with one that is known
        tree = {"a": jnp.sin(x) * x, "b": [jnp.exp(x), 2.0], "c": (x + 1).sum()}
        look(tree)
        assert not is_pending(tree["a"]) and not is_pending(tree["c"])
        expected = np.sin(np.asarray(x)) * np.asarray(x)
        np.testing.assert_allclose(tree["a"], expected, rtol=1e-5, atol=1e-6)
    assert len(eager_run._programs) == 1


def test_products_of_recorded_matrices_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    by_reference = assembly._reference_call
    monkeypatch.setattr(
        assembly, "_reference_call", lambda e: called.append(e.primitive.name) or by_reference(e)
    )
    eager_run.forget()
    x, w = square()[:128, :96], square(1)[:96, :160]
    loss = lambda w: jnp.sum(jnp.maximum(x @ w, 0) @ w.T)
    value, slope = functrax.value_and_grad(loss)(w)
    assert np.isfinite(float(value)) and np.isfinite(float(slope.sum()))
    assert called == []


@pytest.mark.usefixtures("usual_cuts")
def test_the_overlap_of_boxes_is_one_kernel() -> None:
    boxes = [square(k)[:100] + 0.5 for k in range(8)]
    for box in boxes:
        box.block_until_ready()
    x1, y1, w1, h1, x2, y2, w2, h2 = boxes
    left, right = jnp.maximum(x1, x2), jnp.minimum(x1 + w1, x2 + w2)
    top, bottom = jnp.maximum(y1, y2), jnp.minimum(y1 + h1, y2 + h2)
    both = jnp.maximum(right - left, 0) * jnp.maximum(bottom - top, 0)
    overlap = both / (w1 * h1 + w2 * h2 - both)
    del left, right, top, bottom, both
    program = eager.pending_program(overlap)
    assert program is not None and len(program.outvars) == 1
    with single_operations.rounded(device_of("llvm")):
        assert len(run_pipeline(program).program.eqns) == 1


@pytest.mark.usefixtures("usual_cuts")
def test_equal_structures_are_one_program() -> None:
    eager_run.forget()

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * functrax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

    w = jnp.asarray(np.asarray(square(1))[:, :32] * 0.01)
    for k in range(6):
        w = step(w, square(k))
        w.block_until_ready()
    assert len(eager_run._programs) == 1


@pytest.mark.usefixtures("usual_cuts")
def test_a_gradient_is_one_program() -> None:
    x = square()
    g = functrax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(x)
    assert {"sin", "cos", "mul"} <= set(operations(g))
    np.testing.assert_allclose(
        g, np.sin(np.asarray(x)) + np.asarray(x) * np.cos(np.asarray(x)), rtol=1e-4, atol=1e-5
    )


def test_errors_of_types_are_raised_at_their_line() -> None:
    x = square()
    with pytest.raises(ShapeError):
        x + jnp.ones(7)


@pytest.mark.usefixtures("usual_cuts")
def test_a_loop_that_is_never_looked_at_stays_bounded() -> None:
    eager_run.forget()
    x = square()[:200]
    scale = jnp.float32(1.0)
    sizes = []
    for _ in range(700):
        x = jnp.where(x > 0.5, x - 0.25, x + 0.5) * scale
        sizes.append(x._buffer.size if isinstance(x._buffer, Pending) else 1)
    assert max(sizes) <= eager.PATIENCE + eager.MAX_NODES
    assert max(sizes[-200:]) <= eager.MAX_NODES
    assert len(eager_run._programs) <= 4
    expected = np.asarray(square()[:200])
    for _ in range(700):
        expected = np.where(expected > 0.5, expected - 0.25, expected + 0.5).astype(np.float32)
    np.testing.assert_array_equal(x, expected)


def test_a_value_is_bounded_while_others_are_looked_at() -> None:
    weights, mean = jnp.ones(5), jnp.zeros(())
    sizes = []
    for k in range(450):
        weights = weights * 0.999
        mean = mean * 0.9 + jnp.sum(weights) * 0.1
        sizes.append(mean._buffer.size if isinstance(mean._buffer, Pending) else 1)
        if k % 50 == 0:
            assert float(weights[0]) < 1
    assert max(sizes) <= 2 * eager.PATIENCE  # bounds of what has to run
    expected = np.float32(0)
    for k in range(450):
        expected = 0.9 * expected + 0.1 * 5 * 0.999 ** (k + 1)
    assert float(mean) == pytest.approx(expected, rel=1e-4)


@pytest.mark.skipif(native.extension is None, reason="the extension knows what is recorded")
def test_what_comes_of_the_same_operations_is_run_with_them() -> None:
    x = square()[:200]
    losses = []
    for k in range(400):
        y = jnp.where(x > 0.5, x - 0.25, x + 0.5)
        losses.append(jnp.sum(y * y) + k)  # which nothing needs
        x = y * 0.999
    # A loss that was being recorded when its operands were run is by itself from then on.
    assert sum(map(is_pending, losses)) <= (eager.MAX_NODES + eager.PATIENCE) // 8 + 10
    assert all(len(operations(x)) <= 2 for x in losses[:200])


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.skipif(native.extension is None, reason="programs run in the calling thread")
@pytest.mark.skipif(thread_pool.num_threads < 2, reason="there is one thread")
def test_what_nobody_asked_for_is_run_while_python_goes_on() -> None:
    def step(x: Any) -> Any:
        return jnp.where(x > 0.5, x - 0.25, x + 0.5) * jnp.float32(0.999)

    def loop(x: Any) -> tuple[Any, list[Any]]:
        looked = []
        for k in range(400):
            x = step(x)
            if k % 90 == 7:
                looked.append(x[:3])
        return x, looked

    start = square()[:100]
    with functrax.eager("immediate"):
        expected, values = loop(start)
    loop(start)  # compiles
    for _ in range(10):  # what is measured as long, on a machine that is busy, is not handed over
        recorder.start()
        found, looked = loop(start)
        runs = recorder.stop().runs
        if {run.thread for run in runs} != {threading.get_ident()}:
            break
    assert {run.thread for run in runs} - {threading.get_ident()}
    assert max(len(run.program.outputs) for run in runs) <= 5  # not what lies between
    np.testing.assert_array_equal(found, expected)
    for x, y in zip(looked, values, strict=True):
        np.testing.assert_array_equal(x, y)


def test_an_interrupt_loses_nothing() -> None:
    """Signals that raise at any moment: what was recorded before can be computed after."""
    script = """
        import signal
        import numpy as np
        import functrax, functrax.numpy as jnp

        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        def step(x):
            return jnp.where(x > 0.5, x - 0.25, x + 0.5) * jnp.float32(0.999)

        start = jnp.asarray(np.random.default_rng(0).random((100, 600), np.float32))
        with functrax.eager("immediate"):
            expected = start
            for _ in range(600):
                expected = step(expected)
        signal.signal(signal.SIGALRM, stop)
        stopped = 0
        def advance(after):
            global state
            signal.setitimer(signal.ITIMER_REAL, after)
            while state[1] < 600:
                state = step(state[0]), state[1] + 1
                if state[1] % 200 == 0:
                    state[0].block_until_ready()
            signal.setitimer(signal.ITIMER_REAL, 0)
        for times in range(15):
            state = start, 0
            try:
                advance(0.002 + 0.0007 * times)
            except Stop:
                stopped += 1
                advance(0)
            np.testing.assert_array_equal(state[0], expected)
        assert stopped > 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=300)


@pytest.mark.usefixtures("usual_cuts")
def test_doubling_does_not_count_shared_operations_twice() -> None:
    x = jnp.float32(1.0)
    for _ in range(100):
        x = x + x
    assert len(operations(x)) == 100
    assert float(x) == 2.0**100


@pytest.mark.usefixtures("usual_cuts")
def test_a_long_chain_is_forgotten_at_once() -> None:
    x = square()
    (x + 1).block_until_ready()  # patience counts from here
    before = waiting()
    y = jnp.sin(x)
    for _ in range(eager.PATIENCE - 100):
        y = y + 1.0
    assert is_pending(y) and waiting() - before == eager.PATIENCE - 99
    del y
    assert waiting() <= before  # however deep it was


def test_immediate_mode() -> None:
    with functrax.eager("immediate"):
        x = square() + 1
        assert not isinstance(x._buffer, Pending)
    y = x + 1
    with functrax.eager("immediate"):
        z = y * 2  # computes what was recorded
    assert not is_pending(y) and not is_pending(z)


def test_modes_that_differ_do_not_share_a_program() -> None:
    x = square()
    y = jnp.sin(x) * 2
    with functrax.core.options.config.Override("strict", True):
        z = y + 1
        assert not is_pending(y)
        strict = np.asarray(jnp.sin(x) * 2 + 1)
    np.testing.assert_allclose(z, strict, rtol=1e-6)
    w = z + 1
    with functrax.backend("interp"):
        np.testing.assert_array_equal(np.asarray(w), np.asarray(z) + 1)
        assert not isinstance((w + 1)._buffer, Pending)


def test_debug_nans_runs_at_once_and_names_the_line() -> None:
    with functrax.debug_nans(), pytest.raises(FloatingPointError, match="log"):
        jnp.log(jnp.float32(-1.0))


@pytest.mark.usefixtures("usual_cuts")
def test_an_error_when_running_leaves_the_graph_as_it_was() -> None:
    with failing_operation() as failing:
        x = jnp.arange(3.0)
        y = failing.bind(x + 1) * 2
        for _ in range(2):
            with pytest.raises(ValueError, match="no value"):
                np.asarray(y)
        failing.wrong = False
        np.testing.assert_array_equal(y, [2.0, 4.0, 6.0])


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("size", [10, N * N])
def test_calls_give_the_same_bits_whatever_ran_before(size: int) -> None:
    def f(x: Any) -> np.ndarray[Any, Any]:
        y = jnp.exp(-(x * x) + 0.3) / (x.sum() + 1)
        return np.asarray(y * 3 + jnp.log1p(x))

    x = jnp.asarray(np.random.default_rng(0).random(size, np.float32))
    first = f(x)
    unseen = [jnp.sin(x) + k for k in range(10)]
    assert f(x).tobytes() == first.tobytes()
    eager_run.forget()
    assert f(x).tobytes() == first.tobytes()
    assert float(unseen[3][0]) == pytest.approx(float(np.sin(np.asarray(x)[0])) + 3)


def test_threads_record_and_run_at_once() -> None:
    shared = square() + 1
    expected = np.asarray(square()) + 1
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for i in range(6):
                mine = shared * (k + i) + jnp.float32(i)
                small = jnp.arange(4) + k
                part = mine[i] - shared[i]
                np.testing.assert_allclose(
                    part, expected[i] * (k + i) + i - expected[i], rtol=1e-5, atol=1e-5
                )
                assert small.tolist() == [k, k + 1, k + 2, k + 3]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
