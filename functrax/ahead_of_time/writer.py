"""The text of one function of LLVM IR: lines, values and blocks.

Start at :class:`FunctionText`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from functrax.core.records import record
from functrax.core.types.symbolic_sizes import Recorded

if TYPE_CHECKING:
    from functrax.ahead_of_time.sizes.numbers import SizeTable


@record
class BufferAddress:
    """A place in memory, which is worked out where it is used.

    Values that live through a long function cost LLVM more than they are worth.

    Args:
      base: a value.
      offset: bytes behind it; they may follow from sizes.
      loads: whether the address is what is stored there.
    """

    base: str
    offset: int = 0
    loads: bool = False

    def plus(self, nbytes: int) -> BufferAddress:
        """A place some bytes behind one that is not loaded."""
        assert not self.loads, "what is behind a loaded address is not known"
        return BufferAddress(self.base, self.offset + nbytes)


class FunctionText:
    """A function that is being written.

    Args:
      head: its first line, up to the brace.
      table: where numbers are that follow from sizes: at the address ``%table``.

    Attributes:
      block: the block that lines go to now.
      place: a note that is put behind calls; empty for none.
    """

    def __init__(self, head: str, table: SizeTable | None = None) -> None:
        self._head, self._table = head, table
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self.block = "start"
        self.place = ""

    def line(self, text: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """An instruction; the name of its value."""
        name = self.fresh()
        self._lines.append(f"  {name} = {text}")
        return name

    def fresh(self) -> str:
        """The name of a value that is yet to be written."""
        self._count += 1
        return f"%v{self._count}"

    def reserve(self, name: str, text: str) -> None:
        """Memory of a call of the function, at an address whose name is known already."""
        self._entry.append(f"  {name} = alloca {text}")

    def call(self, text: str) -> None:
        """A call without a value, of the current line of the user's."""
        self.line(f"call void {text}{self.place}")

    def label(self) -> str:
        """The name of a block that is yet to begin."""
        self._count += 1
        return f"b{self._count}"

    def begin(self, block: str) -> None:
        """Go on in a block."""
        self._lines.append(f"{block}:")
        self.block = block

    def go(self, block: str) -> None:
        """End the block with a jump."""
        self.line(f"br label %{block}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block with a jump to one of two."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block of what is done where a condition holds."""
        yes, after = self.label(), self.label()
        self.branch(condition, yes, after)
        self.begin(yes)
        yield
        self.go(after)
        self.begin(after)

    def open_phi(self, first: str, before: str, type_: str = "ptr") -> tuple[str, int]:
        """A phi at the begin of a loop; :meth:`close_phi` adds the value of the next round."""
        name = self.value(f"phi {type_} [ {first}, %{before} ], ")
        return name, len(self._lines) - 1

    def close_phi(self, number: int, value: str) -> None:
        """The value with which the loop of a phi goes on, from the current block."""
        self._lines[number] += f"[ {value}, %{self.block} ]"

    def number(self, x: Any) -> str:
        """An integer, which may follow from sizes."""
        if type(x) is not Recorded:
            return str(x)
        assert self._table is not None, "there are no sizes"
        return self.value(f"load i64, ptr {self.offset('%table', self._table.place(x))}")

    def offset(self, pointer: str, nbytes: int | str) -> str:
        """An address some bytes behind another."""
        if type(nbytes) is int and nbytes == 0:
            return pointer
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {self.number(nbytes)}")

    def at(self, address: BufferAddress, more: int = 0) -> str:
        """The value of an address, some bytes further on."""
        if not address.loads:
            return self.offset(address.base, address.offset + more)
        found = self.value(f"load ptr, ptr {self.offset(address.base, address.offset)}")
        return self.offset(found, more)

    def text(self) -> str:
        """The definition of the function."""
        return "\n".join([f"{self._head} {{", "start:", *self._entry, *self._lines, "}"])
