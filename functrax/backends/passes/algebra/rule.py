"""What a rule of ``passes/algebra/rule_table.py`` is, what it sees, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from functrax.core.ir.jaxpr import Atom, Eqn
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive


class New(NamedTuple):
    """An equation to be made; its operands may be to be made too."""

    primitive: Primitive
    operands: tuple[Any, ...]
    params: dict[str, Any] = {}  # noqa: RUF012


class Made(dict[Atom, Eqn]):
    """For each variable the equation that makes it.

    Attributes:
      ranges: what was found of values that many steps back (``passes/algebra/ranges.py``).
    """

    def __init__(self, eqns: Mapping[Atom, Eqn] | None = None) -> None:
        super().__init__(eqns or {})
        self.ranges: dict[tuple[Atom, int], Any] = {}

    def by(self, primitive: Primitive, x: Atom) -> Eqn | None:
        """The equation that makes ``x``, if it applies the primitive."""
        found = self.get(x)
        return found if found is not None and found.primitive is primitive else None

    def operand(self, primitive: Primitive, x: Atom) -> Atom | None:
        """The first operand of the equation that makes ``x``, if it applies the primitive."""
        found = self.get(x)
        return found.invars[0] if found is not None and found.primitive is primitive else None


@record
class Rule:
    """A simplification.

    Args:
      name: what logs call it.
      primitives: those that it is about, or what tells whether it is about one.
      apply: takes an equation and what made its operands; returns a simpler value, or None.
      constant: it is asked only where an operand is a number.
    """

    name: str
    primitives: tuple[Primitive, ...] | Callable[[Primitive], bool]
    apply: Callable[[Eqn, Made], Any]
    constant: bool = False

    def is_about(self, primitive: Primitive) -> bool:
        """Whether it may apply to equations of a primitive."""
        found = self.primitives
        return found(primitive) if callable(found) else primitive in found
