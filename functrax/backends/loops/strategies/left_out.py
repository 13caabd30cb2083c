"""What schedules do without, to see what it brings or to find what is wrong."""

from __future__ import annotations

from functrax.core.records import record


@record
class LeftOut:
    """What schedules do without.

    Args:
      kinds: of rewrites (the option ``schedule_off``).
      limit: how many rewrites of a tree are made at most (``schedule=n`` in the option
        ``opt_limit``), besides those that are required; None for all.
    """

    kinds: frozenset[str] = frozenset()
    limit: int | None = None


#: Nothing is left out.
NOTHING = LeftOut()
