"""The benchmark suite's own machinery, on fake frameworks: turns, medians, values, verdicts."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the package

import functrax  # noqa: E402
from benchmarks import frameworks, report, runner, worker, workloads  # noqa: E402
from benchmarks.machine import Machine  # noqa: E402
from benchmarks.runner import Limits, Measurement, Row  # noqa: E402
from benchmarks.workload import (  # noqa: E402
    FRAMEWORKS,
    Workload,
    at_most,
    exceeds_numpy,
    faster,
    floats,
    of_copy,
    of_peak,
)

MACHINE = Machine("a processor", 2, copy=1e9, read=2e9, flops=1e9)
LIMITS = Limits(rounds=3)


class FakeWorker:
    """Answers like a worker: always these values, and a next sample on each turn."""

    def __init__(self, name: str, log: list[str], values: Any, samples: list[float]) -> None:
        self.name, self.log, self.values, self.samples = name, log, values, iter(samples)

    def ask(self, limit: float, request: str, *details: Any) -> Any:
        self.log.append(f"{self.name} {request}")
        if request == "prepare":
            return 1000.0, [np.asarray(self.values, np.float32)]
        return [next(self.samples)] if request == "sample" else None


def fake_workload(**changes: Any) -> Workload:
    peers = {"torch": lambda torch, staged: None, "numpy": lambda np: None}
    workload = Workload("fake", text=lambda library: abs, peers=peers, targets=(faster(2.0),))
    return dataclasses.replace(workload, **changes)


def run_fakes(workload: Workload, values: dict[str, Any], floor: float = 0.0) -> tuple[Row, Any]:
    log: list[str] = []
    samples = {"functrax": [5.0, 1.0, 3.0], "jax": [9.0, 6.0, 90.0]}
    workers = {n: FakeWorker(n, log, v, samples.get(n, [7.0] * 3)) for n, v in values.items()}
    return runner.run(workload, workers, LIMITS, floor), log


def row_of(workload: Workload, **figures: float) -> Row:
    return Row(workload, {name: Measurement([figure]) for name, figure in figures.items()})


def test_turns_alternate_and_medians_are_kept() -> None:
    row, log = run_fakes(fake_workload(), {"functrax": [1, 2], "jax": [1, 2]})
    turns = [line for line in log if "sample" in line]
    assert turns == ["functrax sample", "jax sample"] * 3
    assert (row.median("functrax"), row.median("jax")) == (3.0, 9.0)
    assert row.measurements["jax"].first == 1000.0
    assert row.median("torch") is None


def test_steps_divide_the_figure() -> None:
    row, _ = run_fakes(fake_workload(per=10), {"functrax": [1], "jax": [1]})
    assert row.median("functrax") == 0.3


def test_who_has_other_values_is_not_timed() -> None:
    row, log = run_fakes(fake_workload(), {"functrax": [1, 2.1], "jax": [1, 2], "torch": [1, 2]})
    assert "wrong values: output 0 differs" in row.measurements["functrax"].problem
    assert "functrax sample" not in log and "torch sample" in log
    assert report.judge(row, MACHINE)[1] == "**missed**"


def test_other_random_numbers_may_be_allowed() -> None:
    workload = fake_workload(not_compared=frozenset({"torch"}))
    row, _ = run_fakes(workload, {"functrax": [1.0], "jax": [1.0], "torch": [5.0]})
    assert row.median("torch") == 7.0


def test_who_beats_the_floor_has_not_done_the_work() -> None:
    row, _ = run_fakes(fake_workload(), {"functrax": [1], "jax": [1]}, floor=500.0)
    assert row.measurements["functrax"].problem.startswith("did not do the work")
    assert row.median("functrax") is None


def test_a_framework_that_fails_leaves_the_others() -> None:
    class Refusing(FakeWorker):
        def ask(self, limit: float, request: str, *details: Any) -> Any:
            raise worker.MeasurementError(worker.OVER_LIMIT)

    workers = {
        "functrax": FakeWorker("functrax", [], [1], [2.0] * 3),
        "jax": Refusing("jax", [], [1], []),
    }
    row = runner.run(fake_workload(), workers, LIMITS)
    assert row.median("functrax") == 2.0
    assert row.measurements["jax"].problem == "over the time limit"
    assert report.problems([row]) == ["- fake, JAX jit: over the time limit"]


@pytest.mark.parametrize(
    "mine, theirs, said",
    [
        ([1.0], [1.0, 2.0], "has 1 elements, not 2"),
        (np.float64([1.0]), [1.0], "is float64, not float32"),
        ([np.nan], [1.0], "differs by nan"),
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1e-9], [3e-9], ""),  # both are noise
    ],
)
def test_differences(mine: Any, theirs: Any, said: str) -> None:
    a = mine if isinstance(mine, np.ndarray) else np.float32(mine)
    problem = runner.difference([a], [np.float32(theirs)], 1e-3, noise=1e-5)
    assert said in problem and bool(said) == bool(problem)


def test_imaginary_parts_are_compared_too() -> None:
    theirs = np.array([1 + 1j, 2], np.complex64)
    assert runner.difference([theirs], [theirs], 1e-3) == ""
    assert runner.difference([theirs.conj()], [theirs], 1e-3).startswith("wrong values: output 0")
    wide = theirs.astype(np.complex128)
    assert (
        runner.difference([wide], [theirs], 1e-3)
        == "wrong values: output 0 is complex128, not complex64"
    )


def test_a_session_calls_blocks_and_samples() -> None:
    session = worker.Session(frameworks.load("numpy"))
    found = fake_workload(inputs=floats((4,)), peers={"numpy": lambda np: lambda x: x + x})
    args = found.inputs()
    session.timer = session._timer(found, found.peers["numpy"](np), args, args[0])
    samples = session.sample(0.005, 3)
    assert 1 <= len(samples) <= 3 and all(0 < s < 1e4 for s in samples)
    assert session.calls > 1
    session.drop()
    assert session.calls == 1


def test_large_outputs_are_thinned_by_an_odd_step() -> None:
    (thin,) = worker.compared([np.arange(1024 * 1024)])
    assert thin[1] == 3 and thin[-1] > 1024 * 1023


@pytest.mark.parametrize(
    "target, figures, text, met",
    [
        (faster(2.0), {"functrax": 5, "jax": 20}, "≥ 2× JAX jit: **4.00×**", True),
        (faster(2.0), {"functrax": 5, "jax": 9}, "≥ 2× JAX jit: **1.80×**", False),
        (faster(1.0, "best"), {"functrax": 5, "jax": 20, "torch": 4}, "**0.80×**", False),
        (faster(1.0, "drjit"), {"functrax": 5}, "≥ 1× Dr.Jit: –", None),
        (at_most(0.8), {"functrax": 0.7}, "≤ 0.8: **0.7**", True),
        (exceeds_numpy(60), {"functrax": 150, "numpy": 100}, "≤ 60 over NumPy: **50**", True),
        (of_copy(0.8), {"functrax": 10}, "≥ 0.80 of copy speed: **0.40**", False),
        (of_peak(0.9), {"functrax": 10}, "≥ 0.90 of fma peak: **1.00**", True),
    ],
)
def test_verdicts(target: Any, figures: dict[str, float], text: str, met: bool | None) -> None:
    row = row_of(fake_workload(targets=(target,), bytes=4000, flops=10_000), **figures)
    said, holds = report.verdict(row, target, MACHINE)
    assert text in said and holds is met


def test_the_report_names_ratios_floors_and_misses() -> None:
    rows = [
        row_of(fake_workload(name="good | row", bytes=4000), functrax=5, jax=20),
        row_of(fake_workload(name="bad row"), functrax=5, jax=6),
    ]
    text = report.document({"Things": rows}, MACHINE, "the command")
    assert "2 rows: 1 met, 1 missed." in text
    assert "| good \\| row | 5 | 20 | 4 | ≥ 2× JAX jit: **4.00×** | met |" in text
    assert "| bad row | 5 | 6 | – | ≥ 2× JAX jit: **1.20×** | **missed** |" in text
    assert "a processor, 2 threads" in text and "`the command`" in text


@pytest.mark.parametrize("mine, met", [(10.0, True), (90.0, None)])
def test_a_peer_ended_at_its_limit_gives_a_bound(mine: float, met: bool | None) -> None:
    late = Measurement(problem=worker.OVER_LIMIT, at_least=100.0)
    row = Row(fake_workload(mode="cold"), {"functrax": Measurement([mine]), "jax": late})
    said, holds = report.verdict(row, faster(2.0), MACHINE)
    assert "× or more" in said and holds is met


def test_other_sections_of_the_results_stay(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("# Results\n\n## Tracing\n\nold\n")
    for text in ("one", "two"):
        report.write(f"{report.MARK}\n\n{text}\n", path)
    assert path.read_text() == f"# Results\n\n## Tracing\n\nold\n\n{report.MARK}\n\ntwo\n"


def test_rows_have_distinct_names_targets_and_known_frameworks() -> None:
    rows = [row for table in workloads.TABLES.values() for row in table]
    assert len({row.name for row in rows}) == len(rows) > 80
    assert all(row.targets for row in rows)
    assert all(set(row.frameworks()) <= set(FRAMEWORKS) for row in rows)
    assert workloads.find("sort 1M").peers["numpy"](np) is np.sort
    assert [len(r) for r in workloads.matching(["softmax"]).values()] == [2, 1, 2]


def test_what_a_target_exceeds_is_measured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--only functrax import`` needs NumPy's import as well; without functrax nobody does."""
    figures = {"functrax": 90.0, "jax": 400.0, "numpy": 50.0}
    monkeypatch.setattr(
        runner.fresh, "figure", lambda workload, name, limit, directory: (figures[name], [])
    )
    workload = Workload("import", targets=(exceeds_numpy(60),), mode="import")
    row = runner.run(workload, {"functrax": None}, LIMITS)
    assert (row.median("functrax"), row.median("numpy"), row.median("jax")) == (90.0, 50.0, None)
    assert not runner.run(workload, {}, LIMITS).measurements


def test_operations_name_their_inputs() -> None:
    from benchmarks.workloads import operations

    assert operations._names('jnp.einsum("ij,jk", x, y) + x[:, r]') == ("x", "y", "r")
    row = workloads.find("jnp.where(b, x, y)")
    b, x, y = row.inputs()
    assert row.text is not None and b.dtype == bool
    assert np.array_equal(row.text(functrax)(b, x, y), np.where(b, x, y))


def test_a_table_states_the_mean_of_the_ratios() -> None:
    rows = [
        Row(fake_workload(), {"functrax": Measurement([mine]), "jax": Measurement([theirs])})
        for mine, theirs in ((1.0, 2.0), (1.0, 8.0))
    ]
    assert report.in_the_mean(rows)[1].endswith("geometric mean 4.00, median 5.00, least 2.00.")
    assert report.in_the_mean([Row(fake_workload(), {"functrax": Measurement([1.0])})]) == []
