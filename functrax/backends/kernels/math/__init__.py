"""Functions of floats, in scalar operations."""

from collections.abc import Callable

from functrax.core.lowering import Scalar

EXPANSIONS: dict[str, Callable[..., Scalar]] = {}
