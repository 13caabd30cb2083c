"""Tracing: which interpreter is current, and the values that interpreters hand to user code.

A transformation is an interpreter, a :class:`Trace`.  One is current in each thread; it knows its
parent.  ``primitive.bind(*args)`` gives the operation to the current trace, whose ``process``
does its part and hands what is left to the parent, down to :class:`EvalTrace`, which computes.
A value that belongs to a trace is a :class:`Tracer`; a trace treats every value that is not its
own as a constant, and passes it on.

Start at :class:`Trace`; the interpreters themselves are in ``functrax.transforms``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from functrax.core import native
from functrax.core.arrays.operators import Array, ambiguous_truth
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.source import SourceLine, user_line
from functrax.core.errors.typed import (
    AxisNameError,
    ConcretizationError,
    LeakedTracerError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:
    from functrax.core.tracing.primitive import Primitive


@runtime_checkable
class CustomCall(Protocol):
    """A call of a function whose derivative the user gives: see
    ``functrax.transforms.user_rules``.

    Everything here takes and returns flat values, and runs under the current interpreter.
    """

    def function(self, *args: Any) -> Sequence[Any]:
        """The function itself."""

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents, by the user's rule."""

    def batch(
        self, trace: Any, args: Sequence[Any], batched: Sequence[bool]
    ) -> tuple[Sequence[Any], Sequence[bool]]:
        """Results for arguments batched by ``trace``, under its parent, and which are batched."""

    def partial_eval(self, trace: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The call where some arguments depend on a tangent of ``trace``."""

    def stage(self, trace: Trace, args: Sequence[Any]) -> Sequence[Any]:
        """Write the call into the program of a staging trace."""


class Trace(ABC):
    """An interpreter: says what an operation means for the values that belong to it."""

    __slots__ = ("alive", "direct", "name", "parent", "seen")

    def __init__(self, parent: Trace | None, name: str = "") -> None:
        self.parent = parent
        self.alive = True
        self.name = name
        #: Results of operations already processed, where they are shared: see `process_once`.
        self.seen: dict[Any, tuple[Sequence[Any], Any]] | None = None
        #: Operations on concrete arrays reach the bottom as they are, so C++ may take them there.
        self.direct = False

    def end(self) -> None:
        """Mark the end of the transformation: its values are dead, and nothing is remembered."""
        self.alive = False
        self.seen = None

    def share_below(self) -> None:
        """Have the interpreters below, but not the bottom one, process equal operations once.

        Nested derivatives repeat operations, three or four times with each level; sharing makes
        the work polynomial in the order.
        """
        below = self.parent
        while below is not None and below.parent is not None:
            if below.seen is None:
                below.seen = {}
            below = below.parent

    def process_once(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """As :meth:`process`, but an operation that was seen before gives its result again."""
        if self.seen is None or not primitive.pure:
            return self.process(primitive, args, params)
        key = (primitive, *map(id, args), *params.items())
        found = self.seen.get(key)
        if found is None:
            # Keeping the arguments alive keeps their ids their own.
            found = self.seen[key] = (args, self.process(primitive, args, params))
        return found[1]

    @abstractmethod
    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply ``primitive``; the result is one value, or a list when it has several."""

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        """Call a function that has a derivative of its own; here, just call it."""
        return call.function(*args)


class _State(threading.local):
    """What the running thread is doing; its C++ half is ``backends/native/thread_state.cpp``."""

    trace: Trace
    source: SourceLine | None = None
    axis_env: tuple[tuple[Hashable, int], ...] = ()

    def __init__(self) -> None:
        self.trace = EVAL


@with_boundaries
class Tracer(Array):
    """A value known only by its type, while a function is being transformed."""

    __slots__ = ("__weakref__", "_trace", "aval")

    def __init__(self, trace: Trace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval

    def __repr__(self) -> str:
        kind = type(self._trace).__name__.removesuffix("Trace").lower()
        return f"Traced<{self.aval.str_short()}>with<{kind}>"

    def origin(self) -> str:
        """Where the value was made, for errors; nothing if its trace does not know."""
        return ""

    def __copy__(self) -> Tracer:
        return self  # nothing changes it

    def __deepcopy__(self, memo: object) -> Tracer:
        return self

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise ambiguous_truth(self.aval)
        raise TracerBoolConversionError(
            f"bool: Attempted boolean conversion of {_typed(self)}. "
            "A traced value has no known truth value, so `if`, `while`, `and`, `or` "
            "and `assert` cannot look at it",
            got=_describe(self),
            fix="functrax.numpy.where(condition, a, b) or functrax.lax.cond for a choice, "
            "functrax.lax.while_loop for a loop, `&` and `|` for logic; or mark the argument "
            "with static_argnums",
        )

    def _no_scalar(
        self,
        kind: str,
        dtype: str = "",
        error: type[ConcretizationError] = ConcretizationError,
    ) -> ConcretizationError:
        if self.aval.shape:
            return ConcretizationError(
                f"{kind}: Only scalar arrays can be converted to Python scalars.",
                got=_describe(self),
                fix="x.item() and its like are for arrays of one element that are known",
            )
        cast = f"try using `x.astype({dtype})` instead, which keeps it an array" if dtype else ""
        return error(
            "Abstract tracer value encountered where concrete value is expected: "
            f"{kind}: a traced value has no known value that could become a Python {kind}",
            got=_describe(self),
            fix=f"{cast or 'keep it an array (functrax.numpy functions take arrays)'}; use "
            "functrax.lax.fori_loop for a loop, or mark the argument with static_argnums",
        )

    def __int__(self) -> int:
        raise self._no_scalar("int", "int", TracerIntegerConversionError)

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.is_integer(self.aval.dtype):
            raise ConcretizationError(
                "index: Only integer scalar arrays can be converted to a scalar index.",
                got=_describe(self),
                fix="an integer array of rank 0; functrax.numpy.take for several indices",
            )
        raise TracerIntegerConversionError(
            f"The __index__() method was called on {_typed(self)}. A traced value has no "
            "known value that could become a Python int",
            got=_describe(self),
            fix="keep it an array (functrax.numpy functions take arrays), use "
            "functrax.lax.fori_loop for a loop, or mark the argument with static_argnums",
        )

    def __float__(self) -> float:
        raise self._no_scalar("float", "float")

    def __complex__(self) -> complex:
        raise self._no_scalar("complex", "complex")

    def item(self, *args: Any) -> Any:
        """Not possible on a traced value; raises."""
        raise self._no_scalar("scalar")

    def tolist(self) -> Any:
        """Not possible on a traced value; raises."""
        raise self._no_scalar("list")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TracerArrayConversionError(
            f"The numpy.ndarray conversion method __array__() was called on {_typed(self)}. "
            "A traced value cannot become a NumPy array, for it has no value yet",
            got=_describe(self),
            fix="the function of the same name in functrax.numpy, or functrax.pure_callback "
            "to call NumPy when the program runs",
        )

    __hash__ = None  # type: ignore[assignment]

    def block_until_ready(self) -> Tracer:
        """Nothing to wait for; returns itself."""
        return self

    def copy_to_host_async(self) -> None:
        """Nothing to copy."""

    def is_deleted(self) -> bool:
        """False: there is no memory yet that could be freed."""
        return False

    def _no_memory(self, what: str) -> ConcretizationError:
        return ConcretizationError(
            f"{what}: a traced value has no memory of its own",
            got=_describe(self),
            fix="ask the result of the transformed function",
        )

    def delete(self) -> None:
        """Not possible on a traced value; raises."""
        raise self._no_memory("delete")

    def on_device_size_in_bytes(self) -> int:
        """Not possible on a traced value; raises."""
        raise self._no_memory("on_device_size_in_bytes")

    def addressable_data(self, index: int) -> Any:
        """Not possible on a traced value; raises."""
        raise self._no_memory("addressable_data")


def _typed(tracer: Tracer) -> str:
    """A traced value's type in full; JAX's messages have these words."""
    return f"traced array with shape {tracer.aval.str_long()}"


def _describe(tracer: Tracer) -> str:
    made = tracer._trace.name
    return f"{tracer!r}" + (f" while tracing {made}" if made else "")


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer that is used where its transformation does not reach."""
    name = tracer._trace.name or "a transformed function"
    got = f"{tracer!r}, made while {name} was being traced{tracer.origin()}; its type is "
    got += tracer.aval.str_long()
    if tracer._trace.alive:
        return LeakedTracerError(
            f"a function closes over a traced value of {name} that means nothing to it: functions "
            "with derivative rules of their own, and callbacks, can't close over such values",
            got=got,
            fix="pass the value as an argument; see functrax.closure_convert",
        )
    return LeakedTracerError(
        f"Encountered an unexpected tracer: a traced value leaked out of {name}: it is used after "
        "that function was traced (a side effect kept it, in global state for example)",
        got=got,
        fix="return the value from the function instead of storing it in a global, a list or "
        "an attribute; functrax.checking_leaks() finds where it is kept",
    )


class Executor(Protocol):
    """Computes one operation on concrete arrays; ``functrax.backends`` provides it."""

    def __call__(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Results are arrays: one, or a list when the primitive has several."""


class EvalTrace(Trace):
    """The bottom: computes with concrete arrays."""

    __slots__ = ("executor",)
    executor: Executor

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for x in args:
            if isinstance(x, Tracer):
                raise leaked(x)
        return self.executor(primitive, args, params)


EVAL = EvalTrace(None)
state: _State = _State() if native.extension is None else native.extension.ThreadState(EVAL)


def current_trace() -> Trace:
    """The current interpreter."""
    return state.trace


@contextmanager
def current(trace: Trace) -> Iterator[None]:
    """Make ``trace`` the current interpreter."""
    previous = state.trace
    state.trace = trace
    try:
        yield
    finally:
        state.trace = previous


@contextmanager
def source(line: SourceLine | None) -> Iterator[None]:
    """Make ``line`` the source of the equations made meanwhile."""
    previous = state.source
    state.source = line
    try:
        yield
    finally:
        state.source = previous


def _current_source() -> SourceLine | None:
    """The line that an equation made now belongs to."""
    return state.source or user_line()


current_source: Callable[[], SourceLine | None] = getattr(
    native.extension, "eager_line", _current_source
)


@contextmanager
def named_axis(name: Any, size: int) -> Iterator[None]:
    """Bind an axis name that collectives may use; ``None`` binds nothing."""
    previous = state.axis_env
    if name is not None:
        state.axis_env = (*previous, (name, size))
    try:
        yield
    finally:
        state.axis_env = previous


def axis_size(name: Any) -> int:
    """The size of a named axis.

    Raises:
      AxisNameError: if no enclosing ``vmap`` binds the name.
    """
    for bound, size in reversed(state.axis_env):
        if bound == name:
            return size
    bound_names = ", ".join(repr(n) for n, _ in state.axis_env) or "none"
    raise AxisNameError(
        f"axis name {name!r} is not bound here",
        got=f"bound axis names: {bound_names}",
        fix=f"functrax.vmap(f, axis_name={name!r}) around the function that uses it",
    )
