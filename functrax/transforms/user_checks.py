"""``check``: an assertion in a program; it raises where ``checkify`` does not take it up.

``functrax.experimental.checkify`` has the users' functions, and the evaluation that turns
assertions into a value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from functrax.core.aval import ShapedArray
from functrax.core.primitive import Avals, Opaque, Ops, Tangents, Value, spread
from functrax.core.tracebacks import deliberate

SUFFIX = " (`check` failed)"  # of what a user's check says


def message(text: str, names: Sequence[str], values: Sequence[Any]) -> str:
    """A text with the values that it shows; the last ones by name."""
    shown = [np.asarray(x) for x in values]
    number = len(shown) - len(names)
    return text.format(*shown[:number], **dict(zip(names, shown[number:], strict=True)))


class Check(Opaque):
    """An effect: ``pred`` must hold, all of it; the other operands are shown if it does not.

    Under ``vmap`` the operands have the axes of ``pred`` in front.
    """

    name = "check"
    multiple_results = True
    pure = False
    holds_programs = True

    def shape_rule(
        self, *avals: ShapedArray, text: str, names: tuple[str, ...], debug: bool
    ) -> Avals:
        return ()

    def reference(
        self, pred: Any, *values: Any, text: str, names: tuple[str, ...], debug: bool
    ) -> list[Any]:
        holds = np.asarray(pred)
        if debug or holds.all():
            return []
        first = np.unravel_index(np.argmin(holds), holds.shape)
        shown = [np.asarray(x)[first] for x in values]
        raise deliberate(RuntimeError(message(text + SUFFIX, names, shown)))

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({"check"})

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        self.bind(*primals, **params)
        return [], []

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Value | None]:
        return [None] * len(operands)

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        self.bind(*spread(size, args, batched), **params)
        return [], []


check_p = Check()
