"""The compiler is loaded behind the program's back: it must not be noticed when it ends early."""

from __future__ import annotations

import ast
import gc
import graphlib
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import functrax
from functrax.backends.cache.preload import MODULES, MORE_MODULES, Preload
from functrax.core.process.gc_pause import Pause, age


def run(text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=300
    )
    assert not done.returncode, done.stderr
    assert not done.stderr
    return done.stdout


def test_each_module_that_it_names_is_there():
    out = run(
        "from functrax.backends.cache.preload import MODULES, MORE_MODULES\n"
        "from importlib import import_module\n"
        "print(len([import_module(name) for name in (*MODULES, *MORE_MODULES)]))"
    )
    assert int(out) == len(MODULES) + len(MORE_MODULES)


def test_an_import_leaves_the_compiler_out_and_loads_it_behind():
    out = run(
        "import sys, functrax\n"
        f"left_out = not any(m in sys.modules for m in {MODULES[2:]!r})\n"
        "import threading\n"
        "for t in threading.enumerate():\n"
        "    if t.name == 'functrax-preload': t.join()\n"
        f"print(left_out, all(m in sys.modules for m in {MODULES!r}))"
    )
    assert out.split() == ["True", "True"]


@pytest.mark.parametrize("filled", [False, True])
def test_what_looks_for_programs_is_there_before_the_compiler(filled, tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTRAX_CACHE_DIR", str(tmp_path))
    if filled:
        run("import functrax; functrax.jit(lambda x: x + 1)(1.0)")
    out = run(
        "import sys, functrax.backends.cache.preload as p\n"
        "steps = p._preload._steps\n"
        "first = steps.index(p._look_for_programs)\n"
        "loading = [n for n, s in enumerate(steps) if getattr(s, 'args', ()) == (p.MODULES[0],)]\n"
        "p._preload._thread.join()\n"
        "key = sys.modules['functrax.backends.cache.program_key']\n"
        "print(first < loading[0], key.compiler.cache_info().currsize)"
    )
    assert out.split() == ["True", "1"]


@pytest.mark.parametrize("seconds", [0, 0.01, 0.05])
def test_programs_that_end_fork_or_compile_while_it_loads(seconds):
    out = run(
        "import os, time, functrax\n"
        f"time.sleep({seconds})\n"
        "child = os.fork()\n"
        "value = float(functrax.jit(lambda x: x * 2)(1.5))\n"
        "if not child: os._exit(int(value))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), value)"
    )
    assert out.split() == ["3", "3.0"]


def test_it_ends_after_the_step_that_it_is_at():
    begun, go_on, steps = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        go_on.wait(120)
        steps.append("first")

    preload = Preload([first, lambda: steps.append("second")])
    preload.start()
    assert begun.wait(120)
    stopping = threading.Thread(target=preload.stop)
    stopping.start()
    assert preload._stop.wait(120)  # before that the next step may begin
    go_on.set()
    stopping.join(120)
    assert not stopping.is_alive() and steps == ["first"]


def test_later_steps_wait_while_it_rests():
    steps: list[str] = []
    preload = Preload([lambda: steps.append("first")], [lambda: steps.append("later")])
    preload.rest(120)
    preload.start()
    while not steps:
        preload._thread.join(0.01)
    preload._thread.join(0.05)
    assert preload._thread.is_alive() and steps == ["first"]
    preload.stop()
    assert not preload._thread.is_alive() and steps == ["first"]
    rested = Preload([], [lambda: steps.append("later")])
    rested.rest(0.05)
    rested.start()
    rested._thread.join(120)
    assert steps == ["first", "later"]


def test_a_program_that_compiles_lets_it_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTRAX_CACHE_DIR", str(tmp_path))
    out = run(
        "import time, functrax, functrax.backends.cache.preload as p\n"
        "before = p._preload._rest_until\n"
        "functrax.jit(lambda x: x + 1)(1.0)\n"
        "print(before, p._preload._rest_until > time.monotonic() - 120)"
    )
    assert out.split() == ["0.0", "True"]


def test_what_cannot_be_loaded_is_left_to_who_needs_it():
    def fail() -> None:
        raise ImportError("not installed")

    steps = []
    preload = Preload([fail, lambda: steps.append("second")])
    preload.start()
    preload._thread.join(120)
    assert not steps


def test_a_pause_of_the_collector_ends_as_it_began():
    assert gc.isenabled()
    pause = Pause()
    inner = Pause()
    inner.end()
    assert not gc.isenabled()
    pause.end()
    assert gc.isenabled()
    lost = Pause()
    assert not gc.isenabled()
    del lost
    assert gc.isenabled()


def test_old_objects_are_still_collected():
    class Node:
        pass

    gone = []
    node = Node()
    node.self = node
    weakref.finalize(node, gone.append, 1)
    age()
    del node
    gc.collect()
    assert gone == [1]


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield node
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.stmt) and "TYPE_CHECKING" not in ast.dump(node)[:60]:
                yield from at_import([inner])


def imported_by(path: Path) -> Iterator[str]:
    for node in at_import(ast.parse(path.read_text()).body):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names)


def test_modules_that_are_loaded_late_wait_for_each_other_in_no_circle():
    """A module waits for those that it imports, and for its package.

    Where two threads enter a circle in two places, Python raises ``_DeadlockError`` in one.
    """
    root = Path(functrax.__file__).parent
    modules = {
        ".".join(p.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): p
        for p in (root / "backends").rglob("*.py")
    }
    early = run(
        "import sys, threading\n"
        "threading.Thread.start = lambda self: None\n"
        "import functrax\n"
        "print(*sys.modules)"
    ).split()
    late = modules.keys() - set(early)
    assert late >= {*MODULES, *MORE_MODULES}
    waits = {
        name: {*imported_by(modules[name]), name.rpartition(".")[0]} & late - {name}
        for name in late
    }
    graphlib.TopologicalSorter(waits).prepare()  # names the circle
