"""The primitive ``ffi_call``: a function of the user's own, compiled elsewhere.

What it does, and how it is called, is in ``core/foreign``; here are its rules.  It has no
derivative; ``vmap`` calls it once with arrays of one axis more, or in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.errors.typed import DifferentiationError, VmapMethodError
from functrax.core.foreign.primitive import ForeignCall
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Ops, Tangents, Value, spread
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.user_loops import scan
from functrax.transforms.interpreters.batching import add_batch_axis

VMAP_METHODS = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    "legacy_vectorized",
)


def _no_derivative(target: str, what: str) -> DifferentiationError:
    return DifferentiationError(
        f"ffi_call: the FFI call to {target!r} cannot be differentiated: it has no {what}",
        got=f"a derivative of {target!r}",
        fix="functrax.custom_jvp or functrax.custom_vjp around the call; or jvp= or vjp= of "
        "functrax.code and functrax.ffi.c_function",
    )


class FfiCall(ForeignCall):
    """A function of the user's own of arrays."""

    name = "ffi_call"

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        if any(t is not None for t in tangents):
            raise _no_derivative(params["target"], "jvp")
        outs = self.bind(*primals, **params)
        return outs, [None] * len(outs)

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Value | None]:
        raise _no_derivative(params["target"], "transpose")

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        method = params["vmap_method"]
        if method is None:
            raise VmapMethodError(
                f"ffi_call: vmap of the target {params['target']!r} is only supported with a "
                "vmap_method",
                got="vmap_method=None",
                fix=f"one of {', '.join(VMAP_METHODS)} as vmap_method=",
            )
        if method.startswith("sequential"):
            outs = self._in_turn(size, args, batched, params)
            return outs, [True] * len(outs)
        if method == "broadcast_all":
            args = spread(size, args, batched, literals=True)
        elif method == "expand_dims":
            args = [x if b else add_batch_axis(x, 1) for x, b in zip(args, batched, strict=True)]
        wider = tuple(ShapedArray((size, *a.shape), a.dtype) for a in params["out_avals"])
        outs = self.bind(*args, **{**params, "out_avals": wider})
        return outs, [True] * len(outs)

    def _in_turn(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> list[Any]:
        """Results of one call for each element, in a loop."""

        def step(_: None, elements: Sequence[Any]) -> tuple[None, list[Any]]:
            given = iter(elements)
            operands = [next(given) if b else x for x, b in zip(args, batched, strict=True)]
            return None, list(map(concrete, self.bind(*operands, **params)))

        mapped = [concrete(x) for x, b in zip(args, batched, strict=True) if b]
        unroll = params["vmap_method"] == "sequential_unrolled"
        outs: list[Any] = scan(step, None, mapped, length=size, unroll=unroll)[1]
        return outs


ffi_call_p = FfiCall()
