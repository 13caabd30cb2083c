"""Options set within a block, for users: ``with enable_x64():``.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.  Those
that look for errors are in ``checking_contexts``, those of JAX that change nothing in
``accepted_contexts``.
"""

from __future__ import annotations

from typing import Any

from functrax.core.options.config import Override


def enable_x64(new_val: bool = True) -> Override:
    """Allow 64-bit dtypes within a block, or forbid them with False.

    >>> import functrax
    >>> with functrax.enable_x64():
    ...     functrax.config.enable_x64
    True
    """
    return Override("enable_x64", new_val)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation within the block, to look inside them."""
    return Override("disable_jit", disable)


def default_matmul_precision(new_val: str | None) -> Override:
    """Precision within the block of products of 32-bit floats where the call names none."""
    return Override("default_matmul_precision", new_val)


def numpy_dtype_promotion(new_val: str) -> Override:
    """``"standard"`` promotes operands of different dtypes, ``"strict"`` refuses."""
    return Override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"raise"`` on broadcasting between ranks."""
    return Override("numpy_rank_promotion", new_val)


def default_device(new_val: Any) -> Override:
    """Where arrays are made and functions run within the block; None is the first device."""
    return Override("default_device", new_val)


def default_prng_impl(new_val: str) -> Override:
    """The random number generator behind keys made within the block."""
    return Override("default_prng_impl", new_val)


def memory_budget(new_val: int | str) -> Override:
    """How many bytes the temporaries of a program may take that is compiled within the block.

    Values that would wait in memory are computed again, those first that are cheap for their size.
    A budget that cannot be kept is neared; ``explain(f)(*args).peak_bytes`` says how nearly.
    """
    return Override("memory_budget", str(new_val))


def backend(new_val: str) -> Override:
    """What runs programs within the block: ``"llvm"`` compiles them, ``"interp"`` interprets them.

    >>> import functrax
    >>> with functrax.backend("interp"):
    ...     functrax.config.backend
    'interp'
    """
    return Override("backend", new_val)


def eager(new_val: str) -> Override:
    """When operations outside of ``jit`` run within the block: ``"lazy"`` or ``"immediate"``.

    >>> import functrax
    >>> with functrax.eager("immediate"):
    ...     functrax.config.eager
    'immediate'
    """
    return Override("eager", new_val)


def threefry_partitionable(new_val: bool = True) -> Override:
    """Within the block make random numbers as JAX does by default, or with False as before 0.5."""
    return Override("threefry_partitionable", new_val)


def enable_custom_prng(new_val: bool = True) -> Override:
    """Within the block have ``random.PRNGKey`` make typed keys, as ``random.key`` does."""
    return Override("enable_custom_prng", new_val)


def legacy_prng_key(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"error"`` for arrays used as random keys.

    Raises:
      ArgumentError: for another value.
    """
    return Override("legacy_prng_key", new_val)
