"""Rewrites: what a pass asks before it changes a program, and what remembers the changes.

Every pass takes a :class:`Rewrites` and calls :meth:`Rewrites.allow` before each rewrite.  That is
how the number of rewrites can be limited (to find the one that is wrong by bisection), counted, and
logged; the passes know nothing of any of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from functrax.core.ir.jaxpr import Eqn, Var

#: How far passes look, which bounds the time that they take: how many equations back a rule looks,
#: how often it rewrites one, and how many ways to do something are tried.
EFFORT: Final = 8


class Rewrites:
    """Counts the rewrites of one run of a pass.

    Args:
      limit: how many rewrites are allowed; None for any number.
      remember: whether to keep what was rewritten.
      detailed: whether to keep also what a pass says of what it left alone.

    Attributes:
      count: the rewrites so far.
      made: of each rewrite the rule and the equation, if they are kept; ``notes`` the rest.
    """

    __slots__ = ("count", "detailed", "limit", "made", "notes", "remember")

    def __init__(
        self, limit: int | None = None, remember: bool = False, detailed: bool = False
    ) -> None:
        self.count = 0
        self.limit = sys.maxsize if limit is None else limit
        self.remember = remember
        self.detailed = detailed
        self.made: list[tuple[str, Eqn]] = []
        self.notes: list[str] = []

    def allow(self, rule: str, eqn: Eqn) -> bool:
        """Whether a rule, in a few words, may rewrite one more equation; if so it is counted."""
        if self.count >= self.limit:
            if self.detailed:
                self.notes.append(f"limit reached: {rule}: {eqn!r}")
            return False
        self.count += 1
        if self.remember:
            self.made.append((rule, eqn))
        return True

    def lines(self, names: Mapping[Var, str]) -> list[str]:
        """One line for each rewrite that was kept, and the notes, with variables by name."""
        from functrax.core.ir.printing import eqn_text

        shown = []
        for number, (rule, eqn) in enumerate(self.made, 1):
            first, *rest = eqn_text(eqn, names).splitlines()
            where = "" if eqn.source is None else f"  # {eqn.source}"
            shown.append(f"{number}: {rule}: {first}{' ...' if rest else ''}{where}")
        return [*shown, *self.notes]
