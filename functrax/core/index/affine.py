"""Affine sums as data: ``const + Σ coef * atom``, with their hash, their size and their text.

Start at :class:`Affine`; :class:`~functrax.core.index.expr.IndexExpr` adds the arithmetic, and has
the atoms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeAlias

from functrax.core.errors.typed import ArgumentError

# Nested integer tuples: ordered, compared and hashed by Python itself.  No strings, so that the
# hash of an expression is the same in every process.
Key: TypeAlias = "tuple[object, ...]"


class Affine:
    """A sum of atoms, which are sums of themselves (abstract; immutable).

    Attributes:
      const: the constant of the affine sum.
      terms: ``((atom, coefficient), …)``, sorted, no coefficient 0.
      dims_mask: bit k is set when ``Dim(k)`` is used.
      loads_mask: bit n is set when extra operand n is read.
      size: how many nodes the expression has; what simplification makes smaller.
    """

    __slots__ = ("_hash", "_key", "const", "dims_mask", "loads_mask", "size")
    const: int
    size: int
    _key: Key
    _hash: int
    dims_mask: int
    loads_mask: int
    #: The operator of an atom that is a quotient or a remainder; else empty.
    digit: ClassVar[str] = ""

    @property
    def terms(self) -> tuple[tuple[Affine, int], ...]:
        """The atoms and their coefficients."""
        raise NotImplementedError

    def text(self) -> str:
        """The text of an atom."""
        raise NotImplementedError

    def used_dims(self) -> frozenset[int]:
        """The numbers of the dimensions that the expression depends on.

        Example:
          >>> from functrax.core.index.expr import Dim
          >>> sorted((Dim(0) + Dim(2) % 3).used_dims())
          [0, 2]
        """
        mask = self.dims_mask
        return frozenset(k for k in range(mask.bit_length()) if mask >> k & 1)

    def as_int(self) -> int | None:
        """The value of a constant expression, else None."""
        return None if self.terms else self.const

    def as_divisor(self, dividend: Affine, sign: str) -> int:
        """The value of a constant expression that something is divided by.

        Raises:
          ArgumentError: the expression is not constant, or is 0.
        """
        divisor = self.as_int()
        if not divisor:
            raise ArgumentError(
                f"index expression: '{sign}' takes a constant divisor other than 0",
                got=f"({dividend}) {sign} ({self})",
                fix="divide by an integer constant",
            )
        return divisor

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Affine):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return _sum_text(self.const, self.terms)

    def _seal(self, key: Key, const: int, parts: Iterable[Affine], size: int = 1) -> None:
        self.const = const
        self._key = key
        self._hash = hash(key)
        dims = loads = 0
        for part in parts:
            dims |= part.dims_mask
            loads |= part.loads_mask
            size += part.size
        self.dims_mask, self.loads_mask, self.size = dims, loads, size


def _sum_text(const: int, terms: tuple[tuple[Affine, int], ...]) -> str:
    text = ""
    for atom, coef in terms:
        part = atom.text()
        if atom.digit and (abs(coef) != 1 or (coef < 0 and not text)):
            part = f"({part})"
        part = part if abs(coef) == 1 else f"{abs(coef)}*{part}"
        sign = "-" if coef < 0 else "+"
        text += f" {sign} {part}" if text else sign.strip("+") + part
    if not text:
        return str(const)
    return text if const == 0 else f"{text} {'-' if const < 0 else '+'} {abs(const)}"
