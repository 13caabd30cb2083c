"""``random`` and ``nn.initializers`` against the cipher and the formulas in NumPy.

:func:`threefry` is threefry2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011).  Bits for element ``i`` of an array encipher the counter ``i``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from tests.tier1.sample import TABLE, draw

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
SEEDS = (0, 7, 2**31 + 5)


def threefry(key: Any, high: Any, low: Any) -> tuple[Any, Any]:
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = np.atleast_1d(high + keys[0]), np.atleast_1d(low + keys[1])
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def seeded(seed: int) -> Any:
    return np.array([0, seed & 0xFFFFFFFF], np.uint32)


def counters(n: int) -> tuple[Any, Any]:
    return np.zeros(n, np.uint32), np.arange(n, dtype=np.uint32)


def split(key: Any, n: int = 2) -> Any:
    return np.stack(threefry(key, *counters(n)), -1)


def bits(key: Any, shape: Any) -> Any:
    x, y = threefry(key, *counters(math.prod(shape)))
    return (x ^ y).reshape(shape)


def uniform(key: Any, shape: Any = (), low: float = 0.0, high: float = 1.0) -> Any:
    unit = ((bits(key, shape) >> np.uint32(9)) | np.uint32(0x3F800000)).view("f4") - np.float32(1)
    a, b = np.float32(low), np.float32(high)
    return np.maximum(a, unit * (b - a) + a)


def normal(key: Any, shape: Any = ()) -> Any:
    u = uniform(key, shape, float(np.nextafter(np.float32(-1), np.float32(0))), 1.0)
    return np.sqrt(2.0) * scipy.special.erfinv(u.astype("f8"))


def randint(key: Any, shape: Any, low: int, high: int) -> Any:
    first, second = split(key)
    span = np.uint32(high - low)
    carry = np.uint32((2**16 % int(span)) ** 2 % int(span))
    offset = (bits(first, shape) % span * carry + bits(second, shape) % span) % span
    return low + offset.astype("i4")


def gumbel(key: Any, shape: Any) -> Any:
    u = uniform(key, shape, float(np.finfo("f4").tiny), 1.0)
    return -np.log(-np.log(u.astype("f8")))


def permutation(key: Any, x: Any) -> Any:
    for _ in range(math.ceil(3 * math.log(max(1, len(x))) / math.log(2**32 - 1))):
        key, sub = split(key)
        x = x[np.argsort(bits(sub, (len(x),)), kind="stable")]
    return x


def truncated(key: Any, shape: Any) -> Any:
    bound = math.erf(2 / math.sqrt(2))
    u = uniform(key, shape, -bound, bound)
    return math.sqrt(2) * scipy.special.erfinv(u.astype("f8"))


def from_seed(name: str, want: Any, *args: Any, **options: Any) -> None:
    """The sampler with keys of both kinds."""
    for seed in SEEDS:
        for kind in ("key", "PRNGKey"):
            TABLE(
                "random." + name,
                seed,
                *args,
                tol=1e-4,
                diff=False,
                run=lambda j, s, *a, k=kind, o=options: getattr(j.random, name)(
                    getattr(j.random, k)(s), *a, **o
                ),
                want=lambda s, *a: want(seeded(s), *a),
            )


for _seed in SEEDS:
    TABLE("random.PRNGKey", _seed, want=seeded)
    TABLE("random.key", _seed, want=seeded, run=lambda j, s: j.random.key_data(j.random.key(s)))
    for _n in (2, 1, 5, (2, 3)):
        TABLE(
            "random.split",
            _seed,
            _n,
            run=lambda j, s, n: j.random.split(j.random.PRNGKey(s), n),
            want=lambda s, n: split(seeded(s), math.prod(np.atleast_1d(n))).reshape(
                (*np.atleast_1d(n), 2)
            ),
        )
    for _data in (0, 3, 2**31 + 1):
        TABLE(
            "random.fold_in",
            _seed,
            _data,
            run=lambda j, s, d: j.random.key_data(j.random.fold_in(j.random.key(s), d)),
            want=lambda s, d: np.concatenate(threefry(seeded(s), np.uint32(0), np.uint32(d))),
        )
SHAPES: list[tuple[int, ...]] = [(), (5,), (2, 3), (0,)]
for _shape in SHAPES:
    from_seed("uniform", uniform, _shape)
    from_seed("normal", normal, _shape)
    from_seed("randint", randint, _shape, -3, 10)
    from_seed("bernoulli", lambda k, p, s: uniform(k, s) < np.float32(p), 0.3, _shape)
from_seed("uniform", lambda k, s: uniform(k, s, -2.0, 5.0), (4,), minval=-2.0, maxval=5.0)
from_seed("randint", lambda k, s, a, b, *_: randint(k, s, a, b), (4,), 0, 1000, "int32")
_logits = draw((4, 3))
from_seed("categorical", lambda k, x: np.argmax(x + gumbel(k, x.shape), -1), _logits)
from_seed("categorical", lambda k, x, a: np.argmax(x + gumbel(k, x.shape), a), _logits, 0)
from_seed("categorical", lambda k, x: np.argmax(x + gumbel(k, (5, 3)), -1), _logits[0], shape=(5,))
from_seed("permutation", lambda k, n: permutation(k, np.arange(n)), 9)
from_seed("permutation", permutation, draw((5, 2)))
from_seed("choice", lambda k, n, s: randint(k, s, 0, n), 8, (2, 3))
from_seed("choice", lambda k, x, s: x[randint(k, s, 0, len(x))], draw((5,)), (4,))
from_seed("choice", lambda k, n, s: permutation(k, np.arange(n))[:4], 8, (4,), replace=False)
_p = np.float32([0.1, 0.2, 0.3, 0.4])
from_seed(
    "choice",
    lambda k, n, s: np.searchsorted(np.cumsum(_p), np.cumsum(_p)[-1] * (1 - uniform(k, s))),
    4,
    (6,),
    p=_p,
)
_mean, _cov = draw((3,)), np.float32([[2, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 3]])
for _shape in ((), (4,)):
    from_seed(
        "multivariate_normal",
        lambda k, m, c, s: m + normal(k, (*s, 3)) @ np.linalg.cholesky(c).T,
        _mean,
        _cov,
        _shape,
        method="cholesky",
    )
TABLE(
    "random.normal",
    np.float32([1, 2, 3]),
    want=lambda x: x * normal(seeded(0), (3,)),
    run=lambda j, x: x * j.random.normal(j.random.key(0), (3,), "float32"),
)

for _shape in ((3, 4), (2, 3, 5)):
    _fan = math.prod(_shape[:-1])
    for _name, _want, _options in (
        ("zeros", lambda k, s: np.zeros(s), None),
        ("normal", lambda k, s: 0.01 * normal(k, s), {}),
        ("normal", lambda k, s: 0.5 * normal(k, s), {"stddev": 0.5}),
        (
            "lecun_normal",
            lambda k, s, n=_fan: truncated(k, s) / math.sqrt(n) / 0.87962566103423978,
            {},
        ),
    ):
        TABLE(
            "nn.initializers." + _name,
            _shape,
            tol=1e-4,
            run=lambda j, s, n=_name, o=_options: (lambda make: make if o is None else make(**o))(
                getattr(j.nn.initializers, n)
            )(j.random.key(3), s, "float32"),
            want=lambda s, f=_want: f(seeded(3), s),
        )
