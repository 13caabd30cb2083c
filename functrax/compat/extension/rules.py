"""The tables of rules that JAX's extension interface fills, and the values that rules see.

A tangent or cotangent that is zero is a :class:`Zero`; an operand that is transposed is an
:class:`UndefinedPrimal`.  Lowerings are traced, as ``lowering.py`` says.

A rule belongs to a :class:`~functrax.compat.extension.user_primitives.Primitive`.  The primitives
of functrax have their rules in their classes, so a table refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.registry import register_pytree_node
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Value
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:
    from functrax.compat.extension.user_primitives import Primitive

Rule: TypeAlias = Callable[..., Any]


class Rules(dict["Primitive", Rule]):
    """A table of rules by primitive."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        if primitive.own is not None:
            raise ArgumentError(
                f"{self.what}: only a primitive of your own can be given a rule",
                got=f"a rule for {primitive}",
                fix="wrap functions in jax.custom_jvp or jax.custom_vjp to change derivatives; "
                "make a primitive with jax.extend.core.Primitive(name)",
            )
        super().__setitem__(primitive, rule)


primitive_jvps = Rules("ad.primitive_jvps")
primitive_transposes = Rules("ad.primitive_transposes")
primitive_batchers = Rules("batching.primitive_batchers")
axis_primitive_batchers = Rules("batching.axis_primitive_batchers")
fancy_primitive_batchers = Rules("batching.fancy_primitive_batchers")
lowerings = Rules("mlir.register_lowering")


class Zero:
    """A tangent or cotangent that is zero, of a type; a pytree without leaves."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(value.aval.to_tangent_aval())

    def instantiate(self) -> Value:
        """An array of zeros."""
        from functrax.transforms.interpreters.forward import zero_tangent

        return zero_tangent(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


def instantiate_zeros(tangent: Any) -> Any:
    """An array in place of a :class:`Zero`; anything else as it is."""
    return tangent.instantiate() if type(tangent) is Zero else tangent


def zeros_like_aval(aval: ShapedArray) -> Value:
    """An array of zeros of a type."""
    return concrete(zeros(aval))


def as_tangent(value: Value | None, primal: ShapedArray) -> Any:
    """A tangent as JAX's rules want it."""
    return Zero(primal.to_tangent_aval()) if value is None else concrete(value)


def from_tangent(value: Any) -> Value | None:
    """What a rule gave for a tangent or a cotangent; None where it is zero."""
    from functrax.core.tracing.inputs import as_value
    from functrax.core.types import dtypes

    if value is None or type(value) is Zero:
        return None
    found = as_value(value)
    return None if found.aval.dtype == dtypes.float0 else found


class UndefinedPrimal:
    """An operand that is transposed: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.str_short()})"


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose is what is transposed."""
    return type(x) is UndefinedPrimal


def register_lowering(
    prim: Primitive,
    rule: Rule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Rule:
    """Say how a primitive is compiled.

    Args:
      prim: a primitive of your own.
      rule: what ``lower_fun`` returned, or a function of a context, the operands and, by keyword,
        the parameters, that writes no MLIR.  One that does is refused where the primitive is
        compiled.
      platform: for one platform alone; what is not for the CPU is not used here.
      inline: means nothing here: what is lowered is always part of the program.
      cacheable: means nothing here.

    Returns:
      The rule.
    """
    if platform in (None, "cpu") and (platform == "cpu" or prim not in _of_platform):
        lowerings[prim] = rule
        if platform == "cpu":
            _of_platform.add(prim)
    return rule


_of_platform: set[Any] = set()
