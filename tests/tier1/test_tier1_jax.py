"""Every name of tier 1 gives what JAX gives: values, shapes, dtypes, weak types, derivatives.

Run with ``-m jax`` where JAX is installed.  :data:`tests.tier1.known_differences.DIFFERENCES` has
those that are meant; each must still be one, and is described in docs/differences_from_jax.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
from tests.tier1.known_differences import DIFFERENCES
from tests.tier1.sample import (
    HALVES,
    Sample,
    describe,
    differentiable,
    directions,
    is_inexact,
    leaves_of,
    widened,
)
from tests.tier1.tables import SAMPLES

pytestmark = pytest.mark.jax


@pytest.fixture(scope="module")
def jax() -> Iterator[Any]:
    yield pytest.importorskip("jax")


def jax_leaves(jax: Any, tree: Any) -> list[Any]:
    return list(jax.tree_util.tree_flatten(tree)[0])


def described(x: Any) -> Any:
    """What is compared exactly: shape, dtype and weak type of an array; the value of others."""
    if not hasattr(x, "dtype") or isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__
    weak = x.weak_type and x.dtype != bool  # JAX has weak truth values, which mean the same
    return f"{x.dtype}{list(x.shape)}{' weak' if weak else ''}"


def difference(mine: list[Any], theirs: list[Any], tol: float) -> str:
    """What differs between two lists of leaves, or an empty string."""
    types = [described(x) for x in mine], [described(x) for x in theirs]
    if types[0] != types[1]:
        return f"functrax {types[0]}, JAX {types[1]}"
    for x, y in zip(mine, theirs, strict=True):
        if not hasattr(x, "dtype"):
            if x != y:
                return f"functrax {x!r}, JAX {y!r}"
            continue
        bound = max(tol, HALVES.get(x.dtype, 0)) if is_inexact(x) else 0
        kind = "c16" if x.dtype.kind == "c" else "f8"
        a, b = np.asarray(x).astype(kind), np.asarray(y).astype(kind)
        scale = np.abs(b[np.isfinite(b)]).max(initial=0)
        if not np.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True):
            return f"functrax {a}, JAX {b}"
    return ""


def gradients(root: Any, sample: Sample) -> list[Any]:
    """The gradient of a random projection of the result, in double precision."""
    xs, rebuild = widened(sample)

    def projected(*xs: Any) -> Any:
        leaves = root.tree_util.tree_leaves(sample.run(root, *rebuild(xs)))
        outs = [y for y in leaves if is_inexact(y)]
        cts = directions([np.zeros(y.shape, y.dtype) for y in outs])
        return sum((root.numpy.sum(root.numpy.real(c * y)) for c, y in zip(cts, outs)), 0.0)

    with root.enable_x64(True):
        return list(root.grad(projected, argnums=tuple(range(len(xs))))(*xs))


def compare(jax: Any, name: str, sample: Sample) -> Iterator[str]:
    """The differences of a sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = leaves_of(sample.args)
        narrow = flat and all(isinstance(x, np.ndarray) and is_inexact(x) for x in flat)
        for x64 in (False,) if narrow else (False, True):
            with functrax.enable_x64(x64):
                mine = leaves_of(sample.run(functrax, *sample.args))
            with jax.enable_x64(x64):
                theirs = jax_leaves(jax, sample.run(jax, *sample.args))
            found = difference(mine, theirs, sample.tol)
            if found:
                yield f"{name} of {describe(sample)}, x64 {x64}: {found}"
        if [*differentiable([sample])]:
            found = difference(gradients(functrax, sample), gradients(jax, sample), 1e-7)
            if found:
                yield f"gradient of {name} of {describe(sample)}: {found}"


@pytest.mark.parametrize("name", SAMPLES)
def test_agrees_with_jax(jax: Any, name: str) -> None:
    found = [line for sample in SAMPLES[name] for line in compare(jax, name, sample)]
    if name in DIFFERENCES:
        assert found, f"{name} no longer differs from JAX: take it from the table"
        unexpected = [line for line in found if not any(part in line for part in DIFFERENCES[name])]
        assert not unexpected, "\n".join(unexpected)
        return
    assert not found, "\n".join(found)
