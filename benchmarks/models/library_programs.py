"""Programs that use libraries written for JAX, as their documentation writes them.

Each function gets ``jax`` or ``functrax`` and returns a function of the inputs.  For functrax the
libraries run under ``functrax.compat``, which is installed in that process alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

STEPS = 100  # of training


def library(jax: Any, name: str) -> Any:
    """A library written for JAX, on JAX or on functrax."""
    if jax.__name__ == "functrax":
        importlib.import_module("functrax.compat").install()
    return importlib.import_module(name)


# ---- sampling -----------------------------------------------------------------------------------


def schools() -> tuple[np.ndarray, ...]:
    """Effects and their standard errors (Rubin, "Estimation in parallel experiments")."""
    effects = np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32)
    return effects, np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)


def numpyro_nuts(jax: Any) -> Any:
    """Means of 1,000 samples after 500 to warm up, of eight schools, not centred."""
    numpyro = library(jax, "numpyro")
    infer = importlib.import_module("numpyro.infer")
    normal, half_cauchy = numpyro.distributions.Normal, numpyro.distributions.HalfCauchy

    def model(effects: Any, errors: Any) -> None:
        mu = numpyro.sample("mu", normal(0, 5))
        tau = numpyro.sample("tau", half_cauchy(5))
        with numpyro.plate("schools", 8):
            eta = numpyro.sample("eta", normal(0, 1))
            numpyro.sample("obs", normal(mu + tau * eta, errors), obs=effects)

    def run(effects: Any, errors: Any) -> Any:
        chain = infer.MCMC(infer.NUTS(model), num_warmup=500, num_samples=1000, progress_bar=False)
        chain.run(jax.random.PRNGKey(0), effects, errors)
        return {k: v.mean(0) for k, v in chain.get_samples().items()}

    return run


def blackjax_nuts(jax: Any) -> Any:
    """The same by blackjax: adaptation by windows, then a scan of NUTS steps."""
    blackjax = library(jax, "blackjax")
    jnp, normal = jax.numpy, jax.scipy.stats.norm

    @jax.jit
    def run(effects: Any, errors: Any) -> Any:
        def log_density(x: Any) -> Any:
            tau = jnp.exp(x["log_tau"])
            prior = normal.logpdf(x["mu"], 0, 5) + normal.logpdf(x["eta"]).sum()
            scale = jax.scipy.stats.cauchy.logpdf(tau, 0, 5) + x["log_tau"]
            return prior + scale + normal.logpdf(effects, x["mu"] + tau * x["eta"], errors).sum()

        start = {"mu": 0.0, "log_tau": 0.0, "eta": jnp.zeros(8)}
        warm_key, key = jax.random.split(jax.random.PRNGKey(0))
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = warmup.run(warm_key, start, num_steps=500)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        positions = jax.lax.scan(step, state, jax.random.split(key, 1000))[1]
        return {k: v.mean(0) for k, v in positions.items()}

    return run


# ---- solving ------------------------------------------------------------------------------------


def regression() -> tuple[np.ndarray, ...]:
    """200 points of 10 features, and their targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 10)).astype(np.float32)
    return x, (x @ np.arange(10) + rng.normal(size=200)).astype(np.float32)


def jaxopt_lbfgs(jax: Any) -> Any:
    """The gradient of a validation loss with respect to a penalty, through L-BFGS, implicitly."""
    jaxopt = library(jax, "jaxopt")
    jnp = jax.numpy

    def loss(w: Any, penalty: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ w - y) ** 2) + penalty * jnp.sum(w**2)

    solver = jaxopt.LBFGS(fun=loss, maxiter=50, implicit_diff=True)

    def validation(penalty: Any, x: Any, y: Any) -> Any:
        w = solver.run(jnp.zeros(10), penalty, x[:150], y[:150]).params
        return jnp.mean((x[150:] @ w - y[150:]) ** 2)

    return jax.jit(lambda x, y: jax.value_and_grad(validation)(0.1, x, y))


def lotka_volterra() -> tuple[np.ndarray, ...]:
    """Rates and the state at the beginning."""
    return np.array([0.1, 0.02, 0.4, 0.02], np.float32), np.array([10.0, 10.0], np.float32)


def diffrax_tsit5(jax: Any) -> Any:
    """A solution of the Lotka-Volterra equations with adaptive steps, and its gradient."""
    diffrax = library(jax, "diffrax")
    jnp = jax.numpy

    def slope(t: Any, y: Any, rates: Any) -> Any:
        prey, predators = y[0], y[1]
        a, b, c, d = rates
        return jnp.stack([a * prey - b * prey * predators, d * prey * predators - c * predators])

    def last(rates: Any, start: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            diffrax.Tsit5(),
            t0=0.0,
            t1=40.0,
            dt0=0.1,
            y0=start,
            args=rates,
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-5),
            max_steps=1024,
        )
        return jnp.sum(solution.ys[-1])

    return jax.jit(jax.value_and_grad(last))


# ---- training -----------------------------------------------------------------------------------


