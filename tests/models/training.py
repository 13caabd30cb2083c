"""Models that are trained for a few steps, the same with functrax and with JAX.

The models are those of ``benchmarks/models``: WGAN-GP and DCGAN with both networks in turn, an
LSTM, a small GPT and a small ResNet, each with Adam.  Everything random is made by NumPy: the
initial parameters, and one batch for each step.  :func:`losses` trains a model by the library that
it is given and returns the losses of every step, from before the step.

Start at :data:`MODELS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.models import dcgan, gpt, recurrent, resnet, wgan_gp

STEPS = 20
Step = Callable[..., Any]


@dataclass(frozen=True)
class Model:
    """A model and how it is trained.

    Args:
      start: makes the initial parameters of each network.
      batch: makes the data of a step.
      step: for a library and its Adam a function of (count, parameters, Adam's moments, batch),
        which returns the losses and the new parameters and moments.
      rate: Adam's.
      betas: Adam's.
    """

    start: Callable[[], tuple[Any, ...]]
    batch: Callable[[int], tuple[Any, ...]]
    step: Callable[[Any, Step], Step]
    rate: float
    betas: tuple[float, float]


def adam(jax: Any, rate: float, betas: tuple[float, float]) -> Step:
    """``update(count, params, (mean, square), grads)``, with Adam's bias corrections."""
    tree_map, sqrt = jax.tree_util.tree_map, jax.numpy.sqrt
    b1, b2 = betas

    def update(count: Any, params: Any, moments: Any, grads: Any) -> tuple[Any, Any]:
        mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, moments[0], grads)
        square = tree_map(lambda s, g: b2 * s + (1 - b2) * g * g, moments[1], grads)
        c1, c2 = 1 - b1**count, 1 - b2**count
        params = tree_map(
            lambda p, m, s: p - rate * (m / c1) / (sqrt(s / c2) + 1e-8), params, mean, square
        )
        return params, (mean, square)

    return update


