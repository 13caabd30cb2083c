"""Reinforcement learning in one program: environments, policy and training under one ``jit``.

    python examples/ppo.py [--updates 100] [--seed 0] [--out examples/output]

A cart carries a pole, and is pushed left or right 50 times a second (Barto, Sutton and Anderson
1983).  The episode ends when the pole leans too far, the cart leaves the track, or after 500
steps.  Proximal policy optimisation (Schulman et al. 2017) improves a policy by what it has just
done, and keeps it near to what it was.

The environment is a function of numbers: ``vmap`` makes 64 carts of it, ``scan`` 64 steps, with
``random`` keys.  Advantages are a ``scan`` in reverse, minibatches another one, and all updates a
third one, so that the whole training is one compiled program.  Writes ``ppo.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random

CARTS, STEPS, LONGEST = 64, 64, 500
EPOCHS, BATCHES = 4, 4
DISCOUNT, TRACE, CLIP, RATE = 0.99, 0.95, 0.2, 2.5e-3


# ---- the cart -----------------------------------------------------------------------------------


class Cart(NamedTuple):
    """Position and velocity of the cart, angle of the pole and its velocity: (4,); the time."""

    state: functrax.Array
    time: functrax.Array


def reset(key):
    return Cart(random.uniform(key, (4,), minval=-0.05, maxval=0.05), jnp.array(0))


def push(cart, action):
    """The cart 1/50 s after a push to the right (1) or the left (0), and whether it has failed."""
    _, v, angle, spin = cart.state
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pull = (jnp.where(action == 1, 10.0, -10.0) + 0.05 * spin**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * pull) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    slope = jnp.stack([v, pull - 0.05 * turn * cosine / 1.1, spin, turn])
    state = cart.state + 0.02 * slope
    failed = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * np.pi / 180)
    return Cart(state, cart.time + 1), failed


# ---- policy and value ---------------------------------------------------------------------------


def layer(key, m, n, scale):
    return {"w": scale * random.normal(key, (m, n)) / m**0.5, "b": jnp.zeros(n)}


def init(key):
    """Two networks, one for the policy and one for the value of a state."""

    def network(key, outputs, scale):
        keys = random.split(key, 3)
        sizes = [(4, 64, 1.4), (64, 64, 1.4), (64, outputs, scale)]
        return [layer(k, *size) for k, size in zip(keys, sizes)]

    policy_key, value_key = random.split(key)
    return {"policy": network(policy_key, 2, 0.01), "value": network(value_key, 1, 1.0)}


def apply(layers, x):
    for one in layers[:-1]:
        x = jnp.tanh(x @ one["w"] + one["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


# ---- proximal policy optimisation ---------------------------------------------------------------


class Trail(NamedTuple):
    """What has happened; all arrays begin with (steps, carts)."""

    state: functrax.Array
    action: functrax.Array
    log_p: functrax.Array
    value: functrax.Array
    failed: functrax.Array
    ended: functrax.Array
    time: functrax.Array


def collect(params, carts, key):
    """The carts after STEPS steps of the policy, and the path to there."""

    def step(carts, key):
        action_key, reset_key = random.split(key)
        logits = apply(params["policy"], carts.state)
        action = random.categorical(action_key, logits)
        log_p = jnp.take_along_axis(nn.log_softmax(logits), action[:, None], 1)[:, 0]
        value = apply(params["value"], carts.state)[:, 0]
        after, failed = functrax.vmap(push)(carts, action)
        ended = failed | (after.time >= LONGEST)
        fresh = functrax.vmap(reset)(random.split(reset_key, CARTS))
        begun = Cart(
            jnp.where(ended[:, None], fresh.state, after.state),
            jnp.where(ended, fresh.time, after.time),
        )
        return begun, Trail(carts.state, action, log_p, value, failed, ended, after.time)

    return lax.scan(step, carts, random.split(key, STEPS))


def advantages(path, last):
    """How much better each action was than expected; each step without a failure earns 1."""

    def back(state, row):
        advantage, after = state
        value, failed, ended = row
        go_on = 1.0 - ended
        surprise = 1.0 - failed + DISCOUNT * after * go_on - value
        advantage = surprise + DISCOUNT * TRACE * go_on * advantage
        return (advantage, value), advantage

    start = jnp.zeros(CARTS), last
    return lax.scan(back, start, (path.value, path.failed, path.ended), reverse=True)[1]


def loss(params, batch):
    path, advantage = batch
    log_p = nn.log_softmax(apply(params["policy"], path.state))
    chosen = jnp.take_along_axis(log_p, path.action[:, None], 1)[:, 0]
    ratio = jnp.exp(chosen - path.log_p)
    scaled = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
    gain = jnp.minimum(ratio * scaled, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * scaled)
    value = apply(params["value"], path.state)[:, 0]
    miss = jnp.mean((value - path.value - advantage) ** 2)
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_p) * log_p, axis=1))
    return -jnp.mean(gain) + 0.5 * miss - 0.01 * entropy


def adam(params, moments, gradient):
    """A step of Adam: the new parameters, and moments (first, second, count)."""
    first, second, count = moments
    tree = functrax.tree.map
    first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = tree(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)
    count = count + 1

    def change(p, m, v):
        return p - RATE * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-5)

    return tree(change, params, first, second), (first, second, count)


def update(state, key):
    """Collects a path and learns from it; how long the carts had been on their way, in the mean."""
    params, moments, carts = state
    path_key, *keys = random.split(key, 1 + EPOCHS)
    carts, path = collect(params, carts, path_key)
    last = apply(params["value"], carts.state)[:, 0]
    data = functrax.tree.map(
        lambda a: a.reshape(STEPS * CARTS, *a.shape[2:]), (path, advantages(path, last))
    )

    def learn(state, batch):
        params, moments = state
        value, gradient = functrax.value_and_grad(loss)(params, batch)
        return adam(params, moments, gradient), value

    def epoch(state, key):
        order = random.permutation(key, STEPS * CARTS)
        batches = functrax.tree.map(lambda a: a[order].reshape(BATCHES, -1, *a.shape[1:]), data)
        return lax.scan(learn, state, batches)

    (params, moments), _ = lax.scan(epoch, (params, moments), jnp.stack(keys))
    episodes = jnp.maximum(jnp.sum(path.ended), 1)
    length = jnp.sum(jnp.where(path.ended, path.time, 0)) / episodes
    length = jnp.where(jnp.any(path.ended), length, jnp.mean(path.time[-1]))
    return (params, moments, carts), length


def train(key, updates):
    """The trained networks, and the mean length of the episodes that ended in each update."""
    init_key, carts_key, key = random.split(key, 3)
    params = init(init_key)
    zeros = functrax.tree.map(jnp.zeros_like, params)
    carts = functrax.vmap(reset)(random.split(carts_key, CARTS))
    state = params, (zeros, zeros, 0.0), carts
    (params, *_), lengths = lax.scan(update, state, random.split(key, updates))
    return params, lengths


def balance(params, key, steps=LONGEST):
    """How a cart moves whose policy takes the better action each time: states (steps, 4)."""

    def step(cart, _):
        cart, _ = push(cart, jnp.argmax(apply(params["policy"], cart.state)))
        return cart, cart.state

    return lax.scan(step, reset(key), None, length=steps)[1]


def plot(lengths, states, path):
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(lengths)
    left.set(
        title="mean length of episodes", xlabel="update", ylabel="steps", ylim=(0, LONGEST + 20)
    )
    right.plot(states[:, 0], label="place of the cart, m")
    right.plot(states[:, 2], label="angle of the pole")
    right.set(title="after training", xlabel="step")
    right.legend()
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Proximal policy optimisation with functrax.")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    train_key, test_key = random.split(random.key(options.seed))
    params, lengths = functrax.jit(lambda key: train(key, options.updates))(train_key)
    print(f"{options.updates} updates of {CARTS * STEPS} steps")
    print(f"mean length of episodes: {float(lengths[0]):.1f} -> {float(lengths[-1]):.1f}")
    states = functrax.jit(balance)(params, test_key)
    print(f"greatest lean of a trained pole: {float(jnp.max(jnp.abs(states[:, 2]))):.3f}")
    plot(np.asarray(lengths), np.asarray(states), options.out / "ppo.png")


if __name__ == "__main__":
    main()
