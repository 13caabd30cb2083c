"""``jax.extend.random``: generators of random bits as values, and keys made for one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import numpy as jnp, random
from functrax.core.errors.typed import DTypeError
from functrax.core.prims.bitwise import threefry2x32 as threefry2x32_p
from functrax.random.implementations import IMPLEMENTATIONS
from functrax.transforms.mapping.vmap import vmap

__all__ = [
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

threefry_prng_impl = IMPLEMENTATIONS["threefry2x32"]
rbg_prng_impl = IMPLEMENTATIONS["rbg"]
unsafe_rbg_prng_impl = IMPLEMENTATIONS["unsafe_rbg"]


def random_seed(seeds: Any, impl: Any) -> Any:
    """Keys of a generator, one for each seed.

    Args:
      seeds: an integer, or an array of integers.
      impl: the generator.
    """
    if isinstance(seeds, int):
        return random.key(seeds, impl=impl)
    found = jnp.asarray(seeds)
    keys = vmap(lambda seed: random.key(seed, impl=impl))(found.ravel())
    return keys.reshape(found.shape)


def seed_with_impl(impl: Any, seed: Any) -> Any:
    """A key of a generator."""
    return random_seed(seed, impl)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Threefry-2x32 of counters, of which the first half goes with the second.

    Args:
      keypair: the two words of a key, uint32.
      count: the counters, uint32.

    Returns:
      Words of the shape of ``count``.
    """
    first, second = keypair
    words = [jnp.asarray(x) for x in (first, second, count)]
    if any(x.dtype != np.uint32 for x in words):
        raise DTypeError(
            "threefry_2x32 requires uint32 arguments",
            got=", ".join(str(x.dtype) for x in words),
            fix="astype('uint32')",
        )
    flat = words[2].ravel()
    odd = flat.size % 2
    padded = jnp.pad(flat, (0, odd)).reshape(2, -1)
    keys = (jnp.broadcast_to(word, padded.shape[1:]) for word in words[:2])
    out = jnp.concatenate(threefry2x32_p.bind(*keys, padded[0], padded[1]))
    return out[: flat.size].reshape(words[2].shape)
