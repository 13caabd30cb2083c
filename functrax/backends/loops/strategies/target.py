"""What a schedule depends on of the machine."""

from __future__ import annotations

from functrax.core.records import record


@record
class Target:
    """What a schedule depends on of the machine.

    Args:
      vector_bytes: size of a vector register.
      strict: whether the order of reductions follows from shapes alone.
      off: kinds of rewrites that are left out (the option ``schedule_off``).
      limit: how many rewrites of a tree are made at most (``schedule=n`` in the option
        ``opt_limit``), besides those that are required; None for all.
      dots: kinds of instructions that add up products of narrow numbers (``kernels/words.py``).
      second_cache: bytes of it that a thread has.
      several_pages: whether memory is read faster from several pages at once.
      has_fma: whether an instruction multiplies and adds, and rounds once.
    """

    vector_bytes: int = 64
    strict: bool = False
    off: frozenset[str] = frozenset()
    dots: frozenset[str] = frozenset()
    second_cache: int = 2 << 20
    several_pages: bool = True
    has_fma: bool = True
    limit: int | None = None
