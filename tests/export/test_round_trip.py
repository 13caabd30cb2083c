"""Programs that were saved give the same bits in a process that has none of their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import export, lax, nn
from tests.export.elsewhere import keep, loaded_elsewhere
from tests.programs.models import PROGRAMS as MODELS
from tests.programs.test_smoke import PROGRAMS as SMOKE


def _save(folder: Path, name: str, function: Callable[..., Any], *args: Any) -> None:
    path = folder / f"{name.replace(' ', '_')}.functrax"
    functrax.save(path, function, *args)
    outs = functrax.tree.leaves(functrax.jit(function)(*args))
    keep(path, args, outs)


def _is_float(total: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a function has a derivative: an argmin has none."""
    out = functrax.make_jaxpr(total)(*args).out_avals[0]
    return bool(jnp.issubdtype(out.dtype, jnp.floating))


def _derivatives(function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[Any]:
    """The derivatives of orders 1 to 3 of the sum of a program's results."""

    def total(*args: Any) -> Any:
        outs = [x for x in functrax.tree.leaves(function(*args)) if jnp.isrealobj(x)]
        return sum(jnp.sum(x) for x in outs if jnp.issubdtype(x.dtype, jnp.floating))

    if not _is_float(total, args):
        return
    for _ in range(3):
        gradient = functrax.grad(total)
        yield gradient
        total = lambda *args, g=gradient: jnp.sum(jnp.sin(g(*args)))


def test_programs_and_derivatives_of_orders_1_to_3(tmp_path: Path) -> None:
    programs = {
        "perceptron": lambda x, w: nn.gelu(nn.relu(x @ w)) ** 2,
        "scan": lambda x, w: lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), w[0], x @ w),
        "cond": lambda x, w: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x @ w),
        "checkpoint": lambda x, w: functrax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x @ w),
    }
    wave = lambda *shape: np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    args = (wave(3, 4), wave(4, 2))
    for name, function in programs.items():
        _save(tmp_path, name, function, *args)
        for order, derivative in enumerate(_derivatives(function, args), 1):
            _save(tmp_path, f"{name} {order}", derivative, *args)
    assert loaded_elsewhere(tmp_path) == 4 * len(programs)


def test_a_model_with_closed_over_parameters(tmp_path: Path) -> None:
    names = ["classifier", "own_derivatives"]
    for name in names:
        _save(tmp_path, name, MODELS[name])
    assert loaded_elsewhere(tmp_path) == len(names)


@pytest.mark.slow
def test_every_program(tmp_path: Path) -> None:
    count = 0
    for name, (function, _, args) in SMOKE.items():
        _save(tmp_path, name, function, *args)
        count += 1
        if args[0].dtype == np.float32 and name != "complex":
            for order, derivative in enumerate(_derivatives(function, args), 1):
                _save(tmp_path, f"{name} {order}", derivative, *args)
                count += 1
    for name, model in MODELS.items():
        # A container of a class of the models' own could be read only where that is imported.
        _save(tmp_path, f"model {name}", lambda model=model: functrax.tree.leaves(model()))
        count += 1
    assert count >= 180
    assert loaded_elsewhere(tmp_path) == count


# ---- rules of the user's own --------------------------------------------------------------------


def _again(function: Callable[..., Any], *args: Any) -> export.Exported:
    return export.deserialize(export.export(functrax.jit(function))(*args).serialize())


def test_rules_are_kept() -> None:
    @functrax.custom_jvp
    def f(x: Any) -> Any:
        return x * x

    f.defjvp(lambda primals, tangents: (f(*primals), 100.0 * f(primals[0]) * tangents[0]))

    @functrax.custom_vjp
    def g(x: Any, n: Any) -> Any:
        return x + n, n

    g.defvjp(lambda x, n: ((x + n, n), (x, n)), lambda rest, cts: (rest[0] * cts[0] * 7, None))

    def both(x: Any) -> Any:
        return f(x) + g(x, 3)[0]

    loaded = _again(both, 2.0)
    for wanted, found in (
        (both, loaded),
        (functrax.grad(both), functrax.grad(loaded)),
        (functrax.grad(functrax.grad(both)), functrax.grad(functrax.grad(loaded))),
    ):
        assert float(wanted(2.0)) == float(found(2.0))
    rows = jnp.arange(3.0)
    slopes = functrax.vmap(functrax.grad(both))(rows)
    np.testing.assert_array_equal(functrax.vmap(functrax.grad(loaded.call))(rows), slopes)
    mapped = _again(functrax.vmap(both), rows)
    np.testing.assert_array_equal(functrax.grad(lambda x: mapped(x).sum())(rows), slopes)
    assert "call=@f#" in loaded.as_text() and "call=@g#" in loaded.as_text()


def test_a_batching_rule_is_not_kept_and_its_function_is() -> None:
    @functrax.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return x.sum()

    f.def_vmap(lambda size, batched, x: (-x.sum(1), True))
    loaded = _again(f, jnp.ones(3))
    np.testing.assert_array_equal(functrax.vmap(loaded.call)(jnp.ones((2, 3))), [3.0, 3.0])
    np.testing.assert_array_equal(functrax.grad(loaded.call)(jnp.ones(3)), np.ones(3))


def test_what_a_file_cannot_hold_is_refused_with_the_line() -> None:
    def shown(x: Any) -> Any:
        functrax.debug.print("{}", x)
        return x

    with pytest.raises(functrax.errors.UnavailableError, match=r"debug_callback(.|\n)*in shown"):
        _again(shown, 1.0)


def test_arrays_are_called_by_the_users_names() -> None:
    params = {"w": jnp.ones((2, 3)), "b": np.arange(3, dtype=np.float32)}
    scale = jnp.float32(2) * jnp.ones(2)

    def model(x: Any) -> Any:
        return (x * scale) @ params["w"] + params["b"]

    text = _again(model, jnp.ones((4, 2))).as_text()
    assert "\"params['w']\"" in text and "\"params['b']\"" in text and '"scale"' in text


def test_derivatives_of_a_loaded_program_as_programs() -> None:
    def f(x: Any, n: Any) -> Any:
        return jnp.sin(x) * n, n + 1

    x, n = jnp.arange(3.0), jnp.int32(2)
    loaded = _again(f, x, n)
    assert loaded.has_vjp()
    _, pullback = functrax.vjp(f, x, n)
    zero = np.zeros((), functrax.float0)
    want = pullback((jnp.ones(3), zero))[0]
    found = loaded.vjp().call(x, n, jnp.ones(3), zero)[0]
    np.testing.assert_array_equal(found, want)


def test_inside_of_other_programs() -> None:
    loaded = _again(lambda x: jnp.sin(x) + 1, jnp.ones(3))
    twice = _again(lambda x: loaded.call(loaded(x)), jnp.ones(3))
    np.testing.assert_allclose(
        functrax.jit(twice.call)(jnp.ones(3)), np.sin(np.sin(1) + 1) + 1, rtol=1e-6
    )


def test_the_same_program_is_the_same_bytes() -> None:
    make = lambda: export.export(functrax.jit(lambda x: nn.relu(x) * 2))(jnp.ones(3))
    assert make().serialize() == make().serialize()
