"""``%explain f(x)`` and ``%%explain``: what a call is compiled to, in IPython and notebooks.

Start at :class:`ExplainMagic`.
"""

from __future__ import annotations

import argparse
import ast
import sys
from types import FrameType
from typing import Any, Final, NoReturn

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.source import cell_number
from functrax.explanation import explain
from functrax.explanation.record import Explanation

_FIX: Final = "a call as the last line, such as loss(w, x)"
_HELP: Final = """\
Show what a call is compiled to; the call is not made.

    %explain [-m] [-o FILE] loss(w, x)

explains one call, and

    %%explain [-m] [-o FILE]
    w = jnp.ones(3)
    loss(w, x)

runs the lines of a cell except the last, which is a call, and explains that one.

    -m, --measure   run the program, and measure each kernel
    -o, --out FILE  also write the explanation: .html, .svg or .txt
"""


def _usage(what: str, got: str, fix: str) -> Exception:
    """What is wrong with the text of a magic, which IPython shows without a traceback."""
    from IPython.core.error import UsageError

    indented = got.replace("\n", "\n        ")
    found: Exception = UsageError(f"{what}\n  got   {indented}\n  try   {fix}")
    return found


class _Options(argparse.ArgumentParser):
    """Reads the options of the magic; what is wrong is an error, and not the end of the process."""

    def error(self, message: str) -> NoReturn:
        raise _usage(
            "explain: options that it does not have, or too few words",
            message,
            "%explain -m -o plan.html loss(w, x)",
        )


@with_boundaries
class ExplainMagic:
    """The magic ``explain``, for lines and for cells.

    Args:
      shell: the interpreter of IPython, or of a notebook.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._options = _Options(prog="%explain", add_help=False)
        self._options.add_argument("-m", "--measure", action="store_true")
        self._options.add_argument("-o", "--out")
        self.__doc__ = _HELP

    def __call__(self, line: str, cell: str | None = None) -> Explanation:
        options, call = _options_and_call(line)
        given = self._options.parse_args(options.split())
        if cell is not None and call:
            raise _usage("%%explain: the call is the cell's last line", call, _FIX)
        # Lines are counted from the first one of the cell, which has the magic.
        found = self._explained(call if cell is None else f"\n{cell}", given.measure)
        if given.out:
            found.save(given.out)
        return found

    def _explained(self, text: str, measure: bool) -> Explanation:
        shell = self._shell
        try:
            code = shell.transform_cell(text) if text.strip() else ""
            code = "\n" * (len(text) - len(text.lstrip("\n"))) + code.lstrip("\n")
            file = shell.compile.cache(code, _running_cell(), raw_code=code)
            tree = ast.parse(code, file)
        except SyntaxError as error:
            raise _usage("explain: the text is no Python", _pointed(error), _FIX) from None
        last = tree.body[-1] if tree.body else None
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call):
            got = "nothing" if last is None else ast.unparse(last)
            raise _usage("explain: there is no call to explain", got, _FIX)
        before = ast.Module(tree.body[:-1], type_ignores=[])
        exec(compile(before, file, "exec"), shell.user_ns)

        def explained(function: Any, *args: Any, **kwargs: Any) -> Explanation:
            return explain(function, measure=measure)(*args, **kwargs)

        # f(x) becomes explained(f, x), under a name that no program has.
        name = "functrax explain"
        asked = ast.Call(ast.Name(name, ast.Load()), [call.func, *call.args], call.keywords)
        expression = ast.Expression(ast.copy_location(asked, call))
        made = compile(ast.fix_missing_locations(expression), file, "eval")
        shell.user_ns[name] = explained
        try:
            found: Explanation = eval(made, shell.user_ns)
        finally:
            del shell.user_ns[name]
        return found


def _pointed(error: SyntaxError) -> str:
    """What is wrong with the syntax, and where: the line, and a mark below it."""
    line = (error.text or "").rstrip()
    where = f"line {error.lineno}: " if (error.lineno or 1) > 1 else ""
    column = (error.offset or 1) - 1
    return f"{where}{error.msg}\n{line}\n{' ' * column}^" if line else f"{where}{error.msg}"


def _running_cell() -> int:
    """The number of the cell that is being run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        number = cell_number(frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return 0


def _options_and_call(line: str) -> tuple[str, str]:
    """The options at the beginning of a line, and the rest, which is Python."""
    words = line.split(" ")
    end = 0
    while end < len(words) and (not words[end] or words[end].startswith("-")):
        end += 2 if words[end] in ("-o", "--out") else 1
    return " ".join(words[:end]), " ".join(words[end:]).strip()
