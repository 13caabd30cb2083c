"""Runs an example, and keeps each program that its jitted functions call, with arrays.

    python -m tests.export.example_programs plain FOLDER EXAMPLE.py ARGUMENT...

With ``compat`` instead of ``plain`` the example is one of JAX's, which functrax stands in for.
At the first call of each form outside of other programs, the arguments, the arrays that the program
closes over and the results are kept beside a file of the program.  FOLDER gets them, and a file
``EXAMPLE.json`` with what was seen, which :func:`found_in` reads.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from functrax import compat
from functrax.core.errors.typed import UnavailableError
from functrax.core.ir.jaxpr import ClosedJaxpr, Jaxpr, all_eqns
from functrax.core.pytree.operations import tree_leaves, tree_structure
from functrax.core.records import record
from functrax.core.tracing.trace import EVAL, state
from functrax.export.content import content_of, write_content
from functrax.transforms.arguments.flat import flatten_args
from functrax.transforms.staging.jit import Jitted
from functrax.transforms.staging.traces import Traced
from tests.export.elsewhere import keep


@record
class ExamplePrograms:
    """What was seen while an example ran.

    Args:
      kept: programs that are in files, by the names of these.
      refused: names of programs that a file cannot hold, or not alone, with the reasons.
    """

    kept: list[str]
    refused: dict[str, str]


class _Recorder:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.known: dict[int, Any] = {}
        self.found = ExamplePrograms([], {})
        original = Jitted._call_program

        def call(
            jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[Any, Traced]:
            if state.trace is not EVAL:
                return original(jitted, args, kwargs)
            given = self.copies(jitted, args, kwargs)  # which a call may be given the memory of
            result, traced = original(jitted, args, kwargs)
            if given is not None and traced.effects is None and id(traced.jaxpr) not in self.known:
                self.known[id(traced.jaxpr)] = traced.jaxpr
                self.keep(traced, given, result)
            return result, traced

        Jitted._call_program = call  # type: ignore[method-assign]

    @staticmethod
    def copies(jitted: Jitted, args: Any, kwargs: Any) -> list[np.ndarray[Any, Any]] | None:
        """The arguments as a program gets them; None if one is a reference."""
        dynamic, named, _ = jitted._roles.split(args, kwargs)
        try:
            flat, _ = flatten_args(jitted._fun, dynamic, named, jitted._roles.static_nums)
        except TypeError:
            return None
        return [np.array(x, x.aval.dtype) for x in flat]

    def keep(self, traced: Traced, given: list[np.ndarray[Any, Any]], result: Any) -> None:
        """Write a program and its arrays."""
        jaxpr, count = traced.jaxpr, len(traced.consts)
        inputs = jaxpr.invars
        open_ = Jaxpr(inputs[:count], inputs[count:], jaxpr.outvars, jaxpr.eqns, jaxpr.name)
        file = f"{self.name}.{len(self.known)}.functrax"
        if any(eqn.primitive.name == "ffi_call" for eqn in all_eqns(jaxpr)):
            why = "calls code of the user's own, which the other process would have to register"
            self.found.refused[f"{self.name}: {jaxpr.name}"] = why
            return
        try:
            content = content_of(
                ClosedJaxpr(open_, list(traced.consts)),
                in_tree=tree_structure((tuple(given), {})),
                out_tree=tree_structure(tuple(jaxpr.out_avals)),
                platforms=("cpu",),
                constants=[str(n) for n in range(count)],
            )
        except UnavailableError as error:
            self.found.refused[f"{self.name}: {jaxpr.name}"] = str(error)
            return
        (self.folder / file).write_bytes(bytes(write_content(content, None)))
        keep(self.folder / file, given, tree_leaves(result))
        self.found.kept.append(file)


def found_in(folder: Path) -> dict[str, ExamplePrograms]:
    """What was seen, by example."""
    return {
        path.stem: ExamplePrograms(*json.loads(path.read_text())) for path in folder.glob("*.json")
    }


def main(how: str, folder: str, path: str, *arguments: str) -> None:
    """Run a script as if it were called by itself."""
    if how == "compat":
        compat.install()
    name = Path(path).stem
    recorder = _Recorder(Path(folder), name)
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        found = [recorder.found.kept, recorder.found.refused]
        (Path(folder) / f"{name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
