"""Options, set within a block, that look for errors or tell what is done: ``with debug_nans():``.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.
"""

from __future__ import annotations

from functrax.core.options.config import Override


def debug_nans(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds a NaN."""
    return Override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds an infinity."""
    return Override("debug_infs", new_val)


def check_tracer_leaks(new_val: bool = True) -> Override:
    """Raise LeakedTracerError within the block when a traced value outlives its function."""
    return Override("check_tracer_leaks", new_val)


def checking_leaks() -> Override:
    """``check_tracer_leaks(True)``."""
    return Override("check_tracer_leaks", True)


def log_compiles(new_val: bool = True) -> Override:
    """Log every compilation within the block."""
    return Override("log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> Override:
    """Log within the block why jitted functions are traced: what differs from earlier calls."""
    return Override("explain_cache_misses", new_val)


def no_tracing(new_val: bool = True) -> Override:
    """Within the block refuse to trace jitted functions: a GuardError, which is a RuntimeError.

    Functions that were traced for the types of their arguments before run as usual, and so do
    operations outside of ``jit``, which are not traced one by one.
    """
    return Override("no_tracing", new_val)


def no_execution(new_val: bool = True) -> Override:
    """Within the block refuse to run operations: a GuardError, which is a RuntimeError.

    Tracing, ``eval_shape`` and ``make_jaxpr`` go on, and arrays of operations that were recorded
    before can be looked at.
    """
    return Override("no_execution", new_val)


def enable_checks(new_val: bool = True) -> Override:
    """Within the block verify programs after each of the compiler's passes."""
    return Override("check", new_val)


def transfer_guard(new_val: str) -> Override:
    """What happens within the block at transfers between the host and the device: none happen.

    Arrays of the CPU are in the memory of the host, so that ``"disallow"`` has nothing to disallow.

    Args:
      new_val: ``"allow"``, ``"log"``, ``"disallow"``, ``"log_explicit"``, ``"disallow_explicit"``.

    Raises:
      ArgumentError: for another value.
    """
    return Override("transfer_guard", new_val)


def transfer_guard_host_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers to the device."""
    return Override("transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers between devices."""
    return Override("transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers from the device."""
    return Override("transfer_guard_device_to_host", new_val)
