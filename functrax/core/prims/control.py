"""Control flow as the compiler knows it: what runs which programs, and how often.

The primitives are in ``transforms/control``, for their rules need the transforms; their classes
derive from those here, which say what their parameters mean.  The compiler's own groups
(``backends/passes/groups.py``) are :class:`Grouping`.

Start at :class:`Loop`.
"""

from __future__ import annotations

from functrax.core.tracing.primitive import HigherOrder


class Loop(HigherOrder):
    """Runs a program many times, each time on what the time before gave (the *carry*)."""


class ScanLoop(Loop):
    """Runs ``jaxpr`` ``length`` times.

    Operands are ``num_consts`` constants, ``num_carry`` carried values, and arrays of which each
    step gets one element along axis 0; the last one first if ``reverse``.  Results are the last
    carry, and arrays with one element of each step.
    """


class WhileLoop(Loop):
    """Runs ``body`` as long as ``cond`` holds.

    Operands are ``cond_consts`` constants of the condition, ``body_consts`` of the body, and the
    carried values; results are the last of these.
    """


class Choice(HigherOrder):
    """Runs one of ``branches``: operand 0 is its number, the others are the branch's."""


class Grouping(HigherOrder):
    """Runs ``jaxpr`` once, on its operands: equations that the compiler computes together."""