def batches() -> tuple[np.ndarray, ...]:
    """Batches of 64 images of 784 pixels, and their classes."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(STEPS, 64, 784)).astype(np.float32)
    return images, rng.integers(0, 10, (STEPS, 64)).astype(np.int32)


def _cross_entropy(jax: Any, logits: Any, classes: Any) -> Any:
    chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], axis=1)
    return -chosen.mean()


def _losses(step: Any, model: Any, state: Any, images: Any, classes: Any) -> list[Any]:
    """The losses of training, a batch a step, from a model and a state of the optimizer on."""
    losses = []
    for i in range(STEPS):
        model, state, value = step(model, state, images[i], classes[i])
        losses.append(value)
    return losses


def equinox_mlp(jax: Any) -> Any:
    """Adam on a perceptron of two hidden layers: the losses of 100 steps, a jitted one each."""
    equinox, optax = library(jax, "equinox"), library(jax, "optax")
    adam = optax.adam(1e-3)

    def loss(model: Any, images: Any, classes: Any) -> Any:
        return _cross_entropy(jax, jax.vmap(model)(images), classes)

    @equinox.filter_jit
    def step(model: Any, state: Any, images: Any, classes: Any) -> Any:
        value, grads = equinox.filter_value_and_grad(loss)(model, images, classes)
        updates, state = adam.update(grads, state)
        return equinox.apply_updates(model, updates), state, value

    def train(images: Any, classes: Any) -> Any:
        model = equinox.nn.MLP(784, 10, 128, 2, key=jax.random.PRNGKey(0))
        state = adam.init(equinox.filter(model, equinox.is_inexact_array))
        return _losses(step, model, state, images, classes)

    return train


def linen_mlp(jax: Any) -> Any:
    """The same by flax.linen."""
    linen, optax = library(jax, "flax.linen"), library(jax, "optax")
    adam = optax.adam(1e-3)
    model = linen.Sequential(
        [linen.Dense(128), jax.nn.relu, linen.Dense(128), jax.nn.relu, linen.Dense(10)]
    )

    def loss(parameters: Any, images: Any, classes: Any) -> Any:
        return _cross_entropy(jax, model.apply(parameters, images), classes)

    @jax.jit
    def step(parameters: Any, state: Any, images: Any, classes: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(parameters, images, classes)
        updates, state = adam.update(grads, state)
        return optax.apply_updates(parameters, updates), state, value

    def train(images: Any, classes: Any) -> Any:
        parameters = model.init(jax.random.PRNGKey(0), images[0])
        return _losses(step, parameters, adam.init(parameters), images, classes)

    return train


def nnx_mlp(jax: Any) -> Any:
    """The same by flax.nnx."""
    nnx, optax = library(jax, "flax.nnx"), library(jax, "optax")

    class Perceptron(nnx.Module):  # type: ignore[misc,name-defined]
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(784, 128, rngs=rngs)
            self.second = nnx.Linear(128, 128, rngs=rngs)
            self.third = nnx.Linear(128, 10, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.third(jax.nn.relu(self.second(jax.nn.relu(self.first(x)))))

    def loss(model: Any, images: Any, classes: Any) -> Any:
        return _cross_entropy(jax, model(images), classes)

    @nnx.jit
    def step(model: Any, optimizer: Any, images: Any, classes: Any) -> Any:
        value, grads = nnx.value_and_grad(loss)(model, images, classes)
        optimizer.update(model, grads)
        return value

    def train(images: Any, classes: Any) -> Any:
        model = Perceptron(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
        return [step(model, optimizer, images[i], classes[i]) for i in range(STEPS)]

    return train


# ---- filtering ----------------------------------------------------------------------------------


def observations() -> tuple[np.ndarray, ...]:
    """1,000 noisy positions of a point that moves in the plane."""
    rng = np.random.default_rng(0)
    return (np.cumsum(rng.normal(size=(1000, 2)), 0).astype(np.float32),)


def kalman_filter(jax: Any) -> Any:
    """Filtered means of a constant-velocity model, by an associative scan.

    Särkkä and García-Fernández, "Temporal parallelization of Bayesian smoothers", 2021.
    """
    jnp = jax.numpy
    moves = np.block([[np.eye(2), 0.1 * np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])
    moves = moves.astype(np.float32)
    sees = np.eye(2, 4, dtype=np.float32)
    noise, error, eye = (
        np.float32(s) * np.eye(n, dtype=np.float32) for s, n in ((0.1, 4), (0.5, 2), (1, 4))
    )

    def element(y: Any) -> Any:
        scale = jnp.linalg.inv(sees @ noise @ sees.T + error)
        gain = noise @ sees.T @ scale
        a = (eye - gain @ sees) @ moves
        c = (eye - gain @ sees) @ noise
        back = moves.T @ sees.T @ scale
        return a, gain @ y, c, back @ y, back @ sees @ moves

    def combined(left: Any, right: Any) -> Any:
        a1, b1, c1, eta1, j1 = left
        a2, b2, c2, eta2, j2 = right
        product = lambda m, v: (m @ v[..., None])[..., 0]  # noqa: E731
        turned = lambda m: jnp.swapaxes(m, -1, -2)  # noqa: E731
        forward = a2 @ jnp.linalg.inv(eye + c1 @ j2)
        backward = turned(a1) @ jnp.linalg.inv(eye + j2 @ c1)
        return (
            forward @ a1,
            product(forward, b1 + product(c1, eta2)) + b2,
            forward @ c1 @ turned(a2) + c2,
            product(backward, eta2 - product(j2, b1)) + eta1,
            backward @ j2 @ a1 + j1,
        )

    return jax.jit(lambda ys: jax.lax.associative_scan(combined, jax.vmap(element)(ys))[1])
