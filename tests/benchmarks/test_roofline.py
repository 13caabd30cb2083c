"""The command that puts kernels beside the roofline, on made-up figures and one small row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the package

from benchmarks import roofline  # noqa: E402
from benchmarks.roofline import Roof  # noqa: E402
from functrax.backends.targets.facts import Target  # noqa: E402
from functrax.backends.threads import thread_pool  # noqa: E402

MACHINE = Target(
    vector_bytes=16,
    operation_cycles=1.0,
    cycle_ns=0.5,
    byte_ns=0.1,
    cache_byte_ns=0.01,
    first_cache=100,
    second_cache=1000,
    launch_ns=3.0,
    function_ns=0.25,
)


@pytest.mark.parametrize(
    ("work", "nanoseconds"),
    [
        ((100, 8, 0), 3.0),  # in the first cache: a launch is longer
        ((1000, 0, 0), 10.0),  # in the second
        ((10_000, 0, 0), 1000.0),  # in memory
        ((0, 800, 0), 50.0),  # 100 multiply-adds on vectors of four
        ((0, 800, 400), 150.0),  # and a quarter of a nanosecond for each function
        ((10_000, 800, 400), 1000.0),  # the longer one of moving and computing
    ],
)
def test_the_roofline(work: tuple[int, int, int], nanoseconds: float) -> None:
    assert roofline.roofline_ns(*work, MACHINE) == pytest.approx(nanoseconds)


def test_a_row_has_its_longest_kernels_first_with_ratio_and_share() -> None:
    long = Roof("slow", 3, 2000.0, 64, 32, 0, 500.0, "a.py:3 in f")
    short = Roof("fast", 1, 2000.0, 64, 32, 0, 1000.0, "a.py:4 in f")
    assert (long.total, long.ratio, short.ratio) == (6000.0, 4.0, 2.0)
    lines = roofline.table("a row", 10_000.0, [long, short], 1)
    assert lines[0] == "a row: 10.0 us a call, 8.0 in 2 kernels, 20% outside of them"
    assert len(lines) == 2  # of two kernels one was asked for
    assert lines[1].split() == [
        *("slow", "3", "2.00", "75.0%", "64", "32", "0", "0.50", "4.0"),
        *("a.py:3", "in", "f"),
    ]


def test_a_row_is_measured_on_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    threads = thread_pool.num_threads
    assert roofline.main(["--kernels", "2", "jnp.tanh(x)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "one thread" in lines[0] and lines[1].split()[:2] == ["kernel", "launches"]
    assert lines[2].startswith("jnp.tanh(x): ") and "in 1 kernels" in lines[2]
    name, launches, *figures = lines[3].split()[:9]
    assert (name, launches) == ("tanh", "1")
    measured, share, nbytes, _, functions, least, ratio = (
        float(x.replace(",", "").rstrip("%")) for x in figures
    )
    assert share == 100 and nbytes == 8 * functions > 0  # read and written once, one tanh of each
    assert ratio == pytest.approx(measured / least, rel=0.2)
    assert thread_pool.num_threads == threads


def test_a_row_that_does_not_run_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(row: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(roofline, "roofs", fails)
    assert roofline.main(["jnp.tanh(x)"]) == 1
    assert "jnp.tanh(x): ValueError: no such thing" in capsys.readouterr().out
