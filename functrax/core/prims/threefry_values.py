"""Reference values of the threefry-2x32 block cipher, the generator behind the random keys.

Two key words and two counter words enter as uint32 arrays, two words of random bits leave; every
element is enciphered on its own.  Twenty rounds of add, rotate and xor, with the key injected
after every fourth: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

Start reading at :func:`threefry2x32`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from functrax.core.errors.typed import DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Words: TypeAlias = "NDArray[np.uint32]"

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)
ROUNDS_PER_KEY = 4
INJECTIONS = 5


def _rotate_left(x: Words, count: int) -> Words:
    return np.asarray((x << np.uint32(count)) | (x >> np.uint32(32 - count)))


def threefry2x32(k0: Words, k1: Words, x0: Words, x1: Words) -> tuple[Words, Words]:
    """Enciphers the counter (x0, x1) with the key (k0, k1).

    uint32 arrays whose shapes broadcast; two uint32 arrays of the broadcast shape.  Equal to
    Random123's ``threefry2x32`` with 20 rounds, and to JAX's.  Raises
    :class:`~functrax.core.errors.typed.DTypeError` for another dtype.

    >>> zero = np.uint32(0)
    >>> [hex(int(word)) for word in threefry2x32(zero, zero, zero, zero)]
    ['0x6b200159', '0x99ba4efe']
    """
    words = [np.asarray(word) for word in (k0, k1, x0, x1)]
    if any(word.dtype != np.uint32 for word in words):
        raise DTypeError(
            "threefry2x32: needs uint32 words",
            got=", ".join(str(word.dtype) for word in words),
            fix="convert keys and counters with astype('uint32') first",
        )
    key0, key1, y0, y1 = np.broadcast_arrays(*words)
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    with np.errstate(over="ignore"):  # rank zero warns where arrays wrap around in silence
        y0, y1 = y0 + keys[0], y1 + keys[1]
        for block in range(INJECTIONS):
            half = block % 2 * ROUNDS_PER_KEY
            for rotation in ROTATIONS[half : half + ROUNDS_PER_KEY]:
                y0 = y0 + y1
                y1 = _rotate_left(y1, rotation) ^ y0
            y0 = y0 + keys[(block + 1) % 3]
            y1 = y1 + keys[(block + 2) % 3] + np.uint32(block + 1)
    return np.asarray(y0), np.asarray(y1)
