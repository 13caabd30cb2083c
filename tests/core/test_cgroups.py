"""The limits of containers, read from folders that look like a machine's, and from real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from functrax.core.process import cgroups
from functrax.core.process.cgroups import Limits, limits

ROOT = Path(__file__).parents[2]
V2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "".join(
    f"3{k} 24 0:2{k} {{shown}} /sys/fs/cgroup/{name} rw shared:9 - cgroup cgroup rw,{name}\n"
    for k, name in enumerate(("cpu,cpuacct", "memory"))
)
MB = 1 << 20


class Tree:
    """A folder that looks like a machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Tree:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def limits(self) -> Limits:
        limits.cache_clear()
        return limits(str(self.root))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    yield Tree(tmp_path)
    limits.cache_clear()


@pytest.fixture
def unified(tree: Tree) -> Tree:
    tree.write("proc/self/cgroup", "0::/system.slice/job\n").write("proc/self/mountinfo", V2)
    return tree.write("proc/meminfo", "MemTotal: 999 kB\nSwapTotal:    2048 kB\n")


@pytest.fixture
def separate(tree: Tree) -> Tree:
    tree.write(
        "proc/self/cgroup", "4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n1:name=systemd:/\n"
    )
    return tree.write("proc/self/mountinfo", V1.format(shown="/"))


def test_nothing_is_limited_where_nothing_is_told(tree: Tree) -> None:
    assert tree.limits() == Limits()


def test_no_limits(unified: Tree) -> None:
    unified.write("sys/fs/cgroup/system.slice/job/cpu.max", "max 100000\n")
    unified.write("sys/fs/cgroup/system.slice/job/memory.max", "max\n")
    assert unified.limits() == Limits()


@pytest.mark.parametrize(
    ("quota", "threads"),
    [("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("1000 100000", 1)],
)
def test_processors_are_rounded_up(unified: Tree, quota: str, threads: int) -> None:
    found = unified.write("sys/fs/cgroup/system.slice/job/cpu.max", quota + "\n").limits()
    assert found.threads == threads


def test_the_groups_around_a_group_limit_it(unified: Tree) -> None:
    folder = "sys/fs/cgroup/system.slice"
    unified.write(f"{folder}/job/cpu.max", "800000 100000\n").write(f"{folder}/cpu.max", "3 1\n")
    unified.write(f"{folder}/job/memory.max", str(64 * MB)).write(f"{folder}/memory.max", "max")
    assert unified.limits() == Limits(3.0, 64 * MB, 66 * MB)
    unified.write("sys/fs/cgroup/memory.max", str(48 * MB))
    unified.write("sys/fs/cgroup/system.slice/job/memory.swap.max", "0\n")
    assert unified.limits() == Limits(3.0, 48 * MB, 50 * MB)
    unified.write("sys/fs/cgroup/memory.swap.max", str(MB))
    assert unified.limits() == Limits(3.0, 48 * MB, 49 * MB)


def test_version_1(separate: Tree) -> None:
    cpu, memory = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/memory"
    separate.write(f"{cpu}/docker/a/cpu.cfs_quota_us", "-1\n")
    separate.write(f"{cpu}/docker/a/cpu.cfs_period_us", "100000\n")
    separate.write(f"{memory}/docker/a/memory.limit_in_bytes", "9223372036854771712\n")
    assert separate.limits() == Limits()
    separate.write(f"{cpu}/docker/cpu.cfs_quota_us", "250000\n")
    separate.write(f"{cpu}/docker/cpu.cfs_period_us", "100000\n")
    separate.write(f"{memory}/docker/a/memory.limit_in_bytes", f"{8 * MB}\n")
    assert separate.limits() == Limits(2.5, 8 * MB, 8 * MB)
    separate.write(f"{memory}/docker/a/memory.memsw.limit_in_bytes", f"{9 * MB}\n")
    assert separate.limits() == Limits(2.5, 8 * MB, 9 * MB)


@pytest.mark.parametrize("shown", ["/docker/a", "/elsewhere"])
def test_a_container_sees_its_own_group_alone(separate: Tree, shown: str) -> None:
    separate.write("proc/self/mountinfo", V1.format(shown=shown))
    separate.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n")
    separate.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert separate.limits().processors == 2.0


def test_both_versions_side_by_side(separate: Tree) -> None:
    separate.write("proc/self/cgroup", "0::/\n2:cpu,cpuacct:/\n")
    separate.write(
        "proc/self/mountinfo", V1.format(shown="/") + V2.replace("cgroup r", "cgroup/u r")
    )
    separate.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n")
    separate.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    separate.write("sys/fs/cgroup/u/memory.max", "4096\n")
    assert separate.limits() == Limits(4.0, 4096, 4096)


def test_what_is_damaged_limits_nothing(unified: Tree) -> None:
    unified.write("sys/fs/cgroup/system.slice/job/cpu.max", "")
    unified.write("sys/fs/cgroup/system.slice/job/memory.max", "many\n")
    unified.write("sys/fs/cgroup/system.slice/cpu.max", "100 0\n")
    assert unified.limits() == Limits()


def test_processors_and_memory(unified: Tree) -> None:
    allowed = len(os.sched_getaffinity(0))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    root = str(unified.root)
    folder = "sys/fs/cgroup/system.slice/job"
    unified.write(f"{folder}/cpu.max", "100000 100000\n").write(f"{folder}/memory.max", "8192\n")
    assert (cgroups.processors(root), cgroups.memory(root)) == (1, 8192)
    limits.cache_clear()
    unified.write(f"{folder}/cpu.max", f"{allowed + 3} 1").write(f"{folder}/memory.max", "9" * 18)
    assert (cgroups.processors(root), cgroups.memory(root)) == (allowed, machine)


# ---- real groups --------------------------------------------------------------------------------

PROGRAM = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
import functrax.numpy as jnp
from functrax.backends.runtime import choice as runtime
from functrax.backends import threads
print(threads.default_num_threads(), runtime.CURRENT.num_threads())
with open("/proc/self/cgroup") as file:
    print(os.path.basename(os.path.dirname(sys.argv[1])) in file.read())
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of processes with a quota of one processor."""
    folders = [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")]
    for parent in folders:
        made = parent / f"functrax-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            if (made / "cpu.cfs_quota_us").exists():
                (made / "cpu.cfs_quota_us").write_text("100000")
            else:
                (made / "cpu.max").write_text("100000 100000")
            yield made
            return
        except OSError:
            continue
        finally:
            made.rmdir()
    pytest.skip("no group of processes can be made here")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor anyway")
def test_a_quota_of_one_processor(group: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "FUNCTRAX_NUM_THREADS"}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(group / "cgroup.procs")],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    *threads, is_inside = found.stdout.split()
    if is_inside == "False":
        pytest.skip("something takes processes out of the group")
    assert threads == ["1", "1"]
