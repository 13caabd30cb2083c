"""Time lines and tables of what ran."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, profiler
from functrax.core.events.recorder import recorder
from functrax.errors import ArgumentError


@pytest.fixture(autouse=True)
def nothing_is_recorded_afterwards() -> Iterator[None]:
    yield
    if recorder.on:
        profiler.stop_trace()


def normalise(x: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)


def loss(x: Any, w: Any) -> Any:
    return jnp.tanh(normalise(x) @ w).sum()


def recorded(path: Path) -> list[dict[str, Any]]:
    document = json.loads(path.read_text())
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    end = outer["ts"] + outer["dur"]
    return bool(
        inner["tid"] == outer["tid"]
        and outer["ts"] <= inner["ts"]
        and inner["ts"] + inner["dur"] <= end + 0.002  # rounding
    )


def test_a_time_line_shows_all_work(tmp_path: Path) -> None:
    f = functrax.jit(functrax.grad(loss))
    x, w = jnp.ones((30, 40)), jnp.ones((40, 5))
    with profiler.trace(tmp_path / "out.json"):
        for step in range(3):
            with profiler.StepTraceAnnotation("step", step):
                out = f(x, w)
        np.array(out)
    events = recorded(tmp_path / "out.json")
    spans = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
    names = {e["cat"] for e in spans}
    assert {"trace", "passes", "lower", "python call", "run", "kernel", "fetch", "user"} <= names
    calls = [e for e in spans if e["cat"] == "python call" and e["name"] == "loss"]
    steps = [e for e in spans if e["cat"] == "user"]
    runs = [e for e in spans if e["cat"] == "run" and any(inside(e, c) for c in calls)]
    assert [s["name"] for s in steps] == ["step 0", "step 1", "step 2"]
    assert len(calls) == len(runs) == 3
    assert all(inside(c, s) and inside(r, c) for c, s, r in zip(calls, steps, runs))
    kernels = [e for e in spans if e["cat"] == "kernel" and inside(e, runs[2])]
    assert kernels
    lines = {line for k in kernels for line in k["args"]["lines"]}
    assert any("test_profiler.py" in line and "in normalise" in line for line in lines)
    assert sum(k["args"].get("bytes", 0) for k in kernels) > 0
    trace = next(e for e in spans if e["cat"] == "trace" and e["name"] == "trace loss")
    assert inside(trace, calls[0])
    assert any(e["ph"] == "M" and e["args"]["name"] == "MainThread" for e in events)


def test_the_report_counts_kernels() -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: jnp.cumsum(c @ c, 0) * 0.01, x)

    x = jnp.ones((16, 16))
    compiled = f.lower(x).compile().compiled
    with profiler.trace():
        f(x)
        f(x)
    report = profiler.report()
    assert [(r.name, r.count) for r in report.functions] == [("f", 2)]
    counts = {r.count for r in report.kernels}
    assert counts == {10}, report
    assert sum(r.seconds for r in report.kernels) <= report.functions[0].seconds <= report.seconds
    assert compiled.program.name == "f"
    text = str(report)
    assert "GFLOP/s" in text and "calls of jitted functions" in text and text == repr(report)


def test_threads_have_their_own_rows(tmp_path: Path) -> None:
    f = functrax.jit(lambda x: jnp.sin(x).sum())
    f(jnp.ones(1000))
    with profiler.trace(tmp_path):
        threads = [
            threading.Thread(target=lambda: [f(jnp.ones(1000)) for _ in range(5)], name=f"user {k}")
            for k in range(2)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    calls = [e for e in recorded(tmp_path / "trace.json") if e.get("cat") == "python call"]
    assert len(calls) == 10


def test_python_functions_and_branches_are_named(tmp_path: Path) -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        y = jnp.linalg.inv(x + jnp.eye(3))
        return lax.cond(y.sum() > 0, lambda a: jnp.sort(a), lambda a: a * 2, y)

    f(jnp.eye(3))
    with profiler.trace(tmp_path / "out.json"):
        f(jnp.eye(3))
    kinds = {e["name"]: e["cat"] for e in recorded(tmp_path / "out.json") if e["ph"] == "X"}
    assert "call" in kinds.values() and "branch" in kinds.values()
    assert all(r.kind != "branch" for r in profiler.report().kernels)


def test_steps_and_annotations(tmp_path: Path) -> None:
    @profiler.annotate_function
    def load() -> Any:
        return jnp.ones((4, 3))

    many = functrax.steps(lambda c, x: (jnp.sin(c) + x, None), 4)
    with profiler.trace(tmp_path / "deep" / "out.json"):
        batches = load()
        with profiler.TraceAnnotation("many", k=4):
            many(jnp.zeros(3), batches)
    spans = {e["name"]: e for e in recorded(tmp_path / "deep" / "out.json")}
    assert spans["load"]["args"]["line"].startswith("test_profiler.py")
    assert spans["many"]["args"]["k"] == 4
    assert any(r.count == 4 and r.lines for r in profiler.report().kernels)


def test_errors_and_states() -> None:
    with pytest.raises(ArgumentError, match="no recording"):
        profiler.stop_trace()
    profiler.start_trace()
    with pytest.raises(ArgumentError, match="already"):
        profiler.start_trace()
    with pytest.raises(ArgumentError, match=r"at    test_profiler\.py"), profiler.trace():
        pass
    profiler.stop_trace()
    with pytest.raises(ValueError, match="of the user"), profiler.trace():
        raise ValueError("of the user")
    assert not recorder.on
    f = functrax.jit(lambda x: x + 1)
    f(1.0)
    with profiler.trace():
        pass
    assert profiler.report().functions == () == profiler.report().kernels


def test_an_error_inside_is_recorded_too() -> None:
    def fail(x: Any) -> Any:
        raise RuntimeError("from the callback")

    f = functrax.jit(
        lambda x: functrax.pure_callback(fail, functrax.ShapeDtypeStruct((), "float32"), x)
    )
    with profiler.trace(), pytest.raises(RuntimeError, match="from the callback"):
        f(1.0)
    assert profiler.report().functions[0].count == 1


def test_a_call_costs_no_more_while_nothing_is_recorded() -> None:
    f = functrax.jit(lambda x: x + 1)
    x = jnp.ones(3)

    def best() -> float:
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            for _ in range(100):
                f(x)
            times.append(time.perf_counter() - begin)
        return min(times)

    f(x)
    # A machine that does something else may be slow for a while, but not each time.
    for _ in range(20):
        before = best()
        with profiler.trace():
            f(x)
        if best() < 1.5 * before + 50e-6:
            return
    raise AssertionError("calls stay slow after a recording")
