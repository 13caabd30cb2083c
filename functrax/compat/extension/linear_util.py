"""Functions with transformations of their arguments and results around them, as JAX writes them.

A :class:`WrappedFun` is a function and what is done around it.  A transformation is written as
``gen(f, *static, *args)``, which calls ``f`` (``transformation2``), or as a generator that yields
the changed arguments and then the changed results (``transformation``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from functrax.core.errors.typed import FunctraxError

Around = Callable[..., Any]


class StoreException(FunctraxError):  # noqa: N818 - JAX's name
    """The second result of a transformation was asked for before the first, or was made twice."""


class Store:
    """Where a transformation leaves what it gives besides the results."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        """Keep a value; to keep another one is an error."""
        if self._values and self._values[0] != value:
            raise StoreException(
                "linear_util: a function was called again and gave another auxiliary result",
                got=f"{value!r} after {self._values[0]!r}",
                fix="wrap the function again for each call",
            )
        self._values = [value]

    @property
    def val(self) -> Any:
        """The value."""
        if not self._values:
            raise StoreException(
                "linear_util: an auxiliary result was asked for too early",
                got="no call of the function yet",
                fix="call the wrapped function first",
            )
        return self._values[0]


class WrappedFun:
    """A function with transformations around it."""

    def __init__(self, f: Callable[..., Any], called: Callable[..., Any], debug_info: Any) -> None:
        self.f = f
        self._called = called
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with all that is around it."""
        return self._called(*args, **kwargs)

    def around(self, transformation: Around, *static: Any) -> WrappedFun:
        """The function with one more transformation around it."""
        return WrappedFun(self.f, partial(transformation, self._called, *static), self.debug_info)

    def __repr__(self) -> str:
        return f"WrappedFun({self.__name__})"


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """A function with nothing around it yet.

    Args:
      f: a function.
      params: keyword arguments for every call.
      debug_info: what it is called; see ``jax.api_util.debug_info``.
    """
    return WrappedFun(f, partial(f, **params) if params else f, debug_info)


def _generator_as_function(gen: Around) -> Around:
    def around(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        running = gen(*args, **kwargs)
        changed, changed_kwargs = next(running)
        return running.send(f(*changed, **changed_kwargs))

    return around


def transformation2(gen: Around, *given: Any) -> Any:
    """A transformation written as ``gen(f, *static, *args)``; without a function, a decorator."""
    if not given:
        return partial(transformation2, gen)
    fun, *static = given
    return fun.around(gen, *static)


def transformation(gen: Around, *given: Any) -> Any:
    """A transformation written as a generator of the arguments, then of the results."""
    around = _generator_as_function(gen)
    if not given:
        return partial(transformation2, around)
    return transformation2(around, *given)


def transformation_with_aux2(gen: Around, *given: Any) -> Any:
    """As :func:`transformation2`, of ``gen(f, store, *static, *args)``: a second result."""
    if not given:
        return partial(transformation_with_aux2, gen)
    fun, *static = given
    store = Store()
    return fun.around(gen, store, *static), lambda: store.val


def transformation_with_aux(gen: Around, *given: Any) -> Any:
    """As :func:`transformation`, where the generator's last yield is ``results, second``."""

    def around(f: Callable[..., Any], store: Store, *args: Any, **kwargs: Any) -> Any:
        results, second = _generator_as_function(gen)(f, *args, **kwargs)
        store.store(second)
        return results

    if not given:
        return partial(transformation_with_aux2, around)
    return transformation_with_aux2(around, *given)


def merge_linear_aux(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[bool, Any]:
    """The second result of whichever of two functions was called, and whether it was the first."""
    try:
        return True, first()
    except StoreException:
        return False, second()


def cache(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Remember the results of a function of hashable arguments."""
    return lru_cache(maxsize=4096)(call)
