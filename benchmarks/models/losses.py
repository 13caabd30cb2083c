"""Single formulas of several lines: uniformity loss, attention, a perceptron with GELU."""

from __future__ import annotations

from typing import Any

from benchmarks.models.torch_steps import value_and_gradients


def uniformity(jax: Any) -> Any:
    """Value and gradient of the uniformity loss (Wang and Isola 2020) with t = 2."""
    jnp = jax.numpy

    def loss(x):
        x = x / jnp.sqrt(jnp.sum(x * x, axis=1, keepdims=True))
        n, squares = len(x), jnp.sum(x * x, axis=1)
        distances = squares[None] + squares[:, None] - 2 * x @ x.T
        pairs = jnp.sum(jnp.tril(jnp.exp(-2 * distances), -1))
        return jnp.log(pairs * 2 / (n**2 - n))

    return jax.value_and_grad(loss)


def torch_uniformity(torch: Any, staged: Any) -> Any:
    def loss(x):
        x = x / x.norm(dim=1, keepdim=True)
        n, squares = len(x), (x * x).sum(1)
        distances = squares[None] + squares[:, None] - 2 * x @ x.T
        return torch.log(torch.exp(-2 * distances).tril(-1).sum() * 2 / (n**2 - n))

    return value_and_gradients(torch, staged(loss))


def attention(jax: Any) -> Any:
    """Causal attention by einsum, of arrays (batch, length, heads, width)."""
    jnp = jax.numpy

    def run(q, k, v):
        t = q.shape[1]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)

    return run


def torch_attention(torch: Any, staged: Any) -> Any:
    product = torch.nn.functional.scaled_dot_product_attention

    def run(q, k, v):
        q, k, v = (a.transpose(1, 2) for a in (q, k, v))
        return product(q, k, v, is_causal=True).transpose(1, 2)

    return staged(run)


def gelu_mlp(jax: Any) -> Any:
    return lambda x, w1, b, w2: jax.nn.gelu(x @ w1 + b) @ w2


def torch_gelu_mlp(torch: Any, staged: Any) -> Any:
    gelu = torch.nn.functional.gelu
    return staged(lambda x, w1, b, w2: gelu(torch.addmm(b, x, w1), approximate="tanh") @ w2)
