"""What is needed to extend functrax: primitives and transformations of one's own.

A primitive is a subclass of :class:`Elementwise` or :class:`Opaque` (or, rarely, of
:class:`Primitive`) with one instance, which registers itself.  A transformation is a subclass of
:class:`Trace`, and one of :class:`Tracer` where its values carry something.  There is one of each
in ``docs/architecture.md``.

>>> import functrax
>>> class Cube(Elementwise):
...     name = "example_cube"
...     accepts = dtypes.FLOATING
...
...     def reference(self, x):
...         return x * x * x
...
...     def partial(self, i, operands, out):
...         (x,) = operands
...         return 3.0 * x * x
>>> cube = Cube()
>>> functrax.grad(cube)(2.0)
Array(12., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.core.syntax.verify import meta_only as meta_only, verify as verify
from functrax.core.tracing.inputs import as_value as as_value
from functrax.core.tracing.primitive import (
    Avals as Avals,
    BadSample as BadSample,
    Elementwise as Elementwise,
    Linear as Linear,
    Opaque as Opaque,
    Primitive as Primitive,
    Sample as Sample,
    Value as Value,
    like as like,
    literal as literal,
    registry as registry,
)
from functrax.core.tracing.trace import (
    Trace as Trace,
    Tracer as Tracer,
    current as current,
    current_trace as current_trace,
)
from functrax.core.types import dtypes as dtypes
from functrax.core.types.aval import ShapedArray as ShapedArray
from functrax.transforms.arguments.flat import (
    FlatFunction as FlatFunction,
    flatten_args as flatten_args,
)
from functrax.transforms.arguments.inspect_types import jaxpr_as_fun as jaxpr_as_fun

__dir__ = _listing(globals())
