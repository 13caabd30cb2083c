"""Looking at the compiler's work: :func:`explain`, :func:`explain_misses`, :func:`check`.

``explain`` shows what a function is compiled to and why; ``explain_misses`` why a jitted function
was traced again; ``check`` compares what is compiled with what is meant.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from functrax.backends.device import running_on
from functrax.core import records
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError
from functrax.explanation.checking import CheckReport as CheckReport, checked
from functrax.explanation.facts import explanation_of
from functrax.explanation.inputs import raw_inputs
from functrax.explanation.measuring import measured
from functrax.explanation.record import (
    Access as Access,
    Edge as Edge,
    Explanation as Explanation,
    KernelFacts as KernelFacts,
    Measurement as Measurement,
    PassFacts as PassFacts,
    ProgramLevel as ProgramLevel,
    Transfer as Transfer,
)
from functrax.explanation.transfers import transfers_of
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.staging.jit import Jitted, jit
from functrax.transforms.staging.traces import TraceReport


def jitted(transform: str, fun: Callable[..., Any], options: dict[str, Any]) -> Jitted:
    """A function as one that ``jit`` made, with these options if it was not made by it before."""
    check_callable(transform, fun)
    if not isinstance(fun, Jitted):
        made: Any = jit(fun, **options)
        return made  # type: ignore[no-any-return]
    if options:
        raise ArgumentError(
            f"{transform}: {name_of(fun)} is jitted already, so it takes no options of jit",
            got=", ".join(options),
            fix=f"{transform}(f), or the options with a function that is not jitted",
        )
    return fun


def explain(
    fun: Callable[..., Any], *, measure: bool = False, **jit_options: Any
) -> Callable[..., Explanation]:
    """A function that tells what ``fun`` is compiled to, for certain arguments.

    Args:
      fun: a pure function of pytrees of arrays; jitted or not, a derivative, anything.
      measure: whether to run the program and measure each kernel.
      jit_options: options of ``jit``, ``static_argnums`` for example.

    Returns:
      A function of the same arguments (or of their types, which stand for random arrays) that
      returns an :class:`Explanation`.  Printed, that is a table of kernels with the bytes that
      each reads and writes, the values that cross between kernels and why, memory, and the time
      that compilation took.

    Raises:
      ArgumentError: if ``fun`` is not a function, or is jitted already and options are given.

    >>> import functrax, functrax.numpy as jnp
    >>> def f(x):
    ...     return jnp.sqrt(x * 2 + 1).sum()
    >>> e = functrax.explain(f)(jnp.ones((100, 100)))
    >>> len(e.kernels), e.cost  # it reads 10,000 elements and writes one
    (1, 40004)
    """
    function = jitted("explain", fun, jit_options)

    @functools.wraps(fun)
    @boundary
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        device = function.device_for(args, kwargs)
        with running_on(device):
            compiled = function.lower(*args, **kwargs).compile()
        lowered = compiled.lowered
        found = explanation_of(lowered.name, compiled.compiled, lowered.traced.milliseconds)
        moves = transfers_of(*function.dynamic(args, kwargs), device, measure)
        if moves:
            found = dataclasses.replace(found, transfers=moves)
        return measured(found, raw_inputs(function, lowered, args, kwargs)) if measure else found

    return explained


@records.record
class Misses:
    """Why a function was traced, each time.  Prints as a list.

    Args:
      name: of the function.
      hits: calls that found their program.
      traces: the latest traces.
    """

    name: str
    hits: int
    traces: tuple[TraceReport, ...]

    def __str__(self) -> str:
        head = f"{self.name}: {len(self.traces)} traces, {self.hits} hits"
        return "\n".join([head, *map(str, self.traces)])

    __repr__ = __str__


def explain_misses(fun: Callable[..., Any]) -> Misses:
    """Why a jitted function was traced and compiled again.

    Args:
      fun: a function that ``jit`` returned.

    Returns:
      A record with one :class:`TraceReport` for each trace: the line that called the function, the
      earlier call that is most similar, and in which argument's shape, dtype, structure or static
      value they differ; and how many kernels had to be compiled.

    Raises:
      ArgumentError: if ``fun`` is not a jitted function.

    >>> import functrax, functrax.numpy as jnp
    >>> f = functrax.jit(lambda x: x * 2)
    >>> y = f(jnp.ones(3)), f(jnp.ones(4))
    >>> print(functrax.explain_misses(f).traces[1].differences[0])
    the shape of x: (3,) became (4,)
    """
    if not isinstance(fun, Jitted):
        raise ArgumentError(
            "explain_misses: the argument is not a jitted function",
            got=f"{fun!r} of type {type(fun).__name__}",
            fix="explain_misses(f), where f = functrax.jit(...)",
        )
    info = fun.cache_info()
    return Misses(name_of(fun), info.hits, info.history)


def check(fun: Callable[..., Any], **jit_options: Any) -> Callable[..., CheckReport]:
    """A function that checks that ``fun`` is compiled to what it means, for certain arguments.

    The program is run on the reference device as it was traced and after each pass of the
    compiler, and compiled; and each kernel is compared with its equations on the arrays that it is
    given.  Integers and truth values must be equal, floats as close as rounding lets them be.  The
    function's callbacks are called each time.

    Args:
      fun: a pure function of pytrees of arrays; jitted or not.
      jit_options: options of ``jit``.

    Returns:
      A function of the same arguments (or of their types, which stand for random arrays) that
      returns a :class:`CheckReport`.

    Raises:
      MiscompilationError: if something differs; it names the rewrite of a pass, or the kernel.

    >>> import functrax, functrax.numpy as jnp
    >>> report = functrax.check(lambda x: jnp.sqrt(x).sum())(jnp.arange(4.0))
    >>> report.launches
    1
    """
    function = jitted("check", fun, jit_options)

    @functools.wraps(fun)
    @boundary
    def compared(*args: Any, **kwargs: Any) -> CheckReport:
        compiled = function.lower(*args, **kwargs).compile()
        lowered = compiled.lowered
        values = raw_inputs(function, lowered, args, kwargs)
        return checked(lowered.name, compiled.compiled, values)

    return compared
