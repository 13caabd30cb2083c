"""Run a program written for JAX on functrax: ``python -m functrax.compat program.py …``."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from functrax.compat import install, report


def main() -> None:
    """Run the program, module or code that the command line names, as ``python`` would."""
    parser = argparse.ArgumentParser(
        prog="python -m functrax.compat",
        description="Run a program written for JAX on functrax: `import jax` gives functrax.",
        usage="%(prog)s [--report] (program.py | -m module | -c code) [arguments]",
    )
    parser.add_argument(
        "--report", action="store_true", help="say at the end which names of JAX were not there"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", default=[])
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER, metavar="code", default=[])
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not (given.module or given.code or given.program):
        parser.error("nothing to run: give a program, -m module or -c code")
    install()
    try:
        if given.module:
            sys.argv = given.module
            sys.path[0] = str(Path.cwd())
            runpy.run_module(given.module[0], run_name="__main__", alter_sys=True)
        elif given.code:
            sys.argv = ["-c", *given.code[1:]]
            sys.path[0] = ""
            exec(compile(given.code[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = given.program
            program = Path(given.program[0])
            if not program.exists():
                parser.error(f"no such file: {program}")
            sys.path[0] = str(program.resolve().parent)
            runpy.run_path(str(program), run_name="__main__")
    finally:
        if given.report:
            print(report(), file=sys.stderr)


if __name__ == "__main__":
    main()
