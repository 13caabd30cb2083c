"""Functions of tensors: values, gradients of every order, and whose memory it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError

torch = pytest.importorskip("torch")


def wide(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def network(p: Any, x: Any, *, scale: Any = 1.0) -> Any:
    hidden = jnp.tanh(x @ p["w"] + p["b"])
    return {"y": jnp.exp(hidden @ p["v"]) * scale, "hidden": hidden}


def torch_network(p: Any, x: Any, scale: Any = 1.0) -> Any:
    hidden = torch.tanh(x @ p["w"] + p["b"])
    return {"y": torch.exp(hidden @ p["v"]) * scale, "hidden": hidden}


FUNCTIONS = {
    "elementwise": (lambda x, y: jnp.sin(x) * jnp.exp(y), 2),
    "its input": (lambda x, y: x, 2),
    "a sum": (lambda x, y: x + y, 2),
    "twice the same": (lambda x, y: (x * y, x * y), 2),
    "a product": (lambda x, y: x @ y.T, 2),
    "its result as residual": (lambda x, y: jnp.exp(x) + 0 * y, 2),
    "control flow": (
        lambda x, y: functrax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * y, x),
        2,
    ),
    "one unused": (lambda x, y: jnp.sqrt(jnp.abs(x) + 1).sum(), 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    function, count = FUNCTIONS[name]
    f = functrax.to_torch(function)
    inputs = tuple(wide(2, 3) for _ in range(count))
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs)


COMPLEX = {
    "holomorphic": (lambda x: jnp.exp(x) * x, lambda x: torch.exp(x) * x),
    "conjugates": (lambda x: jnp.conj(x) * x + 2j * x, lambda x: torch.conj(x) * x + 2j * x),
    "to real": (lambda x: (x * x).real, lambda x: (x * x).real),
    "size": (lambda x: jnp.abs(x) ** 3, lambda x: torch.abs(x) ** 3),
    "from real": (lambda x: x.real * (1 + 2j) + x.imag, lambda x: x.real * (1 + 2j) + x.imag),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_numbers_are_those_of_torch(name: str) -> None:
    """The gradient is the direction in which a real result grows: the conjugate of ours."""
    ours, theirs = COMPLEX[name]
    f = functrax.to_torch(ours)
    x = torch.complex(wide(5).detach(), wide(5).detach() * 2 - 1).requires_grad_()
    assert torch.autograd.gradcheck(f, (x,))
    assert torch.autograd.gradgradcheck(f, (x,))
    ct = torch.randn_like(f(x))
    for create_graph in (False, True):
        found = torch.autograd.grad(f(x), x, ct, create_graph=create_graph)
        torch.testing.assert_close(found, torch.autograd.grad(theirs(x), x, ct))


def test_third_order() -> None:
    f = functrax.to_torch(lambda x: x**5)
    y = x = torch.tensor(2.0, requires_grad=True)
    y = f(x)
    for wanted in (80.0, 160.0, 240.0):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == wanted


def test_pytrees_against_torch() -> None:
    params = {"w": wide(4, 3), "b": wide(3), "v": wide(3, 1)}
    x = wide(5, 4)
    f = functrax.to_torch(network)
    for scale in (1.0, 2.5):
        ours, theirs = f(params, x, scale=scale), torch_network(params, x, scale)
        assert ours.keys() == theirs.keys()
        leaves = [*params.values(), x]
        for k in ours:
            torch.testing.assert_close(ours[k], theirs[k])
            weights = torch.linspace(0, 1, ours[k].numel(), dtype=torch.float64)
            sums = [(o[k].flatten() * weights).sum() for o in (ours, theirs)]
            for a, b in zip(*[
                torch.autograd.grad(s, leaves, retain_graph=True, allow_unused=True) for s in sums
            ]):  # fmt: skip
                torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)


def test_inside_a_torch_module_with_gradient_penalty() -> None:
    """The penalty of a WGAN: the derivative of a gradient's norm."""
    critic = functrax.to_torch(lambda w, x: jnp.tanh(x @ w).sum(1))
    w, x = wide(3, 4), wide(6, 3)

    def penalty(call: Any) -> Any:
        (slope,) = torch.autograd.grad(call(w, x).sum(), x, create_graph=True)
        return torch.autograd.grad(((slope.norm(dim=1) - 1) ** 2).sum(), w)[0]

    torch.testing.assert_close(penalty(critic), penalty(lambda w, x: torch.tanh(x @ w).sum(1)))


