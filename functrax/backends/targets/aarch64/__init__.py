"""Processors of AArch64, with NEON, which they all have.

Longer vectors (SVE) are of a length that is known when a kernel runs, which kernels are not written
for.

Start at :func:`target`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from functrax.backends.targets.facts import Facts, Target
from functrax.core.records import replace

FLAGS: Final = ("Features",)
#: LLVM's names of the system that object files are made for, and of the least processor.
TRIPLE, LEAST = "aarch64-unknown-linux-gnu", "generic"
KINDS: Final[Mapping[str, frozenset[str]]] = {}

NEON: Final = Target("AArch64 with NEON", folder=__name__, registers=32)


def target(facts: Facts) -> Target:
    """The target of a processor of which the system tells this."""
    return replace(
        NEON, identity=facts.identity, flags=facts.flags, second_cache=facts.second_cache
    )
