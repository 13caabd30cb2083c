"""The tool for programs in files: ``python -m functrax show|run|diff|check|explain|aot FILE``.

A file is what ``functrax.save`` wrote, or the text of a program, as ``functrax.make_jaxpr`` has it.
Arguments are files of NumPy or safetensors, numbers, or drawn at random.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import functrax
from functrax.ahead_of_time.arguments import named
from functrax.core.errors.typed import ArgumentError, FunctraxError
from functrax.core.ir.coloring import terminal_text
from functrax.core.ir.jaxpr import ClosedJaxpr
from functrax.core.types.aval import ShapedArray
from functrax.explanation.inputs import drawn
from functrax.export.exported import Exported
from functrax.export.tensors import read_tensors

_EPILOG: Final = """\
examples:
  python -m functrax show model.functrax
  python -m functrax run model.functrax x.npy 0.5 --out results.npz
  python -m functrax diff before.functrax after.functrax
  python -m functrax check model.functrax --size b=32
  python -m functrax explain model.functrax --html plan.html
  python -m functrax aot model.functrax --size b=1 --out build --name model
"""


class _Program(NamedTuple):
    """A program of a file: what it is called, its inputs, and the function that it is."""

    title: str
    text: Callable[[bool], str]
    names: Sequence[str]
    avals: Sequence[ShapedArray]
    function: Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line says.

    Args:
      arguments: the words of the command line; those of this process if None.

    Returns:
      0; 1 if ``diff`` found a difference, or ``check`` a wrong result; 2 for a wrong command line,
      or a file that cannot be read.
    """
    given = _parser().parse_args(arguments)
    try:
        return int(given.do(given))
    except BrokenPipeError:  # `| head` has read enough
        sys.stderr.close()
        return 0
    except (FunctraxError, OSError, UnicodeDecodeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1 if isinstance(error, functrax.errors.MiscompilationError) else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m functrax",
        description=__doc__.split("\n\n")[1].replace("``", ""),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, do: Callable[[Any], int], about: str, *files: str) -> Any:
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(do=do)
        for file in files:
            made.add_argument(file, help="a file of functrax.save, or a program's text")
        made.add_argument(
            "--size", action="append", default=[], metavar="NAME=N",
            help="the value of a size that has a name",
        )  # fmt: skip
        return made

    shown = command("show", _show, "Print a program.", "file")
    shown.add_argument("--no-source", action="store_true", help="without the user's lines")
    run = command("run", _run, "Run a program and print its results.", "file")
    run.add_argument(
        "arguments", nargs="*",
        help=".npy, .npz or .safetensors files, or numbers; random arrays if there are none",
    )  # fmt: skip
    run.add_argument("--out", metavar="FILE.npz", help="write the results to a file")
    command("diff", _diff, "Compare two programs, without names and lines.", "before", "after")
    command("check", _check, "Compare the compiled program with what it means.", "file")
    aot = command("aot", _aot, "Compile a program to files for C and C++.", "file")
    aot.add_argument("--out", default=".", metavar="FOLDER", help="where the files go")
    aot.add_argument("--name", help="of the function in C; that of the program if it is not given")
    aot.add_argument("--target", help="processors, as FUNCTRAX_CPU has them; this one if not given")
    aot.add_argument("--kind", default="object", choices=("object", "static", "shared"))
    doctor = commands.add_parser("doctor", help="Say what is wrong with this installation.")
    doctor.set_defaults(do=_doctor)
    explained = command("explain", _explain, "Say what a program is compiled to.", "file")
    explained.add_argument("--html", metavar="FILE", help="write a page with pictures")
    return parser


# ---- commands -----------------------------------------------------------------------------------


def _show(given: Any) -> int:
    program = _read(given.file, given.size)
    print(f"# {program.title}")
    print(terminal_text(program.text(not given.no_source)))
    return 0


def _run(given: Any) -> int:
    program = _read(given.file, given.size)
    values = [x for word in given.arguments for x in _values(word)]
    if given.arguments and len(values) != len(program.avals):
        raise ArgumentError(
            "run: another number of arguments than the program has inputs",
            got=f"{len(values)} arrays for {', '.join(program.names)}",
            fix="one for each input, or none for random ones",
        )
    random = np.random.default_rng(0)
    if not given.arguments:
        _check_sizes(program)
        values = [drawn(aval, random) for aval in program.avals]
    typed = [_typed(x, a) for x, a in zip(values, program.avals, strict=True)]
    outs = [np.asarray(x) for x in program.function(*typed)]
    for n, x in enumerate(outs):
        print(f"{n}: {x.dtype}{list(x.shape)}\n{x}")
    if given.out:
        np.savez(given.out, **{str(n): x for n, x in enumerate(outs)})  # type: ignore[arg-type]
    return 0


def _diff(given: Any) -> int:
    before, after = (
        _read(file, given.size).text(False).splitlines() for file in (given.before, given.after)
    )
    lines = [*difflib.unified_diff(before, after, given.before, given.after, lineterm="")]
    print("\n".join(lines) if lines else "the programs are equal")
    return 1 if lines else 0


