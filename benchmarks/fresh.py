"""Measurements that need a process of their own: first calls, memory, imports, installed sizes.

``figure`` takes one such figure for one framework.  A first call is measured in a new process, from
the call to the result, with the library imported and the inputs placed; every cache directory is a
new empty one, or for "warm disk" one that an earlier process has filled with the same workload.
"""

from __future__ import annotations

import gc
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks import workloads
from benchmarks.frameworks import DISTRIBUTIONS, version
from benchmarks.worker import OVER_LIMIT, MeasurementError, Session, Worker, compared
from benchmarks.workload import Workload

NEW_SIZES = range(33, 83)  # 50 batch sizes; the first two are not counted
ANY_SIZES = np.random.default_rng(0).permutation(np.arange(1, 601))[:100]
CALLS = 10  # for memory


def figure(
    workload: Workload, framework: str, limit: float, directory: str | None = None
) -> tuple[float, list[np.ndarray]]:
    """One figure (microseconds or bytes) and the values computed, if any.

    ``directory`` is the cache directory of "warm disk"; the first use of it fills it.

    Raises:
        MeasurementError: it cannot be had, or not within ``limit`` seconds.
    """
    if version(framework) is None:
        raise MeasurementError("not installed")
    if workload.mode == "import":
        return import_time(framework, limit), []
    if workload.mode == "installed":
        return float(installed_size(DISTRIBUTIONS.get(framework, framework))), []
    if directory is not None and not any(Path(directory).iterdir()):
        in_new_process(workload, framework, limit, directory)
    with tempfile.TemporaryDirectory(prefix="functrax-bench-") as empty:
        return in_new_process(workload, framework, limit, directory or empty)


def caches(directory: str, warm: bool) -> Mapping[str, str]:
    """The environment in which every framework keeps its caches in a directory.

    JAX has no disk cache unless it is asked for: it is, only where the row is about one.
    """
    of_jax = {
        "JAX_COMPILATION_CACHE_DIR": f"{directory}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return {
        **(of_jax if warm else {}),
        "HOME": directory,  # Dr.Jit's
        "FUNCTRAX_CACHE_DIR": f"{directory}/functrax",
        "TORCHINDUCTOR_CACHE_DIR": f"{directory}/inductor",
    }


def in_new_process(
    workload: Workload, framework: str, limit: float, directory: str
) -> tuple[float, list[np.ndarray]]:
    """Run ``measure`` in a new process of the framework."""
    worker = Worker(framework, caches(directory, workload.mode == "warm disk"))
    try:
        answer: tuple[float, list[np.ndarray]] = worker.ask(
            limit, "call", __name__, "measure", workload.name
        )
        return answer
    finally:
        worker.close()


def measure(session: Session, name: str) -> tuple[float, list[np.ndarray]]:
    """In the new process: the figure of a workload, and its values."""
    workload = workloads.find(name)
    if workload.mode == "new sizes":
        return new_sizes(session, workload)
    if workload.mode == "memory":
        return memory(session, workload), []
    return session.prepare(name)


def new_sizes(session: Session, workload: Workload) -> tuple[float, list[np.ndarray]]:
    """First calls of one function with sizes that are new to it.

    The median of 50 batch sizes, which are cut from the last input, or the mean of 100 sizes from
    1 to 600 where the workload makes its inputs at a size.
    """
    function = session.framework.build(workload)
    if workload.at_size is None:
        *fixed, batch = workload.inputs()
        fixed = session.framework.place(fixed)
        inputs = ((*fixed, session.framework.place(batch[:size])) for size in NEW_SIZES)
    else:
        at_size = workload.at_size
        inputs = (session.framework.place(at_size(int(size))) for size in ANY_SIZES)
    times = []
    for args in inputs:
        begin = time.perf_counter()
        result = session.framework.block(function(*args))
        times.append((time.perf_counter() - begin) * 1e6)
    figure = np.median if workload.at_size is None else np.mean
    return float(figure(times[2:])), compared(session.framework.arrays(result))


def memory(session: Session, workload: Workload) -> float:
    """By how much the resident memory grows over compiling and ten calls, at its peak."""
    args = session.framework.place(workload.inputs())
    function = session.framework.build(workload)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    for _ in range(CALLS):
        session.framework.block(function(*args))
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """Bytes of resident memory now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def import_time(framework: str, limit: float) -> float:
    """Microseconds from starting Python to the end of the import, less an empty Python's."""
    times = []
    for statement in ("pass", f"import {framework}"):
        begin = time.perf_counter()
        try:
            subprocess.run([sys.executable, "-c", statement], check=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise MeasurementError(OVER_LIMIT) from None
        times.append((time.perf_counter() - begin) * 1e6)
    return times[1] - times[0]


def installed_size(distribution: str) -> int:
    """Bytes of a distribution's files and of those that it depends on (extras left out)."""
    total = 0
    for name in dependencies(distribution, set()):
        found = importlib.metadata.distribution(name)
        files = [Path(str(found.locate_file(f))) for f in found.files or []]
        if name == "functrax" and not any(f.parts[0] == name for f in found.files or []):
            files += package_files(name)  # installed as editable: its sources and its extension
        total += sum(path.stat().st_size for path in set(files) if path.is_file())
    return total


def package_files(package: str) -> list[Path]:
    """The files of a package as it is imported here, but for the sources of its extension."""
    root = Path(__file__).parent.parent / package
    native = root / "backends" / "native"
    return [p for p in root.rglob("*") if native not in p.parents and "__pycache__" not in p.parts]


def dependencies(distribution: str, seen: set[str]) -> set[str]:
    """The distribution and all those that it needs, that are installed."""
    name = re.sub(r"[-_.]+", "-", distribution).lower()
    if name in seen or version(name) is None:
        return seen
    seen.add(name)
    for requirement in importlib.metadata.requires(name) or []:
        text, _, marker = requirement.partition(";")
        needed = re.match(r"[A-Za-z0-9_.-]+", text.strip())
        if "extra" not in marker and needed is not None:
            dependencies(needed.group(), seen)
    return seen
