"""Options set within a block, for users: ``with enable_x64():``.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.  Those
that look for errors are in ``checking_contexts``, those of JAX that change nothing in
``accepted_contexts``.
"""

from __future__ import annotations

from typing import Any

from functrax.core.options.config import Override
from functrax.core.options.option_text import budget


def enable_x64(new_val: bool = True) -> Override:
    """Allow 64-bit dtypes within a block, or forbid them with False.

    Args:
      new_val: whether 64-bit dtypes stay as they are; else they are narrowed to 32 bits.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.enable_x64():
    ...     functrax.config.enable_x64
    True
    """
    return Override("enable_x64", new_val)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation within the block, to look inside them.

    Args:
      disable: whether to do so.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> f = functrax.jit(lambda x: print("x is", x))
    >>> with functrax.disable_jit():
    ...     f(2.0)
    x is 2.0
    """
    return Override("disable_jit", disable)


def default_matmul_precision(new_val: str | None) -> Override:
    """Precision within the block of products of 32-bit floats where the call names none.

    Args:
      new_val: a name of :class:`functrax.lax.Precision` or of an algorithm, such as ``"highest"``
        or ``"bfloat16"``; None for the default.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.default_matmul_precision("highest"):
    ...     functrax.config.default_matmul_precision
    'highest'
    """
    return Override("default_matmul_precision", new_val)


def numpy_dtype_promotion(new_val: str) -> Override:
    """``"standard"`` promotes operands of different dtypes, ``"strict"`` refuses.

    Args:
      new_val: ``"standard"`` or ``"strict"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.numpy_dtype_promotion("strict"):
    ...     functrax.config.numpy_dtype_promotion
    'strict'
    """
    return Override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"raise"`` on broadcasting between ranks.

    Args:
      new_val: ``"allow"``, ``"warn"`` or ``"raise"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.numpy_rank_promotion("raise"):
    ...     functrax.config.numpy_rank_promotion
    'raise'
    """
    return Override("numpy_rank_promotion", new_val)


def default_device(new_val: Any) -> Override:
    """Where arrays are made and functions run within the block; None is the first device.

    Args:
      new_val: a device, the name of a platform (``"cpu"``, ``"gpu"``), or None.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: within the block, if ``new_val`` is neither.

    >>> import functrax
    >>> with functrax.default_device(functrax.devices("cpu")[0]):
    ...     functrax.default_backend()
    'cpu'
    """
    return Override("default_device", new_val)


def default_prng_impl(new_val: str) -> Override:
    """The random number generator behind keys made within the block.

    Args:
      new_val: ``"threefry2x32"``, ``"rbg"`` or ``"unsafe_rbg"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.default_prng_impl("rbg"):
    ...     functrax.random.key(0).dtype
    key<rbg>
    """
    return Override("default_prng_impl", new_val)


def memory_budget(new_val: int | str) -> Override:
    """How many bytes the temporaries of a program may take that is compiled within the block.

    Values that would wait in memory are computed again, those first that are cheap for their size.
    A budget that cannot be kept is neared, and a RuntimeWarning says how nearly, as
    ``explain(f)(*args).peak_bytes`` does.

    Args:
      new_val: a number of bytes, or text such as ``"2GB"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.memory_budget("1MB"):
    ...     functrax.config.memory_budget
    '1MB'
    """
    text = str(new_val)
    budget(text)  # refused here, not where the block begins
    return Override("memory_budget", text)


def backend(new_val: str) -> Override:
    """What runs programs within the block.

    Args:
      new_val: ``"llvm"``, which compiles them for the CPU, ``"cuda"``, which compiles them for a
        GPU, ``"interp"``, which interprets them, or ``"auto"``, which is ``"cuda"`` where there is
        a GPU and else ``"llvm"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.backend("interp"):
    ...     functrax.config.backend
    'interp'
    """
    return Override("backend", new_val)


def eager(new_val: str) -> Override:
    """When operations outside of ``jit`` run within the block: ``"lazy"`` or ``"immediate"``.

    Args:
      new_val: ``"lazy"`` records operations and runs them together when a value is looked at;
        ``"immediate"`` runs each at once.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.eager("immediate"):
    ...     functrax.config.eager
    'immediate'
    """
    return Override("eager", new_val)


def threefry_partitionable(new_val: bool = True) -> Override:
    """Within the block make random numbers as JAX does by default, or with False as before 0.5.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.threefry_partitionable(False):
    ...     functrax.random.bits(functrax.random.key(0), (2,))
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    return Override("threefry_partitionable", new_val)


def enable_custom_prng(new_val: bool = True) -> Override:
    """Within the block have ``random.PRNGKey`` make typed keys, as ``random.key`` does.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.enable_custom_prng():
    ...     functrax.random.PRNGKey(0).dtype
    key<fry>
    """
    return Override("enable_custom_prng", new_val)


def legacy_prng_key(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"error"`` for arrays used as random keys.

    Args:
      new_val: ``"allow"``, ``"warn"`` or ``"error"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.legacy_prng_key("error"):
    ...     functrax.config.legacy_prng_key
    'error'
    """
    return Override("legacy_prng_key", new_val)
