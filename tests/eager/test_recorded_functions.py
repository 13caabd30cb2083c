"""Functions of several operations: the same from a recipe as called, and recorded without Python.

The functions are those of ``benchmarks/eager_functions.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.eager import cached_traces, signature_of
from functrax.backends.eager.settings import current_setting
from functrax.backends.targets import target
from functrax.core import native
from functrax.core.options.config import Override
from functrax.core.prims import ordering
from functrax.numpy import trace_cached

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the package

from benchmarks.eager_functions import EXPRESSIONS, inputs  # noqa: E402

needs_extension = pytest.mark.skipif(native.extension is None, reason="calls are all that there is")

#: What is called each time: it looks at values, or is one operation and little else.
CALLED = (
    "bincount", "unique", "nonzero", "argwhere", "repeat", "insert", "delete", "arange", "zeros",
    "ones_like", "full", "eye", "reshape", "x[", "x.at", "dynamic_slice", "rsqrt", "erf", "gammaln",
)  # fmt: skip
RECORDED = [e for e in EXPRESSIONS if not any(name in e for name in CALLED)]


def names(place: Callable[[Any], Any]) -> dict[str, Any]:
    given = {name: place(value) for name, value in inputs().items()}
    return {"j": functrax, "jnp": jnp, **given}


def described(out: Any) -> Any:
    """All that a user can tell of a result."""
    leaves, tree = functrax.tree_util.tree_flatten(out)
    weak = [getattr(x, "weak_type", None) for x in leaves]  # `reshape` gives NumPy's
    kinds = [(type(x).__name__, str(x.dtype), x.shape) for x in leaves]
    return str(tree), kinds, weak, [np.asarray(x).tobytes() for x in leaves]


def wide(x: np.ndarray[Any, Any]) -> Any:
    return jnp.asarray(x.astype(np.float64) if x.dtype == np.float32 else x)


def pending(x: np.ndarray[Any, Any]) -> Any:
    value = jnp.asarray(x)
    return value & True if value.dtype == bool else value * value.dtype.type(1)


MODES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "usual": (nullcontext, jnp.asarray),
    "pending": (nullcontext, pending),
    "numpy": (nullcontext, np.asarray),
    "x64": (functrax.enable_x64, wide),
    "strict promotion": (lambda: Override("numpy_dtype_promotion", "strict"), jnp.asarray),
    "ranks": (lambda: Override("numpy_rank_promotion", "raise"), jnp.asarray),
    "strict": (lambda: Override("strict", True), jnp.asarray),
    "nans": (lambda: Override("debug_nans", True), jnp.asarray),
}


@contextmanager
def without_recipes() -> Iterator[None]:
    def refuses(*_: Any) -> Any:
        raise cached_traces.NoRecipeError

    cached_traces.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_traces, "stage", refuses)
        patch.setattr(cached_traces, "fragments", [])
        yield
    cached_traces.forget()


def outcome(code: Any, given: dict[str, Any]) -> Any:
    try:
        return described(eval(code, given))
    except functrax.errors.FunctraxError as error:
        return type(error), str(error).splitlines()[:2]


@pytest.mark.parametrize("mode", MODES)
def test_results_are_those_of_the_function(mode: str) -> None:
    context, place = MODES[mode]
    different: list[str] = []
    with context():
        for expression in EXPRESSIONS:
            if mode == "numpy" and expression.startswith("x"):
                continue  # arrays' own methods
            code = compile(expression, "expression", "eval")
            with without_recipes():
                expected = [outcome(code, names(place)) for _ in range(2)]
            found = [outcome(code, names(place)) for _ in range(3)]
            if any(x != expected[0] for x in (*expected, *found)):
                different.append(expression)
    assert not different


def test_gradients_are_those_of_the_function() -> None:
    given = names(jnp.asarray)
    different: list[str] = []
    for expression in EXPRESSIONS:
        code = compile(expression, "expression", "eval")

        def total(x: Any, code: Any = code) -> Any:
            out = eval(code, {**given, "x": x, "m": x.reshape(10, 100)})
            leaves = functrax.tree_util.tree_leaves(out)
            floats = [y for y in leaves if jnp.issubdtype(y.dtype, jnp.floating)]
            return sum([jnp.sum(jnp.sin(y)) for y in floats]) + 0 * jnp.sum(x)

        with without_recipes():
            expected = np.asarray(functrax.grad(total)(given["x"]))
        found = [np.asarray(functrax.grad(total)(given["x"])) for _ in range(3)]
        if any(x.tobytes() != expected.tobytes() for x in found):
            different.append(f"{expression} {abs(found[-1] - expected).max()}")
    assert not different


def frames_of(call: Callable[[], Any]) -> list[str]:
    """The functions of Python that a call enters."""
    entered: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    sys.setprofile(note)
    out = call()
    sys.setprofile(None)
    functrax.block_until_ready(out)
    return entered


@needs_extension
@pytest.mark.usefixtures("usual_cuts")
def test_a_call_that_is_known_runs_no_python() -> None:
    """No type is inferred and nothing traced: only the expression's own frame is entered."""
    given = names(jnp.asarray)
    slow: list[str] = []
    for expression in RECORDED:
        code = compile(f"lambda: {expression}", "expression", "eval")
        call = eval(code, given)
        for _ in range(3):
            functrax.block_until_ready(call())
        entered = min([frames_of(call) for _ in range(3)], key=len)  # options may have changed
        if [name for name in entered if name not in ("<lambda>", "T", "transpose")]:
            slow.append(f"{expression}: {entered}")
    assert not slow


