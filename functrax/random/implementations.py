"""The generators of random bits that keys can be for, by JAX's names.

A key of ``threefry2x32`` is two words; one of ``rbg`` or ``unsafe_rbg`` is four, the state of XLA's
generator (``functrax.lax.generators``).  Inside of this package the shape of the words of a key
says which it is: ``(2,)``, ``(2, 2)`` or ``(4,)``.
"""

from __future__ import annotations

from functrax.core.records import record


@record
class Implementation:
    """A generator of random bits.

    Args:
      name: by which it is asked for.
      tag: which stands for it in the dtype of its keys.
      size: how many words a key has.
      inside: the shape of the words of a key for the functions of this package.
    """

    name: str
    tag: str
    size: int
    inside: tuple[int, ...]


THREEFRY = Implementation("threefry2x32", "fry", 2, (2,))
RBG = Implementation("rbg", "rbg", 4, (2, 2))
UNSAFE_RBG = Implementation("unsafe_rbg", "urbg", 4, (4,))

IMPLEMENTATIONS = {made.name: made for made in (THREEFRY, RBG, UNSAFE_RBG)}
