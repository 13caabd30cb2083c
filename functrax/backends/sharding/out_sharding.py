"""``out_sharding``, an argument of functions besides their own: where the result is to lie."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from functrax.core.arguments import argument_error, is_of_call

F = TypeVar("F", bound="Callable[..., Any]")

_PARAMETER = inspect.Parameter("out_sharding", inspect.Parameter.KEYWORD_ONLY, default=None)


def with_out_sharding(function: F) -> F:
    """A function that takes ``out_sharding``: a sharding of its result, or None.

    Args:
      function: its result is an array.
    """

    @functools.wraps(function)
    def made(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except TypeError as error:
            if is_of_call(error):
                raise argument_error(made, args, kwargs, error) from None
            raise
        if out_sharding is None:
            return result
        from functrax.backends.sharding.moving import on_sharding

        return on_sharding(result, out_sharding, function.__name__)

    signature = inspect.signature(function)
    parameters = [*signature.parameters.values(), _PARAMETER]
    made.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return made  # type: ignore[return-value]
