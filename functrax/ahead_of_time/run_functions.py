"""Functions that run launches: one by itself, and several whose units threads share at once.

All are called as a kernel is, ``void f(void** buffers, const int64_t* numbers, int64_t begin,
int64_t end)``.  Of a run of launches the units are nanoseconds of estimated time, by which each of
them is divided as ``backends/runtime/executor.py`` does.

Start at :class:`RunFunctions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.kernel_functions import KernelFunctions
from functrax.ahead_of_time.sizes.numbers import SizeTable
from functrax.ahead_of_time.writer import FunctionText
from functrax.backends.executables.program import Instruction, Launch
from functrax.backends.machine_code.kernel_jit import KernelText, LaunchCode
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import VerificationError
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: The unit of a launch at a point of the time that a run takes.
UNIT_AT: Final = """
define internal i64 @unit_at(i64 %at, i64 %first, i64 %length, i64 %units) nounwind {
  %far = sub i64 %at, %first
  %late = call i64 @llvm.smax.i64(i64 %far, i64 0)
  %part = call i64 @llvm.smin.i64(i64 %late, i64 %length)
  %whole = sdiv i64 %units, %length
  %rest = srem i64 %units, %length
  %most = mul i64 %whole, %part
  %scaled = mul i64 %rest, %part
  %more = sdiv i64 %scaled, %length
  %unit = add i64 %most, %more
  ret i64 %unit
}"""


def kernel_of(x: object) -> KernelText:
    """The text of what a launch runs."""
    if not isinstance(x, KernelText):
        raise VerificationError(
            "aot: a launch of what is not compiled here",
            got=str(x),
            fix="report this: the compiler wrote what it does not read",
        )
    return x


class RunFunctions:
    """The functions of a module that run launches.

    Args:
      kernels: the functions of the module.
      constants: its constants.
      lines: the user's line of each instruction.
      prefix: what the names of functions begin with.
      table: the numbers that follow from sizes; None if there are none.
    """

    def __init__(
        self,
        kernels: KernelFunctions,
        constants: Constants,
        lines: Mapping[Instruction, SourceLine],
        prefix: str,
        table: SizeTable | None,
    ) -> None:
        self._kernels, self._constants, self._lines = kernels, constants, lines
        self._prefix, self._table = prefix, table
        self._texts: list[str] = []

    def launched(self, x: Launch, f: FunctionText) -> tuple[str, str]:
        """The function of a launch, and the address of the numbers that it is called with.

        Args:
          x: the launch.
          f: the function that calls it.
        """
        code: LaunchCode = x.owner
        line = self._lines.get(x)
        numbers: list[int | str] = list(x.params)
        for place, called in code.calls:
            numbers[place] = f"@{self._kernels.name(kernel_of(called), line)}"
        name = self._kernels.name(kernel_of(code.kernel), line)
        if self._table is None or not any(map(is_symbolic_dim, numbers)):
            return f"@{name}", self._constants.numbers(numbers)
        return f"@{name}", f.offset("%table", self._table.row(numbers))

    def together(self, run: Sequence[Launch], places: Sequence[int]) -> tuple[str, str]:
        """A function that does a part of the time that several launches take, and its numbers.

        Args:
          run: the launches.
          places: where the addresses of each one's arrays begin, in bytes.
        """
        name = f"{self._prefix}.together.{len(self._texts)}"
        given = "ptr %buffers, ptr %table, i64 %begin, i64 %end"
        f = FunctionText(f"define internal void {name}({given}) nounwind", self._table)
        first: Any = 0
        for x, place in zip(run, places, strict=True):
            function, numbers = self.launched(x, f)
            length = max(x.cost, 1)
            rest = ", ".join([f"i64 {f.number(n)}" for n in (first, length, x.units)])
            low, high = (
                f.value(f"call i64 @unit_at(i64 {at}, {rest})") for at in ("%begin", "%end")
            )
            some = f.value(f"icmp slt i64 {low}, {high}")
            with f.when(some):
                buffers = f.offset("%buffers", place)
                f.call(f"{function}(ptr {buffers}, ptr {numbers}, i64 {low}, i64 {high})")
            first += length
        f.line("ret void")
        self._texts.append(f.text())
        return name, "null" if self._table is None else "%table"

    def definitions(self) -> list[str]:
        """The texts of the functions."""
        return [*([UNIT_AT] if self._texts else []), *self._texts]
