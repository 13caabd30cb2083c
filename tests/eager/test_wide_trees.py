"""Wide trees: many operations of few kinds that are looked at together.

What is equal is compiled once (``native/eager_parts.h``).  The values are those of each leaf looked
at by itself, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends import eager
from functrax.backends.eager import run as eager_run
from functrax.backends.executables.program import Launch
from functrax.core.events.recorder import recorder
from functrax.core.options.config import Override
from functrax.tree_util import tree_leaves, tree_map
from tests.eager.failing import failing_operation
from tests.eager.test_threads import disorder, in_threads

SHAPES = ((4,), (3, 5), (64,), (7, 1, 3), (), (0, 3), (40, 30))
DTYPES = (np.float32, np.int32, np.float16, np.uint8)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    return np.asarray(rng.integers(1, 9, shape)).astype(dtype)


def leaves(count: int, shape: tuple[int, ...] = (4,)) -> list[Any]:
    rng = np.random.default_rng(count)
    return [jnp.asarray(rng.standard_normal(shape, np.float32)) for _ in range(count)]


#: A component for jnp and for NumPy: of two arrays of one type, and of one that all share.
COMPONENTS: list[Callable[..., list[Any]]] = [
    lambda xp, x, y, s: [x * 2],
    lambda xp, x, y, s: [x + y, (x + y) * x],
    lambda xp, x, y, s: [xp.maximum(x, y) - x, x],
    lambda xp, x, y, s: [xp.zeros_like(x), xp.where(x > y, x, y)],
    lambda xp, x, y, s: [x * s, x - s],
    lambda xp, x, y, s: [x.reshape(-1), xp.concatenate([x.reshape(-1), y.reshape(-1)])],
    lambda xp, x, y, s: [(x * y).reshape(x.shape[::-1])],
    lambda xp, x, y, s: list(xp.split(xp.concatenate([x.reshape(-1)] * 2) + 1, 2)),
    lambda xp, x, y, s: [x + x, x + x],
]


def forest(seed: int, count: int) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    """Results of random components of few kinds, some of them dropped, and what they are."""
    rng = np.random.default_rng(seed)
    types = [
        (SHAPES[rng.integers(len(SHAPES))], DTYPES[rng.integers(len(DTYPES))]) for _ in range(3)
    ]
    kinds = [COMPONENTS[k] for k in rng.integers(len(COMPONENTS), size=3)]
    shared = {dtype: numbers(rng, (), dtype) for _, dtype in types}
    ours = {dtype: jnp.asarray(x) + jnp.asarray(np.zeros((), dtype)) for dtype, x in shared.items()}
    arrays = []
    for _ in range(count):
        shape, dtype = types[rng.integers(3)]
        if arrays and rng.random() < 0.2 and arrays[-1].dtype == dtype:
            arrays.append(arrays[-1])  # an input of several components
        else:
            arrays.append(numbers(rng, shape, dtype))
    for x in arrays:
        y = numbers(rng, x.shape, x.dtype)
        component, s = kinds[rng.integers(3)], x.dtype.type
        found = component(jnp, jnp.asarray(x), jnp.asarray(y), ours[s])
        wanted = component(np, x, y, shared[s])
        for pair in zip(found, wanted, strict=True):
            if rng.random() < 0.8:
                yield pair


@pytest.mark.parametrize("seed", range(40))
def test_forests_are_what_numpy_says(seed: int) -> None:
    for _ in range(3):  # one by one, compiled, and known
        pairs = list(forest(seed, 120))
        functrax.block_until_ready([x for x, _ in pairs])
        for x, wanted in pairs:
            assert x.dtype == wanted.dtype
            np.testing.assert_array_equal(x, wanted)


@pytest.mark.usefixtures("small_collections")
@pytest.mark.parametrize("where", ["every=1", "every=7", "every=100", "seed=3", "seed=8,collect"])
def test_forests_that_are_cut_anywhere(where: str) -> None:
    with eager.stress(where):
        for seed in range(100, 104):
            pairs = list(forest(seed, 60))
            functrax.block_until_ready([x for x, _ in pairs])
            for x, wanted in pairs:
                np.testing.assert_array_equal(x, wanted)


def adam(params: Any, grads: Any, m: Any, v: Any, step: Any) -> Any:
    rate = 1e-3 / (1 - 0.9**step)
    m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    return tree_map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v), m, v


def clipped(grads: Any) -> Any:
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads))
    return tree_map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads), norm


CONNECTED: list[Callable[[list[Any]], Any]] = [
    lambda tree: adam(tree, tree_map(jnp.sin, tree), tree, tree_map(jnp.abs, tree), jnp.int32(3)),
    clipped,
    lambda tree: [jnp.sum(x * x) for x in tree],
    lambda tree: tree_map(lambda x: (x - x.mean()) / (x.std() + 1e-6), tree),
    lambda tree: (tree_map(lambda x: x * tree[0].sum(), tree), tree_map(jnp.ones_like, tree)),
    lambda tree: tree_map(lambda x, y: jnp.dot(x.reshape(4, -1), y.reshape(-1, 4)), tree, tree),
    lambda tree: tree_map(lambda x: jnp.cumsum(x) + jnp.sort(x.reshape(-1)), tree),
    lambda tree: tree_map(lambda x: jnp.fft.rfft(x.reshape(-1)).real, tree),
]


@pytest.mark.parametrize("number", range(len(CONNECTED)))
@pytest.mark.parametrize("shapes", [((4,),), ((64,), (8, 4), (16, 32))])
def test_bits_are_those_of_leaves_alone(number: int, shapes: Any) -> None:
    rng = np.random.default_rng(number)
    tree = [
        jnp.asarray(rng.standard_normal(shapes[k % len(shapes)], np.float32)) for k in range(90)
    ]
    f = CONNECTED[number]
    alone = [np.asarray(x).tobytes() for x in tree_leaves(f(tree))]
    eager_run.forget()
    for _ in range(3):
        together = functrax.block_until_ready(f(tree))
        found = [np.asarray(x).tobytes() for x in tree_leaves(together)]
        assert found == alone


def test_strict_mode_has_parts_too() -> None:
    tree = leaves(100, (50, 20))
    with Override("strict", True):
        wanted = [functrax.jit(lambda x: jnp.exp(x) * 3 + x)(x) for x in tree[:5]]
        found = functrax.block_until_ready([jnp.exp(x) * 3 + x for x in tree])
    for x, y in zip(found, wanted):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


# ---- what is compiled -------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, usual_cuts: None) -> Iterator[list[tuple[int, int]]]:
    """Of each program that is compiled how many equations and how many kernels it has."""
    made: list[tuple[int, int]] = []
    original = eager_run._compile_one

    def compile_one(jaxpr: Any) -> Any:
        executable = original(jaxpr)
        launches = [x for x in executable.program.instructions if isinstance(x, Launch)]
        made.append((len(jaxpr.eqns), len(launches)))
        return executable

    monkeypatch.setattr(eager_run, "_compile_one", compile_one)
    eager_run.forget()
    yield made
    eager_run.forget()


@pytest.mark.parametrize("shapes", [((4,),), ((300,), (40, 50), (3, 4, 5))])
@pytest.mark.parametrize(
    "f",
    [
        lambda tree: tree_map(lambda x: x * 2, tree),
        lambda tree: tree_map(lambda x: jnp.sum(x * x), tree),
        lambda tree: adam(tree, tree, tree, tree_map(jnp.abs, tree), jnp.int32(3)),
        clipped,
    ],
)
def test_more_leaves_are_no_more_to_compile(
    f: Any, shapes: Any, compiled: list[tuple[int, int]]
) -> None:
    def work(count: int) -> tuple[int, int]:
        compiled.clear()
        eager_run.forget()
        tree = [jnp.ones(shapes[k % len(shapes)]) for k in range(count)]
        functrax.block_until_ready(tree)
        compiled.clear()
        for _ in range(2):
            functrax.block_until_ready(f(tree))
        return sum(n for n, _ in compiled), sum(n for _, n in compiled)

    few, many = work(192), work(768)
    # Sums of numbers are cut into equal pieces: what is left over at the end differs.
    assert few[0] > 0
    assert many[0] <= few[0] + 96
    assert many[1] <= few[1] + 4


def test_a_tree_of_other_size_compiles_nothing(compiled: list[tuple[int, int]]) -> None:
    for count in (300, 200, 400, 1):
        tree = leaves(count, (100, 90))
        functrax.block_until_ready(tree_map(lambda x: x * 2 + 1, tree))
        assert len(compiled) == 1


def test_constants_are_made_once(compiled: list[tuple[int, int]]) -> None:
    tree = leaves(200, (40, 50))
    for _ in range(3):
        zeros = functrax.block_until_ready(tree_map(jnp.zeros_like, tree))
        assert all(not np.asarray(x).any() for x in zeros)
    assert len({np.asarray(x).ctypes.data for x in zeros}) == 1


def test_trees_whose_leaves_differ_are_one_program(compiled: list[tuple[int, int]]) -> None:
    tree = [jnp.ones((k, 300)) for k in range(1, 60)]
    functrax.block_until_ready(tree_map(lambda x: x * 2, tree))
    assert len(compiled) == 1


# ---- errors, threads, what runs ---------------------------------------------------------------


@pytest.mark.usefixtures("usual_cuts")
def test_a_leaf_that_fails_costs_no_other() -> None:
    with failing_operation() as failing:
        tree = leaves(100, (30, 40))
        found = [x * 2 + 1 for x in tree]
        found[50] = failing.bind(found[50]) - 1
        for _ in range(2):
            with pytest.raises(ValueError, match="no value"):
                functrax.block_until_ready(found)
        rest = found[:50] + found[51:]
        functrax.block_until_ready(rest)
        for x, y in zip(rest, tree[:50] + tree[51:], strict=True):
            np.testing.assert_array_equal(x, np.asarray(y) * 2 + 1)
        with pytest.raises(ValueError, match="no value"):
            found[50].block_until_ready()
        failing.wrong = False
        wanted = np.asarray(tree[50]) * 2 + 1 - np.float32(1)
        np.testing.assert_array_equal(found[50], wanted)


@pytest.mark.usefixtures("usual_cuts")
def test_memory_that_there_is_not_names_the_line() -> None:
    tree = leaves(40, (64,))
    large = jnp.asarray(np.ones(1 << 24, np.float32))
    found = [jnp.sin(x) * 2 for x in tree]
    found.append(jnp.sin(large[:, None] * large))
    with pytest.raises(MemoryError) as info:
        functrax.block_until_ready(found)
    assert "test_wide_trees.py" in info.value.__notes__[0]
    np.testing.assert_allclose(found[3], np.sin(np.asarray(tree[3])) * 2, rtol=1e-5)
    del found, info


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interrupt_loses_nothing(monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    def interrupt(*args: Any) -> Any:
        raise error

    eager_run.forget()
    tree = leaves(100, (30, 40))
    found = [x * 2 + 1 for x in tree]
    with monkeypatch.context() as patch:
        patch.setattr(eager_run, "_compiled_part", interrupt)
        with pytest.raises(error):
            functrax.block_until_ready(found)
    functrax.block_until_ready(found)
    np.testing.assert_array_equal(found[7], np.asarray(tree[7]) * 2 + 1)


@pytest.mark.usefixtures("usual_cuts")
def test_each_operation_runs_once() -> None:
    def ran() -> int:
        return functrax._native.eager_counts()[0]

    tree = leaves(100)
    for _ in range(3):
        before = ran()
        found = [(x * 2, x * 2 + 1) for x in tree]
        functrax.block_until_ready(found)
        functrax.block_until_ready(found)
        assert ran() - before == 300


@pytest.mark.usefixtures("usual_cuts")
def test_the_profiler_sees_the_kernels_of_parts() -> None:
    tree = leaves(100, (300, 40))
    for _ in range(2):
        functrax.block_until_ready(tree_map(lambda x: jnp.sin(x) * 2, tree))
    recorder.start()
    functrax.block_until_ready(tree_map(lambda x: jnp.sin(x) * 2, tree))
    runs = recorder.stop().runs
    assert len(runs) == 100
    for run in runs:
        assert {x[1] for x in run.events} == set(range(len(run.program.instructions)))


def test_threads_look_at_trees() -> None:
    eager_run.forget()
    shared = [(x, y) for x, y in forest(5, 80)]

    def work(number: int) -> None:
        for seed in range(4):
            pairs = list(forest(seed, 80)) + shared
            functrax.block_until_ready([x for x, _ in pairs])
            for x, wanted in pairs:
                np.testing.assert_array_equal(x, wanted)

    with disorder():
        in_threads(work)
