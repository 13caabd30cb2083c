"""``check``: an assertion in a program; it raises where ``checkify`` does not take it up.

``functrax.experimental.checkify`` has the users' functions, and the evaluation that turns
assertions into a value.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrax.core.boundaries.tracebacks import deliberate
from functrax.core.prims.comparisons import not_, or_
from functrax.core.prims.reduce import reduce_or
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Avals, Opaque, Ops, Tangents, Value, spread
from functrax.core.types.aval import ShapedArray

SUFFIX = " (`check` failed)"  # of what a user's check says


class JaxRuntimeError(ValueError, RuntimeError):
    """A check that does not hold."""

    __module__ = "functrax.experimental.checkify"  # where users find it


def message(text: str, values: Sequence[Any]) -> str:
    """A text with the values that it shows, which it names by their numbers."""
    return text.format(*[concrete(as_value(np.asarray(x))) for x in values])


_OPEN, _CLOSE = "\ue000", "\ue001"  # the braces of a field, among those that are shown


class _Field:
    """Stands for an array in a message: formatted, it is the field of a text with its number."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Field:
        if name.startswith("__"):  # NumPy, say, asks for its protocols
            raise AttributeError(name)
        return _Field(f"{self._name}.{name}")

    def __getitem__(self, index: Any) -> _Field:
        return _Field(f"{self._name}[{index}]")

    def __format__(self, spec: str) -> str:
        return f"{_OPEN}{self._name}{':' if spec else ''}{spec}{_CLOSE}"

    def __str__(self) -> str:
        return f"{_OPEN}{self._name}!s{_CLOSE}"

    def __repr__(self) -> str:
        return f"{_OPEN}{self._name}!r{_CLOSE}"


def numbered(text: str, args: Any, kwargs: Any) -> tuple[str, list[Any]]:
    """A text that shows pytrees, as one that shows arrays by number; and these.

    Raises:
      IndexError: if the text shows an argument that is not there, by position.
      KeyError: the same, by name.
    """
    leaves, tree = tree_flatten((args, kwargs))
    fields, named = tree_unflatten(tree, [_Field(str(n)) for n in range(len(leaves))])
    shown = text.format(*fields, **named).replace("{", "{{").replace("}", "}}")
    return shown.replace(_OPEN, "{").replace(_CLOSE, "}"), leaves


class _Running(threading.local):
    which: Value | None = None


_running = _Running()


@contextmanager
def checks_where(which: Value) -> Iterator[None]:
    """Within the block, checks of a batch are of the elements for which ``which`` is true."""
    before, _running.which = _running.which, which
    try:
        yield
    finally:
        _running.which = before


class Check(Opaque):
    """An effect: ``pred`` must hold, all of it; the other operands are shown if it does not.

    Under ``vmap`` the operands have the axes of ``pred`` in front.
    """

    multiple_results = True
    pure = False
    holds_programs = True

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def bind(self, pred: Value, *values: Value, **params: Any) -> Any:
        which, shape = _running.which, pred.aval.shape
        if which is not None:
            mapped = shape[:1] == which.aval.shape
            some = which if mapped else reduce_or.bind(which, axes=(0,))
            dims = (0,) if mapped else ()
            done = not_.bind(broadcast_in_dim.bind(some, shape=shape, dims=dims))
            pred = or_.bind(done, pred)
        return super().bind(pred, *values, **params)

    def shape_rule(self, *avals: ShapedArray, text: str, debug: bool) -> Avals:
        return ()

    def reference(self, pred: Any, *values: Any, text: str, debug: bool) -> list[Any]:
        holds = np.asarray(pred)
        if debug or holds.all():
            return []
        first = np.unravel_index(np.argmin(holds), holds.shape)
        shown = [np.asarray(x)[first] for x in values]
        raise deliberate(JaxRuntimeError(message(text + SUFFIX, shown)))

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({"check"})

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        self.bind(*primals, **params)
        return [], []

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Value | None]:
        return [None] * len(operands)

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        self.bind(*spread(size, args, batched), **params)
        return [], []


check_p = Check("check")
#: That an index is in bounds which was known when the program was traced.
index_check_p = Check("index_check")
