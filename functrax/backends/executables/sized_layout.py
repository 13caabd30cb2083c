"""Where temporaries lie whose sizes have names instead of values.

Start at :class:`SizedLayout`.
"""

from __future__ import annotations

from operator import ge

from functrax.core.types.size_bounds import roughly, surely


class SizedLayout:
    """Places of an arena, each used again by what is surely no larger.

    What begins where follows from sizes, so places are neither cut nor joined.
    """

    def __init__(self) -> None:
        self.end = 0
        self.used = 0
        self._free: list[tuple[int, int]] = []  # begin, size
        self._taken: dict[int, int] = {}  # begin -> size of the place

    def take(self, size: int) -> int:
        """A place for so many bytes: the smallest free one, or at the end."""
        self.used += size
        fitting = [place for place in self._free if surely(ge, place[1], size)]
        if fitting:
            begin, room = min(fitting, key=lambda place: roughly(place[1]))
            self._free = [place for place in self._free if place[0] is not begin]
        else:
            begin, room = self.end, size
            self.end += size
        self._taken[begin] = room
        return begin

    def give(self, begin: int, size: int) -> None:
        """A place is free again."""
        self.used -= size
        if surely(ge, begin, 0):  # -1 stands for no place
            self._free.append((begin, self._taken.pop(begin)))
