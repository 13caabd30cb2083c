"""The page of results is what its command makes of the tables, and shows misses as misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import plots

TABLE = """# Results

2026-01-02, commit abc, a machine, Python 3.11; functrax 0.1.0.

Copy 10 GB/s.

### Some rows

| row | functrax | JAX jit | PyTorch | target: reached | verdict |
| --- | --- | --- | --- | --- | --- |
| a sum | 1,000 | 2,500 | – | ≥ 2× JAX jit: **2.50×** | met |
| a product | 10.5 | 5.25 | 21 | ≥ 1× JAX jit: **0.50×**; ≤ 10: **10.5** | **missed** |

### First calls, ms

| row | functrax | JAX jit |
| --- | --- | --- |
| a sum | 1 | 2 |
"""


def test_tables() -> None:
    (table,) = plots.tables(TABLE, {"Some rows": "some", "First calls, ms": "first"})
    assert table.run.startswith("2026-01-02, commit abc") and table.machine == "Copy 10 GB/s"
    one, two = table.rows
    assert one == plots.Row("a sum", {"JAX jit": 2.5}, 2.0, "≥ 2× JAX jit: 2.50×", False)
    assert two.ratios == {"JAX jit": 0.5, "PyTorch": 2.0} and two.missed and two.target == 1
    text = plots.page([table])
    assert "2 rows, of which 1 misses a target" in text
    assert "| a product | ≥ 1× JAX jit: 0.50×; ≤ 10: 10.5 |" in text and "| a sum |" not in text


def test_a_table_of_ratios() -> None:
    text = """# On a chip

2026-01-02, commit abc, a chip; functrax 0.1.0.

| row | functrax, µs | of the copy | JAX | torch.compile | targets |
|---|---|---|---|---|---|
| a sum | 69.3 | 93 % | 0.98× | 0.92× | missed: 1× of both |
| a step | 9.6 | | 7.08× | – | met |
"""
    (table,) = plots.tables(text, {"On a chip": "chip"})
    one, two = table.rows
    reached = "1× of both: 69.3 µs, JAX 0.98×, torch.compile 0.92×"
    assert one == plots.Row("a sum", {"JAX": 0.98, "torch.compile": 0.92}, None, reached, True)
    assert two.ratios == {"JAX": 7.08} and not two.missed
    assert f"| a sum | {reached} |" in plots.page([table])


def test_the_page_is_that_of_the_tables() -> None:
    found = plots.all_tables()
    assert (plots.DOCS / "measured.md").read_text(encoding="utf-8") == plots.page(found), (
        "python -m benchmarks.plots writes it"
    )
    for table in found:
        svg = (plots.DOCS / plots.image(table)).read_text(encoding="utf-8")
        assert table.run.split(",")[0] in svg
        for row in table.rows:
            if row.missed and row.ratios:
                assert f"{row.name} ✗" in svg, f"{table.figure}: {row.name}"


@pytest.mark.parametrize("draw", [plots.draw, plots.draw_curve])
def test_figures(draw: object, tmp_path: Path) -> None:
    assert callable(draw)
    (table,) = plots.tables(TABLE, {"Some rows": "some"})
    draw(table, tmp_path / "some.svg")
    assert (tmp_path / "some.svg").stat().st_size > 1000
