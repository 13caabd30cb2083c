"""What rules of the user's own have to return: checks of their results, and the errors.

``custom.py`` calls the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core import dtypes
from functrax.core.aval import ShapedArray
from functrax.core.errors import PyTreeError
from functrax.core.inputs import shown_type
from functrax.core.primitive import Value
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree import PyTreeDef
from functrax.transforms.flat import FlatFunction


class RuleFunction(FlatFunction):
    """A function with a rule; after a call, ``out_avals`` are the types of its results."""

    out_avals: list[ShapedArray] | None = None

    def __call__(self, *leaves: Value) -> list[Value]:
        outs = super().__call__(*leaves)
        self.out_avals = [x.aval for x in outs]
        return outs

    def check_same(
        self, rule: str, decorator: str, what: str, tree: PyTreeDef, outs: Sequence[Value]
    ) -> None:
        """Refuse results of a rule of other types than the function's, if that was called.

        Args:
          rule: what the rule is called in the error.
          decorator: ``"custom_jvp"`` or ``"custom_vjp"``.
          what: what the results are called: ``"primal"`` or ``"fwd"``.
          tree: their structure.
          outs: the results.
        """
        if self.out_avals is None:
            return
        same_types = [(x.aval.shape, x.aval.dtype) for x in outs] == [
            (a.shape, a.dtype) for a in self.out_avals
        ]
        if tree == self.out_tree and same_types:
            return
        shown = ", ".join([x.aval.str_long() for x in outs])
        wanted = ", ".join([a.str_long() for a in self.out_avals])
        same = "with leaves of the same shape/dtype"
        if tree != self.out_tree:
            same = "of the same container/pytree structure"
        raise PyTreeError(
            f"{rule} must produce a pair (list or tuple of length two) where the first element "
            "represents the primal output (equal in value to the output of the "
            f"{decorator}-decorated function {self.__name__}, and in particular {same}), but got "
            f"{what} output type {shown} which doesn't match the function's output type {wanted}",
            got=f"{tree} of {shown}",
            fix=f"{self.out_tree} of {wanted}",
        )


def brief(x: Any) -> str:
    """A value in an error: in full where that is short."""
    text = repr(x)
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
