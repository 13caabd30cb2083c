"""Going through the statements of a tree, and changing those that are in others.

Start at :class:`Visitor` and :func:`with_bodies`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from functrax.backends.loops.tree import BODIES, Body, Statement
from functrax.core.records import replace


def with_bodies(statement: Statement, change: Callable[[Body], Body]) -> Statement:
    """A statement with other statements in it."""
    found = {}
    kind: Any = type(statement)
    for name in _bodies_of(kind):
        body = getattr(statement, name)
        if body and (new := change(body)) is not body:
            found[name] = new
    return replace(statement, **found) if found else statement


@cache
def _bodies_of(kind: type[Any]) -> tuple[str, ...]:
    names = {f.name for f in fields(kind)}
    return tuple([x for x in BODIES if x in names])


class Visitor:
    """Goes through statements: calls ``visit_Loop`` with each loop, if it is there, and so on."""

    def statements(self, body: Body) -> None:
        """Visit statements, one after the other."""
        for statement in body:
            visit = getattr(self, f"visit_{type(statement).__name__}", None)
            if visit is not None:
                visit(statement)