def test_integers_and_arrays_beside_tensors() -> None:
    def loss(x: Any, labels: Any, table: Any) -> Any:
        picked = table[labels]
        return (x * picked).sum(), labels + 1, picked > 0

    f = functrax.to_torch(loss)
    x = torch.ones(3, requires_grad=True)
    labels = torch.tensor([2, 0, 1])
    value, following, positive = f(x, labels, jnp.arange(3.0))
    assert value.item() == 3 and following.tolist() == [3, 1, 2]
    assert positive.tolist() == [True, False, True] and positive.dtype == torch.bool
    assert not following.requires_grad
    value.backward()
    assert x.grad.tolist() == [2, 0, 1]
    y = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(f(y, labels, 2.0 * jnp.arange(3.0))[0], y, create_graph=True)
    assert slope.tolist() == [4, 0, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_dtypes_stay(dtype: str) -> None:
    x = torch.tensor([1.0, 2.0], dtype=getattr(torch, dtype), requires_grad=True)
    y = functrax.to_torch(lambda x: x * x)(x)
    assert y.dtype == x.dtype
    y.real.sum().backward() if x.dtype.is_complex else y.sum().backward()
    assert x.grad.dtype == x.dtype
    torch.testing.assert_close(x.grad.real.float(), torch.tensor([2.0, 4.0]))


def test_memory_is_shared() -> None:
    addresses: list[int] = []

    def look(x: Any) -> np.ndarray[Any, Any]:
        addresses.append(x.__array_interface__["data"][0])
        return np.float32(x.sum())

    @functrax.to_torch
    def f(x: Any) -> Any:
        return functrax.pure_callback(look, functrax.ShapeDtypeStruct((), "float32"), x), x * 2

    x = torch.arange(4.0)
    total, doubled = f(x)
    assert addresses[-1] == x.data_ptr()
    assert total.item() == 6 and doubled.tolist() == [0, 2, 4, 6]
    again = functrax.from_torch({"t": doubled, "name": "no tensor"})
    assert np.asarray(again["t"]).__array_interface__["data"][0] == doubled.data_ptr()
    assert again["name"] == "no tensor"


@pytest.mark.parametrize("requires_grad", [False, True])
def test_writing_to_results_harms_nobody(requires_grad: bool) -> None:
    constant = functrax.jit(lambda: jnp.arange(3.0) * 2)()

    @functrax.to_torch
    def f(x: Any) -> Any:
        y = x * 3
        return x, constant, jnp.arange(3.0), y, y

    for _ in range(3):
        x = torch.arange(3.0, requires_grad=requires_grad)
        outs = f(x)
        with torch.no_grad():
            for out in outs:
                out.add_(100)
        assert x.tolist() == [0, 1, 2] and constant.tolist() == [0, 2, 4]
        assert [o.tolist() for o in outs] == [
            [100, 101, 102], [100, 102, 104], [100, 101, 102], [100, 103, 106], [100, 103, 106],
        ]  # fmt: skip


def test_a_changed_residual_is_an_error() -> None:
    f = functrax.to_torch(jnp.exp)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_backward_twice_and_views() -> None:
    f = functrax.to_torch(lambda x: (x**3).sum())
    x = torch.arange(12.0).reshape(3, 4).T.requires_grad_()  # not contiguous
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() ** 2)


def test_errors() -> None:
    f = functrax.to_torch(jnp.sin)
    with pytest.raises(ArgumentError, match="without a tensor"):
        f(jnp.ones(3))
    with pytest.raises(ArgumentError, match="memory of the host"):
        f(torch.ones(3, device="meta"))
    with pytest.raises(ArgumentError, match="memory of the host"):
        functrax.from_torch(torch.ones(3, device="meta"))
    assert functrax.from_torch(torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]


def test_programs_are_compiled_once() -> None:
    traces: list[Any] = []

    @functrax.to_torch
    def f(x: Any) -> Any:
        traces.append(x.shape)
        return jnp.sin(x)

    for _ in range(4):
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
        f(torch.ones(3))
    assert traces == [(3,), (3,)]
