"""What follows from sizes, as LLVM IR: a table of numbers that a call fills before it begins.

Numbers of a case enter (``core/types/size_cases.py``): polynomials, and what was computed from them
by a few functions.  Code refers to them by their places in a table; in the end the function is
written that computes all of them from an array of sizes.

Start at :class:`SizeTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from functrax.ahead_of_time.writer import FunctionText
from functrax.backends.cost import estimated_launch_ns
from functrax.backends.executables.memory_plan import padded
from functrax.backends.kernels.values import bits_of
from functrax.backends.targets.facts import Target
from functrax.core.types import size_polynomials as sp
from functrax.core.types.size_cases import SizeCase
from functrax.core.types.size_polynomials import Polynomial, SizeAtom
from functrax.core.types.symbolic_scopes import OPERATIONS
from functrax.core.types.symbolic_sizes import Recorded, as_scalar

#: A function computes at most so many numbers: LLVM's time grows faster than its length.
_LONGEST: Final = 256
_FLOATS: Final = {"float32": ("float", 32), "float64": ("double", 64)}

#: Functions of sizes that code calls.
HELPERS: Final = """
define internal i64 @size.floordiv(i64 %a, i64 %b) nounwind {
  %quotient = sdiv i64 %a, %b
  %rest = srem i64 %a, %b
  %signs = xor i64 %rest, %b
  %opposite = icmp slt i64 %signs, 0
  %inexact = icmp ne i64 %rest, 0
  %lower = and i1 %opposite, %inexact
  %one = zext i1 %lower to i64
  %found = sub i64 %quotient, %one
  ret i64 %found
}
define internal i64 @size.mod(i64 %a, i64 %b) nounwind {
  %quotient = call i64 @size.floordiv(i64 %a, i64 %b)
  %whole = mul i64 %quotient, %b
  %found = sub i64 %a, %whole
  ret i64 %found
}"""


class SizeNumbers:
    """Writes numbers that follow from sizes into a function.

    Args:
      f: the function.
      names: of the sizes, in the order of the array that ``%sizes`` is the address of.
      case: that the numbers belong to; None for polynomials alone.
    """

    def __init__(self, f: FunctionText, names: Sequence[str], case: SizeCase | None = None) -> None:
        self._f, self._case = f, case
        self._place = {name: n for n, name in enumerate(names)}
        self._known: dict[Any, str] = {}

    def _once(self, key: Any, text: Callable[[], str]) -> str:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = text()
        return found

    # ---- integers -------------------------------------------------------------------------------

    def integer(self, x: Any) -> str:
        """A number of 64 bits."""
        if type(x) is not Recorded:
            return str(int(x))
        assert self._case is not None, "a number belongs to a case"
        p = self._case.polynomial_of(x)
        return self.polynomial(p) if p is not None else self._once(x.number, lambda: self._step(x))

    def polynomial(self, p: Polynomial) -> str:
        """A polynomial of sizes."""
        return self._once(sp.frozen(p), lambda: self._sum(p))

    def _sum(self, p: Polynomial) -> str:
        total = ""
        for monomial, times in sorted(p.items(), reverse=True):
            term = str(times)
            if monomial:
                product = self._product(monomial)
                term = product if times == 1 else self._f.value(f"mul i64 {product}, {times}")
            total = term if not total else self._f.value(f"add i64 {total}, {term}")
        return total or "0"

    def _product(self, monomial: tuple[SizeAtom, ...]) -> str:
        *before, last = monomial
        factor = self._once(last, lambda: self._atom(last))
        if not before:
            return factor
        rest = self._once(("product", *before), lambda: self._product(tuple(before)))
        return self._once(
            ("product", *monomial), lambda: self._f.value(f"mul i64 {rest}, {factor}")
        )

    def _atom(self, atom: SizeAtom) -> str:
        if not atom.arguments:
            place = self._f.offset("%sizes", 8 * self._place[atom.name])
            return self._f.value(f"load i64, ptr {place}")
        a, b = (self.polynomial(dict(x)) for x in atom.arguments)
        if atom.name in ("max", "min"):
            return self._f.value(f"call i64 @llvm.s{atom.name}.i64(i64 {a}, i64 {b})")
        return self._f.value(f"call i64 @size.{atom.name}(i64 {a}, i64 {b})")

    def magnitude(self, p: Polynomial) -> str:
        """A number of double precision that no part of a polynomial exceeds."""
        f, total = self._f, "0.0"
        for monomial, times in sorted(p.items()):
            product = _double(abs(times))
            for atom in monomial:
                size = self._once(("magnitude", atom), partial(self._size_of, atom))
                product = f.value(f"fmul double {product}, {size}")
            total = f.value(f"fadd double {total}, {product}")
        return total

    def _size_of(self, atom: SizeAtom) -> str:
        """No less than the magnitude of an atom; what is divided by is a number, or a size."""
        if not atom.arguments:
            integer = self._once(atom, lambda: self._atom(atom))
            return self._f.value(f"sitofp i64 {integer} to double")
        a, b = (self.magnitude(dict(x)) for x in atom.arguments)
        return self._f.value(f"fadd double {a}, {b}")

    # ---- what is no polynomial ------------------------------------------------------------------

    def _step(self, x: Recorded) -> str:
        assert self._case is not None
        step = self._case.step_of(x)
        assert step is not None, "what is no polynomial was computed"
        function, operands = step
        if function is bits_of:
            return self._bits(*operands)
        if function is estimated_launch_ns:
            return self._estimate(*operands)
        assert function in OPERATIONS, "no other functions are recorded"
        a, b = map(self.integer, operands)
        sign = {"add": "add", "sub": "sub", "mul": "mul"}.get(function.__name__)
        if sign is not None:
            return self._f.value(f"{sign} i64 {a}, {b}")
        return self._f.value(f"call i64 @size.{function.__name__}(i64 {a}, i64 {b})")

    def _bits(self, x: Recorded) -> str:
        """The bits of a float that is a size."""
        assert self._case is not None
        function, (size, dtype) = self._case.step_of(x) or (None, (None, None))
        assert function is as_scalar, "the bits of a literal"
        type_, bits = _FLOATS[np.dtype(dtype).name]
        value = self._f.value(f"sitofp i64 {self.integer(size)} to {type_}")
        found = self._f.value(f"bitcast {type_} {value} to i{bits}")
        return found if bits == 64 else self._f.value(f"sext i{bits} {found} to i64")

    def _estimate(
        self,
        extents: Sequence[Any],
        cycles: Sequence[float],
        arrays: Sequence[tuple[Any, int]],
        target: Target,
    ) -> str:
        """Nanoseconds of a launch, as ``backends/cost.py`` estimates them."""
        f = self._f
        steps, done = "1.0", _double(cycles[0])
        for extent, each in zip(extents, cycles[1:], strict=True):
            steps = f.value(f"fmul double {steps}, {self._double(extent)}")
            more = f.value(f"fmul double {steps}, {_double(each)}")
            done = f.value(f"fadd double {done}, {more}")
        computing = f.value(f"fmul double {done}, {_double(target.cycle_ns)}")
        nbytes = "0.0"
        for elements, size in arrays:
            least = self._smaller(self._double(elements), steps)
            part = f.value(f"fmul double {least}, {_double(size)}")
            nbytes = f.value(f"fadd double {nbytes}, {part}")
        moving = self._moving(nbytes, target)
        shorter = self._smaller(computing, moving)
        both = f.value(f"fadd double {computing}, {moving}")
        longer = f.value(f"fsub double {both}, {shorter}")
        exposed = f.value(f"fmul double {shorter}, {_double(target.exposed)}")
        total = f.value(f"fadd double {longer}, {exposed}")
        total = f.value(f"fadd double {total}, {_double(target.launch_ns)}")
        return f.value(f"call i64 @llvm.fptosi.sat.i64.f64(double {total})")

    def _moving(self, nbytes: str, target: Target) -> str:
        """Nanoseconds to move bytes to and from the smallest cache that has room."""
        f, found = self._f, "0.0"
        rates = (target.first_cache, target.cache_byte_ns), (target.second_cache, target.byte_ns)
        for room, rate in rates:
            beyond = f.value(f"fcmp ogt double {nbytes}, {_double(room)}")
            ns = f.value(f"fmul double {nbytes}, {_double(rate)}")
            found = f.value(f"select i1 {beyond}, double {ns}, double {found}")
        return found

    def _smaller(self, x: str, y: str) -> str:
        less = self._f.value(f"fcmp olt double {x}, {y}")
        return self._f.value(f"select i1 {less}, double {x}, double {y}")

    def _double(self, x: Any) -> str:
        return self._f.value(f"sitofp i64 {self.integer(x)} to double")


def _double(x: float) -> str:
    """A constant, bit for bit."""
    return f"0x{np.float64(x).view(np.uint64):016X}"


class SizeTable:
    """The numbers of a program for a region.

    Args:
      name: of the function that fills the table.
      case: the sizes of the region.
      names: of the sizes, in their order.
    """

    def __init__(self, name: str, case: SizeCase, names: Sequence[str]) -> None:
        self.name, self.case, self._names = name, case, names
        self._rows: list[Any] = []  # numbers, and names of functions
        self._places: dict[Any, int] = {}

    def place(self, x: Recorded) -> int:
        """The bytes before a number in the table."""
        return self.row([x])

    def row(self, values: Sequence[Any]) -> int:
        """The bytes before some numbers and addresses of functions that follow one another."""
        key = tuple([("size", x.number) if type(x) is Recorded else x for x in values])
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = 8 * len(self._rows)
            self._rows += values
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return padded(8 * len(self._rows))

    def definitions(self) -> list[str]:
        """The functions that fill it; no numbers may be added any more."""
        given = "ptr %sizes, ptr %table"
        parts, calls = list[str](), list[str]()
        for first in range(0, len(self._rows), _LONGEST):
            name = f"{self.name}.{len(parts)}"
            f = FunctionText(f"define internal void {name}({given}) nounwind")
            numbers = SizeNumbers(f, self._names, self.case)
            for n, x in enumerate(self._rows[first : first + _LONGEST], first):
                value = f"ptrtoint (ptr {x} to i64)" if type(x) is str else numbers.integer(x)
                f.line(f"store i64 {value}, ptr {f.offset('%table', 8 * n)}")
            f.line("ret void")
            parts.append(f.text())
            calls.append(f"  call void {name}({given})")
        head = f"define internal void {self.name}({given}) nounwind {{"
        return [*parts, "\n".join([head, *calls, "  ret void", "}"])]


def holds(f: FunctionText, numbers: SizeNumbers, region: Sequence[Polynomial]) -> str:
    """Whether polynomials are not negative, as a value."""
    found = "true"
    for p in region:
        value = f.value(f"icmp sge i64 {numbers.polynomial(p)}, 0")
        found = value if found == "true" else f.value(f"and i1 {found}, {value}")
    return found
