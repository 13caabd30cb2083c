"""Options set within a block, for users: ``with enable_x64():``.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.
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


def debug_nans(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds a NaN."""
    return Override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds an infinity."""
    return Override("debug_infs", new_val)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation within the block, to look inside them."""
    return Override("disable_jit", disable)


def check_tracer_leaks(new_val: bool = True) -> Override:
    """Raise LeakedTracerError within the block when a traced value outlives its function."""
    return Override("check_tracer_leaks", new_val)


def checking_leaks() -> Override:
    """``check_tracer_leaks(True)``."""
    return Override("check_tracer_leaks", True)


def default_matmul_precision(new_val: str | None) -> Override:
    """Precision within the block of products of 32-bit floats where the call names none."""
    return Override("default_matmul_precision", new_val)


def numpy_dtype_promotion(new_val: str) -> Override:
    """``"standard"`` promotes operands of different dtypes, ``"strict"`` refuses."""
    return Override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"raise"`` on broadcasting between ranks."""
    return Override("numpy_rank_promotion", new_val)


def log_compiles(new_val: bool = True) -> Override:
    """Log every compilation within the block."""
    return Override("log_compiles", new_val)


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


def enable_checks(new_val: bool = True) -> Override:
    """Within the block verify programs after each of the compiler's passes."""
    return Override("check", new_val)


def allow_f16_reductions(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to forbid them is told once, by a warning."""
    return Override("allow_f16_reductions", new_val)


def array_garbage_collection_guard(new_val: str | None) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning."""
    return Override("array_garbage_collection_guard", new_val)


def debug_key_reuse(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning."""
    return Override("debug_key_reuse", new_val)


def explain_cache_misses(new_val: bool = True) -> Override:
    """Log within the block why jitted functions are traced: what differs from earlier calls."""
    return Override("explain_cache_misses", new_val)


def thread_guard(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning."""
    return Override("thread_guard", new_val)


def softmax_custom_jvp(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: softmax keeps its result alone."""
    return Override("softmax_custom_jvp", new_val)


def auto_pcast(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: arrays vary over no axes of a mesh."""
    return Override("auto_pcast", new_val)


def remove_size_one_mesh_axis_from_type(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: types do not name axes of a mesh."""
    return Override("remove_size_one_mesh_axis_from_type", new_val)


def jax2tf_associative_scan_reductions(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: programs are not made for TensorFlow."""
    return Override("jax2tf_associative_scan_reductions", new_val)