def test_all_names_are_functions() -> None:
    names = trace_cached.SHORT | trace_cached.LONG
    missing = [name for name in names if not callable(getattr(jnp, name, None))]
    assert not missing
    for module in (jnp.linalg, functrax.scipy.linalg, functrax.scipy.signal,
                   functrax.scipy.special, functrax.nn):  # fmt: skip
        missing = [name for name in module._RECORDED.split() if name not in vars(module)]
        assert not missing
    assert all(name in vars(jnp.fft) for name in jnp.fft.__all__)


# ---- arguments and results ----------------------------------------------------------------------


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return function(*args, **kwargs)

    return cached_traces.with_recipe(wrapped), calls


@needs_extension
def test_lists_and_tuples_are_read_through() -> None:
    function, calls = counted(lambda xs, axis, scale=(1.0,): jnp.concatenate(xs, axis) * scale[0])
    x, y = jnp.ones((2, 3)), jnp.zeros((2, 3))
    for _ in range(3):
        assert function([x, y], 0).tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2
        assert function([y, x], 0).tolist() == [[0.0] * 3] * 2 + [[1.0] * 3] * 2
    assert len(calls) == 2
    for k, given in enumerate([((x, y), 0), ([x, y], 1), ([x, y, x], 0), ([x], 0)]):
        for _ in range(3):
            function(*given)
        assert len(calls) == 4 + 2 * k
    for _ in range(3):
        np.testing.assert_array_equal(function([x], 0, scale=(2.5,)), 2.5 * np.ones((2, 3)))
        np.testing.assert_array_equal(function([x], 0, scale=(2,)), 2 * np.ones((2, 3)))


@needs_extension
def test_lists_are_read_anew_with_each_call() -> None:
    function, _ = counted(lambda xs: xs[0] - xs[1])
    xs = [jnp.array(3.0), jnp.array(1.0)]
    assert [float(function(xs)) for _ in range(3)] == [2.0] * 3
    xs.reverse()
    assert [float(function(xs)) for _ in range(3)] == [-2.0] * 3
    xs[0] = jnp.array([1.0, 2.0])
    assert [function(xs).tolist() for _ in range(3)] == [[-2.0, -1.0]] * 3


@needs_extension
def test_long_lists_are_the_functions() -> None:
    function, calls = counted(lambda xs: jnp.stack(xs).sum())
    xs = [jnp.float32(k) for k in range(300)]
    assert [float(function(xs)) for _ in range(3)] == [44850.0] * 3
    assert len(calls) == 3
    nested: Any = [[[[[jnp.float32(2.0)]]]]]
    function, calls = counted(lambda x: x[0][0][0][0][0] * 2)
    assert [float(function(nested)) for _ in range(3)] == [4.0] * 3
    assert len(calls) == 3
    cycle: list[Any] = []
    cycle.append(cycle)
    function, _ = counted(len)
    assert [function(cycle) for _ in range(3)] == [1] * 3


def test_results_keep_their_containers() -> None:
    x = jnp.asarray(np.random.default_rng(0).random((4, 4), np.float32)) + jnp.eye(4)
    for _ in range(3):
        assert type(jnp.split(x, 2)) is list
        assert type(jnp.divmod(x, x)) is tuple
        q, r = found = jnp.linalg.qr(x)
        assert found.Q is q and found.R is r
        values, vectors = jnp.linalg.eigh(x + x.T)
        assert jnp.linalg.slogdet(x).sign.shape == () and vectors.shape == (4, 4)
        assert type(functrax.lax.top_k(x, 2)) is list and values.shape == (4,)
        slopes = functrax.grad(lambda x: sum([y.sum() for y in jnp.split(x, 2)]))(x)
        assert slopes.tolist() == np.ones((4, 4)).tolist()
        functrax.grad(lambda x: jnp.linalg.slogdet(x)[1])(x)


