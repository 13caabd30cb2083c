"""The innermost loops of contractions on the matrix unit of x86-64 (AMX).

The unit has eight matrices of 16 rows of 64 bytes.  Four of them hold the sums of a tile that is up
to two matrices high and two wide, two what is read of the left side, two what is of the right one.
How many rows and bytes they have is *configured* before (:func:`configured`), once in a kernel; its
end gives the unit back (:func:`released`), so that a switch of threads has nothing to save.

The function is called as that of other tiles is (``llvm/functions/tile_sums.py``).  The loop that
is the innermost one is over words; its extent is a multiple of 16, and the words of a row of the
left side are neighbours.

Start at :func:`unit_sums_text`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from functrax.backends.targets.sums import Sums

#: Rows of a matrix, and bytes of a row.
ROWS: Final = 16
LINE: Final = 64
#: The numbers of the matrices that hold what is read of the left and of the right side.
_LEFT, _RIGHT = 4, 6
#: The palette; then for all matrices the bytes and the numbers of their rows, in the processor's
#: layout, as numbers of 64 bits.
_CONFIGURATION: Final = (
    1, 0, 0x0040_0040_0040_0040, 0x0040_0040_0040_0040, 0, 0, 0x1010_1010_1010_1010, 0,
)  # fmt: skip
_INTEGERS: Final = {
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
}


def configured() -> list[str]:
    """The lines at the begin of a kernel."""
    lines = ["  %unit = alloca [8 x i64], align 64"]
    for k, number in enumerate(_CONFIGURATION):
        lines.append(f"  %unit{k} = getelementptr i64, ptr %unit, i64 {k}")
        lines.append(f"  store i64 {number}, ptr %unit{k}")
    return [*lines, "  call void @llvm.x86.ldtilecfg(ptr %unit)"]


def released() -> list[str]:
    """The lines at its end."""
    return ["  call void @llvm.x86.tilerelease()"]


def unit_sums_text(what: Sums, name: str) -> str:
    """The function as a module of LLVM IR."""
    return _Text(what, name).module()


class _Text:
    """Writes the function."""

    def __init__(self, what: Sums, name: str) -> None:
        self.what, self.name = what, name
        self.high, self.wide = what.height // ROWS, what.width
        self.lines: list[str] = []
        self.numbers = count()

    def line(self, right: str) -> str:
        name = f"%v{next(self.numbers)}"
        self.lines.append(f"  {name} = {right}")
        return name

    def call(self, name: str, *operands: str) -> None:
        self.lines.append(f"  call void @llvm.x86.{name}({', '.join(operands)})")

    def module(self) -> str:
        """The whole text."""
        head = (
            f"define void @{self.name}(ptr %left, ptr %right, ptr %tile, ptr %numbers, "
            "i64 %count, i64 %more, ptr %panel, ptr %later, i64 %pitch) nounwind {"
        )
        loops = self.what.loops
        steps = [[self._bytes(2 + 2 * k + j) for j in range(2)] for k in range(loops)]
        extents = ["%count", *(self._number(2 + 2 * loops + k) for k in range(loops - 1))]
        self.rows = self._bytes(0)
        self.next_matrix = self.line(f"mul i64 {self.rows}, {ROWS}")
        self.words = steps[-1][1]
        # The loop over words goes on by as many as a row of a matrix has.
        steps[-1] = [str(LINE), self.line(f"mul i64 {self.words}, {ROWS}")]
        extents[-1] = self.line(f"lshr i64 {extents[-1]}, 4")
        self._begin()
        self._loop(0, "begun", ["%left", "%right"], steps, extents)
        for k, place in self._places():
            self.call("tilestored64", f"i8 {k}", f"ptr {place}", f"i64 {LINE * self.wide}")
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"]) + "\n"

    def _number(self, n: int) -> str:
        return self.line(f"load i64, ptr {self.line(f'getelementptr i64, ptr %numbers, i64 {n}')}")

    def _bytes(self, n: int) -> str:
        return self.line(f"shl i64 {self._number(n)}, 2")

    def _places(self) -> list[tuple[int, str]]:
        """For each matrix of sums its number and where it is in the tile."""
        found = []
        for k in range(self.high * self.wide):
            i, j = divmod(k, self.wide)
            found.append((k, self._moved("%tile", str((i * ROWS * self.wide + j) * LINE))))
        return found

    def _moved(self, pointer: str, offset: str) -> str:
        return self.line(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _begin(self) -> None:
        """The sums so far, or zero."""
        goes_on = self.line("icmp ne i64 %more, 0")
        self.lines += [f"  br i1 {goes_on}, label %further, label %first", "further:"]
        for k, place in self._places():
            self.call("tileloadd64", f"i8 {k}", f"ptr {place}", f"i64 {LINE * self.wide}")
        self.lines += ["  br label %begun", "first:"]
        for k in range(self.high * self.wide):
            self.call("tilezero", f"i8 {k}")
        self.lines += ["  br label %begun", "begun:"]

    def _loop(
        self,
        depth: int,
        before: str,
        pointers: list[str],
        steps: list[list[str]],
        extents: list[str],
    ) -> None:
        """The loop at a depth, and those in it."""
        label = f"loop{depth}"
        self.lines += [f"  br label %{label}", f"{label}:"]
        first = len(self.lines)
        places = [self.line(f"phi ptr [ {p}, %{before} ], ") for p in pointers]
        left = self.line(f"phi i64 [ {extents[depth]}, %{before} ], ")
        if depth + 1 < self.what.loops:
            self._loop(depth + 1, label, places, steps, extents)
        else:
            self._step(*places)
        end = f"{label}.end"
        self.lines += [f"  br label %{end}", f"{end}:"]
        moved = [self._moved(p, step) for p, step in zip(places, steps[depth], strict=True)]
        fewer = self.line(f"add i64 {left}, -1")
        for k, value in enumerate([*moved, fewer]):
            self.lines[first + k] += f"[ {value}, %{end} ]"
        more = self.line(f"icmp ne i64 {fewer}, 0")
        self.lines += [f"  br i1 {more}, label %{label}, label %{label}.exit", f"{label}.exit:"]

    def _step(self, left: str, right: str) -> None:
        """16 words of each row of the tile, times 16 words of each of its columns."""
        for j in range(self.wide):
            place = self._moved(right, str(LINE * j))
            self.call("tileloadd64", f"i8 {_RIGHT + j}", f"ptr {place}", f"i64 {self.words}")
        for i in range(self.high):
            self.call("tileloadd64", f"i8 {_LEFT + i}", f"ptr {left}", f"i64 {self.rows}")
            left = self._moved(left, self.next_matrix) if i + 1 < self.high else left
            for j in range(self.wide):
                sums = f"i8 {i * self.wide + j}"
                self.call(self._instruction(), sums, f"i8 {_LEFT + i}", f"i8 {_RIGHT + j}")

    def _instruction(self) -> str:
        kind, left, right = self.what.dot
        return "tdpbf16ps" if kind == "tile bf16" else _INTEGERS[left, right]
