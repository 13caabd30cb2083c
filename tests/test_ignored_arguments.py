"""No public function has an argument that it never reads, but for those that cannot matter.

``python -m tests.test_ignored_arguments`` prints the arguments that are not read.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, scipy
from functrax.errors import ArgumentError, AxisError, DTypeError, UnavailableError
from tests.test_docstrings_complete import NAMESPACES, functions

#: Arguments that change no result, whatever they are, by the reason.
ACCEPTED = {
    "promises about values, which allow other libraries to do less": {
        "assume_unique", "hermitian", "indices_are_sorted", "is_hermitian", "unique_indices",
        "upper_triangular", "check_finite",
    },
    "about memory: arrays are immutable, and copied or shared as is best": {
        "copy", "overwrite_a", "overwrite_b", "overwrite_c", "keep_unused",
    },
    "about how the result is found: there is one way, with one precision": {
        "aggregate_to_topk", "blocksize", "bucket_size", "debug", "eps", "lapack_driver", "lwork",
        "max_iterations", "precision", "prevent_cse", "prevent_mlir_dce", "recall_target",
        "reduction_input_size_override", "tol", "turbo", "_split_transpose",
    },
    "more than is asked for: results are sorted and stable in any case, prints in order": {
        "ordered", "sort_eigenvalues", "sorted", "stable",
    },
    "JAX's, for its compiler or for several devices": {
        "spmd_axis_name", "stream", "token", "version", "filter_frames", "num_frames",
    },
}  # fmt: skip
#: Those of single functions.
ACCEPTED_BY = {
    "functrax.debug.breakpoint": {"backend"},
    "functrax.experimental.jet.jet": {"_"},
    "functrax.lax.create_token": {"_"},
    "functrax.nn.initializers.ones": {"key"},
    "functrax.nn.initializers.zeros": {"key"},
    "functrax.numpy.histogram_bin_edges": {"weights"},  # the edges do not depend on them
    "functrax.scipy.linalg.eigh_tridiagonal": {"key"},
}
EVERYWHERE = frozenset().union(*ACCEPTED.values())


def definition(function: Callable[..., Any]) -> tuple[ast.FunctionDef, CodeType]:
    """A function as it is written, and its code."""
    plain: Any = inspect.unwrap(function)
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(plain))).body
    assert isinstance(node, ast.FunctionDef)
    return node, plain.__code__


def unread(function: Callable[..., Any]) -> list[str]:
    """The parameters that a function's body does not name."""
    node, _ = definition(function)
    body = ast.Module(node.body, [])
    used = {x.id for x in ast.walk(body) if isinstance(x, ast.Name)}
    given = node.args
    several = [x for x in (given.vararg, given.kwarg) if x is not None]
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *several]
    return [p.arg for p in parameters if p.arg not in used]


def ignored() -> Iterator[tuple[str, str]]:
    """Functions and their parameters that are not read and not accepted."""
    for namespace in NAMESPACES:
        for name, function in functions(namespace):
            full = f"{namespace}.{name}"
            allowed = EVERYWHERE | ACCEPTED_BY.get(full, set())
            yield from ((full, p) for p in unread(function) if p not in allowed)


def test_every_argument_is_read() -> None:
    assert list(ignored()) == []


def test_what_is_accepted_is_there() -> None:
    found = {p for n in NAMESPACES for _, f in functions(n) for p in unread(f)}
    assert found >= EVERYWHERE


def test_an_argument_that_is_not_read_is_found() -> None:
    def scaled(x: float, by: float, *, out: None = None) -> float:
        return x * by

    assert unread(scaled) == ["out"]


x = jnp.arange(6.0).reshape(2, 3)
memory = np.zeros(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.stack([x], out=memory),
        lambda: jnp.take(x, jnp.array([0]), out=memory),
        lambda: jnp.choose(jnp.array([0]), [x], out=memory),
        lambda: jnp.compress(jnp.array([True]), x, out=memory),
        lambda: jnp.trace(x, out=memory),
        lambda: jnp.median(x, overwrite_input=True),
        lambda: jnp.nanmedian(x, overwrite_input=True),
        lambda: jnp.quantile(x, 0.5, overwrite_input=True),
        lambda: jnp.nanquantile(x, 0.5, overwrite_input=True),
        lambda: jnp.percentile(x, 50, overwrite_input=True),
        lambda: jnp.nanpercentile(x, 50, overwrite_input=True),
        lambda: jnp.meshgrid(x[0], x[1], copy=False),
        lambda: jnp.bincount(jnp.array([1]), out_sharding=functrax.P()),
        lambda: scipy.signal.detrend(x, overwrite_data=True),
        lambda: functrax.live_arrays("abacus"),
        lambda: functrax.process_count("abacus"),
        lambda: functrax.process_index("abacus"),
    ],
)
def test_what_cannot_be_done_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(UnavailableError) as caught:
        call()
    assert isinstance(caught.value, NotImplementedError | ValueError)


def test_out_is_refused_after_calls_without_it() -> None:
    for _ in range(3):
        np.testing.assert_array_equal(jnp.stack([x[0]]), x[:1])
    with pytest.raises(UnavailableError, match="out="):
        jnp.stack([x[0]], out=x)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: jnp.linalg.cross(x, x, axis=4), AxisError, "cross: axis 4 is out of range"),
        (lambda: scipy.stats.sem(x, axis=4), AxisError, "axis 4 is out of range"),
        (lambda: jnp.frompyfunc(max, -1, 1), ArgumentError, "at least 0"),
        (lambda: jnp.frompyfunc(max, 1, -1), ArgumentError, "at least 0"),
        (lambda: functrax.local_devices(1), ArgumentError, "no such process"),
        (lambda: functrax.local_devices(host_id=1), ArgumentError, "no such process"),
        (
            lambda: lax.conv_transpose_shape_tuple(
                (1, 4, 1), (3, 1, 1), (2,), "MOST", ("NWC", "WIO", "NWC")
            ),
            ArgumentError,
            "unknown padding",
        ),
        (
            lambda: lax.conv_general_dilated_patches(
                jnp.ones((1, 1, 4), int), (2,), (1,), "VALID", preferred_element_type="int8"
            ),
            DTypeError,
            "narrower",
        ),
    ],
)
def test_wrong_arguments_are_explained(
    call: Callable[[], Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call()


def test_patches_have_the_dtype_that_is_asked_for() -> None:
    patches = lax.conv_general_dilated_patches(
        jnp.arange(4, dtype="int8").reshape(1, 1, 4), (2,), (1,), "VALID",
        preferred_element_type="int32",
    )  # fmt: skip
    assert patches.dtype == jnp.int32
    np.testing.assert_array_equal(patches[0], [[0, 1, 2], [1, 2, 3]])


def test_living_arrays_are_those_of_a_platform() -> None:
    made = jnp.ones(3) + 1
    assert any(a is made for a in functrax.live_arrays("cpu"))
    assert functrax.local_devices(0) == functrax.devices()


if __name__ == "__main__":
    for place, parameter in ignored():
        print(f"{place}: {parameter}")
