"""The names of ``jax`` itself: transformations, configuration, devices and callbacks."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from tests.tier1.sample import TABLE, draw

X = draw((3,), 0.5, 2)
M = draw((2, 3))


def f(j: Any) -> Any:
    return lambda x: j.numpy.sin(x) * x**2


def df(x: Any) -> Any:
    return np.cos(x) * x**2 + 2 * x * np.sin(x)


def value(x: Any) -> Any:
    return np.sin(x) * x**2


def second(x: Any) -> Any:
    return -np.sin(x) * x**2 + 4 * x * np.cos(x) + 2 * np.sin(x)


def total(j: Any) -> Any:
    return lambda x: f(j)(x).sum()


TABLE("grad", X, run=lambda j, x: j.grad(total(j))(x), want=df)
TABLE(
    "grad",
    X,
    X + 1,
    want=lambda x, y: (2 * x * y, x**2),
    run=lambda j, x, y: j.grad(lambda x, y: (x**2 * y).sum(), argnums=(0, 1))(x, y),
)
TABLE(
    "grad",
    X,
    want=lambda x: (df(x), value(x)),
    run=lambda j, x: j.grad(lambda x: (total(j)(x), f(j)(x)), has_aux=True)(x),
)
TABLE(
    "grad",
    {"a": X, "b": (X,)},
    want=lambda p: {"a": p["b"][0], "b": (p["a"],)},
    run=lambda j, p: j.grad(lambda p: (p["a"] * p["b"][0]).sum())(p),
)
TABLE(
    "grad",
    draw((2,), dtype="c8"),
    want=lambda z: 2 * z,
    diff=False,
    run=lambda j, z: j.grad(lambda z: (z**2).sum(), holomorphic=True)(z),
)
TABLE("grad", 2.0, want=lambda x: df(x), run=lambda j, x: j.grad(f(j))(x))
TABLE(
    "value_and_grad",
    X,
    run=lambda j, x: j.value_and_grad(total(j))(x),
    want=lambda x: (value(x).sum(), df(x)),
)
TABLE(
    "jvp",
    X,
    X * 2,
    run=lambda j, x, v: j.jvp(f(j), (x,), (v,)),
    want=lambda x, v: (value(x), df(x) * v),
)
TABLE(
    "vjp",
    X,
    X * 2,
    run=lambda j, x, v: (lambda y, pull: (y, pull(v)[0]))(*j.vjp(f(j), x)),
    want=lambda x, v: (value(x), df(x) * v),
)
TABLE(
    "linearize",
    X,
    X * 2,
    run=lambda j, x, v: (lambda y, push: (y, push(v)))(*j.linearize(f(j), x)),
    want=lambda x, v: (value(x), df(x) * v),
)
TABLE(
    "linear_transpose",
    X,
    run=lambda j, x: j.linear_transpose(lambda y: 3 * y[::-1], x)(x),
    want=lambda x: (3 * x[::-1],),
)
for _name in ("jacfwd", "jacrev", "jacobian"):
    TABLE(_name, X, run=lambda j, x, n=_name: getattr(j, n)(f(j))(x), want=lambda x: np.diag(df(x)))
    TABLE(
        _name,
        M,
        run=lambda j, m, n=_name: getattr(j, n)(lambda m: m.sum(0) * m[0])(m),
        want=lambda m: (
            np.einsum("i,ij,k->ikj", m[0], np.eye(3), np.ones(2))
            + np.einsum("i,ij,k->ikj", m.sum(0), np.eye(3), np.eye(2)[0])
        ),
    )
TABLE("hessian", X, run=lambda j, x: j.hessian(total(j))(x), want=lambda x: np.diag(second(x)))
for _axes, _out in ((0, 0), (1, 0), (0, 1), (1, 1)):
    TABLE(
        "vmap",
        draw((3, 3)),
        want=lambda m, a=_axes, o=_out: np.cumsum(m, 1 - a).T if a != o else np.cumsum(m, 1 - a),
        run=lambda j, m, a=_axes, o=_out: j.vmap(j.numpy.cumsum, in_axes=a, out_axes=o)(m),
    )
TABLE(
    "vmap",
    M,
    X,
    want=lambda m, x: m * x,
    run=lambda j, m, x: j.vmap(lambda a, b: a * b, in_axes=(0, None))(m, x),
)
TABLE(
    "vmap",
    M,
    want=lambda m: (np.sin(m), 1.0 * np.ones(2)),
    diff=False,
    run=lambda j, m: j.vmap(lambda a: (j.numpy.sin(a), 1.0))(m),
)
TABLE("jit", X, run=lambda j, x: j.jit(f(j))(x), want=value)
TABLE(
    "jit",
    X,
    2,
    run=lambda j, x, n: j.jit(lambda x, n: x**n if n == 2 else x, static_argnums=1)(x, n),
    want=lambda x, n: x**2,
)
TABLE(
    "jit",
    {"a": X},
    run=lambda j, p: j.jit(lambda p, *, k: {"b": p["a"] * k}, static_argnames="k")(p, k=3),
    want=lambda p: {"b": 3 * p["a"]},
)
for _name in ("checkpoint", "remat"):
    TABLE(_name, X, run=lambda j, x, n=_name: getattr(j, n)(f(j))(x), want=value)
    TABLE(_name, X, run=lambda j, x, n=_name: j.grad(getattr(j, n)(total(j)))(x), want=df)
for _policy in ("everything_saveable", "nothing_saveable", "dots_saveable"):
    TABLE(
        "checkpoint_policies",
        X,
        want=df,
        run=lambda j, x, p=_policy: j.grad(
            j.checkpoint(total(j), policy=getattr(j.checkpoint_policies, p))
        )(x),
    )


def with_jvp(j: Any, x: Any) -> Any:
    g = j.custom_jvp(lambda x: j.numpy.sin(x))
    g.defjvp(lambda p, t: (j.numpy.sin(p[0]), 5.0 * t[0]))
    return j.jvp(g, (x,), (x,))


def with_vjp(j: Any, x: Any) -> Any:
    g = j.custom_vjp(lambda x: j.numpy.sin(x))
    g.defvjp(lambda x: (j.numpy.sin(x), x), lambda x, ct: (7.0 * ct,))
    return j.vjp(g, x)[1](x)[0]


TABLE(
    "custom_jvp",
    X,
    run=lambda j, x: with_jvp(j, j.numpy.asarray(x)),
    want=lambda x: (np.sin(x), 5 * x),
    diff=False,
)
TABLE("custom_vjp", X, run=lambda j, x: with_vjp(j, j.numpy.asarray(x)), want=lambda x: 7 * x)
TABLE(
    "custom_gradient",
    X,
    want=lambda x: 3 * x,
    run=lambda j, x: j.vjp(j.custom_gradient(lambda x: (x**2, lambda ct: 3 * ct)), x)[1](x)[0],
)
TABLE(
    "closure_convert",
    X,
    X + 1,
    want=lambda x, y: x * y,
    run=lambda j, x, y: (lambda g, extra: g(x, *extra))(*j.closure_convert(lambda x: x * y, x)),
)
TABLE("named_call", X, run=lambda j, x: j.named_call(f(j), name="part")(x), want=value)


def scoped(j: Any, x: Any) -> Any:
    with j.named_scope("part"):
        return f(j)(x)


TABLE("named_scope", X, run=scoped, want=value)
TABLE(
    "make_jaxpr",
    X,
    run=lambda j, x: [
        str(e.primitive) for e in j.make_jaxpr(lambda x: -j.numpy.sin(x))(x).jaxpr.eqns
    ],
    want=lambda x: ["sin", "neg"],
    diff=False,
)
TABLE(
    "eval_shape",
    M,
    diff=False,
    want=lambda m: ((3, 2), "float32"),
    run=lambda j, m: (lambda s: (s.shape, str(s.dtype)))(
        j.eval_shape(lambda m: j.numpy.sin(m.T), m)
    ),
)
TABLE(
    "ShapeDtypeStruct",
    run=lambda j: j.eval_shape(lambda x: x[0], j.ShapeDtypeStruct((4, 2), np.dtype("int8"))).shape,
    want=lambda: (2,),
)
TABLE(
    "pure_callback",
    X,
    diff=False,
    want=lambda x: np.sin(x),
    run=lambda j, x: j.jit(
        lambda x: j.pure_callback(np.sin, j.ShapeDtypeStruct(x.shape, x.dtype), x)
    )(x),
)

# Configuration.


def under(manager: Any, run: Any) -> Any:
    with manager:
        return run()


TABLE(
    "enable_x64",
    1.5,
    want=lambda x: "float64",
    run=lambda j, x: under(j.enable_x64(True), lambda: str(j.numpy.asarray(x).dtype)),
)
TABLE(
    "enable_x64",
    1,
    want=lambda x: "int32",
    run=lambda j, x: under(j.enable_x64(False), lambda: str(j.numpy.asarray(x).dtype)),
)
TABLE(
    "disable_jit",
    X,
    want=value,
    diff=False,
    run=lambda j, x: under(
        j.disable_jit(), lambda: j.jit(lambda x: f(j)(x) if float(x[0]) > 0 else x)(x)
    ),
)


def caught(run: Any) -> str:
    try:
        run()
    except Exception as error:
        return " ".join(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    return "nothing"


TABLE(
    "debug_nans",
    np.float32([-1.0]),
    diff=False,
    want=lambda x: True,
    run=lambda j, x: under(
        j.debug_nans(True),
        lambda: "FloatingPointError" in caught(lambda: j.numpy.log(x).block_until_ready()),
    ),
)
TABLE(
    "checking_leaks",
    X,
    want=value,
    diff=False,
    run=lambda j, x: under(j.checking_leaks(), lambda: j.jit(f(j))(x)),
)
for _precision in ("float32", "highest", "bfloat16"):
    TABLE(
        "default_matmul_precision",
        M,
        X,
        want=np.dot,
        diff=False,
        run=lambda j, m, x, p=_precision: under(
            j.default_matmul_precision(p), lambda: j.numpy.dot(m, x)
        ),
    )
TABLE(
    "config",
    run=lambda j: (
        (j.config.jax_enable_x64, j.config.jax_disable_jit)
        == (j.numpy.asarray(1.5).dtype == "float64", False)
    ),
    want=lambda: True,
)
TABLE(
    "ensure_compile_time_eval",
    X,
    diff=False,
    want=lambda x: x * 4,
    run=lambda j, x: j.jit(
        lambda x: x * int(under(j.ensure_compile_time_eval(), lambda: j.numpy.sum(j.numpy.ones(4))))
    )(x),
)
TABLE(
    "clear_caches",
    X,
    run=lambda j, x: (j.jit(f(j))(x), j.clear_caches(), j.jit(f(j))(x))[2],
    want=value,
)

# Devices and arrays.
TABLE("default_backend", run=lambda j: type(j.default_backend()).__name__, want=lambda: "str")
TABLE("devices", run=lambda j: len(j.devices()) >= 1, want=lambda: True)
TABLE("Device", run=lambda j: isinstance(j.devices()[0], j.Device), want=lambda: True)
TABLE(
    "default_device",
    X,
    want=value,
    diff=False,
    run=lambda j, x: under(j.default_device(j.devices()[0]), lambda: f(j)(x)),
)
TABLE("device_put", {"a": M}, run=lambda j, p: j.device_put(p), want=lambda p: p)
TABLE("device_put", M, run=lambda j, m: j.device_put(m, j.devices()[0]) * 2, want=lambda m: m * 2)
TABLE(
    "device_get",
    M,
    diff=False,
    want=lambda m: [m, True],
    run=lambda j, m: (lambda y: [y, isinstance(y, np.ndarray)])(j.device_get(j.numpy.asarray(m))),
)
TABLE(
    "block_until_ready",
    {"a": M},
    want=lambda p: p,
    diff=False,
    run=lambda j, p: j.block_until_ready({"a": j.numpy.asarray(p["a"])}),
)
TABLE(
    "live_arrays",
    run=lambda j: (lambda x: any(y is x for y in j.live_arrays()))(j.numpy.ones(3)),
    want=lambda: True,
)
TABLE(
    "Array",
    X,
    diff=False,
    want=lambda x: (True, False),
    run=lambda j, x: (isinstance(j.numpy.asarray(x), j.Array), isinstance(x, j.Array)),
)
TABLE(
    "Array",
    X,
    want=lambda x: 2 * x,
    run=lambda j, x: j.jit(lambda x: x * (2 if isinstance(x, j.Array) else 3))(x),
)
TABLE(
    "float0",
    np.array([1, 2]),
    want=lambda x: True,
    run=lambda j, x: (
        j.grad(lambda i: 1.0 * j.numpy.sum(j.numpy.ones(3)[i]), allow_int=True)(x).dtype == j.float0
    ),
)


def printed(run: Any) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run()
    return text.getvalue()


def debugged(j: Any, x: Any) -> str:
    def call() -> None:
        j.jit(lambda x: (j.debug.print("{x} {y}", x=x.sum(), y=3), x)[1])(x).block_until_ready()
        getattr(j, "effects_barrier", lambda: None)()

    return printed(call)


def called_back(j: Any, x: Any) -> list[float]:
    seen: list[float] = []
    j.jit(lambda x: (j.debug.callback(lambda y: seen.append(float(y)), x.sum()), x)[1])(x)
    j.effects_barrier()
    return seen


TABLE("debug.print", np.float32([1, 2]), run=debugged, want=lambda x: "3.0 3\n", diff=False)
TABLE("debug.callback", np.float32([1, 2]), run=called_back, want=lambda x: [3.0], diff=False)
TABLE(
    "typing.ArrayLike",
    run=lambda j: (lambda a: all(t in str(a) for t in ("Array", "ndarray", "float")))(
        j.typing.ArrayLike
    ),
    want=lambda: True,
)
TABLE(
    "typing.DTypeLike", run=lambda j: "dtype" in str(j.typing.DTypeLike).lower(), want=lambda: True
)