@needs_extension
def test_arrays_in_lists_have_derivatives() -> None:
    x, y = jnp.arange(3.0), jnp.ones(3)
    for _ in range(3):
        slopes = functrax.grad(lambda x: (jnp.concatenate([x, y, x]) ** 2).sum())(x)
        assert slopes.tolist() == [0.0, 4.0, 8.0]
        many = functrax.vmap(lambda x: jnp.stack([x, y]))(jnp.ones((2, 3)))
        assert many.shape == (2, 2, 3)


@needs_extension
def test_results_that_are_constants_are_made_anew() -> None:
    function, calls = counted(lambda x: (x, jnp.array([1.0, 2.0])))
    for _ in range(3):
        function(jnp.ones(2))
    assert len(calls) >= 3
    table = np.arange(1 << 19, dtype=np.float32)
    function, calls = counted(lambda x: x + table)  # recipes keep no large constants alive
    for _ in range(3):
        function(jnp.ones(()))
    assert len(calls) >= 3


@needs_extension
def test_clearing_caches_forgets_recipes() -> None:
    function, calls = counted(lambda x: jnp.sin(x) + 1)
    for _ in range(3):
        function(jnp.ones(2))
    assert len(calls) == 2
    functrax.clear_caches()
    for _ in range(3):
        function(jnp.ones(2))
    assert len(calls) == 4


@needs_extension
def test_derivatives_of_ever_new_kinds_cost_no_fragment_each() -> None:
    function, calls = counted(lambda x, k: jnp.roll(x, k))
    x = jnp.arange(100.0)
    weights = jnp.arange(100.0)
    for k in range(100):
        slopes = functrax.grad(lambda x, k=k: (function(x, k) * weights).sum())(x)
        np.testing.assert_array_equal(slopes, np.roll(np.arange(100.0), -k))
    assert len(calls) == 100


def test_errors_come_with_each_call() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones((2, 4))
    for _ in range(4):
        with pytest.raises(functrax.errors.FunctraxError, match="concatenate"):
            jnp.concatenate([x, y])
        with pytest.raises(functrax.errors.FunctraxError, match="searchsorted"):
            jnp.searchsorted(x[0], y, side="middle")
        with pytest.raises(functrax.errors.FunctraxError):
            jnp.pad(x, 2, mode="nonsense")
        with pytest.raises(functrax.errors.FunctraxError):
            functrax.image.resize(x, (3,), "bilinear")


# ---- programs of single operations --------------------------------------------------------------


@needs_extension
@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("name", ["tril", "top_k", "any", "flip", "pad", "concatenate", "argmax"])
def test_single_operations_get_programs(name: str) -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((7, 9)).astype(np.float32))
    functions: dict[str, Callable[[Any], Any]] = {
        "tril": jnp.tril, "top_k": lambda x: functrax.lax.top_k(x, 3)[0],
        "any": lambda x: jnp.any(x > 5), "flip": jnp.flip, "pad": lambda x: jnp.pad(x, 1),
        "concatenate": lambda x: jnp.concatenate([x, x]), "argmax": lambda x: jnp.argmax(x, 1),
    }  # fmt: skip
    times = target().compile_ns // target().numpy_ns + 3
    found = {np.asarray(functions[name](x)).tobytes() for _ in range(times)}
    assert len(found) == 1


@needs_extension
@pytest.mark.usefixtures("usual_cuts")
def test_which_single_operations_get_programs() -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((7, 9)).astype(np.float32))
    params = {"k": 3, "axis": 1}
    for _ in range(target().compile_ns // target().numpy_ns + 3):
        functrax.block_until_ready(functrax.lax.top_k(x, 3))
    assert signature_of(ordering.top_k, current_setting(), [x.aval], params).alone is True
    large = jnp.asarray(np.zeros((100, 100), np.float32))
    for _ in range(target().compile_ns // target().numpy_ns + 3):
        large.T.block_until_ready()
    (turned,) = functrax.make_jaxpr(jnp.transpose)(large).eqns
    view = signature_of(turned.primitive, current_setting(), [large.aval], dict(turned.params))
    assert view.alone is not True and not view.pays


@pytest.fixture(autouse=True)
def _no_recipes_of_others() -> Iterator[None]:
    cached_traces.forget()
    yield
