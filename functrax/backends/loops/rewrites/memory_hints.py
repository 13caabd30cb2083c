"""Hints to memory: what is asked for before it is read, and what goes past the caches."""

from __future__ import annotations

from typing import ClassVar

from functrax.backends.kernels.accesses import coefficient, rows_read
from functrax.backends.kernels.ir import Reduce, Store
from functrax.backends.loops import tree as trees
from functrax.backends.loops.rewrites.rewrite import Rewrite, changed, nest, nested
from functrax.backends.loops.tree import Function, Loop, Poll, Statement
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar


@record
class PrefetchRows(Rewrite):
    """The next row is asked for while one is computed.

    While a row is read for the first time nothing is computed, so it is asked for in the loop that
    goes through it a second time, if there is one.

    Args:
      dim: of the innermost loop around those of a row.
    """

    kind: ClassVar[str] = "prefetch"
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree that fetches ahead."""
        body = tree.body
        loops: list[Loop] = []
        while not loops or loops[-1].dim != self.dim:
            (loop,) = body
            assert type(loop) is Loop
            loops.append(loop)
            body = loop.body
        inner = [n for n, s in enumerate(body) if type(s) is Loop]
        first, second = inner[0], inner[min(1, len(inner) - 1)]
        fetches = [
            trees.Prefetch(buffer, address, self.dim)
            for buffer, address in rows_read(_reduced(body[first]), tree.vector)
            if coefficient(address, self.dim)
        ]
        inside = (*body[:second], _with(body[second], fetches), *body[second + 1 :])
        return replace(tree, body=(nested(loops, inside),))


def _reduced(loop: Statement) -> list[Scalar]:
    """What the innermost statements of a nest reduce."""
    assert type(loop) is Loop
    return [x for s in nest(loop)[-1].body if type(s) is Reduce for x in s.values]


def _with(loop: Statement, fetches: list[trees.Prefetch]) -> Loop:
    """A nest whose innermost steps fetch something first."""
    assert type(loop) is Loop
    loops = nest(loop)
    body = loops[-1].body
    polls = sum(type(s) is Poll for s in body[:1])
    return nested(loops, (*body[:polls], *fetches, *body[polls:]))


@record
class Stream(Rewrite):
    """Stores of whole vectors to an array go past the caches.

    Args:
      buffer: the array.
    """

    kind: ClassVar[str] = "stream"
    buffer: int

    def apply(self, tree: Function) -> Function:
        """The tree with its stores marked."""

        def change(s: Statement) -> list[Statement] | None:
            there = type(s) is Store and s.buffer == self.buffer
            return [replace(s, streams=True)] if there else None

        return replace(tree, body=changed(tree.body, change))
