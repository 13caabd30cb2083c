"""Static libraries: an object file in an archive, with a table of its symbols.

The form is that of System V, which linkers of Linux read.  Start at :func:`archive`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = b"!<arch>\n"
_HEAD = 60  # bytes of the head of a member


def archive(name: str, data: bytes, symbols: Sequence[str]) -> bytes:
    """A library of one object file.

    Args:
      name: of the object file.
      data: its bytes.
      symbols: the functions that it defines.
    """
    names = b"".join(x.encode() + b"\0" for x in symbols)
    long = _padded(f"{name}/\n".encode())
    size = 4 + 4 * len(symbols) + len(names)
    first = len(_MAGIC) + _HEAD + size + size % 2 + _HEAD + len(long)
    places = struct.pack(f">{len(symbols) + 1}I", len(symbols), *[first] * len(symbols))
    return b"".join(
        [
            *(_MAGIC, _head("/", size), _padded(places + names)),
            *(_head("//", len(long)), long),
            *(_head("/0", len(data)), _padded(data)),
        ]
    )


def _padded(data: bytes) -> bytes:
    return data + b"\n" * (len(data) % 2)


def _head(name: str, size: int) -> bytes:
    """The head of a member, without times and owners: equal code gives equal files."""
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}`\n".encode()
