"""Options of JAX, set within a block, that change nothing here.

Each returns an :class:`~functrax.core.options.config.Override`, which is a decorator too.
"""

from __future__ import annotations

from functrax.core.options.config import Override


def allow_f16_reductions(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to forbid them is told once, by a warning.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.allow_f16_reductions(True):
    ...     jnp.ones(2).sum()
    Array(2., dtype=float32)
    """
    return Override("allow_f16_reductions", new_val)


def array_garbage_collection_guard(new_val: str | None) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.array_garbage_collection_guard(None):
    ...     jnp.ones(2).sum()
    Array(2., dtype=float32)
    """
    return Override("array_garbage_collection_guard", new_val)


def debug_key_reuse(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.debug_key_reuse(False):
    ...     jnp.ones(2).sum()
    Array(2., dtype=float32)
    """
    return Override("debug_key_reuse", new_val)


def thread_guard(new_val: bool = True) -> Override:
    """An option of JAX that changes nothing here; to set it is told once, by a warning.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.thread_guard(False):
    ...     jnp.ones(2).sum()
    Array(2., dtype=float32)
    """
    return Override("thread_guard", new_val)


def softmax_custom_jvp(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: softmax keeps its result alone.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.softmax_custom_jvp():
    ...     functrax.nn.softmax(jnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    return Override("softmax_custom_jvp", new_val)


def auto_pcast(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: arrays vary over no axes of a mesh.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.auto_pcast():
    ...     jnp.arange(2) + 1
    Array([1, 2], dtype=int32)
    """
    return Override("auto_pcast", new_val)


def remove_size_one_mesh_axis_from_type(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: types do not name axes of a mesh.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.remove_size_one_mesh_axis_from_type():
    ...     jnp.arange(2) + 1
    Array([1, 2], dtype=int32)
    """
    return Override("remove_size_one_mesh_axis_from_type", new_val)


def jax2tf_associative_scan_reductions(new_val: bool = True) -> Override:
    """An option of JAX whose values mean the same here: programs are not made for TensorFlow.

    Args:
      new_val: any value.

    Returns:
      A context manager, which is a decorator too.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.jax2tf_associative_scan_reductions():
    ...     jnp.arange(2) + 1
    Array([1, 2], dtype=int32)
    """
    return Override("jax2tf_associative_scan_reductions", new_val)
