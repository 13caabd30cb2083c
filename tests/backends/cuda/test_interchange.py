"""Memory of the simulated GPU shared with other libraries: a producer and a consumer that know its
addresses, by DLPack and by ``__cuda_array_interface__``.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.cuda import choice
from functrax.backends.device import Device
from functrax.backends.places import unbound
from functrax.core.errors.typed import ArgumentError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
VERSIONS = [None, (0, 8), (1, 0)]


@pytest.fixture(autouse=True)
def with_a_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("llvm"):
        yield


@pytest.fixture
def gpu() -> Device:
    return functrax.devices("gpu")[0]


def read(address: int, count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Elements in the memory of the device."""
    choice.gpu().synchronize()
    memory = choice.table().owner.memory
    return np.asarray(memory.read(address, count * np.dtype(dtype).itemsize)).view(dtype)


class Tensor(ctypes.Structure):
    """``DLTensor``, https://dmlc.github.io/dlpack/latest/c_api.html"""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


def tensor_of(capsule: Any) -> Tensor:
    """What a consumer finds in a capsule."""
    api, kind = ctypes.pythonapi, ctypes.py_object
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, kind)(("PyCapsule_GetName", api))(capsule)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, kind, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )(capsule, name)
    if name == b"dltensor_versioned":
        tensor: Tensor = Versioned.from_address(pointer).tensor
        return tensor
    assert name == b"dltensor"
    return Tensor.from_address(pointer)


class Foreign:
    """Another library's array on the GPU.

    Args:
      elements: its elements; of a view the array that it is one of is there.
      versioned: whether it speaks the protocol of version 1.
    """

    def __init__(self, elements: np.ndarray[Any, Any], versioned: bool = True) -> None:
        self.elements, self.versioned = elements, versioned
        base = elements if elements.base is None else elements.base
        memory = choice.table().owner.memory
        self.start = memory.allocate(max(base.nbytes, 1))
        if base.nbytes:
            memory.write(self.start, base.reshape(-1).view(np.uint8))
        offset = elements.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        self.address = self.start + (offset if elements.size else 0)
        self.asked: list[dict[str, Any]] = []
        self.alive = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if not self.versioned and "max_version" in options:
            raise TypeError("unknown argument")
        self.alive += 1
        keeper = Keeper(self)
        versioned: dict[str, Any] = {"max_version": (1, 0)} if self.versioned else {}
        capsule = np.asarray(keeper).__dlpack__(**versioned)
        tensor = tensor_of(capsule)
        tensor.device_type = 2
        return capsule

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, False),
            "shape": self.elements.shape,
            "strides": self.elements.strides,
            "typestr": self.elements.dtype.str,
            "version": 3,
        }


class Keeper:
    """Keeps memory of a foreign array, and says when it is let go."""

    def __init__(self, foreign: Foreign) -> None:
        self.foreign = foreign
        self.__array_interface__ = {**foreign.__cuda_array_interface__}

    def __del__(self) -> None:
        self.foreign.alive -= 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_finds_the_elements(version: Any, gpu: Device) -> None:
    x = functrax.device_put(X, gpu)
    assert x.__dlpack_device__() == (2, 0)
    capsule = x.__dlpack__(**({} if version is None else {"max_version": version}))
    tensor = tensor_of(capsule)
    assert (tensor.device_type, tensor.device_id) == (2, 0)
    assert (tensor.ndim, tensor.shape[0], tensor.shape[1]) == (2, 2, 3)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 32, 1, 0)
    assert tensor.data == unbound(x.buffer).address
    np.testing.assert_array_equal(read(tensor.data, 6, np.float32), X.ravel())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_capsule_keeps_the_memory(version: Any, gpu: Device) -> None:
    gc.collect()
    before = choice.gpu().stats().in_use
    x = functrax.device_put(X, gpu)
    capsule = x.__dlpack__(**({} if version is None else {"max_version": version}))
    tensor = tensor_of(capsule)
    del x
    gc.collect()
    np.testing.assert_array_equal(read(tensor.data, 6, np.float32), X.ravel())
    del capsule, tensor
    gc.collect()
    assert choice.gpu().stats().in_use == before


