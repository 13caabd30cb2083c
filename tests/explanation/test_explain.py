"""``functrax.explain``: its facts against counting by hand, its tables, pictures and time lines."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.backends.executables.program import Launch
from functrax.backends.runtime.executor import bound_kernel
from functrax.core.ir.jaxpr import Var
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.explanation import Explanation, measuring
from functrax.explanation.layout import layered
from functrax.explanation.tables import quantity, seconds, size
from tests.backends.llvm.scalar_kernels import function_name

X = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
F32 = 4


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"), Override("cache", False):
        yield


def softmax(x: Any) -> Any:
    e = (x - x.max(1, keepdims=True)) ** 2
    return e / e.sum(1, keepdims=True)


def crossing(x: Any) -> Any:
    rows = x.sum(1)  # along other axes than the next
    return (x / rows[:, None]).sum(0)


def halves(x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        return jnp.sort(carry) * 0.5 + row, carry.sum()

    return lax.scan(body, jnp.zeros(100), x)


def cases() -> dict[str, Explanation]:
    return {
        "softmax": functrax.explain(softmax)(X),
        "crossing": functrax.explain(crossing)(X),
        "grad": functrax.explain(functrax.grad(lambda x: (softmax(x) ** 2).sum()))(X),
        "scan": functrax.explain(halves)(X),
        "dot": functrax.explain(lambda a, b: jnp.dot(a, b).sum(0) + 1)(X, X.T),
        "cond": functrax.explain(
            lambda x: lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: jnp.sort(v), x)
        )(X),
        "identity": functrax.explain(lambda x: x)(X),
        "empty": functrax.explain(lambda x: x * 2)(X[:0]),
    }


# ---- facts --------------------------------------------------------------------------------------


def test_cost_is_what_crosses_the_edges_of_kernels() -> None:
    e = functrax.explain(softmax)(X)
    assert len(e.kernels) == 1 and not e.edges
    assert (e.bytes_read, e.bytes_written) == (X.nbytes, X.nbytes)
    assert e.cost == 2 * X.nbytes


def test_cost_of_two_kernels_by_hand() -> None:
    e = functrax.explain(crossing)(X)
    assert [k.kind for k in e.kernels] == ["kernel", "kernel"]
    between = sum(edge.nbytes for edge in e.edges)  # written once and read once
    assert e.cost == X.nbytes + between + (
        X.nbytes if e.kernels[1].bytes_read > X.nbytes else 0
    ) + (between + 100 * F32)
    assert {edge.code for edge in e.edges} == {"reduction"}
    assert all(edge.reason.startswith("reduction: ") for edge in e.edges)


def test_only_elements_that_are_needed_count() -> None:
    e = functrax.explain(lambda x: x[:8] * 2 + x[4:12])(X)
    assert e.bytes_read == 12 * 100 * F32  # rows 0 to 11, once
    assert e.bytes_written == 8 * 100 * F32


def test_every_equation_is_in_one_kernel() -> None:
    for name, e in cases().items():
        before = e.passes[-1].before
        inside = [v for k in e.kernels if k.level == 0 for m in k.eqns for v in m.outvars]
        for eqn in before.eqns:
            if eqn.primitive.family == "reindex" or eqn.primitive.holds_programs:
                continue  # every kernel has its own copies of what only reindexes
            assert sum(v in inside for v in eqn.outvars) == len(eqn.outvars), name
            assert inside.count(eqn.outvars[0]) == 1, name


def test_every_edge_has_a_reason() -> None:
    codes = "reduction|size|update|cycle|cost|shape|row|contraction|control flow|call"
    for e in cases().values():
        for edge in e.edges:
            assert re.match(f"({codes}): .", edge.reason), edge
            assert edge.code == edge.reason.split(":")[0]
        crossings = {
            (level.number, x)
            for level in e.levels
            for eqn in level.jaxpr.eqns
            for x in eqn.invars
            if isinstance(x, Var) and x not in level.jaxpr.invars
        }
        assert len({(edge.level, edge.value) for edge in e.edges}) == len(crossings)


def test_stages_are_programs() -> None:
    e = functrax.explain(crossing)(X)
    assert [p.name for p in e.passes][:1] == ["inline"] and e.passes[-1].name == "fuse"
    for step in e.passes:
        assert parse_jaxpr(str(step.after)) == step.after
    assert all(a.after is b.before for a, b in pairwise(e.passes))


def test_lines_are_the_users() -> None:
    e = functrax.explain(softmax)(X)
    first = softmax.__code__.co_firstlineno
    assert [line.line - first for line in e.kernels[0].lines] == [1, 2]
    assert all(line.function == "softmax" for line in e.kernels[0].lines)


def test_equal_kernels_have_their_own_lines() -> None:
    def twice(x: Any) -> Any:
        y = jnp.sort(x) * 2
        return jnp.sort(y) * 2

    e = functrax.explain(twice)(X)
    own = [k.lines[0].line - twice.__code__.co_firstlineno for k in e.kernels if k.name == "mul"]
    assert own == [1, 2]


def test_loops_count_as_often_as_they_run() -> None:
    e = functrax.explain(halves)(X)
    (level,) = e.levels[1:]
    assert (level.title, level.calls) == ("body of scan", 64)
    assert level.within is not None
    assert e.levels[0].jaxpr.eqns[level.within[1]].primitive.name == "scan"
    inside = [k for k in e.kernels if k.level == 1]
    assert {k.calls for k in inside} == {64}
    assert e.flops >= 64 * sum(k.flops for k in inside)
    unknown = functrax.explain(
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: jnp.sort(c) + 1, x)
    )(X)
    assert {k.calls for k in unknown.kernels} == {None}


def test_a_loop_that_is_one_kernel() -> None:
    e = functrax.explain(lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + 1, x))(X)
    (kernel,) = e.kernels
    assert kernel.kind == "kernel" and len(e.levels) == 1
    assert kernel.bytes_written == X.nbytes + 4  # and the index


def test_operations_of_a_product() -> None:
    e = functrax.explain(jnp.dot)(X, X.T)
    assert e.flops == 64 * 64 * (2 * 100 - 1)


def test_texts_of_kernels() -> None:
    (kernel,) = functrax.explain(softmax)(X).kernels
    assert kernel.llvm.startswith("define") or "define" in kernel.llvm
    assert "ret" in kernel.assembly and "parallel d0" in kernel.loops
    assert "vectorize d1" in kernel.loops.partition("schedule:")[2]
    step = lambda c: (c[0] + 1, jnp.sin(c[1]))
    loop = functrax.explain(lambda x: lax.while_loop(lambda c: c[0] < x[0], step, (x[1], x[2])))
    kernel = loop(X[0]).kernels[-1]
    assert all(word in kernel.loops for word in ("while", "carry", "condition", "next"))


def test_texts_of_the_functions_that_a_kernel_calls() -> None:
    e = functrax.explain(jnp.dot)(X, X.T)
    (kernel,) = [k for k in e.kernels if k.codes and k.codes[-1].calls]
    called = {function_name(text) for c in kernel.codes for _, text in c.emitted.calls}
    assert called
    for name in called:
        assert re.search(rf"^define [^@]*@{name}\(", e.llvm, re.MULTILINE)
        assert f"{name}:" in kernel.assembly


def test_memory_and_compilation() -> None:
    e = functrax.explain(crossing)(X)
    assert e.arena_bytes >= e.peak_bytes >= 64 * F32 and "arena" in e.memory_plan
    wanted = {"trace", *(p.name for p in e.passes)}
    later = {"lower", "schedule", "emit", "llvm", "assemble", "storage"}
    assert wanted | later == set(e.compile_ms)
    assert sum(e.origins.values()) == sum(len(k.codes) for k in e.kernels)


def test_machine_code_is_found_in_memory() -> None:
    def f(x: Any) -> Any:  # a program of no other test
        return jnp.cbrt(jnp.arcsinh(x) - jnp.log1p(x * x)) / jnp.hypot(x, 7.75)

    assert functrax.explain(f)(X).origins == {"llvm": 1}
    assert functrax.explain(lambda x: f(x))(X).origins == {"memory": 1}


def test_jitted_functions_and_options() -> None:
    jitted = functrax.jit(lambda x: softmax(x))
    jitted(X)
    assert functrax.explain(jitted)(X).cost == 2 * X.nbytes
    assert jitted.cache_info().traces == 1
    e = functrax.explain(lambda n, x: x * n, static_argnums=0)(3, X)
    assert len(e.levels[0].jaxpr.invars) == 1
    with pytest.raises(errors.ArgumentError, match="takes no options of jit"):
        functrax.explain(jitted, static_argnums=0)
    with pytest.raises(errors.ArgumentError, match="not a function"):
        functrax.explain(3)


def test_optimisation_off() -> None:
    with Override("opt", False):
        e = functrax.explain(softmax)(X)
    assert {edge.code for edge in e.edges} <= {"call", "off"} or e.edges == ()


# ---- measuring ----------------------------------------------------------------------------------


def test_measured_kernels_have_rates() -> None:
    e = functrax.explain(crossing, measure=True)(X)
    for k in e.kernels:
        assert k.measured is not None and k.measured.launches == 1
        rate = k.gigabytes_per_second
        assert rate is None or rate == pytest.approx(
            (k.bytes_read + k.bytes_written) / k.measured.seconds / 1e9
        )
        assert k.predicted == sum(code.cost for code in k.codes) / 1e9
    assert e.timeline == (0, 1) and "GB/s" in str(e)
    head, _, first = str(e).splitlines()[3:6]
    assert head.split()[-5:] == ["predicted", "time", "GB/s", "GFLOP/s", "lines"]
    assert len([word for word in first.split() if word in ("us", "ms")]) == 2


def test_the_baseline_of_a_measurement_runs_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of one unit, such as a product's, would do its work for an empty range too."""
    kernels, ranges = set(), []

    def bound(x: Launch, places: Any, flushes: bool) -> Any:
        run = bound_kernel(x, places, flushes)

        def recorded(begin: int, end: int) -> None:
            ranges.append((begin, end))
            run(begin, end)

        kernels.add(x.function)
        return recorded

    monkeypatch.setattr(measuring, "bound_kernel", bound)
    functrax.explain(lambda x: jnp.tanh(x @ x.T), measure=True)(jnp.ones((96, 32)))
    assert measuring._IDLE in kernels and len(kernels) > 1
    assert all(begin < end for begin, end in ranges)


