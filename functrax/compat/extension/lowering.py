"""What lowering rules are given and call, so that they are traced instead of writing MLIR.

A rule written for JAX takes a context and MLIR values.  Here it takes traced arrays in their place:
a rule that only passes them on, to ``mlir.lower_fun`` or to ``mlir.emit_python_callback``, works
unchanged; one that builds MLIR itself asks for names that are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct
from functrax.transforms.operations.callbacks import io_callback, pure_callback


@dataclass
class ModuleContext:
    """What belongs to a whole program: the platforms it is for, and objects that it needs."""

    platforms: tuple[str, ...] = ("cpu",)
    keepalives: list[Any] = field(default_factory=list)

    def add_keepalive(self, keepalive: Any) -> None:
        """Keep an object for as long as the program; callbacks are kept by their equations."""
        self.keepalives.append(keepalive)


@dataclass
class LoweringRuleContext:
    """What a lowering rule is told.

    Args:
      primitive: the primitive that is lowered.
      avals_in, avals_out: the types of operands and results.
      module_context: of the program.
      tokens_in: of ordered effects, which functrax orders itself.
    """

    primitive: Any
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    module_context: ModuleContext = field(default_factory=ModuleContext)
    tokens_in: Any = None


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Any],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[ShapedArray],
    result_avals: Sequence[ShapedArray],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Any], Any, Any]:
    """A call of a Python function from a program, within a lowering rule.

    Args:
      ctx: the rule's context.
      callback: takes an array for each operand, and returns a sequence of arrays.
      token: of ordered effects, or None; given back.
      operands: what it is given.
      operand_avals, result_avals: the types of operands and results.
      has_side_effect: whether the call stands also where no result is used.
      returns_token, partitioned, sharding: of no meaning on one device.

    Returns:
      The results, the token, and None in place of an object to keep alive.
    """
    types = [ShapeDtypeStruct(a.shape, a.dtype) for a in result_avals]
    call = io_callback if has_side_effect else pure_callback
    return list(call(lambda *xs: list(callback(*xs)), types, *operands)), token, None


@dataclass(frozen=True, eq=False)
class LoweredFunction:
    """``mlir.lower_fun(f)``: a lowering rule that is what ``f`` does.

    Args:
      function: takes the operands and, by keyword, the parameters.
      multiple_results: whether it returns a sequence.
    """

    function: Callable[..., Any]
    multiple_results: bool

    def __call__(self, ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
        """The results, as a list."""
        out = self.function(*args, **params)
        return list(out) if self.multiple_results else [out]


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """A lowering rule that traces a function.

    Args:
      fun: takes the operands of a primitive and its parameters, by keyword.
      multiple_results: whether it returns a sequence of results, or one.
    """
    return LoweredFunction(fun, multiple_results)
