"""What is said of programs of a GPU: the target, launches, PTX; checked, measured and recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice, usage as usage_of
from functrax.backends.cuda.usage import KernelUsage
from functrax.core.errors.typed import MiscompilationError
from functrax.explanation.gpu_launches import launches_of
from functrax.explanation.page.document import unpacked
from tests.explanation.pages import checked

X = np.random.default_rng(0).normal(size=(64, 100)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def rows(x):
    return functrax.nn.softmax(x), functrax.nn.softmax(x.reshape(2, 3200) * 2)


def test_the_target_and_the_launches() -> None:
    e = functrax.explain(rows)(X)
    text = str(e)
    assert "for sm_80, warps of 32 threads" in text and "vectors" not in text
    launches = launches_of(e)
    assert {x.group for x in launches} >= {32}
    for x in launches:
        assert f"  {x.grid}  " in text and x.name in text
    warp = next(x for x in launches if x.group == 32)
    assert (warp.grid, warp.block, warp.shared) == (8, 256, 0)  # 64 rows, 8 warps in a block
    assert "registers" not in text and "predicted" not in text  # which nobody knows here
    blocks = [x for x in launches if x.group > 32]
    assert blocks and all(x.shared > 0 and x.block == x.group for x in blocks)


def test_what_a_driver_knows_of_kernels_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = KernelUsage(shared=128, registers=40, local=16, occupancy=0.75)
    e = functrax.explain(lambda x: jnp.sin(x) * 2)(X)
    monkeypatch.setattr(usage_of, "usage", lambda gpu, kernel, block: usage)
    head, _, row = str(e).split("\n\n")[2].splitlines()
    assert head.split() == [
        *("#", "grid", "block", "unit", "shared", "registers", "local", "occupancy", "function")
    ]
    assert row.split()[:-1] == ["0", "25", "256", "thread", "128", "B", "40", "16", "B", "75%"]


def test_programs_of_the_cpu_have_no_launches_on_a_gpu() -> None:
    with functrax.backend("llvm"):
        e = functrax.explain(rows)(X)
    text = str(e)
    assert launches_of(e) == () and "vectors of" in text and "warps" not in text


def test_the_page_has_the_ptx() -> None:
    e = functrax.explain(lambda x: jnp.cos(x) + 1)(X)
    html = e._repr_html_()
    assert "PTX of #0" in html and ".visible .entry" in html
    page = e.html()
    assert {"launches", "kernel-0"} <= {*checked(page).names}
    assert any(".visible .entry" in text for text in unpacked(page, "texts"))


def scanned(x):
    def step(c, row):
        c = jnp.tanh(c * 0.5 + row)
        return c, c.sum()

    return lax.scan(step, x[0], x[:5])


def test_kernels_are_measured() -> None:
    e = functrax.explain(scanned, measure=True)(X)
    kernels = [k for k in e.kernels if k.kind == "kernel"]
    assert kernels and all(k.measured is not None and k.measured.seconds > 0 for k in kernels)
    assert {k.measured.launches for k in kernels if k.measured} >= {k.calls for k in kernels}
    assert set(e.timeline) >= {k.number for k in kernels}
    assert all(k.predicted is None for k in kernels)


def test_programs_are_checked_kernel_by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    report = functrax.check(scanned)(X)
    assert report.launches >= 5 and report.kernels
    gpu = choice.observed_gpu()
    launch = gpu.launch

    def wrong(kernel, grid, block, addresses, numbers):
        launch(kernel, grid, block, addresses, numbers)
        gpu.put(addresses[-1], np.full(4, 77, np.uint8))

    monkeypatch.setattr(gpu, "launch", wrong)
    with pytest.raises(MiscompilationError, match="computes something else"):
        functrax.check(lambda x: jnp.sin(x) * 3)(X)


def test_a_recording_has_the_launches_with_the_lines(tmp_path: Path) -> None:
    f = functrax.jit(lambda x: jnp.sin(x).sum(0))
    f(X)
    with functrax.profiler.trace(tmp_path / "out.json"):
        f(X)
        f(X)
    (row,) = functrax.profiler.report().kernels
    assert row.count == 2 and row.lines and "test_explain.py" in row.lines[0]
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    launches = [x for x in events if x.get("cat") == "kernel"]
    assert len(launches) == 2 and all(x["dur"] > 0 for x in launches)
    assert "test_explain.py" in launches[0]["args"]["lines"][0]
