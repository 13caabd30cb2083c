"""What holds for all tests: their programs are checked, and they leave the user's cache alone.

Every program that a test traces is verified, and some are printed and parsed, when the test has
ended, not while it runs: the tests that measure the time of tracing, and those that look for leaks,
see tracing as it is for users.
"""

from __future__ import annotations

import collections
import gc
import itertools
import os
import pathlib
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

if os.path.exists("/dev/nvidiactl"):  # GPUs have runs of their own: scripts/gpu_check.sh
    os.environ.setdefault("FUNCTRAX_BACKEND", "llvm")

from functrax.backends import internal_errors
from functrax.backends.cpu import CpuDevice
from functrax.backends.device import device_of
from functrax.core.ir.jaxpr import Jaxpr, all_eqns
from functrax.core.options.config import Override, config
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import program_observers
from functrax.core.types.symbolic_sizes import Recorded

_LARGE = 400  # programs of more equations are verified, but not parsed
_PARSED = 3  # of so many programs one is parsed: that takes as long as half of tracing them
_checked: set[int] = set()  # hashes of programs that were found right


#: With ``FUNCTRAX_THINNED=10`` all tests of these folders are run, and of the others one in ten.
_WHOLE = ("interop", "eager", "call_path", "core")


#: With ``FUNCTRAX_FAMILIES=3`` one in three of the cases of a test is run that has so many.
_FAMILY = 12


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thins the suite where it is asked for: see scripts/run_tests.sh and run_tests_on.sh."""
    here = pathlib.Path(__file__).parent
    kept = items
    if every := int(os.environ.get("FUNCTRAX_THINNED", "0")):
        others = itertools.count()
        kept = [
            item
            for item in items
            if item.path.relative_to(here).parts[0] in _WHOLE or next(others) % every == 0
        ]
    elif every := int(os.environ.get("FUNCTRAX_FAMILIES", "0")):
        families = [item.nodeid.partition("[")[0] for item in items]
        sizes = collections.Counter(families)
        # By a hash, for each third case may be the same dtype.
        kept = [
            item
            for item, family in zip(items, families, strict=True)
            if sizes[family] < _FAMILY or zlib.crc32(item.nodeid.encode()) % every == 0
        ]
    left_out = set(items) - set(kept)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = kept


def pytest_collection_finish() -> None:
    """Keeps the collected tests out of every later search for garbage, which takes its time.

    What loads the compiler in the background has ended, so that tests find the same memory in use
    and the same modules whenever they run.
    """
    for thread in threading.enumerate():
        if thread.name == "functrax-preload":
            thread.join()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Compiled kernels are kept in a directory of this run, also by the processes it starts.

    Whole programs are not: tests look at the compiler, or change a part of it.
    """
    folder = str(tmp_path_factory.mktemp("compiled"))
    config.update("compilation_cache_dir", folder)
    config.update("cache_programs", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTRAX_CACHE_DIR", folder)
        patch.setenv("FUNCTRAX_CACHE_PROGRAMS", "0")
        yield folder


@pytest.fixture(autouse=True)
def cache_is_still_ours(own_cache: str) -> Iterator[None]:
    """A test that changes where kernels are kept puts it back: others count what is compiled."""
    yield
    assert (config.compilation_cache_dir, config.cache_programs) == (own_cache, False)


@pytest.fixture(autouse=True)
def process_is_left_alone() -> Iterator[None]:
    """What a test sets for the whole process it puts back: others start processes of their own."""
    environment, finders = set(os.environ.items()), [*sys.meta_path]
    yield
    changed = environment ^ set(os.environ.items())
    assert not {name for name, _ in changed if not name.startswith("PYTEST_")}
    assert sys.meta_path == finders


@pytest.fixture
def no_collection() -> Iterator[None]:
    """For tests that count memory: what others left in cycles is not freed while they do."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def without_plans() -> Iterator[None]:
    """Programs are compiled, also where a plan for their sizes is there."""
    with Override("plans", False):
        yield


@pytest.fixture(autouse=True)
def own_families() -> None:
    """Which programs are made from plans depends on a test alone, not on those before it."""
    device = device_of("llvm")
    assert isinstance(device, CpuDevice)
    device.forget_families()


@pytest.fixture(autouse=True)
def checked_programs() -> Iterator[None]:
    """Fails a test that traced a program that breaks a rule of the language.

    And one in which functrax made an error of its own and did something else instead.
    """
    traced: list[Jaxpr] = []
    errors: list[Exception] = []
    program_observers.append(traced.append)
    internal_errors.observers.append(errors.append)
    yield
    program_observers.remove(traced.append)
    internal_errors.observers.remove(errors.append)
    for error in errors:
        raise error
    for jaxpr in traced:
        _check(jaxpr)


def recordings_of(jaxpr: Jaxpr) -> set[Any]:
    """What the sizes of a program belong to that are no plain numbers."""
    avals = [v.aval for eqn in all_eqns(jaxpr) for v in (*eqn.invars, *eqn.outvars)]
    avals += jaxpr.in_avals
    sizes: list[Any] = [n for aval in avals for n in aval.shape]
    return {n.recording for n in sizes if type(n) is Recorded}


def _check(jaxpr: Jaxpr) -> None:
    recordings = recordings_of(jaxpr)
    if any(x.has_values for x in recordings):
        return  # of a plan, whose numbers are forgotten when it is made
    verify(jaxpr)
    if hash(jaxpr) in _checked:
        return
    if len(_checked) % _PARSED == 0 and sum(1 for _ in all_eqns(jaxpr)) <= _LARGE:
        parsed = parse_jaxpr(str(jaxpr), sizes=next(iter(recordings), None))
        assert parsed == jaxpr, f"another program was read back from:\n{jaxpr}"
        assert parsed.as_text(source=False) == jaxpr.as_text(source=False)
    _checked.add(hash(jaxpr))
