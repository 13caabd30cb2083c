"""Events for the time line of a page: which row each is in, and which are shown.

Start at :func:`timeline_data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

#: A page stays quick with so many; of more, the shortest are left out.
_MOST: Final = 20_000
_ROUNDING: Final = 2e-3  # microseconds that an event may begin before the end of the last one


class TimelineEvent(NamedTuple):
    """A piece of work.

    Args:
      name: what is written on it.
      kind: what it is; events of one kind have one colour.
      begin: in microseconds.
      took: the same.
      thread: events of one thread lie inside one another.
      facts: what else is known.
      about: the element of the page that tells more.
    """

    name: str
    kind: str
    begin: float
    took: float
    thread: int
    facts: Mapping[str, Any]
    about: str = ""


def timeline_data(events: Iterable[TimelineEvent], threads: Mapping[int, str]) -> dict[str, Any]:
    """What the script of a page draws.

    Args:
      events: in any order.
      threads: what each thread is called.

    Returns:
      ``threads``: the name of each thread, its first row, and when it begins and ends; ``rows``:
      their number; ``kinds`` and ``names``, to which events refer; ``events``: row, begin,
      duration, name, kind, facts, and the element of the page that tells more; ``left_out``: how
      many were too many.
    """
    found = list(events)
    kept = sorted(found, key=lambda e: -e.took)[:_MOST]
    kept.sort(key=lambda e: (e.thread, e.begin, -e.took))
    found_threads: list[list[Any]] = []
    rows = 0
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    shown = []
    ends: list[float] = []
    for k, e in enumerate(kept):
        if k == 0 or e.thread != kept[k - 1].thread:
            ends = []
            found_threads.append([threads.get(e.thread, "thread"), rows, e.begin, e.begin])
        while ends and ends[-1] <= e.begin + _ROUNDING:
            ends.pop()
        thread = found_threads[-1]
        row = thread[1] + len(ends)
        rows = max(rows, row + 1)
        ends.append(e.begin + e.took)
        thread[3] = max(thread[3], round(ends[-1], 3))
        facts = ", ".join(f"{key}: {_text(value)}" for key, value in e.facts.items())
        name = names.setdefault(e.name, len(names))
        kind = kinds.setdefault(e.kind, len(kinds))
        shown.append([row, round(e.begin, 3), round(e.took, 3), name, kind, facts, e.about])
    return {
        "threads": found_threads, "rows": rows, "names": list(names), "kinds": list(kinds),
        "events": shown, "left_out": len(found) - len(kept),
    }  # fmt: skip


def _text(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def about_left_out(data: Mapping[str, Any]) -> str:
    """A sentence about events that are not shown; empty if all are."""
    left = data["left_out"]
    return f" The {left} shortest events are not shown." if left else ""
