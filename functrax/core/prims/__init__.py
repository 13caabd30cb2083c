"""The primitives, by family; importing this package registers all of them."""

from functrax.core.prims import analytic, arithmetic, convert, mapped, reduce, reindex

__all__ = ["analytic", "arithmetic", "convert", "mapped", "reduce", "reindex"]