def test_measuring_counts_launches_in_loops_and_takes_types() -> None:
    e = functrax.explain(halves, measure=True)(functrax.ShapeDtypeStruct((64, 100), "float32"))
    inside = [k for k in e.kernels if k.level == 1]
    assert {k.measured.launches for k in inside if k.measured} == {64}
    assert len(e.timeline) == 64 * len(inside) + len(e.kernels) - len(inside)


def test_measuring_an_update_does_it_once() -> None:
    def f(x: Any) -> Any:
        y = x.at[jnp.array([1, 1])].add(1.0)
        functrax.debug.callback(seen.append, y[1, 0])
        return y

    seen: list[Any] = []
    functrax.explain(f, measure=True)(X)
    assert [float(v) for v in seen] == [X[1, 0] + 2]


# ---- texts and pictures -------------------------------------------------------------------------


def test_tables() -> None:
    text = str(functrax.explain(crossing)(X))
    assert text.startswith("crossing(f32[64,100]) -> (f32[100])\n2 kernels; cost ")
    assert "why it is not one kernel" in text and "along other axes" in text
    assert "compilation:" in text and "machine code:" in text and "test_explain.py:" in text
    assert repr(functrax.explain(crossing)(X)).splitlines()[0] == text.splitlines()[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (2.5e9, "2.5 GB")],
)
def test_sizes(value: int, text: str) -> None:
    assert size(int(value)) == text


