"""What is wrong with an installation: ``python -m functrax doctor``.

Each part that functrax needs is looked at by itself, and tried: versions of what it depends on, the
C++ extension, LLVM, the processor's target, the disk cache, a GPU, the environment's options, and
at last a program that is compiled and compared with NumPy.

Start at :func:`examine`.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, Final, Literal

from functrax.core.records import record

Verdict = Literal["ok", "note", "wrong"]
#: Variables of the environment that are no options.
_VARIABLES: Final = frozenset(
    {
        *("FUNCTRAX_NATIVE", "FUNCTRAX_CACHE_DIR", "FUNCTRAX_CUDA_DRIVER", "FUNCTRAX_COMPAT"),
        *("FUNCTRAX_VENV", "FUNCTRAX_BENCH_VENV", "FUNCTRAX_ROOTS", "FUNCTRAX_EMULATED"),
        *("FUNCTRAX_FAMILIES", "FUNCTRAX_WERROR"),
        *("FUNCTRAX_CPU", "FUNCTRAX_NUM_THREADS", "FUNCTRAX_EAGER_STRESS"),
        *("FUNCTRAX_SANITIZE", "FUNCTRAX_THINNED", "FUNCTRAX_DEBIAN_MIRROR"),
    }
)


#: On a server of 2023; the times of one thread.
_SLOWER: Final = "a call of a jitted x * 2 of 3 numbers takes about 150 µs instead of 0.4"


@record
class Finding:
    """What was found about one part of an installation.

    Args:
      part: what was looked at.
      verdict: ``"ok"``; ``"note"``, where functrax works, slower or with less; or ``"wrong"``.
      text: what was found.
      advice: what to do, if there is something to be done.
    """

    part: str
    verdict: Verdict
    text: str
    advice: str = ""

    def __str__(self) -> str:
        sign = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}[self.verdict]
        line = f"{sign} {self.part}: {self.text}"
        return f"{line}\n      {self.advice}" if self.advice else line


def main(_: Any = None) -> int:
    """Print what was found; 1 if something is wrong."""
    found = []
    for finding in examine():
        print(finding, flush=True)
        found.append(finding)
    wrong = [x.part for x in found if x.verdict == "wrong"]
    notes = [x.part for x in found if x.verdict == "note"]
    print(f"\nwrong: {', '.join(wrong)}" if wrong else "\nnothing is wrong")
    if notes:
        of = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
        print(f"{of}, where functrax works, slower or with less: {', '.join(notes)}")
    return 1 if wrong else 0


def examine() -> Iterator[Finding]:
    """What there is to say about this installation, part by part."""
    for part, look in _PARTS.items():
        try:
            yield from look(part)
        except Exception as error:  # a part that cannot be looked at is what this is for
            yield Finding(part, "wrong", f"{type(error).__name__}: {error}")


def _python(part: str) -> Iterator[Finding]:
    text = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.implementation.name != "cpython":
        yield Finding(part, "note", text, "CPython, for which the extension is made")
    else:
        yield Finding(part, "ok", text)


def _package(part: str) -> Iterator[Finding]:
    import functrax

    yield Finding(part, "ok", f"{functrax.__version__}, {os.path.dirname(functrax.__file__)}")
    try:
        needed = metadata.requires("functrax") or []
    except metadata.PackageNotFoundError:
        yield Finding(part, "note", "it is not installed, only importable", "pip install .")
        return
    for line in needed:
        name, _, rest = line.partition(">=")
        if "extra ==" in line or not rest:
            continue
        yield _dependency(name.strip(), rest.split(";")[0].strip())


def _dependency(name: str, least: str) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "wrong", "it is not installed", f"pip install '{name}>={least}'")
    if _numbers(version) < _numbers(least):
        return Finding(name, "wrong", f"{version}, which is too old", f"pip install -U {name}")
    return Finding(name, "ok", version)


def _numbers(version: str) -> tuple[int, ...]:
    digits = "".join(c if c.isdigit() else " " for c in version).split()
    return tuple(map(int, digits[:3]))


def _extension(part: str) -> Iterator[Finding]:
    from functrax.core import native

    if native.extension is not None:
        yield Finding(part, "ok", str(native.extension.__file__))
    elif os.environ.get("FUNCTRAX_NATIVE") == "0":
        yield Finding(part, "note", f"switched off: {_SLOWER}", "unset FUNCTRAX_NATIVE")
    else:
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        advice = "in the checkout: pip install --force-reinstall --no-deps . (-v shows the build)"
        if compiler is None:
            advice = f"install a C++ compiler (g++ or clang++) first, then {advice}"
        yield Finding(part, "note", f"it is not there: {_SLOWER}", advice)


def _llvm(part: str) -> Iterator[Finding]:
    from functrax.backends.machine_code.code_generator import generator

    made = generator()
    yield Finding(part, "ok", f"LLVM {made.version} for {made.cpu}")


def _processor(part: str) -> Iterator[Finding]:
    from functrax.backends.targets import target
    from functrax.backends.threads import default_num_threads

    found, threads = target(), default_num_threads()
    text = f"{found.name}, vectors of {found.vector_bytes} bytes, {threads} threads"
    yield Finding(part, "ok", text)


def _disk_cache(part: str) -> Iterator[Finding]:
    from functrax.backends import disk_cache

    cache = disk_cache.current()
    if cache.root is None:
        advice = "programs are compiled again in each process; unset FUNCTRAX_CACHE"
        yield Finding(part, "note", "there is none", advice)
        return
    key = disk_cache.content_key("doctor")
    cache.put(key, b"doctor")
    entry = cache.get(key)
    cache.discard(key)
    if entry is None or entry.payload != b"doctor":
        advice = "FUNCTRAX_CACHE_DIR: a folder of your own that can be written to"
        yield Finding(part, "wrong", f"{cache.root} keeps nothing", advice)
    else:
        yield Finding(part, "ok", str(cache.root))


def _gpu(part: str) -> Iterator[Finding]:
    import functrax

    try:
        found = functrax.devices("gpu")
    except functrax.errors.UnavailableError as error:
        text = f"none ({error.got.splitlines()[0]})"
        is_there = not isinstance(getattr(error.__cause__, "__cause__", None), OSError)
        yield Finding(part, *("note", text, error.fix) if is_there else ("ok", text))
    else:
        yield Finding(part, "ok", ", ".join(map(str, found)))


def _environment(part: str) -> Iterator[Finding]:
    from functrax.core.options.table import OPTIONS

    known = {option.variable for option in OPTIONS.values()} | _VARIABLES
    given = sorted(name for name in os.environ if name.startswith("FUNCTRAX_"))
    for name in given:
        if name not in known:
            yield Finding(part, "wrong", f"{name} is no option", "functrax.config names them")
    named = [f"{name}={os.environ[name]}" for name in given if name in known]
    yield Finding(part, "ok", ", ".join(named) or "no option is set")


def _program(part: str) -> Iterator[Finding]:
    import numpy as np

    import functrax
    import functrax.numpy as jnp

    x = np.sin(np.arange(1000, dtype=np.float32)).reshape(25, 40)
    slope = functrax.jit(functrax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T))))(x)
    u = 1 - np.tanh(x.astype(np.float64) @ x.T) ** 2
    want = (u + u.T) @ x
    off = float(np.max(np.abs(np.asarray(slope) - want)) / np.max(np.abs(want)))
    if off > 1e-4:
        yield Finding(part, "wrong", f"a gradient is wrong by {off:.1e}", "report this")
    else:
        yield Finding(part, "ok", "a gradient was compiled, and agrees with NumPy")


_PARTS: Final[dict[str, Callable[[str], Iterator[Finding]]]] = {
    "Python": _python,
    "functrax": _package,
    "extension": _extension,
    "LLVM": _llvm,
    "processor": _processor,
    "disk cache": _disk_cache,
    "GPU": _gpu,
    "environment": _environment,
    "program": _program,
}
