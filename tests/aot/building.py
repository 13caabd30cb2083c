"""Programs in C around what is compiled ahead of time: built and run for tests.

Start at :class:`Folder`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import functrax
from functrax.ahead_of_time import AheadOfTime
from tests.aot.programs import PROGRAMS, compiled_results

HERE: Final = Path(__file__).parent
STRICT: Final = (
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
    "-D_POSIX_C_SOURCE=200809L",
)


def need(*tools: str) -> Any:
    """A mark of tests that need tools."""
    missing = [x for x in tools if shutil.which(x) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*command: str | Path, timeout: float = 120, **options: Any) -> str:
    """What a command prints; the test fails if the command does."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


class Folder:
    """A program's files, and what it should compute.

    Args:
      path: of the folder.
      name: of the program.
      kind: of the code.
      target: what it is for.
    """

    def __init__(
        self, path: Path, name: str, kind: str = "object", target: str | None = None
    ) -> None:
        function, arguments = PROGRAMS[name]
        args = arguments()
        self.path, self.name = path, name
        self.made: AheadOfTime = functrax.aot(function, *args, name=name, target=target)
        self.code = Path(self.made.write(path, kind=kind)[0])
        leaves = [*map(np.asarray, functrax.tree.leaves(args)), *compiled_results(function, args)]
        self.data = path / f"{name}.bytes"
        self.data.write_bytes(b"".join(x.tobytes() for x in leaves))

    def build(self, compiler: str, *options: str, source: Path = HERE / "call.c") -> Path:
        """An executable of ``call.c``, or of another source."""
        found = self.path / f"{self.name}-{source.stem}"
        given = [f'-DHEADER="{self.name}.h"', f"-DNAME={self.name}", f"-I{self.path}"]
        run(compiler, *options, *given, "-o", found, source, self.code, "-lpthread")
        return found

    def call(self, built: Path, threads: int, calls: int, before: Sequence[str] = ()) -> None:
        """Run what ``call.c`` became."""
        said = run(*before, built, self.data, str(threads), str(calls), "2")
        assert said == f"{threads * calls} calls\n"
