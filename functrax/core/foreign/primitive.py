"""Calls of the user's functions as the compiler knows them.

The primitive is in ``transforms/control/ffi_call.py``, for its batching needs loops.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from functrax.core.foreign import targets
from functrax.core.foreign.attributes import Attributes, plain
from functrax.core.foreign.calls import BoundCall, call
from functrax.core.foreign.descriptions import Shared
from functrax.core.tracing.primitive import MAX_REMEMBERED, Avals, Opaque
from functrax.core.types.aval import ShapedArray

#: What an application that must run does, whether or not its results are used.
EFFECT = "ffi"


@lru_cache(maxsize=MAX_REMEMBERED)
def _call(
    target: targets.ForeignTarget,
    in_avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    shared: Shared,
    attributes: Attributes,
) -> BoundCall:
    """A call outside of compiled programs: equal ones are one, and share what a handler keeps."""
    return call(target, in_avals, out_avals, shared, attributes, None)


class ForeignCall(Opaque):
    """Base: a function of the user's own of arrays.

    Its parameters: ``target`` is the name of the function, ``out_avals`` the types of its results,
    ``attributes`` are sorted by name (``core/foreign/attributes.py``), ``shared`` are pairs
    (operand, result) that share memory, ``has_side_effect`` says whether it must run even if
    nobody uses its results, ``vmap_method`` what ``vmap`` does.
    """

    multiple_results = True
    pure = False
    is_foreign = True
    takes_stored = True

    def shape_rule(
        self,
        *avals: ShapedArray,
        target: str,
        out_avals: tuple[ShapedArray, ...],
        attributes: Attributes,
        shared: Shared,
        has_side_effect: bool,
        vmap_method: str | None,
    ) -> Avals:
        if not targets.is_registered(target):
            targets.find(target, "cpu")  # raises
        for platform in targets.platforms_of(target):
            found = targets.find(target, platform)
            if found.check is not None:
                found.check(avals, out_avals, plain(attributes))
        return out_avals

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({EFFECT} if params["has_side_effect"] else ())

    def reference(
        self,
        *values: Any,
        target: str,
        out_avals: tuple[ShapedArray, ...],
        attributes: Attributes,
        shared: Shared,
        has_side_effect: bool,
        vmap_method: str | None,
    ) -> Any:
        operands = [np.require(x, requirements=["C", "A"]) for x in values]
        results = [np.empty(a.shape, a.dtype) for a in out_avals]
        for k, j in shared:
            results[j][...] = operands[k]
        in_avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        found = targets.find(target, "cpu")
        made = _call(found, tuple(in_avals), out_avals, shared, attributes)
        first = dict(shared)
        free = [x for k, x in enumerate(operands) if k not in first]
        made.run([x.ctypes.data for x in (*free, *results)])
        return results
