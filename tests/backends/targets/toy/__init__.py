"""A target for tests: short vectors, few registers, and no instruction that others lack.

What it makes runs on the machine that the tests run on, whose dialect it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from functrax.backends.targets.facts import Facts, Target
from functrax.core.records import replace

FLAGS: Final = ("Features",)
KINDS: Final[Mapping[str, frozenset[str]]] = {"toy-0": frozenset()}
TRIPLE, LEAST = "toy-unknown-linux-gnu", "toy-0"

TOY: Final = Target(
    "toy", folder=__name__, vector_bytes=16, registers=8, functions=frozenset(), kernel_ns=16.0
)


def target(facts: Facts) -> Target:
    """The target of a processor of which the system tells this."""
    return replace(TOY, identity=facts.identity or "a toy", flags=facts.flags)
