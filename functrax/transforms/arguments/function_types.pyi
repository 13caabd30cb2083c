# Types of functions that transformations take and give, for type checkers alone.
#
# ``grad`` differentiates by the first argument unless told otherwise.  What a call of a gradient
# gives depends on it: an array gives an Array, a pytree another of its type, and what has no
# annotation (a lambda's argument) gives Any.
#
# For pyright that is decided by the overloads of ``__call__``, not by those of ``grad``, which
# would have it guess the types of lambdas' arguments.  mypy, which takes MYPY to be true, takes the
# first overload of what is handed to a function (``vmap(grad(f))``), so for mypy it is decided by
# the overloads of ``grad`` and ``value_and_grad`` at the end of this file.
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from functrax.core.arrays.operators import Array, ArrayLike

MYPY = False

P = ParamSpec("P")
Q = ParamSpec("Q")  # the arguments after the first
A = TypeVar("A")  # what comes beside a value
R = TypeVar("R")  # a value
T = TypeVar("T")  # a pytree
X = TypeVar("X", bound=ArrayLike)  # an array

class Unannotated:
    """What no function says that it takes: those that take it have no annotation there."""

U = TypeVar("U", bound=Unannotated)

class Gradient(Generic[P]):
    """What ``grad`` gives."""

    if MYPY:
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    else:
        @overload
        def __call__(
            self: Gradient[Concatenate[U, Q]], first: U, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Any: ...
        @overload
        def __call__(
            self: Gradient[Concatenate[X, Q]], first: X, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Array: ...
        @overload
        def __call__(
            self: Gradient[Concatenate[T, Q]], first: T, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> T: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...

class GradientAndAux(Generic[P, A]):
    """What ``grad`` gives with ``has_aux``."""

    if MYPY:
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, A]: ...
    else:
        @overload
        def __call__(
            self: GradientAndAux[Concatenate[U, Q], A],
            first: U,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[Any, A]: ...
        @overload
        def __call__(
            self: GradientAndAux[Concatenate[X, Q], A],
            first: X,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[Array, A]: ...
        @overload
        def __call__(
            self: GradientAndAux[Concatenate[T, Q], A],
            first: T,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[T, A]: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, A]: ...

class ValueAndGradient(Generic[P, R]):
    """What ``value_and_grad`` gives."""

    if MYPY:
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]: ...
    else:
        @overload
        def __call__(
            self: ValueAndGradient[Concatenate[U, Q], R],
            first: U,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[R, Any]: ...
        @overload
        def __call__(
            self: ValueAndGradient[Concatenate[X, Q], R],
            first: X,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[R, Array]: ...
        @overload
        def __call__(
            self: ValueAndGradient[Concatenate[T, Q], R],
            first: T,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[R, T]: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]: ...

class ValueAuxAndGradient(Generic[P, R, A]):
    """What ``value_and_grad`` gives with ``has_aux``."""

    if MYPY:
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[tuple[R, A], Any]: ...
    else:
        @overload
        def __call__(
            self: ValueAuxAndGradient[Concatenate[U, Q], R, A],
            first: U,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[tuple[R, A], Any]: ...
        @overload
        def __call__(
            self: ValueAuxAndGradient[Concatenate[X, Q], R, A],
            first: X,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[tuple[R, A], Array]: ...
        @overload
        def __call__(
            self: ValueAuxAndGradient[Concatenate[T, Q], R, A],
            first: T,
            /,
            *args: Q.args,
            **kwargs: Q.kwargs,
        ) -> tuple[tuple[R, A], T]: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[tuple[R, A], Any]: ...

# What mypy sees of ``grad`` and ``value_and_grad``.

@overload
def grad(
    fun: Callable[Concatenate[U, Q], Any],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Gradient[Concatenate[Any, Q]]: ...
@overload
def grad(
    fun: Callable[Concatenate[X, Q], Any],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[X, Q], Array]: ...
@overload
def grad(
    fun: Callable[Concatenate[T, Q], Any],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[T, Q], T]: ...
@overload
def grad(
    fun: Callable[Concatenate[U, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> GradientAndAux[Concatenate[Any, Q], A]: ...
@overload
def grad(
    fun: Callable[Concatenate[X, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[X, Q], tuple[Array, A]]: ...
@overload
def grad(
    fun: Callable[Concatenate[T, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[T, Q], tuple[T, A]]: ...
@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[U, Q], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> ValueAndGradient[Concatenate[Any, Q], R]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[X, Q], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[X, Q], tuple[R, Array]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[T, Q], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[T, Q], tuple[R, T]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[U, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> ValueAuxAndGradient[Concatenate[Any, Q], R, A]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[X, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[X, Q], tuple[tuple[R, A], Array]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[T, Q], tuple[R, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[Concatenate[T, Q], tuple[tuple[R, A], T]]: ...
@overload
def value_and_grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...
