"""How often kernels compute their equations, and why values are stored, in every form."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax.explanation.record import Explanation

X = jnp.ones((64, 64))


def neighbours(x: Any) -> Any:
    return sum(jnp.roll(x, shift, axis) for shift in (-1, 1) for axis in (0, 1))


def explained(function: Any, *args: Any) -> Explanation:
    return functrax.explain(function)(*args)


def test_what_is_computed_at_several_places() -> None:
    e = explained(lambda x: neighbours(x * 3), X)
    (kernel,) = e.kernels
    (again,) = kernel.recomputed
    assert again.eqn.primitive.name == "mul" and again.evaluations == 8
    assert again.eqn in kernel.eqns
    assert again.reason.startswith("to compute it at 8 places takes ")
    assert "to store and to load it" in again.reason
    line = next(x for x in str(e).splitlines() if "f32[64,64] = mul" in x)
    assert line.split()[:5] == ["0", "f32[64,64]", "=", "mul", "8"] and again.reason in line
    assert "8 x f32[64,64] = mul" in e._repr_svg_()
    assert again.reason in e._repr_html_()


def test_what_is_stored_has_its_price() -> None:
    e = explained(lambda x: neighbours(jnp.exp(x)), X)
    assert [k.recomputed for k in e.kernels] == [(), ()]
    (edge,) = e.edges
    assert edge.code == "cost"
    assert edge.reason.startswith("cost: to compute it at 8 places takes ")
    again, stored = (part.split()[-2:] for part in edge.reason.replace(" more", "").split(", to "))
    units = {"ns": 1, "us": 1e3, "ms": 1e6}
    assert float(again[0]) * units[again[1]] > float(stored[0]) * units[stored[1]]
    assert "why it is not stored" not in str(e)


def test_a_part_and_a_value_that_is_made_of_others() -> None:
    (kernel,) = explained(lambda x: (jnp.sin(x) * 3)[:16], X).kernels
    assert [x.evaluations for x in kernel.recomputed] == [0.25, 0.25]
    assert {x.reason for x in kernel.recomputed} == {"only a part of it is needed"}
    (kernel,) = explained(lambda x: neighbours((x - 0.5) * x), X).kernels
    assert len({x.reason for x in kernel.recomputed}) == 1  # of both equations


def test_a_view_that_is_stored_says_why() -> None:
    def function(f: Any) -> Any:
        moved = jnp.stack([jnp.roll(f[k], (k % 3, k % 2), (0, 1)) for k in range(9)])
        return moved - moved.sum(0)[::-1]

    e = explained(function, np.ones((9, 80, 200), "f"))
    reasons = [x.reason for x in e.edges if x.value.endswith("f32[9,80,200]")]
    assert len(reasons) == 2  # of the sum, and of the difference
    for reason in reasons:
        assert "; the view is stored: to compute it at 2 places takes " in reason
    assert reasons[0].startswith("cost: ")


def test_programs_inside_loops_and_contractions() -> None:
    def loop(x: Any) -> Any:
        return functrax.lax.fori_loop(0, 3, lambda _, c: neighbours(c * 3) / 12, x)

    kernels = explained(loop, X).kernels
    assert any(again.evaluations == 8 for k in kernels for again in k.recomputed)
    product = explained(lambda x: jnp.exp(x @ x), jnp.ones((200, 200)))
    assert all(k.recomputed == () for k in product.kernels)
