"""What a jitted function is at each stage, from the function to machine code; as ``jax.stages``.

>>> import functrax
>>> f = functrax.jit(lambda x: x + 1)
>>> isinstance(f, Wrapped), isinstance(f.trace(1.0), Traced)
(True, True)
>>> isinstance(f.lower(1.0), Lowered), isinstance(f.lower(1.0).compile(), Compiled)
(True, True)
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

from functrax.core.lazy import listing as _listing
from functrax.transforms.staging.lowered import Compiled as Compiled, Lowered as Lowered
from functrax.transforms.staging.staged import ArgInfo as ArgInfo
from functrax.transforms.staging.traced_function import TracedFunction as Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

#: What ``compiler_options`` of ``functrax.jit`` and of :meth:`Lowered.compile` are.
CompilerOptions: TypeAlias = dict[str, str | bool]


@runtime_checkable
class Wrapped(Protocol):
    """A jitted function, which can be traced and lowered for certain arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The function traced for the types of the arguments."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Its program, as the compiler takes it."""


__dir__ = _listing(globals())