def losses(jax: Any, name: str, steps: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Train a model from the start.

    Args:
      jax: the library, ``functrax`` or ``jax``.
      name: of the model.
      steps: how many.
      dtype: of all floats; float64 needs the library to be switched to it.

    Returns:
      The losses, an array of steps and networks.
    """
    model = MODELS[name]

    def placed(x: Any) -> Any:
        return jax.numpy.asarray(x if x.dtype.kind in "iu" else x.astype(dtype))

    tree_map = jax.tree_util.tree_map
    params = tree_map(placed, model.start())
    zeros = tree_map(jax.numpy.zeros_like, params)
    moments = tuple((zero, zero) for zero in zeros)
    step = jax.jit(model.step(jax, adam(jax, model.rate, model.betas)))
    found = []
    for k in range(steps):
        count = jax.numpy.asarray(k + 1, dtype)
        values, params, moments = step(count, params, moments, tree_map(placed, model.batch(k)))
        found.append([float(v) for v in values])
    return np.asarray(found)


def _alone(loss: Callable[[Any], Any]) -> Callable[[Any, Step], Step]:
    """The step of one network whose loss is a function of its parameters and the batch."""

    def make(jax: Any, update: Step) -> Step:
        of_params = loss(jax)

        def step(count: Any, params: Any, moments: Any, batch: Any) -> Any:
            value, grads = jax.value_and_grad(of_params)(params[0], *batch)
            new, moment = update(count, params[0], moments[0], grads)
            return (value,), (new,), (moment,)

        return step

    return make


# ---- WGAN-GP ------------------------------------------------------------------------------------


def _wgan_start() -> tuple[Any, ...]:
    critic, _, _, generator, *_ = wgan_gp.inputs()
    return generator, critic


def _wgan_batch(k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([1, k])
    n = wgan_gp.BATCH
    noise = rng.standard_normal((2, n, wgan_gp.GENERATOR[0]))
    return rng.uniform(-1, 1, (n, wgan_gp.CRITIC[0])), noise, rng.uniform(0, 1, (n, 1))


def _wgan_step(jax: Any, update: Step) -> Step:
    generate, critic, critic_loss = wgan_gp.networks(jax)

    def generator_loss(g: Any, c: Any, z: Any) -> Any:
        return -jax.numpy.mean(critic(c, generate(g, z)))

    def step(count: Any, params: Any, moments: Any, batch: Any) -> Any:
        (g, c), (real, noise, alpha) = params, batch
        fake = generate(g, noise[0])
        c_value, grads = jax.value_and_grad(critic_loss)(c, real, fake, alpha)
        c, c_moments = update(count, c, moments[1], grads)
        g_value, grads = jax.value_and_grad(generator_loss)(g, c, noise[1])
        g, g_moments = update(count, g, moments[0], grads)
        return (g_value, c_value), (g, c), (g_moments, c_moments)

    return step


# ---- DCGAN --------------------------------------------------------------------------------------


def _dcgan_start() -> tuple[Any, ...]:
    g, _, _, d, *_ = dcgan.inputs(False)
    return g, d


def _dcgan_batch(k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([2, k])
    n = dcgan.BATCH
    keep = [(rng.random((3, n, c, 1, 1)) < 0.75) / 0.75 for c in dcgan.CHANNELS[1:]]
    return rng.uniform(-1, 1, (n, 1, 32, 32)), rng.standard_normal((n, 100)), keep


def _dcgan_step(jax: Any, update: Step) -> Step:
    g_loss, d_loss = dcgan.losses(jax, least_squares=False)

    def step(count: Any, params: Any, moments: Any, batch: Any) -> Any:
        (g, d), (real, z, keep) = params, batch
        (g_value, fake), grads = jax.value_and_grad(g_loss, has_aux=True)(g, d, z, keep)
        g, g_moments = update(count, g, moments[0], grads)
        d_value, grads = jax.value_and_grad(d_loss)(d, real, fake, keep)
        d, d_moments = update(count, d, moments[1], grads)
        return (g_value, d_value), (g, d), (g_moments, d_moments)

    return step


# ---- one network --------------------------------------------------------------------------------


def _lstm_loss(jax: Any) -> Any:
    run = recurrent.lstm(jax)
    return lambda weights, xs: run(*weights, xs)


def _lstm_batch(k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([3, k])
    return (rng.standard_normal((recurrent.STEPS, recurrent.BATCH, recurrent.WIDTH)),)


def _gpt_batch(k: int) -> tuple[Any, ...]:
    """Tokens, of which each follows from the one before it most of the time."""
    rng = np.random.default_rng([4, k])
    text = [rng.integers(0, gpt.VOCABULARY, gpt.BATCH)]
    for _ in range(gpt.LENGTH):
        noise = rng.integers(0, gpt.VOCABULARY, gpt.BATCH)
        text.append(np.where(rng.random(gpt.BATCH) < 0.1, noise, text[-1] * 5 % gpt.VOCABULARY))
    tokens = np.stack(text, 1).astype(np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def _resnet_batch(k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([11, k])  # none of whose inputs of a ReLU is zero but for rounding
    labels = rng.integers(0, resnet.CLASSES, resnet.BATCH).astype(np.int32)
    images = rng.standard_normal((resnet.BATCH, 3, 32, 32)) + labels[:, None, None, None] / 10
    return images, labels


MODELS = {
    "WGAN-GP": Model(_wgan_start, _wgan_batch, _wgan_step, *wgan_gp.ADAM),
    "DCGAN": Model(_dcgan_start, _dcgan_batch, _dcgan_step, *dcgan.ADAM),
    "LSTM": Model(
        lambda: (recurrent.lstm_inputs()[:4],), _lstm_batch, _alone(_lstm_loss), 1e-2, (0.9, 0.999)
    ),
    "GPT": Model(lambda: gpt.inputs()[:1], _gpt_batch, _alone(gpt.loss), *gpt.ADAM),
    "ResNet": Model(lambda: resnet.inputs()[:1], _resnet_batch, _alone(resnet.loss), *resnet.ADAM),
}
