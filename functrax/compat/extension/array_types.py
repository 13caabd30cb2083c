"""The tables in which libraries say that their types are taken for arrays.

functrax takes whatever has ``__array__`` or ``__jax_array__``, so that the tables have nothing to
add: they refuse types that have neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.inputs import as_value
from functrax.transforms.arguments.inspect_types import typeof


class ArrayTypes(dict[type, Callable[[Any], Any]]):
    """A table of functions by the type of what they take.

    Args:
      what: the name of the table.
      function: what it has for types that functrax knows.
    """

    def __init__(self, what: str, function: Callable[[Any], Any]) -> None:
        known = (ConcreteArray, np.ndarray, np.generic, bool, int, float, complex)
        super().__init__(dict.fromkeys(known, function))
        self.what = what

    def __setitem__(self, type_: type, function: Callable[[Any], Any]) -> None:
        if not (hasattr(type_, "__array__") or hasattr(type_, "__jax_array__")):
            raise ArgumentError(
                f"{self.what}: the type cannot be taken for an array",
                got=repr(type_),
                fix="give it a method __jax_array__",
            )
        super().__setitem__(type_, function)


pytype_aval_mappings = ArrayTypes("pytype_aval_mappings", typeof)
canonicalize_dtype_handlers = ArrayTypes("canonicalize_dtype_handlers", as_value)
