"""Control flow as the compiler knows it: what runs which programs, and how often.

The primitives are in ``transforms/control``, for their rules need the transforms; their classes
derive from those here, which say what their parameters mean.  The compiler's own groups
(``backends/passes/groups.py``) are :class:`Grouping`.

Start at :class:`LoopPrimitive`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.tracing.primitive import HigherOrder


class LoopPrimitive(HigherOrder):
    """Runs a program many times, each time on what the time before gave (the *carry*)."""

    @abstractmethod
    def programs(self, params: Mapping[str, Any]) -> tuple[Jaxpr, ...]:
        """What it runs: its body, then the condition of a :class:`WhileLoop`."""

    @abstractmethod
    def first_carried(self, params: Mapping[str, Any]) -> int:
        """The number of its first operand that is carried; the results begin with these."""

    @abstractmethod
    def num_carry(self, eqn: Eqn) -> int:
        """How many values an equation of it carries."""


class ScanLoop(LoopPrimitive):
    """Runs ``jaxpr`` ``length`` times.

    Operands are ``num_consts`` constants, ``num_carry`` carried values, and arrays of which each
    step gets one element along axis 0; the last one first if ``reverse``.  Results are the last
    carry, and arrays with one element of each step.
    """

    def programs(self, params: Mapping[str, Any]) -> tuple[Jaxpr, ...]:
        return (params["jaxpr"],)

    def first_carried(self, params: Mapping[str, Any]) -> int:
        first: int = params["num_consts"]
        return first

    def num_carry(self, eqn: Eqn) -> int:
        number: int = eqn.params["num_carry"]
        return number


class WhileLoop(LoopPrimitive):
    """Runs ``body`` as long as ``cond`` holds.

    Operands are ``cond_consts`` constants of the condition, ``body_consts`` of the body, and the
    carried values; results are the last of these.
    """

    def programs(self, params: Mapping[str, Any]) -> tuple[Jaxpr, ...]:
        return params["body"], params["cond"]

    def first_carried(self, params: Mapping[str, Any]) -> int:
        first: int = params["cond_consts"] + params["body_consts"]
        return first

    def num_carry(self, eqn: Eqn) -> int:
        return len(eqn.outvars)


class Choice(HigherOrder):
    """Runs one of ``branches``: operand 0 is its number, the others are the branch's."""


class Grouping(HigherOrder):
    """Runs ``jaxpr`` once, on its operands: equations that the compiler computes together."""