def test_quantities_and_times() -> None:
    assert quantity(1_500_000) == "1.5 M"
    assert [seconds(x) for x in (2.0, 0.0015, 2.5e-7)] == ["2.00 s", "1.50 ms", "0.25 us"]


def test_pictures_are_svg_with_every_kernel() -> None:
    for name, e in cases().items():
        root = ET.fromstring(e._repr_svg_())
        texts = "\n".join(t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text"))
        for k in e.kernels:
            assert f"#{k.number} {k.name}" in texts, name
        for edge in e.edges:
            assert edge.code in texts and size(edge.nbytes) in texts, name
        width, height = (float(root.attrib[side]) for side in ("width", "height"))
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            if "class" in box.attrib:
                assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
                assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height


def test_files_are_of_the_kind_of_their_name(tmp_path: Path) -> None:
    e = functrax.explain(crossing)(X)
    for name, text in (("a.svg", e._repr_svg_()), ("b.HTML", e.html()), ("c.txt", str(e))):
        e.save(tmp_path / name)
        assert (tmp_path / name).read_text() == text
    with pytest.raises(errors.ArgumentError, match=r"\.png") as caught:
        e.save(tmp_path / "d.png")
    assert ".svg, .html, .txt" in str(caught.value) and not (tmp_path / "d.png").exists()


def test_pages_hold_every_stage() -> None:
    page = functrax.explain(crossing)(X)._repr_html_()
    assert page.count("<details") == page.count("</details>") >= 5
    assert "<script" not in page and "after fuse" in page and "LLVM IR of #0" in page


def test_layouts_do_not_overlap_and_go_down() -> None:
    random = np.random.default_rng(0)
    sizes: dict[Any, tuple[float, float]] = {k: (40 + 5 * (k % 7), 20) for k in range(40)}
    edges: list[tuple[Any, Any]] = [
        (int(random.integers(b)), b) for b in range(1, 40) for _ in range(2)
    ]
    labels = [(float(30 + 7 * (k % 5)), float(12 * (k % 4))) for k in range(len(edges))]
    layout = layered(sizes, edges, labels)
    boxes = [(*layout.boxes[k], *sizes[k]) for k in sizes]
    for i, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= x + w <= layout.width + 1e-9 and y + h <= layout.height
        for u, v, w2, h2 in boxes[:i]:
            assert x >= u + w2 or u >= x + w or y >= v + h2 or v >= y + h
    for path in layout.edges:
        assert all(a[1] <= b[1] for a, b in pairwise(path))
    boxes += [(*at, *size) for at, size in zip(layout.labels, labels, strict=True) if size[1]]
    for i, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= x + w <= layout.width + 1e-9
        for u, v, w2, h2 in boxes[:i]:
            assert x >= u + w2 or u >= x + w or y >= v + h2 or v >= y + h


def test_labels_of_many_values_are_short() -> None:
    def many(x: Any) -> Any:
        totals = [jnp.sum(jnp.sin(x * k), 1) for k in range(1, 8)]
        return sum(jnp.sum(t[:, None] * x.T) for t in functrax.stop_fuse(totals))

    e = functrax.explain(many)(jnp.ones((200, 200)))
    crossing = max(Counter((x.source, x.target) for x in e.edges).values())
    assert crossing > 4 and f"and {crossing - 3} values more" in e._repr_svg_()


def test_time_lines(tmp_path: Path) -> None:
    e = functrax.explain(lambda x: crossing(x * 11.625), measure=True)(X)
    e.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    timed = [x for x in events if x["ph"] == "X"]
    assert {"trace", "passes", "lower", "emit", "llvm"} <= {x["cat"] for x in timed}
    launches = [x for x in timed if x["tid"] == 2]
    assert [x["name"] for x in launches] == [k.name for k in e.kernels]
    assert all(x["cat"] == "measured" and x["dur"] >= 0 for x in launches)
    assert min(x["ts"] for x in launches) >= max(
        x["ts"] + x["dur"] - 0.01 for x in timed if x["tid"] == 1
    )
    functrax.explain(crossing)(X).trace(str(tmp_path / "estimated.json"))
    assert '"estimate"' in (tmp_path / "estimated.json").read_text()


# ---- traces -------------------------------------------------------------------------------------


def test_misses_are_explained() -> None:
    f = functrax.jit(lambda x: x * 2)
    f(X)
    f(X[:3])
    f(X[:3])
    misses = functrax.explain_misses(f)
    assert misses.hits == 1 and len(misses.traces) == 2
    assert "the shape of x: (64, 100) became (3, 100)" in str(misses)
    assert "the first call" in repr(misses)
    with pytest.raises(errors.ArgumentError, match="not a jitted function"):
        functrax.explain_misses(softmax)
