"""Applies the rewrites of a schedule, and reads them from text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from functrax.backends.loops.rewrites.rewrite import KINDS, Rewrite
from functrax.backends.loops.tree import Function


def rewritten(
    tree: Function,
    schedule: Iterable[Rewrite],
    look: Callable[[Function], None] | None = None,
) -> Function:
    """A tree after the rewrites of a schedule, one after the other.

    Args:
      tree: the plain one.
      schedule: the rewrites.
      look: what is called with each tree on the way, the first and the last included.
    """
    if look is not None:
        look(tree)
    for rewrite in schedule:
        tree = rewrite.apply(tree)
        if look is not None:
            look(tree)
    return tree


def parse_rewrite(text: str) -> Rewrite:
    """The rewrite that a text says.

    >>> from functrax.backends.loops.rewrites.vectorize import Vectorize
    >>> parse_rewrite("vectorize d1 16")
    Vectorize(dim=1, lanes=16)
    """
    kind, *words = text.split()
    return KINDS[kind].of_words(words)
