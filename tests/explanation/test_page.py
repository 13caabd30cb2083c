"""The page of an explanation: well formed, complete, escaped, and without anything from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.config import Override
from functrax.explanation.page.document import unpacked
from functrax.explanation.page.time_line import TimelineEvent, timeline_data
from tests.explanation.pages import checked


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"), Override("cache", False):
        yield


def crossing(x: Any) -> Any:
    rows = x.sum(1)  # "</script><b>&" is text: it must not end the page's script
    rolled = sum(jnp.roll(x * 3, k, 0) for k in (-1, 1))
    carried = lax.scan(lambda c, row: (jnp.sort(c) * 0.5 + row, c.sum()), rolled[0], x)
    return (x / rows[:, None]).sum(0), carried


def test_pages_are_whole() -> None:
    e = functrax.explain(crossing, measure=True)(jnp.ones((64, 100)))
    text = e.html()
    page = checked(text)
    assert {"picture", "kernels", "edges", "details", "lines", "timeline", "programs"} <= {
        *page.names
    }
    for k in e.kernels:
        assert f"kernel-{k.number}" in page.names and f"#{k.number} {k.name}" in page.text
        assert f"#kernel-{k.number}" in page.links
        assert all(str(line) in page.text for line in k.lines)
    texts = unpacked(text, "texts")
    kernels = [k for k in e.kernels if k.codes]
    assert kernels and all(t in texts for k in kernels for t in (k.loops, k.llvm, k.assembly))
    assert str(e.source) in texts and e.memory_plan in texts
    assert e.html() == text


def test_text_is_escaped() -> None:
    def crossing_named(x: Any) -> Any:
        with functrax.named_scope("<b>&</script>"):
            return crossing(x)

    crossing_named.__name__ = "<i>&"
    e = functrax.explain(crossing_named)(jnp.ones((64, 100)))
    text = e.html()
    page = checked(text)
    assert "<i>&" in page.text and "<i>" not in text
    assert "it must not end the page's script" in page.text
    assert text.count("</script>") == text.count("<script") == 3


def test_pages_show_every_source_line_once() -> None:
    text = functrax.explain(crossing)(jnp.ones((64, 100))).html()
    shown = re.findall(r'<div class="line used searched" id="(line-[\d-]+)">.*?rows = x.sum', text)
    assert len(shown) == 1 and f'href="#{shown[0]}"' in text


def test_programs_without_kernels_have_a_page() -> None:
    page = checked(functrax.explain(lambda x: x)(jnp.ones(3)).html())
    assert "0 kernels" in page.text


def test_time_lines_nest_and_leave_out_the_shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        TimelineEvent("outer", "call", 0.0, 10.0, 7, {}),
        TimelineEvent(
            "first", "kernel", 1.0, 2.0, 7, {"bytes": 8, "lines": ["a", "b"]}, "kernel-0"
        ),
        TimelineEvent("second", "kernel", 3.0, 2.0, 7, {}),
        TimelineEvent("elsewhere", "kernel", 2.0, 2.5, 9, {}),
    ]
    data = timeline_data(events, {7: "main"})
    assert data["threads"] == [["main", 0, 0.0, 10.0], ["thread", 2, 2.0, 4.5]]
    assert [e[0] for e in data["events"]] == [0, 1, 1, 2] and data["rows"] == 3
    assert data["events"][1] == [1, 1.0, 2.0, 1, 1, "bytes: 8, lines: a; b", "kernel-0"]
    one_after_the_other = [TimelineEvent("k", "kernel", n * 0.1001, 0.1004, 1, {}) for n in (0, 1)]
    assert timeline_data(one_after_the_other, {})["rows"] == 1  # times are rounded
    monkeypatch.setattr("functrax.explanation.page.time_line._MOST", 2)
    data = timeline_data(events, {})
    assert [data["names"][e[3]] for e in data["events"]] == ["outer", "elsewhere"]
    assert data["left_out"] == 2
