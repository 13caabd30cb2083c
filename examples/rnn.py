"""A recurrent network learns to add: ``scan`` over time, ``vmap`` over sequences, ``grad`` of all.

    python examples/rnn.py [--steps 300] [--length 20] [--seed 0] [--out examples/output]

The adding problem (Hochreiter and Schmidhuber 1997): each sequence has a random number in [0, 1]
at each time, and two of the times are marked; the network must answer with the sum of the two
marked numbers when the sequence has ended.  Whoever ignores the sequence and answers 1 has a mean
squared error of 1/6, the variance of the sum.

The network is a gated recurrent unit (Cho et al. 2014).  Its loop is one ``lax.scan``, so the
program that is traced has one copy of the cell however long the sequence.  Writes ``rnn.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random
from functrax.example_libraries import optimizers

HIDDEN = 24
BATCH = 64
RATE = 1e-2
BASELINE = 1 / 6  # of the constant answer 1

# ---- the model ----------------------------------------------------------------------------------


def init(key, inputs=2, hidden=HIDDEN):
    """Matrices of variance 1/n; the update gate starts on the side of keeping."""
    keys = iter(random.split(key, 7))

    def matrix(m, n):
        return random.normal(next(keys), (m, n)) / m**0.5

    gate_biases = {"update": -1.0, "reset": 0.0, "candidate": 0.0}
    gates = {
        name: {"x": matrix(inputs, hidden), "h": matrix(hidden, hidden), "b": jnp.full(hidden, b)}
        for name, b in gate_biases.items()
    }
    return {"gates": gates, "out": {"w": matrix(hidden, 1)[:, 0], "b": jnp.zeros(())}}


def cell(gates, h, x):
    """The next state from the last, (hidden,), and an input, (inputs,)."""

    def affine(name, h):
        gate = gates[name]
        return x @ gate["x"] + h @ gate["h"] + gate["b"]

    update = nn.sigmoid(affine("update", h))
    reset = nn.sigmoid(affine("reset", h))
    candidate = jnp.tanh(affine("candidate", reset * h))
    return h + update * (candidate - h)


def states(params, xs):
    """The states after each time of one sequence: (time, inputs) -> (time, hidden)."""

    def step(h, x):
        h = cell(params["gates"], h, x)
        return h, h

    start = jnp.zeros(params["out"]["w"].shape)
    return lax.scan(step, start, xs)[1]


def predict(params, xs):
    """The answer for one sequence."""
    return states(params, xs)[-1] @ params["out"]["w"] + params["out"]["b"]


def loss(params, xs, ys):
    answers = functrax.vmap(predict, in_axes=(None, 0))(params, xs)
    return jnp.mean((answers - ys) ** 2)


# ---- the task -----------------------------------------------------------------------------------


def sequences(key, n, length):
    """Sequences (n, length, 2) of numbers and marks, and the sums (n,) of the marked numbers."""
    number_key, first_key, second_key = random.split(key, 3)
    numbers = random.uniform(number_key, (n, length))
    half = length // 2
    first = random.randint(first_key, (n,), 0, half)
    second = random.randint(second_key, (n,), half, length)
    marks = nn.one_hot(first, length) + nn.one_hot(second, length)
    return jnp.stack([numbers, marks], axis=-1), jnp.sum(numbers * marks, axis=1)


# ---- training -----------------------------------------------------------------------------------


def clip(gradients, longest=1.0):
    """The gradients, scaled down if together they are longer than that."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in functrax.tree.leaves(gradients)))
    return functrax.tree.map(lambda g: g * jnp.minimum(1.0, longest / norm), gradients)


def train(key, steps, length):
    """The trained parameters, and the loss of each step; every batch is new."""
    init_key, data_key = random.split(key)
    rate = optimizers.polynomial_decay(RATE, steps, RATE / 10)
    start, update, get_params = optimizers.adam(rate)

    @functrax.jit
    def step(i, state, key):
        xs, ys = sequences(random.fold_in(key, i), BATCH, length)
        value, gradients = functrax.value_and_grad(loss)(get_params(state), xs, ys)
        return update(i, clip(gradients), state), value

    state = start(init(init_key))
    history = []
    bar = tqdm(range(steps), desc="training", unit="step")
    for i in bar:
        state, value = step(i, state, data_key)
        history.append(float(value))
        if i % 20 == 0:
            bar.set_postfix(loss=f"{history[-1]:.4f}")
    return get_params(state), np.array(history)


def plot(history, answers, sums, path):
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(history, color="tab:blue", linewidth=0.8)
    left.axhline(BASELINE, color="gray", linestyle="--", label="always answering 1")
    left.set(title="Adding problem: squared error of each batch", xlabel="step")
    left.legend()
    right.plot([0, 2], [0, 2], color="gray", linestyle="--", linewidth=1)
    right.scatter(sums, answers, s=6, color="tab:green", alpha=0.6)
    right.set(title="512 new sequences", xlabel="sum of the marked numbers", ylabel="answer")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a recurrent network with functrax.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    train_key, test_key = random.split(random.key(options.seed))
    params, history = train(train_key, options.steps, options.length)
    xs, sums = sequences(test_key, 512, options.length)
    answers = functrax.jit(functrax.vmap(predict, in_axes=(None, 0)))(params, xs)
    error = float(jnp.mean((answers - sums) ** 2))
    plot(history, answers, sums, options.out / "rnn.png")
    print(f"sequences of {options.length} numbers, two of them marked")
    print(f"loss: {history[:20].mean():.6f} -> {history[-20:].mean():.6f}")
    print(f"on new sequences: {error:.6f}; always answering 1: {BASELINE:.6f}")


if __name__ == "__main__":
    main()
