"""Trees of kernels: they read back and verify, and the interpreter agrees with machine code.

The default run looks at kernels of every form and of a few random programs.  The slow one looks at
those of ``MANY`` random programs; ``test_every_kernel.py`` at those of the tests of ``backends``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation import codegen
from functrax.backends.loops.parse import parse
from functrax.backends.loops.text import text
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.targets import schedule_target
from functrax.core.errors.typed import ArgumentError, VerificationError
from functrax.core.options.config import Override
from functrax.core.records import replace
from tests.backends.loops.kernel_trees import Kernels
from tests.backends.random_checks import check_seed

pytestmark = pytest.mark.usefixtures("without_plans")
FEW, MANY = 6, 66
KINDS = ("exact", "bits", "smooth")


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def indices(*shape: int, most: int = 5) -> Any:
    return np.random.default_rng(1).integers(-2, most, shape).astype(np.int32)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernels]:
    with functrax.backend("llvm"), Override("cache", False):
        yield Kernels(monkeypatch)


def converging(x: Any) -> Any:
    return lax.while_loop(
        lambda s: s[1] > 1e-3, lambda s: (jnp.cos(s[0]), abs(s[0] - jnp.cos(s[0]))), x
    )


def convolved(x: Any, w: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME")


def rolling(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda _, v: jnp.roll(v, 1) * 1.5, x)


#: Programs whose kernels have every kind of statement, and their arguments.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "map": (lambda x: jnp.tanh(x) * 2 + 1, (numbers(37, 53),)),
    "whole vectors": (lambda x: x * x, (numbers(512),)),
    "vectors and a tail": (lambda x: x * x + x, (numbers(1001),)),
    "row sums": (lambda x: jnp.sum(x, 1), (numbers(3, 1037),)),
    "short row sums": (lambda x: jnp.sum(x, 1), (numbers(5, 37),)),
    "column sums": (lambda x: jnp.sum(x, 0), (numbers(19, 53),)),
    "softmax": (functrax.nn.softmax, (numbers(3, 129),)),
    "places": (lambda x: (jnp.argmax(x, 1), jnp.max(x, 1)), (numbers(3, 129),)),
    "products": (lambda x: jnp.prod(x, 1), (numbers(3, 45, dtype=np.complex64),)),
    "transposed": (lambda x: x.T + 1, (numbers(48, 64),)),
    "transposed, in part": (lambda x: jnp.tanh(x.T), (numbers(43, 61),)),
    "running sums": (lambda x: jnp.cumsum(x, 1), (numbers(3, 77),)),
    "running maxima down": (lambda x: lax.cummax(x, 0), (numbers(23, 17),)),
    "running products": (lambda x: jnp.cumprod(x, 1), (numbers(2, 37, dtype=np.complex64),)),
    "scattered": (lambda x, i: jnp.zeros(4).at[i].add(x), (numbers(61), indices(61))),
    "scattered rows": (lambda x, i: jnp.zeros((4, 9)).at[i].max(x), (numbers(7, 9), indices(7))),
    "gathered": (lambda x, i: x[i] * 2, (numbers(5, 9), indices(11))),
    "padded": (lambda x: jnp.pad(x, ((1, 2), (3, 0))), (numbers(7, 19),)),
    "concatenated": (lambda x: jnp.concatenate([x, x[::-1] * 2], 1), (numbers(5, 7),)),
    "steps": (lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x), (numbers(31),)),
    "steps of rows": (rolling, (numbers(11),)),
    "until": (converging, ((np.float32(0.3), np.float32(1.0)),)),
    "product": (lambda x: x @ x.T, (numbers(13, 21),)),
    "product and more": (lambda x, y: jnp.tanh(x @ y + 1), (numbers(7, 6), numbers(6, 19))),
    "products of batches": (lambda x, y: x @ y, (numbers(3, 5, 6), numbers(3, 6, 17))),
    "double product": (lambda x: x @ x, (numbers(14, 14, dtype=np.float64),)),
    "convolution": (convolved, (numbers(1, 1, 5, 5), numbers(2, 1, 3, 3))),
    "strided convolution": (
        lambda x, w: convolved(x, w, 2), (numbers(1, 1, 5, 5), numbers(2, 1, 3, 3)),
    ),
    "products of words": (
        lambda x, y: jnp.matmul(x, y, preferred_element_type="int32"),
        (numbers(9, 32, dtype=np.int8), numbers(32, 18, dtype=np.int8)),
    ),
    "bools": (lambda x: (x > 0) & (x < 1), (numbers(77),)),
    "halves": (lambda x: jnp.exp(x) * x, (numbers(65, dtype=np.float16),)),
    "integers": (lambda i: i // 3 + i % 5, (indices(67, most=90),)),
    "random bits": (lambda: functrax.random.normal(functrax.random.key(3), (37,)), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_trees_of_every_form(name: str, kernels: Kernels) -> None:
    function, args = PROGRAMS[name]
    functrax.block_until_ready(functrax.jit(function)(*args))
    assert kernels.check() == len(kernels.found) > 0


@pytest.mark.parametrize("name", ["row sums", "column sums", "softmax", "products"])
def test_trees_of_strict_sums(name: str, kernels: Kernels) -> None:
    function, args = PROGRAMS[name]
    with Override("strict", True):
        functrax.block_until_ready(functrax.jit(function)(*args))
    assert kernels.check() == len(kernels.found) > 0


def test_trees_of_large_kernels(kernels: Kernels) -> None:
    x = numbers(1 << 21)
    y = x.reshape(1 << 10, -1)
    for function, v in (
        (lambda v: v * 2 + 1, x),  # in pieces
        (jnp.sum, x),  # in blocks
        (jnp.cumsum, x),
        (lambda v: v[:, 1:] + 1, np.concatenate([y, y, y], 1)),  # rows begin within a line
        (functrax.nn.softmax, y),  # fetches the next row
        (lambda v: v.T + 1, y),
        (lambda v: v @ v.T, y),  # blocks of steps
        (lambda v: (v[:700] @ v.T).T * 2, y),
        (lambda v: v[:, :1000] @ v[:1000, :900], y),
    ):
        functrax.block_until_ready(functrax.jit(function)(v))
    kernels.check()
    texts = [text(tree) for _, tree, _ in kernels.found.values()]
    tiles = ("sum float32", "later", "from d")
    for word in (" vector\n", "line[", "prefetch", "tile d", "running", "grain(", *tiles):
        assert any(word in x for x in texts), word


@pytest.mark.parametrize("follows", [False, True])
def test_trees_of_tiles_that_are_turned(
    follows: bool, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    turning = replace(schedule_target(), turned_stores=1e-3)
    monkeypatch.setattr(codegen, "schedule_target", lambda: turning)

    def function(x: Any, y: Any) -> Any:
        product = jnp.einsum("mk,kn->nm", x, y)
        return abs(product) if follows else product

    for rows, columns in ((5, 64), (2, 37), (23, 33)):
        functrax.block_until_ready(functrax.jit(function)(numbers(rows, 9), numbers(9, columns)))
    assert kernels.check()
    assert any("turn float32" in text(tree) for _, tree, _ in kernels.found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_trees_of_random_programs(kind: str, kernels: Kernels) -> None:
    for seed in range(FEW):
        check_seed(seed, kind)
    assert kernels.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", range(FEW, MANY, 20))
def test_trees_of_many_random_programs(kind: str, start: int, kernels: Kernels) -> None:
    for seed in range(start, start + 20):
        check_seed(seed, kind)
    assert kernels.check()


# ---- what is refused ----------------------------------------------------------------------------


@cache
def written(name: str) -> str:
    """The text of a kernel that no other test compiles."""
    programs = {"map": lambda x: jnp.cos(x) * 3, "rows": lambda x: jnp.sum(x * 3, 1)}
    with pytest.MonkeyPatch.context() as patch, functrax.backend("llvm"), Override("cache", False):
        kernels = Kernels(patch)
        functrax.block_until_ready(functrax.jit(programs[name])(numbers(7, 41)))
    ((_, tree, _),) = kernels.found.values()
    return text(tree)


WRONG = {
    "an index outside of its loop": ("map", "b0[d0]", "b0[d7]", "not affine in the indices"),
    "beyond an array": ("map", "b0[d0]", "b0[d0 + 1]", "not in its array"),
    "before an array": ("map", "b0[d0]", "b0[d0 - 1]", "not in its array"),
    "only read": ("map", "b1[d0] =", "b0[d0] =", "only read"),
    "a dtype": ("map", "out b1: float32", "out b1: float64", "a store's dtype"),
    "a load's dtype": ("map", "in b0: float32", "in b0: int32", "a load's dtype"),
    "a mask": ("rows", " masked", "", "a mask is used outside"),
    "no array": ("map", "b0[d0]", "b9[d0]", "an array that is not there"),
    "a carry's dtype": ("rows", ": float64[", ": float32[", "changes its dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_trees_are_refused(name: str) -> None:
    program, old, new, message = WRONG[name]
    assert old in written(program), written(program)
    wrong = parse(written(program).replace(old, new))
    with pytest.raises(VerificationError, match=message):
        verify(wrong)


@pytest.mark.parametrize("line", ["loop d0", "b0[d0", "v1:float32 = ", "serial d0 in 0:1 step"])
def test_texts_that_say_nothing_are_refused(line: str) -> None:
    with pytest.raises(ArgumentError, match="says nothing"):
        parse(written("map").rstrip("\n") + f"\n  {line}\n")
