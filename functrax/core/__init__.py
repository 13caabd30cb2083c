"""The language: dtypes, avals, jaxprs, index maps, primitives, tracing; imports nothing else.

The names by which programs for JAX know it are here too.

>>> import functrax
>>> functrax.jit(lambda x: x * isinstance(x, functrax.core.Tracer))(3)
Array(3, dtype=int32, weak_type=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.core.lazy import on_demand as _on_demand, sources as _sources

if TYPE_CHECKING:
    from functrax.core.ir.jaxpr import (
        ClosedJaxpr as ClosedJaxpr,
        Jaxpr as Jaxpr,
        Literal as Literal,
        Var as Var,
    )
    from functrax.core.tracing.primitive import Primitive as Primitive
    from functrax.core.tracing.stage import eval_jaxpr as eval_jaxpr
    from functrax.core.tracing.trace import Tracer as Tracer
    from functrax.core.types.aval import ShapedArray as ShapedArray
else:
    __getattr__, __dir__ = _on_demand(
        globals(),
        (),
        _sources(
            {
                "functrax.core.types.aval": "ShapedArray",
                "functrax.core.ir.jaxpr": "ClosedJaxpr Jaxpr Literal Var",
                "functrax.core.tracing.primitive": "Primitive",
                "functrax.core.tracing.stage": "eval_jaxpr",
                "functrax.core.tracing.trace": "Tracer",
            }
        ),
    )
