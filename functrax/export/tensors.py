"""Arrays as safetensors: a header of JSON, then the bytes of the arrays.

The format is https://huggingface.co/docs/safetensors: eight bytes with the length of the header
(little-endian), the header, in which each name has a dtype, a shape and the place of its bytes, and
the bytes, row-major and little-endian, one array after the other without gaps.  Values under
``__metadata__`` are strings.  A dtype that the format has no name for is stored as ``U8`` bytes,
with one axis more, and named under ``functrax.dtypes`` in the metadata.

What is read may come from anybody: nothing is allocated before the header has been found to
describe exactly the bytes that are there.

Start at :func:`write_tensors` and :func:`read_tensors`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import DTypeError, FileFormatError
from functrax.core.types.aval import dtype_from_short_name, short_dtype_name
from functrax.core.types.dtypes import DType

#: What the format calls dtypes, by their short names here.
_NAMES: Final = {
    "bool": "BOOL", "u8": "U8", "i8": "I8", "u16": "U16", "i16": "I16", "u32": "U32", "i32": "I32",
    "u64": "U64", "i64": "I64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
    "f8_e4m3fn": "F8_E4M3", "f8_e5m2": "F8_E5M2",
}  # fmt: skip
_SHORT: Final = {name: short for short, name in _NAMES.items()}
_DTYPES: Final = "functrax.dtypes"
_MAX_HEADER: Final = 100_000_000  # as in the format's own readers
_ALIGNMENT: Final = 8


def write_tensors(
    arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Arrays as the bytes of a file.

    Args:
      arrays: by name.
      metadata: texts that are kept with them.
    """
    header: dict[str, Any] = {}
    renamed: dict[str, str] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        short = short_dtype_name(array.dtype)
        shape = list(array.shape)
        if short not in _NAMES:
            renamed[name] = short
            shape.append(array.dtype.itemsize)
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        place = [at, at + len(raw)]
        header[name] = {"dtype": _NAMES.get(short, "U8"), "shape": shape, "data_offsets": place}
        parts.append(raw)
        at += len(raw)
    told = dict(metadata or {})
    if renamed:
        told[_DTYPES] = json.dumps(renamed)
    if told:
        header = {"__metadata__": told, **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_tensors(data: bytes) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """The arrays of a file, read-only views of its bytes, and its metadata.

    Raises:
      FileFormatError: if it is not such a file, or damaged.
    """
    try:
        header, begin = _header(data)
        metadata = _texts(header.pop("__metadata__", {}))
        renamed = _texts(json.loads(metadata.pop(_DTYPES, "{}")))
        return _arrays(memoryview(data)[begin:], header, renamed), metadata
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise _damaged(f"{type(error).__name__}: {error}") from None


def holds_tensors(data: bytes) -> bool:
    """Whether bytes begin as a file of safetensors does, whether it is damaged or not."""
    try:
        _header(data)
    except (ValueError, RecursionError):
        return False
    return True


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(_MAX_HEADER, len(data) - 8):
        raise _damaged(f"a header of {size} bytes in a file of {len(data)}")
    header = json.loads(data[8 : 8 + size].decode(), object_pairs_hook=_without_repeats)
    if not isinstance(header, dict):
        raise _damaged("a header that is no object")
    return header, 8 + size


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _damaged("a name that stands twice in the header")
    return found


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise _damaged("metadata that are no texts")
    return found


def _arrays(
    data: memoryview, header: Mapping[str, Any], renamed: Mapping[str, str]
) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {}
    places = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise _damaged(f"{name!r} without dtype, shape and data_offsets")
        shape, (begin, end) = _sizes(entry["shape"]), _sizes(entry["data_offsets"], count=2)
        dtype = _dtype(entry["dtype"], renamed.get(name))
        if name in renamed:
            if entry["dtype"] != "U8" or not shape or shape[-1] != dtype.itemsize:
                raise _damaged(f"{name!r}: not bytes of {renamed[name]}")
            shape = shape[:-1]
        needed = math.prod(shape) * dtype.itemsize
        if not 0 <= begin <= end <= len(data) or end - begin != needed:
            raise _damaged(f"{name!r}: {end - begin} bytes at {begin}, where it needs {needed}")
        places.append((begin, end))
        found = np.frombuffer(data[begin:end], np.uint8) if needed else np.zeros(0, np.uint8)
        arrays[name] = found.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
        arrays[name].flags.writeable = False
        if dtype == np.bool_ and found.size and int(found.max()) > 1:
            raise _damaged(f"{name!r}: a bool that is neither 0 nor 1")
    places.sort()
    if [begin for begin, _ in places] != [0, *(end for _, end in places)][: len(places)] or (
        len(data) != (places[-1][1] if places else 0)
    ):
        raise _damaged("bytes that belong to no array, or to two")
    return arrays


def _sizes(found: Any, count: int | None = None) -> tuple[int, ...]:
    if not isinstance(found, list) or (count is not None and len(found) != count):
        raise _damaged(f"{found!r} in the place of sizes")
    if len(found) > 64 or not all(type(n) is int and 0 <= n < 2**63 for n in found):
        raise _damaged("sizes that no array has")
    return tuple(found)


def _dtype(name: Any, renamed: str | None) -> DType:
    short = renamed if renamed is not None else _SHORT.get(name if isinstance(name, str) else "")
    try:
        if short is not None:
            return dtype_from_short_name(short)
    except DTypeError:
        pass
    raise _damaged(f"an unknown dtype {name!r}")


def _damaged(got: str) -> FileFormatError:
    return FileFormatError(
        "the arrays of the file cannot be read: it is damaged, or no safetensors file",
        got=got,
        fix="a file that functrax or safetensors wrote, unchanged",
    )
