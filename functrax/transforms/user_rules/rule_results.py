"""What rules of the user's own have to return: checks of their results, and the errors.

``custom_jvp.py`` and ``custom_vjp.py`` call the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from functrax.core.errors.typed import PyTreeError
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree.operations import PyTreeDef, tree_unflatten
from functrax.core.tracing.inputs import shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction


class RuleFunction(FlatFunction):
    """A function with a rule; after a call, ``out_avals`` are the types of its results."""

    out_avals: list[ShapedArray] | None = None

    def __call__(self, *leaves: Value) -> list[Value]:
        outs = super().__call__(*leaves)
        self.out_avals = [x.aval for x in outs]
        return outs

    def check_same(self, rule: str, kind: Kind, tree: PyTreeDef, outs: Sequence[Value]) -> None:
        """Refuse results of a rule of other types than the function's, if that was called.

        Args:
          rule: what the rule is called in the error.
          kind: what kind of rule it is.
          tree: the structure of its results.
          outs: the results.
        """
        if self.out_avals is None:
            return
        avals = [x.aval for x in outs]
        same_types = [(a.shape, a.dtype) for a in avals] == [
            (a.shape, a.dtype) for a in self.out_avals
        ]
        if tree == self.out_tree and same_types:
            return
        other_tree = tree != self.out_tree
        compared = "container/pytree structure" if other_tree else "shapes/dtypes of"
        same = f"of the same {compared}" if other_tree else "with leaves of the same shape/dtype"
        shown, wanted = _types(tree, avals), _types(self.out_tree, self.out_avals)
        raise PyTreeError(
            f"{rule} must produce a pair (list or tuple of length two) where the first element "
            f"represents the primal output {kind.first(self.__name__, same)}, but instead the "
            f"{kind.called} rule output's first element had {compared}:\n    {shown}\nwhile the "
            f"{kind.decorator}-decorated function {self.__name__} had output {compared}:\n"
            f"    {wanted}.",
            got=f"{tree} of {shown}",
            fix=f"{self.out_tree} of {wanted}",
        )


class Kind(NamedTuple):
    """A kind of rule, in errors: the decorator, what the rule is called, what it returns first."""

    decorator: str
    called: str
    first: Callable[[str, str], str]  # of the function's name, and of what has to be the same


JVP_RULE: Final = Kind(
    "custom_jvp",
    "JVP",
    lambda name, same: (
        f"(equal in value to the output of the custom_jvp-decorated function {name}, and in "
        f"particular {same})"
    ),
)
FWD_RULE: Final = Kind(
    "custom_vjp",
    "fwd",
    lambda name, same: (
        f"(equal to the output of the custom_vjp-decorated function {name}) and the second "
        "element represents residuals (i.e. values stored from the forward pass for use on the "
        "backward pass)"
    ),
)


def _types(tree: PyTreeDef, avals: Sequence[ShapedArray]) -> str:
    """A structure with the types of its leaves."""
    return str(tree_unflatten(tree, [_Shown(a.str_long()) for a in avals]))


class _Shown:
    """A text that containers show without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def brief(x: Any) -> str:
    """A value in an error: in full where that is short."""
    text = str(x)
    return text if len(text) <= 100 else shown_type(x)


def fitted(value: Value, aval: ShapedArray, mixed: bool = False) -> Value | None:
    """A tangent or cotangent from a user's rule in the type that it has to have; else None.

    Args:
      value: what the rule returned.
      aval: the type.
      mixed: whether it may be of another precision, as in programs of mixed precision.
    """
    given = value.aval
    if given.shape != aval.shape:
        return None
    if given.dtype == aval.dtype:
        return value
    of_kind = dtypes.is_float(given.dtype) and dtypes.is_inexact(aval.dtype)
    of_kind |= dtypes.is_complex(given.dtype) and dtypes.is_complex(aval.dtype)
    if not (given.weak_type or (mixed and of_kind)):
        return None
    return convert_element_type.bind(value, dtype=aval.dtype)