def test_streams_of_consumers(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = functrax.device_put(X, gpu)
    waits: list[str] = []
    monkeypatch.setattr(
        "functrax.backends.cuda.device.wait_for_all", lambda gpu: waits.append("for all work")
    )
    for stream in (None, -1, 1):
        x.__dlpack__(stream=stream)
    assert not waits
    for stream in (2, 0x7F00):
        x.__dlpack__(stream=stream)
    assert len(waits) == 2
    with pytest.raises(ArgumentError, match="stream=0"):
        x.__dlpack__(stream=0)


def test_bfloat16_travels(gpu: Device) -> None:
    x = functrax.device_put(jnp.asarray([1.5, -2.0], "bfloat16"), gpu)
    tensor = tensor_of(x.__dlpack__())
    assert (tensor.code, tensor.bits) == (4, 16)
    assert not hasattr(x, "__cuda_array_interface__")  # which has no name for it


def test_capsules_of_other_devices(gpu: Device) -> None:
    x = functrax.device_put(X, gpu)
    np.testing.assert_array_equal(np.from_dlpack(_OnHost(x)), X)
    with pytest.raises(ArgumentError, match="memory of a GPU"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(ArgumentError, match="copy"):
        x.__dlpack__(copy=True)
    y = functrax.device_put(X, functrax.devices("cpu")[0])
    assert y.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(y), X)


class _OnHost:
    """Asks an array for a capsule on the host."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))


@pytest.mark.parametrize("versioned", [False, True])
def test_what_a_producer_has_is_not_copied(versioned: bool, gpu: Device) -> None:
    foreign = Foreign(X.copy(), versioned)
    x = jnp.from_dlpack(foreign)
    assert x.device is gpu and x.committed and foreign.alive == 1
    assert unbound(x.buffer).address == foreign.address
    assert foreign.asked[-1]["stream"] == 1
    np.testing.assert_array_equal(x, X)
    y = functrax.jit(lambda v: v * 2)(x)
    np.testing.assert_array_equal(y, 2 * X)
    del x
    gc.collect()
    assert foreign.alive == 0
    copied = jnp.from_dlpack(foreign, copy=True)
    gc.collect()
    assert unbound(copied.buffer).address != foreign.address and foreign.alive == 0


@pytest.mark.parametrize(
    "elements",
    [X.T, X[:, ::2], X[::-1, 1:], np.zeros((0, 3), np.float32), np.asarray(3, np.int32)],
    ids=["transposed", "every second", "backwards", "empty", "scalar"],
)
def test_layouts_of_producers(elements: np.ndarray[Any, Any], gpu: Device) -> None:
    foreign = Foreign(elements)
    for x in (jnp.from_dlpack(foreign), jnp.asarray(foreign)):
        assert x.device is gpu
        np.testing.assert_array_equal(x, elements)
    if elements.size and not elements.flags.c_contiguous:
        with pytest.raises(ArgumentError, match="without a copy"):
            jnp.from_dlpack(foreign, copy=False)


def test_dtypes_that_are_narrowed(gpu: Device) -> None:
    foreign = Foreign(X.astype(np.float64))
    x = jnp.from_dlpack(foreign)
    assert x.dtype == np.float32 and x.device is gpu
    np.testing.assert_array_equal(x, X)
    with pytest.raises(ArgumentError, match="without a copy"):
        jnp.from_dlpack(foreign, copy=False)
    with functrax.enable_x64():
        assert jnp.from_dlpack(foreign).dtype == np.float64


def test_the_interface_of_cuda_arrays(gpu: Device) -> None:
    x = functrax.device_put(X, gpu)
    interface = x.__cuda_array_interface__
    assert interface["shape"] == (2, 3) and interface["typestr"] == "<f4"
    assert interface["version"] == 3 and interface["stream"] == 1 and interface["strides"] is None
    address, read_only = interface["data"]
    assert not read_only
    np.testing.assert_array_equal(read(address, 6, np.float32), X.ravel())
    assert not hasattr(jnp.asarray(X), "__cuda_array_interface__")


def test_arrays_of_the_interface_are_not_copied(gpu: Device) -> None:
    foreign = Foreign(X.copy())
    x = jnp.asarray(foreign)
    assert x.device is gpu and unbound(x.buffer).address == foreign.address
    assert jnp.asarray(foreign, "int32").dtype == np.int32
    np.testing.assert_array_equal(jnp.asarray(foreign) + 1, X + 1)
    copied = jnp.array(foreign)
    assert unbound(copied.buffer).address != foreign.address


def test_interfaces_that_are_refused(gpu: Device) -> None:
    class WithMore(Foreign):
        more: dict[str, Any]

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, **self.more}

    foreign = WithMore(X.copy())
    foreign.more = {"mask": X}
    with pytest.raises(ArgumentError, match="masks"):
        jnp.asarray(foreign)
    foreign.more = {"stream": 0x7F00}
    with pytest.raises(ArgumentError, match="stream"):
        jnp.asarray(foreign)
    foreign.more = {"stream": 1}
    np.testing.assert_array_equal(jnp.asarray(foreign), X)
