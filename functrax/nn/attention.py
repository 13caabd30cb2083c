"""Scaled dot-product attention (Vaswani et al., "Attention is all you need", NIPS 2017).

Axes are B batch, T queries, S keys, N heads of queries, K heads of keys and values, H the size of a
head.  Heads of queries that share a head of keys form a group of ``N // K``.

Start at :func:`dot_product_attention`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from functrax import lax, numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.nn.normalization import logsumexp, softmax
from functrax.typing import ArrayLike


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[False] = ...,
) -> Array: ...
@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...
@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: bool = ...,
) -> Array | tuple[Array, Array]: ...
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """``softmax(scale * query @ key.T + bias) @ value``, with masks.

    Args:
      query: ``[B, T, N, H]``, or without B.
      key: ``[B, S, K, H]``, with ``N`` a multiple of ``K``.
      value: ``[B, S, K, H]``.
      bias: ``[B or 1, N or 1, T or 1, S or 1]``, added to the logits.
      mask: the same shapes, of bool: which keys count.
      scale: ``1 / sqrt(H)`` if omitted.
      is_causal: whether query ``t`` sees keys up to ``t`` only.
      query_seq_lengths: ``[B]``, how many queries count; the results of the others are 0.
      key_value_seq_lengths: ``[B]``, how many keys count.
      local_window_size: how many keys to the left and to the right of its own place a query sees.
      implementation: None or ``"xla"``.
      return_residual: whether to return ``logsumexp`` of the logits, ``[B, T, N]``, as well.

    Returns:
      An array of the shape of ``query``; with ``return_residual`` a pair.

    Raises:
      ShapeError, DTypeError: if the arrays do not fit together.
      ArgumentError: for another implementation.

    Logits and softmax are computed in float32 at least.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> q, kv = jnp.ones((2, 4, 8)), jnp.ones((3, 4, 8))  # 2 queries, 3 keys, 4 heads
    >>> nn.dot_product_attention(q, kv, kv).shape
    (2, 4, 8)
    """
    if implementation not in (None, "xla"):
        raise ArgumentError(
            "dot_product_attention: unknown implementation",
            got=repr(implementation),
            fix="None, which lets functrax choose",
        )
    q, k, v = map(_with_batch, (query, key, value))
    extra, kept = (None if x is None else _with_batch(x) for x in (bias, mask))
    _check(q, k, v, extra, kept)
    logits = _logits(q, k, extra, scale)
    windows = [
        None if kept is None else _grouped(kept, k.shape[2], q.shape[2]),
        _causal(logits) if is_causal else None,
        None if local_window_size is None else _window(logits, local_window_size),
        None if query_seq_lengths is None else _counted(logits, query_seq_lengths, 3),
        None if key_value_seq_lengths is None else _counted(logits, key_value_seq_lengths, 4),
    ]
    for window in windows:
        if window is not None:
            logits = jnp.where(window, logits, _very_low(logits.dtype))
    logits = logits.astype(dtypes.float32)
    weights = softmax(logits, axis=-1).astype(k.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(q.shape)
    if query_seq_lengths is not None:
        out = out * _is_counted(out.shape, query_seq_lengths, 1).astype(out.dtype)
    out = out.reshape(jnp.shape(query))
    if not return_residual:
        return out
    total = logsumexp(logits, axis=-1).astype(k.dtype)
    residual = jnp.transpose(total, (0, 3, 1, 2)).reshape(jnp.shape(query)[:-1])
    return out, lax.stop_gradient(residual)


def _with_batch(x: Any) -> Any:
    array = jnp.asarray(x)
    return array[None] if array.ndim == 3 else array


def _check(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> None:
    given = [x for x in (q, k, v, bias, mask) if x is not None]
    shown = ", ".join(x.aval.str_short() for x in given)
    name = "dot_product_attention"
    if any(x.ndim != 4 for x in given):
        raise ShapeError(
            f"{name} takes arrays of rank 3 or 4",
            got=shown,
            fix="axes [batch,] time, heads, features",
        )
    if not q.dtype == k.dtype == v.dtype:
        raise DTypeError(
            f"{name}: query, key and value differ in dtype",
            got=shown,
            fix="convert them with .astype to one dtype",
        )
    if k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise ShapeError(
            f"{name}: the shapes do not fit",
            got=shown,
            fix="query [B, T, N, H], key and value [B, S, K, H]",
        )
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ShapeError(
            f"{name}: the heads of queries are no multiple of those of keys",
            got=f"{q.shape[2]} heads of queries, {k.shape[2]} of keys",
            fix="as many heads of queries as of keys, or a multiple",
        )
    if mask is not None and mask.dtype != dtypes.bool_:
        raise DTypeError(
            f"{name}: the mask is not of bool",
            got=mask.aval.str_short(),
            fix="mask.astype('bool'); numbers to be added go into bias",
        )


def _logits(q: Any, k: Any, bias: Any, scale: float | None) -> Any:
    """``[B, K, N // K, T, S]``"""
    batch, queries, heads, size = q.shape
    grouped = q.reshape((batch, queries, k.shape[2], heads // k.shape[2], size))
    wide = jnp.promote_types(q.dtype, dtypes.float32)
    logits = jnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide)
    logits = logits * (float(1 / np.sqrt(size)) if scale is None else scale)
    if bias is None:
        return logits
    return (logits + _grouped(bias, k.shape[2], heads)).astype(logits.dtype)


def _grouped(x: Any, key_heads: int, heads: int) -> Any:
    """The axis of heads as one of heads of keys and one of groups."""
    groups = (1, 1) if x.shape[1] == 1 else (key_heads, heads // key_heads)
    return x.reshape((x.shape[0], *groups, *x.shape[2:]))


def _place(logits: Any, axis: int) -> Any:
    """The number of each query, or key."""
    shape = [1] * logits.ndim
    shape[axis] = logits.shape[axis]
    return lax.broadcasted_iota(dtypes.int32, shape, axis)


def _causal(logits: Any) -> Value:
    return _place(logits, 4) <= _place(logits, 3)


def _window(logits: Any, size: int | tuple[int, int]) -> Value:
    left, right = (size, size) if isinstance(size, int) else size
    queries, keys = _place(logits, 3), _place(logits, 4)
    return (queries <= keys + left) & (queries >= keys - right)


def _counted(logits: Any, lengths: Any, axis: int) -> Value:
    return _is_counted(logits.shape, lengths, axis)


def _is_counted(shape: tuple[int, ...], lengths: Any, axis: int) -> Any:
    """Whether the place along an axis is below the length that belongs to the batch."""
    counted = jnp.asarray(lengths)
    if counted.shape != shape[:1]:
        raise ShapeError(
            "dot_product_attention: needs one length for each batch",
            got=f"lengths of shape {counted.shape} for {shape[0]} batches",
            fix="a vector with as many lengths as there are batches",
        )
    line = [1] * len(shape)
    line[axis] = shape[axis]
    place: Any = lax.broadcasted_iota(dtypes.int32, line, axis)
    return place < counted.reshape((-1, *[1] * (len(shape) - 1)))


def _very_low(dtype: np.dtype[Any]) -> float:
    """A logit without weight that is finite also as a float32."""
    return -0.7 * float(min(dtypes.finfo(dtype).max, dtypes.finfo(dtypes.float32).max))
