"""Arrays of more than 2^31 elements, and of more than 2^32 bytes, through every kind of kernel.

    python -m pytest -m slow tests/backends/test_long_arrays.py

takes five minutes of a processor and 15 GB of memory, which must be free: one array of 2.1 GB
(int8) or 4.3 GB (float32) at a time, and what is made of it.

The numbers of an array repeat after ``PERIOD`` elements, a prime: an element that is read 2^31 or
2^32 elements or bytes from its place is another one.  Of a result some eighty pieces are compared
with what NumPy computes of the same elements: at both ends, on both sides of each power of two that
a number of 32 bits could be about, and everywhere between.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.runtime import choice
from functrax.core.prims.threefry_values import threefry2x32

#: Bytes of memory that the tests take at their peak.
NEEDED = 15 * 10**9
PERIOD = 1_000_003
ROWS, COLUMNS = 65_537, 32_771
SQUARE = ROWS * COLUMNS  # a little more than 2^31
N = SQUARE + 1003
HALF = N // 2
#: float32: more than 2^32 bytes.
M = 2**30 + 517
TALL, WIDE = 2**15 + 1, 2**15 - 1  # almost M together
#: Elements of a piece that is compared.
PIECE = 1 << 16
Array: TypeAlias = "np.ndarray[Any, Any]"
#: What a result has from one index of its first axis up to another.
Wanted: TypeAlias = Callable[[int, int], Any]


def available() -> int:
    """Bytes of memory that this process has, or can have without the system's using a disk."""
    free = Path("/proc/meminfo").read_text().split("MemAvailable:")[1]
    held = Path("/proc/self/status").read_text().split("VmRSS:")[1]
    return 1024 * sum([int(text.split()[0]) for text in (free, held)])


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Skips where there is not enough; gives back what a test has used."""
    if available() < NEEDED:
        pytest.skip(f"needs {NEEDED / 1e9:.0f} GB of memory, it can have {available() / 1e9:.1f}")
    yield
    gc.collect()
    choice.CURRENT.pool_trim(0)


def block(dtype: Any) -> Array:
    """The elements that repeat."""
    rng = np.random.default_rng(0)
    if dtype == np.float32:
        return rng.standard_normal(PERIOD).astype(np.float32)
    return rng.integers(-128, 128, PERIOD, np.int8)


def long_array(dtype: Any, size: int) -> Any:
    """The array of a dtype, of functrax."""
    made = np.empty(size, dtype)
    made[:PERIOD] = block(dtype)
    done = PERIOD
    while done < size:
        more = min(done, size - done)
        made[done : done + more] = made[:more]
        done += more
    made.flags.writeable = False
    return jnp.asarray(made)


@pytest.fixture(scope="module")
def held() -> Iterator[dict[str, Any]]:
    """The array of the last test."""
    arrays: dict[str, Any] = {}
    yield arrays
    arrays.clear()
    gc.collect()


def array(held: dict[str, Any], dtype: Any, size: int) -> tuple[Any, Array]:
    """The array of functrax and its elements; another one is given up before."""
    name = np.dtype(dtype).name
    if name not in held:
        held.clear()
        gc.collect()
        choice.CURRENT.pool_trim(0)
        held[name] = long_array(dtype, size)
    return held[name], np.asarray(held[name])


def compare(found: Any, wanted: Wanted, tolerance: float = 0.0) -> None:
    """A result with NumPy's, piece by piece."""
    found = np.asarray(found)
    if not found.ndim:
        np.testing.assert_allclose(found, wanted(0, 1), rtol=tolerance)
        return
    for first, last in pieces(len(found), found[0].size, found.itemsize):
        piece = np.asarray(wanted(first, last))
        assert found.dtype == piece.dtype
        if tolerance:
            np.testing.assert_allclose(found[first:last], piece, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(found[first:last], piece, f"from {first} on")


def pieces(rows: int, width: int, itemsize: int) -> list[tuple[int, int]]:
    """Which rows of a result are compared."""
    size = min(rows, max(2, PIECE // max(1, width)))
    powers = [2**bits // (width * unit) for bits in (30, 31, 32) for unit in (1, itemsize)]
    middles = [*powers, *range(0, rows, -(-rows // 64)), rows]
    firsts = {min(max(0, middle - size // 2), rows - size) for middle in middles}
    return [(first, first + size) for first in sorted(firsts)]


def total_of(repeated: Array, size: int) -> Any:
    """The sum of the first elements of an array that repeats a block."""
    whole, rest = divmod(size, PERIOD)
    return whole * repeated.sum() + repeated[:rest].sum()


def products(rows: Array, vector: Array, dtype: Any) -> Array:
    """Rows times a vector in a wider dtype, of which there are some rows at a time."""
    parts = np.array_split(rows, -(-len(rows) // 256))
    return np.concatenate([part.astype(dtype) @ vector.astype(dtype) for part in parts])


def check(
    function: Callable[..., Any], args: tuple[Any, ...], wanted: Wanted, tolerance: float = 0.0
) -> None:
    """Compiled and eager results with NumPy's."""
    compare(functrax.jit(function)(*args), wanted, tolerance)
    compare(function(*args), wanted, tolerance)


# ---- int8, 2^31 elements and more ---------------------------------------------------------------

#: Functions of the long array, and what they give by the elements of it.
MAPS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Wanted]]] = {
    "arithmetic": (lambda x: x * 3 + 1, lambda s: lambda i, j: s[i:j] * np.int8(3) + np.int8(1)),
    "where": (
        lambda x: jnp.where(x > 0, x, -x),
        lambda s: lambda i, j: np.where(s[i:j] > 0, s[i:j], -s[i:j]),
    ),
    "bools": (
        lambda x: (x > 0) & ~(x > 50),
        lambda s: lambda i, j: (s[i:j] > 0) & ~(s[i:j] > 50),
    ),
    "convert": (
        lambda x: x.astype(jnp.uint8) + 1,
        lambda s: lambda i, j: s[i:j].astype(np.uint8) + np.uint8(1),
    ),
    "slice": (lambda x: x[5:] + 1, lambda s: lambda i, j: s[i + 5 : j + 5] + np.int8(1)),
    "every second": (lambda x: x[3::2] + 0, lambda s: lambda i, j: s[3::2][i:j]),
    "every third, far": (
        lambda x: x[2**31 - 7 :: 3] + 1,
        lambda s: lambda i, j: s[2**31 - 7 :: 3][i:j] + np.int8(1),
    ),
    "reverse": (lambda x: x[::-1] + 1, lambda s: lambda i, j: s[::-1][i:j] + np.int8(1)),
    "roll": (
        lambda x: jnp.roll(x, 2**31 - 9),
        lambda s: (
            lambda i, j: np.r_[s[N - 2**31 + 9 :][i:j], s[: max(0, j - 2**31 + 9)][-(j - i) :]]
        ),
    ),
    "stencil": (
        lambda x: x[:-2] + x[1:-1] - x[2:],
        lambda s: lambda i, j: s[i:j] + s[i + 1 : j + 1] - s[i + 2 : j + 2],
    ),
    "windows": (
        lambda x: lax.reduce_window(x, np.int8(-128), lax.max, (3,), (2,), "VALID"),
        lambda s: lambda i, j: np.maximum(np.maximum(s[::2][i:j], s[1::2][i:j]), s[2::2][i:j]),
    ),
    "transpose": (
        lambda x: x[:SQUARE].reshape(ROWS, COLUMNS).T,
        lambda s: lambda i, j: s[:SQUARE].reshape(ROWS, COLUMNS)[:, i:j].T,
    ),
    "transpose of triples": (
        lambda x: x[: N // 24 * 24].reshape(-1, 3, 8).transpose(0, 2, 1) + 1,
        lambda s: (
            lambda i, j: s[: N // 24 * 24].reshape(-1, 3, 8)[i:j].transpose(0, 2, 1) + np.int8(1)
        ),
    ),
    "rows, columns": (
        lambda x: x[:SQUARE].reshape(ROWS, COLUMNS)[jnp.array([0, -1, 7])][:, jnp.array([0, -1])],
        lambda s: lambda i, j: s[:SQUARE].reshape(ROWS, COLUMNS)[[0, -1, 7]][:, [0, -1]][i:j],
    ),
    "tables": (
        lambda x: jnp.arange(256, dtype=jnp.int8)[x.astype(jnp.uint8)],
        lambda s: lambda i, j: s[i:j],
    ),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x),
        lambda s: lambda i, j: s[i:j] * np.int8(4),
    ),
    "branch": (
        lambda x: lax.cond(x[-1] > -128, lambda x: x + 1, lambda x: x - 1, x),
        lambda s: lambda i, j: s[i:j] + np.int8(1),
    ),
    "vmap": (
        lambda x: functrax.vmap(lambda r: r[::-1] + r[0])(x[:SQUARE].reshape(ROWS, COLUMNS)),
        lambda s: (
            lambda i, j: (
                s[:SQUARE].reshape(ROWS, COLUMNS)[i:j, ::-1] + s[:SQUARE:COLUMNS][i:j, None]
            )
        ),
    ),
    "sums of rows": (
        lambda x: x[:SQUARE].reshape(ROWS, COLUMNS).sum(1, dtype=jnp.int32),
        lambda s: lambda i, j: s[:SQUARE].reshape(ROWS, COLUMNS)[i:j].sum(1, dtype=np.int32),
    ),
    "sums of columns": (
        lambda x: x[: 2 * HALF].reshape(2, HALF).sum(0, dtype=jnp.int8),
        lambda s: lambda i, j: s[i:j] + s[HALF + i : HALF + j],
    ),
    "argmax of rows": (
        lambda x: jnp.argmax(x[:SQUARE].reshape(ROWS, COLUMNS), 1),
        lambda s: lambda i, j: s[:SQUARE].reshape(ROWS, COLUMNS)[i:j].argmax(1).astype(np.int32),
    ),
    "running sums of rows": (
        lambda x: lax.cumsum(x[:SQUARE].reshape(ROWS, COLUMNS), 1),
        lambda s: lambda i, j: s[:SQUARE].reshape(ROWS, COLUMNS)[i:j].cumsum(1, dtype=np.int8),
    ),
    "running sums of columns": (
        lambda x: lax.cumsum(x[: 2 * HALF].reshape(2, HALF), 0, reverse=True).reshape(-1),
        lambda s: (
            lambda i, j: np.where(
                np.arange(i, j) < HALF,
                s[np.arange(i, j) % HALF] + s[np.arange(i, j) % HALF + HALF],
                s[i:j],
            )
        ),
    ),
    "products of matrices": (
        lambda x: x[:SQUARE].reshape(ROWS, COLUMNS) @ x[:COLUMNS],
        lambda s: (
            lambda i, j: products(
                s[:SQUARE].reshape(ROWS, COLUMNS)[i:j], s[:COLUMNS], np.int32
            ).astype(np.int8)
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_int8(name: str, held: dict[str, Any]) -> None:
    x, elements = array(held, np.int8, N)
    function, wanted = MAPS[name]
    check(function, (x,), wanted(elements))


@pytest.mark.slow
def test_pads(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)

    def wanted(first: int, last: int) -> Array:
        piece = np.full(last - first, 7, np.int8)
        begin, end = max(first, 3), min(last, N + 3)
        piece[begin - first : max(end, begin) - first] = s[begin - 3 : max(end, begin) - 3]
        return piece

    check(lambda x: jnp.pad(x, (3, 9), constant_values=7), (x,), wanted)


@pytest.mark.slow
def test_holes(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)

    def wanted(first: int, last: int) -> Array:
        begin = first // 3
        piece = np.full((last // 3 + 1 - begin, 3), 7, np.int8)
        piece[:, 0] = s[begin : last // 3 + 1]
        return piece.reshape(-1)[first - 3 * begin :][: last - first]

    check(lambda x: lax.pad(x[: 2**30 - 9], np.int8(7), ((0, 2, 2),)), (x,), wanted)


@pytest.mark.slow
def test_concatenations(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    parts = s[7:], s[: 2**20]

    def wanted(first: int, last: int) -> Array:
        left = N - 7
        return np.r_[parts[0][first:last], parts[1][max(0, first - left) : max(0, last - left)]]

    check(lambda x: jnp.concatenate([x[7:], x[: 2**20]]), (x,), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint32", "int64"])
def test_gathers_and_scatters(dtype: str, held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    places = np.array([0, 2**31 - 1, 2**31, 2**31 + 3, N - 1], dtype)

    def wanted(first: int, last: int) -> Array:
        piece = s[first:last].copy()
        inside = places[(places >= first) & (places < last)].astype(np.int64)
        np.add.at(piece, inside - first, np.int8(9))
        return piece

    with functrax.enable_x64(dtype == "int64"):
        check(lambda x, i: x[i] + 1, (x, places), lambda i, j: s[places][i:j] + np.int8(1))
        check(lambda x, i: x.at[i].add(9), (x, places), wanted)


@pytest.mark.slow
def test_dynamic_slices(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    start = 2**31 + 57

    def updated(first: int, last: int) -> Array:
        piece = s[first:last].copy()
        piece[max(0, start - first) : max(0, start + 100 - first)] = 9
        return piece

    check(
        lambda x, i: lax.dynamic_slice(x, (i,), (900,)),
        (x, np.uint32(start)),
        lambda i, j: s[start : start + 900][i:j],
    )
    check(
        lambda x, i: lax.dynamic_update_slice(x, jnp.full(100, 9, jnp.int8), (i,)),
        (x, np.uint32(start)),
        updated,
    )


@pytest.mark.slow
def test_reductions(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    wide = block(np.int8).astype(np.int64)
    total, squares, large = (total_of(x, N) for x in (wide, wide**2, wide > 100))
    check(
        lambda x: jnp.sum(x, dtype=jnp.int32), (x,), lambda i, j: np.int64(total).astype(np.int32)
    )
    check(lambda x: jnp.sum(x > 100, dtype=jnp.int32), (x,), lambda i, j: np.int32(large))
    check(lambda x: x.astype(jnp.float32).sum(), (x,), lambda i, j: np.float32(total), 1e-5)
    check(lambda x: jnp.dot(x, x), (x,), lambda i, j: np.int64(squares).astype(np.int8))
    check(lambda x: jnp.min(x[2**31 :]), (x,), lambda i, j: s[2**31 :].min())
    check(lambda x: jnp.all(x > -128) | jnp.any(x == 127), (x,), lambda i, j: np.bool_(True))


@pytest.mark.slow
def test_places_of_extrema(held: dict[str, Any]) -> None:
    """The only extremum is at the end, and int32 does not hold its place."""
    _, s = array(held, np.int8, N)
    held.clear()
    lower = np.minimum(s, 126)
    del s
    lower[N - 7] = 127
    x = jnp.asarray(lower)
    with functrax.enable_x64():
        check(jnp.argmax, (x,), lambda i, j: np.int64(N - 7))
        check(lambda x: jnp.argmin(-jnp.maximum(x, 0)), (x,), lambda i, j: np.int64(N - 7))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_running_results(kind: str, held: dict[str, Any]) -> None:
    x, _ = array(held, np.int8, N)
    numpy = {"sum": np.add, "max": np.maximum}[kind]
    function = {"sum": lax.cumsum, "max": lax.cummax}[kind]
    once = numpy.accumulate(block(np.int8), dtype=np.int64)

    def wanted(first: int, last: int) -> Array:
        whole, rest = np.divmod(np.arange(first, last), PERIOD)
        if kind == "sum":
            return (whole * once[-1] + once[rest]).astype(np.int8)
        return np.where(whole > 0, once[-1], once[rest]).astype(np.int8)

    check(function, (x,), wanted)


@pytest.mark.slow
def test_scans(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    size = N // 4

    def function(x: Any) -> Any:
        def step(c: Any, a: Any) -> Any:
            return c + a, c + a

        return lax.scan(step, jnp.zeros(size, jnp.int8), x[: 4 * size].reshape(4, size))[1]

    def wanted(first: int, last: int) -> Array:
        row, column = np.divmod(np.arange(first, last), size)
        parts = [np.where(k <= row, s[k * size + column], 0) for k in range(4)]
        return np.sum(parts, 0, dtype=np.int8)

    compare(functrax.jit(function)(x).reshape(-1), wanted)


@pytest.mark.slow
def test_sorts(held: dict[str, Any]) -> None:
    x, s = array(held, np.int8, N)
    whole, rest = divmod(N, PERIOD)
    of_bytes = [np.bincount(x.view(np.uint8), minlength=256) for x in (s[:PERIOD], s[:rest])]
    counts = whole * of_bytes[0] + of_bytes[1]
    ends = np.r_[0, np.r_[counts[128:], counts[:128]].cumsum()]

    def wanted(first: int, last: int) -> Array:
        inside = np.diff(np.clip(ends, first, last))
        return np.repeat(np.arange(-128, 128).astype(np.int8), inside)

    compare(functrax.jit(jnp.sort)(x), wanted)


@pytest.mark.slow
def test_made_of_little(held: dict[str, Any]) -> None:
    held.clear()
    rows, columns = block(np.int8)[:ROWS], block(np.int8)[:COLUMNS]
    check(
        lambda r: jnp.broadcast_to(r[:, None], (ROWS, COLUMNS)) + 1,
        (rows,),
        lambda i, j: np.broadcast_to(rows[i:j, None] + np.int8(1), (j - i, COLUMNS)),
    )
    check(
        lambda r, c: r[:, None] @ c[None],
        (rows, columns),
        lambda i, j: rows[i:j, None] * columns[None],
    )
    check(
        lambda: (lax.iota(jnp.uint32, N) >> 24).astype(jnp.uint8),
        (),
        lambda i, j: (np.arange(i, j) >> 24).astype(np.uint8),
    )


@pytest.mark.slow
def test_random_bits(held: dict[str, Any]) -> None:
    held.clear()
    key = functrax.random.key(3)
    words = [np.uint32(w) for w in np.asarray(functrax.random.key_data(key))]
    found = np.asarray(functrax.jit(lambda: functrax.random.bits(key, (N,), jnp.uint8))())
    for first in (0, 2**31 - 500, 2**31, N - 900):
        counter = np.arange(first, first + 900, dtype=np.uint32)
        high, low = threefry2x32(*words, np.zeros_like(counter), counter)
        np.testing.assert_array_equal(found[first : first + 900], (high ^ low).astype(np.uint8))


# ---- float32, 2^32 bytes and more ---------------------------------------------------------------

FLOATS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Wanted], float]] = {
    "arithmetic": (lambda x: x * 2 + 1, lambda s: lambda i, j: s[i:j] * 2 + 1, 1e-6),
    "exp": (jnp.exp, lambda s: lambda i, j: np.exp(s[i:j]), 1e-6),
    "slice": (lambda x: x[7:] + 1, lambda s: lambda i, j: s[i + 7 : j + 7] + 1, 0.0),
    "every second": (lambda x: x[7::2] * 2, lambda s: lambda i, j: s[7::2][i:j] * 2, 0.0),
    "reverse": (lambda x: x[::-1] + 1, lambda s: lambda i, j: s[::-1][i:j] + 1, 0.0),
    "argmax": (
        jnp.argmax,
        lambda s: lambda i, j: np.int32(s[:PERIOD].argmax()),
        0.0,
    ),
    "transpose": (
        lambda x: x[: TALL * WIDE].reshape(TALL, WIDE).T,
        lambda s: lambda i, j: s[: TALL * WIDE].reshape(TALL, WIDE)[:, i:j].T,
        0.0,
    ),
    "products of matrices": (
        lambda x: x[: TALL * WIDE].reshape(TALL, WIDE) @ x[:WIDE],
        lambda s: (
            lambda i, j: products(
                s[: TALL * WIDE].reshape(TALL, WIDE)[i:j], s[:WIDE], np.float64
            ).astype(np.float32)
        ),
        1e-3,
    ),
    "softmax": (
        lambda x: functrax.nn.softmax(x[: 2**30].reshape(-1, 1024), 1),
        lambda s: lambda i, j: _softmax(s[i * 1024 : j * 1024].reshape(-1, 1024)),
        1e-5,
    ),
    "gradient of squares": (
        functrax.grad(lambda x: jnp.sum(x * x)),
        lambda s: lambda i, j: 2 * s[i:j],
        0.0,
    ),
    "gradient of a slice": (
        functrax.grad(lambda x: jnp.sum(x[5::2])),
        lambda s: (
            lambda i, j: ((np.arange(i, j) >= 5) & (np.arange(i, j) % 2 == 1)).astype(np.float32)
        ),
        0.0,
    ),
    "gradient of a gather": (
        functrax.grad(lambda x: jnp.sum(x[jnp.array([3, M - 1, M - 1])])),
        lambda s: (
            lambda i, j: np.bincount(
                np.array([k - i for k in (3, M - 1, M - 1) if i <= k < j], int), minlength=j - i
            ).astype(np.float32)
        ),
        0.0,
    ),
}


def _softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_float32(name: str, held: dict[str, Any]) -> None:
    x, elements = array(held, np.float32, M)
    function, wanted, tolerance = FLOATS[name]
    check(function, (x,), wanted(elements), tolerance)


@pytest.mark.slow
def test_sums_of_float32(held: dict[str, Any]) -> None:
    x, _ = array(held, np.float32, M)
    wide = block(np.float32).astype(np.float64)
    once = wide.cumsum()

    def wanted(first: int, last: int) -> Array:
        whole, rest = np.divmod(np.arange(first, last), PERIOD)
        return (whole * once[-1] + once[rest]).astype(np.float32)

    check(lambda x: jnp.sum(x * 1), (x,), lambda i, j: np.float32(total_of(wide, M)), 1e-5)
    check(jnp.cumsum, (x,), wanted, 1e-3)
