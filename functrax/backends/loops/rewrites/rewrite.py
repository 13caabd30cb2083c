"""What rewrites have in common: their text, and how they find loops in a tree.

Start at :class:`Rewrite`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from functrax.backends.loops.bodies import with_bodies
from functrax.backends.loops.tree import Body, Carried, Function, Loop, Statement
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar

_Rewrite = TypeVar("_Rewrite", bound="Rewrite")


#: All rewrites, by the words that their texts begin with.
KINDS: Final[dict[str, type[Rewrite]]] = {}


class Rewrite(ABC):
    """A change of a tree that keeps what it computes.

    A subclass is a record of integers and tuples of integers.  A field whose name begins with
    ``dim`` is written with a ``d``, one that begins with ``buffer`` with a ``b``.
    """

    #: The word that its text begins with.
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    @property
    def is_required(self) -> bool:
        """Whether the tree means something else without it, so that it is never left out."""
        return False

    @abstractmethod
    def apply(self, tree: Function) -> Function:
        """The tree that it makes of one."""

    def __str__(self) -> str:
        words = [self.kind]
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            letter = _letter(f.name)
            values = value if isinstance(value, tuple) else (value,)
            words += [f"{letter}{int(x)}" for x in values]
        return " ".join(words)

    @classmethod
    def of_words(cls: type[_Rewrite], words: Sequence[str]) -> _Rewrite:
        """The rewrite whose text has these words after its kind."""
        numbers = [int(x.lstrip("db")) for x in words]
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        if names[-1:] == ["dims"]:
            many = numbers[len(names) - 1 :]
            return cls(*numbers[: len(names) - 1], tuple(many))  # type: ignore[call-arg]
        return cls(*numbers)


def _letter(name: str) -> str:
    return "d" if name.startswith("dim") else "b" if name.startswith("buffer") else ""


#: What stands for a statement; None to look inside of it.
Change: TypeAlias = "Callable[[Any], Sequence[Statement] | None]"


def changed(body: Body, change: Change) -> Body:
    """A body in which other statements stand for some."""
    found: list[Statement] = []
    for s in body:
        others = change(s)
        if others is None:
            others = [with_bodies(s, lambda inside: changed(inside, change))]
        found += others
    same = len(found) == len(body) and all(x is y for x, y in zip(found, body))
    return body if same else tuple(found)


def on_loops(
    tree: Function, dim: int, change: Callable[[Loop], Sequence[Statement]], **facts: Any
) -> Function:
    """A tree in which other statements stand for each loop over a dim, and with other facts."""

    def on_loop(s: Statement) -> Sequence[Statement] | None:
        return change(s) if type(s) is Loop and s.dim == dim else None

    return replace(tree, body=changed(tree.body, on_loop), **facts)


def carried(
    carries: Sequence[Carried],
    firsts: Sequence[Scalar] | None = None,
    results: Sequence[Scalar] | None = None,
) -> tuple[Carried, ...]:
    """What a loop carries, from other first values on, or with other names in the end."""
    if firsts is not None:
        carries = [replace(c, first=x) for c, x in zip(carries, firsts, strict=True)]
    if results is not None:
        carries = [replace(c, result=x) for c, x in zip(carries, results, strict=True)]
    return tuple(carries)


def nest(loop: Loop) -> list[Loop]:
    """A loop and the loops inside of it, as long as they stand alone."""
    found = [loop]
    while len(found[-1].body) == 1 and type(found[-1].body[0]) is Loop:
        found.append(found[-1].body[0])
    return found


def nested(loops: Sequence[Loop], body: Body) -> Loop:
    """Loops one inside the other, around a body."""
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    (outermost,) = body
    assert type(outermost) is Loop
    return outermost
