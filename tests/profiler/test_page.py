"""The page of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import functrax
import functrax.numpy as jnp
from functrax import lax, profiler
from functrax.explanation.page.document import unpacked
from tests.explanation.pages import checked


def test_a_recording_is_one_page(tmp_path: Path) -> None:
    def doubled(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda k, x: jnp.sin(x) @ x, x) * 2

    def halved(x: Any) -> Any:
        return jnp.cumsum(x / 2, 0)

    functions = [functrax.jit(doubled), functrax.jit(halved)]
    with functrax.backend("llvm"), profiler.trace(tmp_path / "pages" / "out.html"):
        for f in functions:
            for _ in range(3):
                f(jnp.ones((30, 30))).block_until_ready()
    text = (tmp_path / "pages" / "out.html").read_text(encoding="utf-8")
    page = checked(text)
    assert {"timeline", "kernels", "functions", "work", "details", "lines"} <= {*page.names}
    data = unpacked(text, "events")
    abouts = {e[6] for e in data["events"]} - {""}
    assert abouts and abouts <= {*page.names}
    kinds = {data["kinds"][e[4]] for e in data["events"] if e[6]}
    assert kinds == {"kernel"} or kinds == {"kernel", "call"}
    for row in profiler.report().kernels:
        assert row.name in page.text and all(line in page.text for line in row.lines)
    assert "ran 15 times" in page.text and "ran 3 times" in page.text
    assert any("define" in t for t in unpacked(text, "texts"))


def test_a_recording_of_nothing_is_a_page(tmp_path: Path) -> None:
    with profiler.trace(tmp_path / "out.html"):
        pass
    assert "0 programs" in checked((tmp_path / "out.html").read_text(encoding="utf-8")).text