def _check(given: Any) -> int:
    program = _read(given.file, given.size)
    _check_sizes(program)
    print(functrax.check(program.function)(*program.avals))
    return 0


def _explain(given: Any) -> int:
    program = _read(given.file, given.size)
    _check_sizes(program)
    explanation = functrax.explain(program.function)(*program.avals)
    if given.html:
        explanation.save(given.html)
    print(explanation)
    return 0


def _aot(given: Any) -> int:
    program = _read(given.file, given.size)
    _check_sizes(program)

    def function(*leaves: Any) -> Any:
        return program.function(*leaves)

    function.__name__ = program.function.__name__
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = named(program.names, ())
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in names]
    )
    specs = [functrax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.avals]
    made = functrax.aot(function, *specs, name=given.name, target=given.target)
    for path in made.write(given.out, kind=given.kind):
        print(path)
    return 0


def _doctor(given: Any) -> int:
    from functrax.tool.doctor import main as examine  # which no other command needs

    return examine()


# ---- files --------------------------------------------------------------------------------------


def _read(file: str, sizes: Sequence[str]) -> _Program:
    """The program of a file, for values of its sizes if they are given."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    known = dict(map(_size, sizes))
    if data.lstrip().startswith(b"{"):
        found = functrax.parse(data.decode(), sizes=known or None)
        if not isinstance(found, ClosedJaxpr):
            raise ArgumentError(
                "the text has constants without values", got=file, fix="their values behind where"
            )
        return _of_text(found)
    exported = functrax.export.deserialize(data)
    names = [] if exported.scope is None else list(exported.scope.names)
    if names and not known:
        return _of_file(exported)
    given = {name: n for name, n in known.items() if name in names}
    return _of_text(exported.program(given), exported)


def _of_text(closed: ClosedJaxpr, exported: Exported | None = None) -> _Program:
    jaxpr = closed.jaxpr
    names = jaxpr.arg_names or [str(n) for n in range(len(jaxpr.invars))]
    avals = jaxpr.in_avals
    function = functrax.extend.jaxpr_as_fun(closed)
    function.__name__ = jaxpr.name
    function = functrax.jit(function)
    title = _signature(jaxpr.name, names, avals, jaxpr.out_avals)
    if exported is None:
        return _Program(title, lambda source: closed.as_text(source=source), names, avals, function)
    tensors = list(exported.constants)
    return _Program(
        title, lambda source: closed.as_text(source=source, tensors=tensors), names, avals, function
    )


def _of_file(exported: Exported) -> _Program:
    """A program for all sizes, which can be shown."""

    def function(*leaves: Any) -> Any:
        args, kwargs = functrax.tree.unflatten(exported.in_tree, leaves)
        return functrax.tree.leaves(exported.call(*args, **kwargs))

    function.__name__ = exported.fun_name
    names, avals = exported.arg_names, exported.in_avals
    title = _signature(exported.fun_name, names, avals, exported.out_avals)
    return _Program(title, lambda source: exported.as_text(), names, avals, function)


def _signature(name: str, names: Any, avals: Any, outs: Any) -> str:
    inputs = ", ".join(f"{n}: {a.str_short()}" for n, a in zip(names, avals, strict=True))
    return f"{name}({inputs}) -> ({', '.join(a.str_short() for a in outs)})"


def _size(word: str) -> tuple[str, int]:
    name, _, number = word.partition("=")
    if not number.isdigit() or not name.isidentifier():
        raise ArgumentError("--size: not a name and a number", got=word, fix="--size b=32")
    return name, int(number)


def _check_sizes(program: _Program) -> None:
    """Refuse to make arrays of sizes that have no value."""
    for name, aval in zip(program.names, program.avals, strict=True):
        if any(map(functrax.export.is_symbolic_dim, aval.shape)):
            raise ArgumentError(
                "a size has a name and no value",
                got=f"{name} is {aval.str_short()}",
                fix="--size NAME=N for each name",
            )


# ---- arguments ----------------------------------------------------------------------------------


def _values(word: str) -> list[Any]:
    """The arrays that a word of the command line stands for."""
    end = word.rpartition(".")[2]
    if end == "npy":
        return [np.load(word, allow_pickle=False)]
    if end == "npz":
        with np.load(word, allow_pickle=False) as file:
            return [file[name] for name in file.files]
    if end == "safetensors":
        return list(read_tensors(Path(word).read_bytes())[0].values())
    try:
        return [complex(word) if "j" in word else float(word)]
    except ValueError:
        raise ArgumentError(
            "an argument that is neither a file nor a number",
            got=word,
            fix="a file that ends in .npy, .npz or .safetensors, or a number",
        ) from None


def _typed(x: Any, aval: ShapedArray) -> Any:
    """A number in the dtype of the input; an array as it is."""
    return np.asarray(x, aval.dtype) if isinstance(x, (float, complex)) else x
