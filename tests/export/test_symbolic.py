"""One program for all sizes: what it gives for a size is what the function gives, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct, export, lax, nn
from functrax.core.types import size_polynomials as sp

W: Final = np.cos(np.arange(7840, dtype=np.float32)).reshape(784, 10)
K: Final = np.cos(np.arange(108, dtype=np.float32)).reshape(4, 3, 3, 3)

#: By name: the function, and the shapes of its arguments.
FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "sin": (lambda x: jnp.sin(x), ("b",)),
    "matmul": (lambda x: x @ W, ("b, 784",)),
    "softmax": (lambda x: nn.softmax(x), ("b, 7",)),
    "softmax0": (lambda x: nn.softmax(x, axis=0), ("b, 7",)),
    "mean": (lambda x: x.mean(), ("b, 7",)),
    "mean0": (lambda x: jnp.mean(x, axis=0), ("b, 7",)),
    "var": (lambda x: jnp.var(x, axis=0), ("b, 7",)),
    "std": (lambda x: jnp.std(x), ("b, 7",)),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=1), ("b, 7",)),
    "reshape": (lambda x: x.reshape(-1), ("b, 7",)),
    "reshape2": (lambda x: x.reshape((x.shape[0], -1)), ("b, 7, 2",)),
    "reshape3": (lambda x: x.reshape((-1, 14)), ("b, 7, 2",)),
    "reshape4": (lambda x: x.reshape((2, -1)), ("2*b, 7",)),
    "concat": (lambda x, y: jnp.concatenate([x, y]), ("b, 7", "b, 7")),
    "concat2": (lambda x, y: jnp.concatenate([x, y], axis=1), ("b, 7", "b, 3")),
    "stack": (lambda x, y: jnp.stack([x, y]), ("b, 7", "b, 7")),
    "transpose": (lambda x: x.T @ x, ("b, 7",)),
    "gram": (lambda x: x @ x.T, ("b, 7",)),
    "arange": (lambda x: x + jnp.arange(x.shape[0]), ("b",)),
    "ones": (lambda x: jnp.ones(x.shape) + x, ("b, 2",)),
    "zeros": (lambda x: jnp.zeros((x.shape[0], 3)).sum() + x.sum(), ("b",)),
    "full": (lambda x: jnp.full(x.shape, 3.0), ("b",)),
    "eye": (lambda x: jnp.eye(x.shape[0]) + x, ("b, b",)),
    "slice": (lambda x: x[1:], ("b",)),
    "slice2": (lambda x: x[:-1] * x[1:], ("b",)),
    "slice3": (lambda x: x[:, 0], ("b, 7",)),
    "index": (lambda x: x[0], ("b, 7",)),
    "index-1": (lambda x: x[-1], ("b, 7",)),
    "index-n": (lambda x: x[x.shape[0] - 1], ("b, 7",)),
    "index-half": (lambda x: x[x.shape[0] // 2, 1:3], ("b, 7",)),
    "index-both": (lambda x: x[1:, x.shape[0] // 9], ("b, 7",)),
    "index-wraps": (lambda x: x[-x.shape[0]], ("b, 7",)),
    "set-n": (lambda x: x.at[x.shape[0] - 1].set(0.0), ("b, 7",)),
    "roll-half": (lambda x: jnp.roll(x, x.shape[0] // 2, 0), ("b, 7",)),
    "roll-both": (lambda x: jnp.roll(x, (x.shape[0] // 2, 1), (0, 1)), ("b, 7",)),
    "rev": (lambda x: x[::-1], ("b, 7",)),
    "step": (lambda x: x[::2], ("b, 7",)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), ("b, 7",)),
    "sort": (lambda x: jnp.sort(x, axis=0), ("b, 7",)),
    "argmax": (lambda x: jnp.argmax(x, axis=1), ("b, 7",)),
    "argmax0": (lambda x: jnp.argmax(x, axis=0), ("b, 7",)),
    "max": (lambda x: jnp.max(x, axis=0), ("b, 7",)),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), ("b, 7",)),
    "take": (lambda x: jnp.take(x, jnp.array([0, 0]), axis=0), ("b, 7",)),
    "at": (lambda x: x.at[0].set(1.0), ("b, 7",)),
    "atadd": (lambda x: x.at[:, 1].add(1.0), ("b, 7",)),
    "pad": (lambda x: jnp.pad(x, ((1, 1), (0, 0))), ("b, 7",)),
    "broadcast": (lambda x: jnp.broadcast_to(x, (x.shape[0], x.shape[0])), ("b",)),
    "tile": (lambda x: jnp.tile(x, (2, 1)), ("b, 7",)),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), ("b, 7",)),
    "outer": (lambda x: jnp.outer(x, x), ("b",)),
    "einsum": (lambda x: jnp.einsum("bi,bj->bij", x, x), ("b, 7",)),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(7), x), ("b, 7",)),
    "scan2": (lambda x: lax.scan(lambda c, _: (c * 1.1, None), x, None, length=3)[0], ("b, 7",)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 1.1, x), ("b, 7",)),
    "fori2": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(7)),
        ("b, 7",),
    ),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2 + 1, x), ("b, 7",)),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), ("b, 7",)),
    "vmap": (lambda x: functrax.vmap(lambda r: r @ r)(x), ("b, 7",)),
    "grad": (functrax.grad(lambda x: jnp.sum(nn.softmax(x @ W) ** 2)), ("b, 784",)),
    "gradmean": (functrax.grad(lambda x: jnp.mean(jnp.tanh(x) ** 2)), ("b, 7",)),
    "hess": (lambda x: functrax.vmap(functrax.hessian(lambda r: jnp.sum(r**3)))(x), ("b, 3",)),
    "conv": (lambda x: lax.conv_general_dilated(x, K, (1, 1), "SAME"), ("b, 3, 8, 8",)),
    "conv2": (lambda x: lax.conv_general_dilated(x, K, (1, 1), "VALID"), ("b, 3, b+4, b+4",)),
    "maxpool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        ("b, 8, 8, 3",),
    ),
    "random": (lambda x: functrax.random.normal(functrax.random.key(0), x.shape) + x, ("b, 7",)),
    "onehot": (lambda x: nn.one_hot(jnp.arange(x.shape[0]), 7) + x, ("b, 7",)),
    "split": (lambda x: jnp.split(x, 2, axis=1), ("b, 8",)),
    "split0": (lambda x: jnp.split(x, 2, axis=0), ("2*b, 8",)),
    "relu": (lambda x: nn.relu(x), ("b",)),
    "layernorm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        ("b, 7",),
    ),
    "batchnorm": (lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5), ("b, 7",)),
    "squeeze": (lambda x: x[:, None].squeeze(1), ("b",)),
    "ravel": (lambda x: x.ravel(), ("b, 7",)),
    "dot2": (lambda x, y: x @ y, ("b, 7", "7, b")),
    "solve": (lambda x: jnp.linalg.solve(x @ x.swapaxes(1, 2) + jnp.eye(3), x), ("b, 3, 3",)),
    "fft": (lambda x: jnp.fft.fft(x).real, ("b, 8",)),
    "attention": (lambda x: nn.softmax(jnp.einsum("btd,bsd->bts", x, x)) @ x, ("b, 5, 4",)),
    "attention seq": (
        lambda x: (
            nn.softmax(
                jnp.where(
                    jnp.tril(jnp.ones((x.shape[1],) * 2, bool)),
                    jnp.einsum("btd,bsd->bts", x, x),
                    -1e9,
                )
            )
            @ x
        ),
        ("2, b, 4",),
    ),
    "checkpoint": (
        functrax.grad(lambda x: functrax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()),
        ("b",),
    ),
    "dynslice": (lambda x: lax.dynamic_slice(x, (1, 0), (1, 7)), ("b, 7",)),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.arange(4.0), x), ("b",)),
    "topk": (lambda x: lax.top_k(x, 3), ("b, 7",)),
    "roll": (lambda x: jnp.roll(x, 1, axis=0), ("b, 7",)),
    "sizearr": (lambda x: x * x.shape[0], ("b",)),
    "sizediv": (lambda x: x / x.shape[0], ("b",)),
    "sizearr2": (lambda x: x * jnp.array(x.shape[0]), ("b",)),
    "sqrt size": (lambda x: x / jnp.sqrt(x.shape[0]), ("b",)),
}


def _exported(function: Callable[..., Any], *shapes: str, constraints: Any = ()) -> Any:
    scope = export.SymbolicScope(constraints)
    specs = [
        ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), np.dtype("float32")) for s in shapes
    ]
    made = export.export(functrax.jit(function))(*specs)
    return export.deserialize(made.serialize())


def _shape(text: str, **sizes: int) -> tuple[int, ...]:
    scope = export.SymbolicScope()
    shape = export.symbolic_shape(text, scope=scope)
    return tuple([sp.evaluated(scope.polynomial(n), sizes) for n in shape])


def _check(name: str, sizes: tuple[int, ...]) -> None:
    function, shapes = FUNCTIONS[name]
    exported = _exported(function, *shapes)
    random = np.random.default_rng(0)
    for b in sizes:
        args = [random.normal(size=_shape(s, b=b)).astype(np.float32) for s in shapes]
        want, found = functrax.jit(function)(*args), exported.call(*args)
        functrax.tree.map(np.testing.assert_array_equal, found, want)
        for aval, x in zip(exported.out_avals, functrax.tree.leaves(found), strict=True):
            assert aval.dtype == x.dtype


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_once(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    assert "${" in _exported(function, *shapes).as_text()


@pytest.mark.parametrize("name", ["mean", "slice2", "grad", "attention seq", "fori2", "step"])
def test_all_sizes(name: str) -> None:
    _check(name, (3, 5))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_for_all_sizes(name: str) -> None:
    _check(name, (1, 2, 3, 8, 33))


# ---- sizes --------------------------------------------------------------------------------------


def test_expressions() -> None:
    scope = export.SymbolicScope(["b >= 4", "mod(n, 2) == 0", "n <= 64"])
    b, n = export.symbolic_shape("b, n", scope=scope)
    assert str(b * 2 + 1) == "2*b + 1" and str((b + n) * (b - n)) == "b^2 - n^2"
    assert b > 3 and not b < 1 and b != 3 and (b == 4) is False
    assert (4 * b + 3) // 4 == b and (b * n) // b == n and (b * 6) % 3 == 0
    assert n // 2 * 2 == n and n % 2 == 0 and n < 65
    assert isinstance(b, int) and export.is_symbolic_dim(b) and not export.is_symbolic_dim(4)
    assert max(b, 2) is b and b * b >= b and b * n - n >= 0
    with pytest.raises(functrax.errors.SizeError, match="inconclusive"):
        bool(b > 4)
    for what in (int, float, range, lambda x: [1, 2][x], hex):
        with pytest.raises(functrax.errors.SizeError, match="symbolic size"):
            what(b)
    (c,) = export.symbolic_shape("c")
    with pytest.raises(ValueError, match="two scopes"):
        b + c


@pytest.mark.parametrize(
    ("spec", "like", "shape"),
    [
        ("b, _, 3", (2, 5, 3), "(b, 5, 3)"),
        ("b, ...", (2, 5, 3), "(b, 5, 3)"),
        (None, (2, 3), "(2, 3)"),
        ("(2*b, max(b, 4), floordiv(b, 2))", None, "(2*b, max(b, 4), floordiv(b, 2))"),
        ("", None, "()"),
        ("b,", None, "(b,)"),
    ],
)
def test_shapes(spec: str | None, like: Any, shape: str) -> None:
    assert str(export.symbolic_shape(spec, like=like)) == shape


@pytest.mark.parametrize(
    "spec",
    [
        "b +",
        "b.c",
        "f(b)",
        "b if b else 1",
        "1.5",
        "'b'",
        "_",
        "...",
        "b / 2",
        "2 ** b",
        "b" * 3000,
    ],
)
def test_what_is_no_shape(spec: str) -> None:
    with pytest.raises((ValueError, functrax.errors.SizeError)):
        export.symbolic_shape(spec)


def test_polynomials_hold_for_all_values() -> None:
    """What a bound says of expressions is compared with their values, for many sizes."""
    scope = export.SymbolicScope(["a >= 3", "a <= b"])
    texts = [
        *("a - 3", "b - a", "a*b - a", "floordiv(a, 2)", "floordiv(b - a, 2)", "mod(b, 3)"),
        *("a - floordiv(a, 2)*2", "max(a, b) - b", "min(a, 5) - 3", "b - floordiv(a + 1, 2)"),
        *("floordiv(a - 7, 2)", "a*a - 3*a", "mod(a, b)", "b*b - a*a", "4 - a", "floordiv(-a, 3)"),
    ]
    pairs = [(a, b) for a, b in itertools.product(range(3, 12), repeat=2) if a <= b]
    decided = 0
    for text in texts:
        p = scope.polynomial(scope.expression(text))
        low, high = scope.facts.lower(p), scope.facts.upper(p)
        values = [sp.evaluated(p, {"a": a, "b": b}) for a, b in pairs]
        assert low <= min(values) and max(values) <= high, text
        decided += low > -np.inf
    assert decided >= 12


# ---- calls --------------------------------------------------------------------------------------


def test_sizes_are_found_and_checked() -> None:
    exported = _exported(
        lambda x, y: x.sum() + y.sum(), "2*a + 1, b", "a + b", constraints=["b >= 3"]
    )
    ones = lambda *shape: np.ones(shape, np.float32)
    assert float(exported.call(ones(5, 3), ones(5))) == 20.0
    for args, message in (
        ((ones(4, 3), ones(5)), "Division had remainder 1 when computing the value of 'a'"),
        ((ones(5, 3), ones(6)), r"args\[1\].shape\[0\] \(= 6\) and the specification 'a \+ b'"),
        ((ones(5, 2), ones(4)), "the constraint b >= 3 does not hold"),
        ((ones(1, 3), ones(3)), "Expected value >= 1 for dimension variable 'a'"),
        ((ones(5), ones(5)), r"Rank mismatch for args\[0\]"),
    ):
        with pytest.raises(ValueError, match=message):
            exported.call(*args)
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables"):
        _exported(lambda x: x, "a*b").call(ones(6))


def test_what_depends_on_the_size_is_an_error_at_the_users_line() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.shape[0] > 4 else x

    with pytest.raises(functrax.errors.SizeError, match=r"'b' > '4'(.|\n)*in function"):
        _exported(function, "b")
    assert _exported(function, "b", constraints=["b >= 5"]).call(np.ones(5, np.float32))[0] == 2


def test_large_sizes_are_taken_not_to_be() -> None:
    text = _exported(lambda x: jnp.argmax(x), "b").serialize()
    assert b"b - 1 <= 2147483646" in bytes(text)


def test_derivatives_for_all_sizes() -> None:
    function = lambda x: jnp.mean(jnp.tanh(x) ** 2)
    (b,) = export.symbolic_shape("b")
    made = export.export(functrax.jit(function))(ShapeDtypeStruct((b, 3), np.dtype("float32")))
    x = np.sin(np.arange(12, dtype=np.float32)).reshape(4, 3)
    want = functrax.grad(function)(x)
    for exported in (made, export.deserialize(made.serialize(vjp_order=2))):
        assert exported.has_vjp() and exported.vjp().has_vjp()
        found = exported.vjp().call(x, np.float32(1))[0]
        np.testing.assert_allclose(found, want, rtol=1e-6)
        np.testing.assert_allclose(functrax.grad(exported.call)(x), want, rtol=1e-6)
    without = export.deserialize(made.serialize())
    assert not without.has_vjp()
    with pytest.raises(ValueError, match="No VJP is available"):
        without.vjp()


def test_specs_from_arguments() -> None:
    args = {"x": np.ones((2, 3), np.float32), "n": np.int32(1)}
    specs = export.symbolic_args_specs(args, {"x": "b, _", "n": None})
    assert str(specs["x"].shape) == "(b, 3)" and specs["n"].shape == ()
    both = export.symbolic_args_specs((args["x"], args["x"]), "b, ...")
    assert both[0].shape[0] is both[1].shape[0]


def test_a_program_for_all_sizes_inside_of_another() -> None:
    inner = _exported(lambda x: jnp.cumsum(x, axis=0) / x.shape[0], "b, 3")
    outer = _exported(lambda x: inner.call(jnp.concatenate([x, x])) * 2, "n, 3")
    assert "${2*n}" in outer.as_text()
    for n in (2, 5):
        x = np.sin(np.arange(3 * n, dtype=np.float32)).reshape(n, 3)
        want = np.cumsum(np.concatenate([x, x]), axis=0) / (2 * n) * 2
        np.testing.assert_allclose(outer.call(x), want, rtol=1e-5)
    with pytest.raises(ValueError, match=r"remainder -2\*floordiv\(n, 2\) \+ n"):
        _exported(_exported(lambda x: x, "2*b").call, "n")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linspace(0.0, 1.0, x.shape[0]),
        lambda x: nn.one_hot(jnp.arange(3), x.shape[0]),
        lambda x: jnp.median(x, 0),
    ],
)
def test_what_needs_the_number_says_that_the_size_is_symbolic(
    function: Callable[..., Any],
) -> None:
    (b,) = export.symbolic_shape("b")
    with pytest.raises(functrax.errors.SizeError, match="symbolic size") as caught:
        export.export(functrax.jit(function))(ShapeDtypeStruct((b, 4), jnp.float32))
    assert "export for a certain size" in caught.value.fix
