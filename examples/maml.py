"""Learning to learn (MAML): the gradient of what one step of gradient descent achieves.

    python examples/maml.py [--steps 1500] [--seed 0] [--out examples/output]

Each task is a sinusoid of another amplitude and phase, of which ten points are seen.  The
meta-learner looks for parameters from which one step of gradient descent on those ten points fits
the whole curve (Finn, Abbeel and Levine 2017).  Its loss contains a gradient, so its own gradient
contains second derivatives; ``vmap`` runs the tasks of a batch side by side.

Beside it stands a network of the same kind trained on all the tasks at once, which can only learn
their mean, and takes the same steps afterwards.  Writes ``maml.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.example_libraries import optimizers

SIZES = (1, 40, 40, 1)
SHOTS = 10  # points of a task that are seen
TASKS = 16  # in a batch
INNER_RATE = 0.02
OUTER_RATE = 3e-3

# ---- the model ----------------------------------------------------------------------------------


def init(key, sizes=SIZES):
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) / m**0.5, "b": 0.1 * random.normal(k, (n,))}
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]


def predict(params, x):
    """The network's curve at x (n,)."""
    *hidden, last = params
    h = x[:, None] / 2
    for layer in hidden:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ last["w"] + last["b"])[:, 0]


def loss(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


# ---- meta-learning ------------------------------------------------------------------------------


def adapt(loss, params, x, y, rate=INNER_RATE, steps=1):
    """The parameters after gradient descent on one task; loss is a function of (params, x, y)."""
    for _ in range(steps):
        gradients = functrax.grad(loss)(params, x, y)
        params = functrax.tree.map(lambda p, g: p - rate * g, params, gradients)
    return params


def meta_loss(loss, params, seen, unseen, rate=INNER_RATE):
    """The mean loss on the unseen points of each task, after a step on its seen points.

    seen and unseen are pairs (x, y), each with a leading axis of tasks.
    """

    def one_task(seen, unseen):
        return loss(adapt(loss, params, *seen, rate=rate), *unseen)

    return jnp.mean(functrax.vmap(one_task)(seen, unseen))


def joint_loss(loss, params, seen, unseen):
    """The loss without adaptation: that of all the tasks at once."""
    return jnp.mean(functrax.vmap(lambda task: loss(params, *task))(unseen))


def tasks(key, n, shots=SHOTS):
    """n tasks: the points (n, shots) that are seen, and as many unseen ones."""
    keys = random.split(key, 4)
    amplitude = random.uniform(keys[0], (n, 1), minval=0.1, maxval=5.0)
    phase = random.uniform(keys[1], (n, 1), minval=0.0, maxval=np.pi)

    def points(key):
        x = random.uniform(key, (n, shots), minval=-5.0, maxval=5.0)
        return x, amplitude * jnp.sin(x - phase)

    return points(keys[2]), points(keys[3])


def train(objective, key, steps):
    """Parameters that minimise the objective of random batches of tasks, and its history."""
    init_key, data_key = random.split(key)
    start, update, get_params = optimizers.adam(
        optimizers.polynomial_decay(OUTER_RATE, steps, OUTER_RATE / 10)
    )

    @functrax.jit
    def step(i, state, key):
        seen, unseen = tasks(random.fold_in(key, i), TASKS)
        value, gradients = functrax.value_and_grad(objective, argnums=1)(
            loss, get_params(state), seen, unseen
        )
        return update(i, gradients, state), value

    state = start(init(init_key))
    history = []
    for i in tqdm(range(steps), desc=objective.__name__, unit="step"):
        state, value = step(i, state, data_key)
        history.append(float(value))
    return get_params(state), np.array(history)


def after_steps(params, key, most=5, n=200):
    """The mean loss on the unseen points of n new tasks after 0, 1, ... steps."""
    seen, unseen = tasks(key, n)

    @functrax.jit
    def losses(params):
        def one_task(seen, unseen):
            adapted = [adapt(loss, params, *seen, steps=k) for k in range(most + 1)]
            return jnp.stack([loss(p, *unseen) for p in adapted])

        return jnp.mean(functrax.vmap(one_task)(seen, unseen), axis=0)

    return np.asarray(losses(params))


# ---- pictures -----------------------------------------------------------------------------------


def plot(learners, tables, path):
    figure = Figure(figsize=(13, 4), layout="constrained")
    *panels, last = figure.subplots(1, len(learners) + 1)
    (x, y), _ = tasks(random.key(8), 1)
    at = jnp.linspace(-5.0, 5.0, 200)
    for axes, (name, params) in zip(panels, learners.items()):
        for steps, colour in ((0, "tab:gray"), (1, "tab:blue"), (5, "tab:green")):
            curve = predict(adapt(loss, params, x[0], y[0], steps=steps), at)
            axes.plot(at, curve, color=colour, label=f"after {steps} step{'s' * (steps != 1)}")
        axes.plot(x[0], y[0], "k^", label="seen")
        axes.set(title=name, xlabel="x", ylim=(-7.5, 5.5))
        axes.legend(fontsize=8, loc="lower center", ncols=2)
    for (name, table), marker in zip(tables.items(), "os"):
        last.semilogy(table, marker=marker, label=name)
    last.set(title="200 new tasks", xlabel="steps of gradient descent", ylabel="squared error")
    last.legend(fontsize=8)
    for axes in (*panels, last):
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Meta-learning with functrax.")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    train_key, test_key = random.split(random.key(options.seed))

    learned, history = train(meta_loss, train_key, options.steps)
    joint, _ = train(joint_loss, train_key, options.steps)
    learners = {"meta-learned": learned, "trained on all tasks": joint}
    tables = {name: after_steps(params, test_key) for name, params in learners.items()}
    tenth = max(1, options.steps // 10)
    print(f"loss: {history[:tenth].mean():.4f} -> {history[-tenth:].mean():.4f}")
    print("squared error of 200 new tasks after steps of gradient descent")
    print(" " * 22 + "".join(f"{k:8}" for k in range(6)))
    for name, table in tables.items():
        print(f"{name:22}" + "".join(f"{v:8.3f}" for v in table))
    plot(learners, tables, options.out / "maml.png")


if __name__ == "__main__":
    main()
