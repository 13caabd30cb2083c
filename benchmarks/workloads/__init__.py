"""All rows of the suite, in the order of the tables that they stand in.

One module per table; each has a ``TITLE`` and its ``ROWS``.
"""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads import (
    calls,
    contractions,
    control,
    elementwise,
    libraries,
    operations,
    research,
    sizes,
)

TABLES: dict[str, tuple[Workload, ...]] = {
    module.TITLE: module.ROWS
    for module in (
        elementwise,
        contractions,
        control,
        calls,
        sizes,
        libraries,
        operations,
        research,
    )
}


def find(name: str) -> Workload:
    """The workload of this name."""
    return next(row for rows in TABLES.values() for row in rows if row.name == name)


def matching(patterns: list[str]) -> dict[str, list[Workload]]:
    """The tables, with those rows whose names hold one of the patterns; without any, all rows."""
    chosen = {
        title: [r for r in rows if not patterns or any(p in r.name for p in patterns)]
        for title, rows in TABLES.items()
    }
    return {title: rows for title, rows in chosen.items() if rows}
