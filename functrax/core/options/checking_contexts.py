"""Options, set within a block, that look for errors or tell what is done: ``with debug_nans():``.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.
"""

from __future__ import annotations

from functrax.core.options.config import Override


def debug_nans(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds a NaN.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.debug_nans():
    ...     functrax.config.debug_nans
    True
    """
    return Override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds an infinity.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.debug_infs():
    ...     functrax.config.debug_infs
    True
    """
    return Override("debug_infs", new_val)


def check_tracer_leaks(new_val: bool = True) -> Override:
    """Raise LeakedTracerError within the block when a traced value outlives its function.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.check_tracer_leaks():
    ...     functrax.config.check_tracer_leaks
    True
    """
    return Override("check_tracer_leaks", new_val)


def checking_leaks() -> Override:
    """``check_tracer_leaks(True)``.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax
    >>> with functrax.checking_leaks():
    ...     functrax.config.check_tracer_leaks
    True
    """
    return Override("check_tracer_leaks", True)


def log_compiles(new_val: bool = True) -> Override:
    """Log every compilation within the block.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.log_compiles():
    ...     functrax.config.log_compiles
    True
    """
    return Override("log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> Override:
    """Log within the block why jitted functions are traced: what differs from earlier calls.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.explain_cache_misses():
    ...     functrax.config.explain_cache_misses
    True
    """
    return Override("explain_cache_misses", new_val)


def no_tracing(new_val: bool = True) -> Override:
    """Within the block refuse to trace jitted functions: a GuardError, which is a RuntimeError.

    Functions that were traced for the types of their arguments before run as usual, and so do
    operations outside of ``jit``, which are not traced one by one.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> f = functrax.jit(lambda x: 2 * x)
    >>> f(1.0)
    Array(2., dtype=float32, weak_type=True)
    >>> with functrax.no_tracing():
    ...     f(4.0)  # of the type that it is compiled for
    Array(8., dtype=float32, weak_type=True)
    """
    return Override("no_tracing", new_val)


def no_execution(new_val: bool = True) -> Override:
    """Within the block refuse to run operations: a GuardError, which is a RuntimeError.

    Tracing, ``eval_shape`` and ``make_jaxpr`` go on, and arrays of operations that were recorded
    before can be looked at.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.no_execution():
    ...     functrax.eval_shape(jnp.sin, 1.0)
    ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
    """
    return Override("no_execution", new_val)


def enable_checks(new_val: bool = True) -> Override:
    """Within the block verify programs after each of the compiler's passes.

    Args:
      new_val: whether the option is on within the block.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.enable_checks():
    ...     functrax.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return Override("check", new_val)


def transfer_guard(new_val: str) -> Override:
    """What happens within the block at transfers between the host and the device: none happen.

    Arrays of the CPU are in the memory of the host, so that ``"disallow"`` has nothing to disallow.

    Args:
      new_val: ``"allow"``, ``"log"``, ``"disallow"``, ``"log_explicit"``, ``"disallow_explicit"``.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.transfer_guard("log"):
    ...     functrax.config.transfer_guard
    'log'
    """
    return Override("transfer_guard", new_val)


def transfer_guard_host_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers to the device.

    Args:
      new_val: as for :func:`transfer_guard`.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.transfer_guard_host_to_device("log"):
    ...     functrax.config.transfer_guard_host_to_device
    'log'
    """
    return Override("transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers between devices.

    Args:
      new_val: as for :func:`transfer_guard`.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.transfer_guard_device_to_device("log"):
    ...     functrax.config.transfer_guard_device_to_device
    'log'
    """
    return Override("transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers from the device.

    Args:
      new_val: as for :func:`transfer_guard`.

    Returns:
      A context manager, which is a decorator too.

    Raises:
      ArgumentError: for another value.

    >>> import functrax
    >>> with functrax.transfer_guard_device_to_host("log"):
    ...     functrax.config.transfer_guard_device_to_host
    'log'
    """
    return Override("transfer_guard_device_to_host", new_val)
