"""What arrays say of their memory and place, as JAX's do."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, ConcretizationError

DTYPES = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]
MEMORY = [
    *("committed", "is_fully_replicated", "global_shards", "addressable_shards", "traceback"),
    *("tobytes", "unsafe_buffer_pointer"),
]


def sample(dtype: str) -> Any:
    return (jnp.arange(6).reshape(2, 3) * 300 + 1).astype(dtype)


def bytes_swapped(n: Any) -> bytes:
    """The bytes of each real number in reverse: older ml_dtypes leaves bfloat16 as it is."""
    if n.dtype.name != "bfloat16":
        return bytes(n.byteswap().tobytes())
    return bytes(n.view(np.uint16).byteswap().tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes(dtype: str) -> None:
    x = sample(dtype)
    n = np.asarray(x)
    for order in ("C", "F", "A"):
        assert x.tobytes(order) == n.tobytes(order)  # type: ignore[arg-type]
    assert ctypes.string_at(x.unsafe_buffer_pointer(), x.nbytes) == n.tobytes()
    swapped = bytes_swapped(n)
    assert x.byteswap().tobytes() == swapped
    assert functrax.jit(lambda a: a.byteswap())(x).tobytes() == swapped
    assert x[0, 0].byteswap().tobytes() == bytes_swapped(n[0, 0])
    with pytest.raises(ArgumentError):
        x.tobytes("K")


def test_flat() -> None:
    x = sample("int32")
    assert [int(a) for a in x.flat] == list(np.asarray(x).flat)
    assert int(x.flat[4]) == 1201 and len(x.flat) == 6


def test_places() -> None:
    x = sample("float32")
    device = functrax.devices()[0]
    assert x.to_device(device).sharding == x.to_device(x.sharding).sharding == x.sharding
    assert x.to_device(device).committed and x.to_device(None) is x
    assert x.is_fully_replicated and x.is_fully_addressable and not x.committed
    assert x.traceback is None
    for shards in (x.global_shards, x.addressable_shards):
        (shard,) = shards
        assert shard.data is x and shard.device == device and shard.replica_id == 0
        assert shard.index == (slice(None), slice(None))
    for wrong in ({"device": "cpu"}, {"device": device, "stream": 1}):
        with pytest.raises(ArgumentError, match="to_device"):
            x.to_device(**wrong)


@pytest.mark.parametrize("name", MEMORY)
def test_traced_values_have_no_memory(name: str) -> None:
    def ask(x: Any) -> Any:
        found = getattr(x, name)
        return found() if callable(found) else found

    with pytest.raises(ConcretizationError, match=name):
        functrax.jit(ask)(jnp.ones(3))
