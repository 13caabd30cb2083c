# What ``jit`` gives, for type checkers alone; ``jit.py`` has the class.
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from functrax.transforms.staging.lowered import Lowered
from functrax.transforms.staging.traced_function import TracedFunction
from functrax.transforms.staging.traces import CacheInfo

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

class JittedFunction(Generic[P, R]):
    """A function that is traced once per signature and then called as a program."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> JittedFunction[P, R]: ...
    @overload
    def __get__(
        self: JittedFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for certain arguments, without running it."""
    def trace(self, *args: Any, **kwargs: Any) -> TracedFunction:
        """The function traced for certain arguments, without compiling or running anything."""
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for certain arguments, as their pytree."""
    def cache_info(self) -> CacheInfo:
        """How often the function was traced and compiled, and why."""
    def clear_cache(self) -> None:
        """Forget the programs of this function."""

class Decorator(Protocol):
    """What ``jit`` gives without a function: it takes one."""

    def __call__(self, fun: Callable[P, R], /) -> JittedFunction[P, R]: ...
