"""Two checkouts beside each other: each process has the one that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paired import Pair, main, mean
from benchmarks.worker import MeasurementError, Worker

ROOT = Path(__file__).parents[2]


def test_a_worker_imports_the_checkout_that_it_was_given(tmp_path):
    (tmp_path / "functrax").mkdir()
    (tmp_path / "functrax" / "__init__.py").write_text("raise RuntimeError('the other one')")
    worker = Worker("functrax", checkout=tmp_path)
    try:
        with pytest.raises(MeasurementError, match="the other one"):
            worker.ask(60.0, "drop")
    finally:
        worker.close()


def test_a_checkout_beside_itself(capsys):
    main([str(ROOT), "softmax 4096×1000", "--rounds", "1", "--seconds", "0"])
    head, row, *_, last = capsys.readouterr().out.splitlines()
    assert "before / now" in head
    assert row.startswith("softmax 4096×1000")
    before, now, steady, first = map(float, row.split()[2:])
    assert steady == pytest.approx(before / now, abs=0.01)
    assert first > 0
    assert last.startswith("1 rows: calls ")


def test_ratios_are_of_before_by_now():
    pair = Pair("row", before=(2.0, 30.0), now=(4.0, 10.0))
    assert (pair.steady, pair.first) == (0.5, 3.0)
    assert mean([0.5, 2.0]) == pytest.approx(1.0)
