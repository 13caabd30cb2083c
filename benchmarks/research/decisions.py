"""Agents: reinforcement learning, control, evolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster

# ---- proximal policy optimisation ---------------------------------------------------------------

ENVIRONMENTS, STEPS = 32, 64


def policy() -> tuple[Any, ...]:
    """Weights of a policy and a value of carts' states, and a seed."""
    rng = np.random.default_rng(0)
    sizes = {"hidden": (4, 64), "more": (64, 64), "policy": (64, 2), "value": (64, 1)}
    weights = {
        name: {
            "w": rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5),
            "b": np.zeros(shape[1], np.float32),
        }
        for name, shape in sizes.items()
    }
    return weights, np.int32(0)


def cart_pole(jax: Any) -> Any:
    """A step of the cart with a pole: new state, reward, whether it ends."""
    jnp = jax.numpy

    def step(state: Any, action: Any) -> Any:
        _, v, angle, spin = state
        force = jnp.where(action == 1, 10.0, -10.0)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        pull = push - 0.05 * turn * cosine / 1.1
        rates = jnp.stack([v, pull, spin, turn])
        state = state + 0.02 * rates
        done = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.21)
        return state, 1.0, done

    return step


def ppo(jax: Any) -> Any:
    """An update of PPO: 64 steps of 32 carts, advantages, two epochs of four minibatches."""
    jnp = jax.numpy
    environment, tree = cart_pole(jax), jax.tree_util.tree_map

    def dense(layer: Any, x: Any) -> Any:
        return x @ layer["w"] + layer["b"]

    def network(weights: Any, x: Any) -> Any:
        h = jnp.tanh(dense(weights["more"], jnp.tanh(dense(weights["hidden"], x))))
        return dense(weights["policy"], h), dense(weights["value"], h)[..., 0]

    def reset(key: Any) -> Any:
        return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def collect(weights: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            act_key, reset_key = jax.random.split(key)
            logits, value = network(weights, state)
            action = jax.random.categorical(act_key, logits)
            log_p = jax.nn.log_softmax(logits)[jnp.arange(ENVIRONMENTS), action]
            after, reward, done = jax.vmap(environment)(state, action)
            fresh = jax.vmap(reset)(jax.random.split(reset_key, ENVIRONMENTS))
            after = jnp.where(done[:, None], fresh, after)
            reward = jnp.broadcast_to(reward, (ENVIRONMENTS,))
            return after, (state, action, log_p, value, reward, done)

        start_key, key = jax.random.split(key)
        start = jax.vmap(reset)(jax.random.split(start_key, ENVIRONMENTS))
        last, path = jax.lax.scan(step, start, jax.random.split(key, STEPS))
        return path, network(weights, last)[1]

    def advantages(path: Any, last: Any) -> Any:
        *_, value, reward, done = path

        def back(state: Any, row: Any) -> Any:
            advantage, after = state
            value, reward, done = row
            go_on = 1.0 - done
            delta = reward + 0.99 * after * go_on - value
            advantage = delta + 0.99 * 0.95 * go_on * advantage
            return (advantage, value), advantage

        zeros = jnp.zeros(ENVIRONMENTS)
        return jax.lax.scan(back, (zeros, last), (value, reward, done), reverse=True)[1]

    def loss(weights: Any, batch: Any) -> Any:
        state, action, old, value, advantage = batch
        logits, now = network(weights, state)
        log_p = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_p, action[:, None], 1)[:, 0]
        ratio = jnp.exp(chosen - old)
        normal = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = jnp.minimum(ratio * normal, jnp.clip(ratio, 0.8, 1.2) * normal)
        entropy = -(jnp.exp(log_p) * log_p).sum(-1)
        return -gain.mean() + 0.5 * ((now - advantage - value) ** 2).mean() - 0.01 * entropy.mean()

    def run(weights: Any, seed: Any) -> Any:
        key, *epochs = jax.random.split(jax.random.key(seed), 3)
        path, last = collect(weights, key)
        data = (*path[:4], advantages(path, last))
        data = tree(lambda a: a.reshape(-1, *a.shape[2:]), data)

        def update(weights: Any, batch: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(weights, batch)
            return tree(lambda w, g: w - 0.01 * g, weights, gradient), value

        def epoch(weights: Any, key: Any) -> Any:
            order = jax.random.permutation(key, ENVIRONMENTS * STEPS)
            batches = tree(lambda a: a[order].reshape(4, -1, *a.shape[1:]), data)
            return jax.lax.scan(update, weights, batches)

        return jax.lax.scan(epoch, weights, jnp.stack(epochs))

    return run


# ---- tables -------------------------------------------------------------------------------------


def maze() -> tuple[np.ndarray, ...]:
    """Walls of a 16 × 16 maze, and a seed."""
    walls = np.random.default_rng(0).uniform(size=(16, 16)) < 0.2
    walls[0, 0] = walls[15, 15] = False
    return walls, np.int32(0)


def q_learning(jax: Any) -> Any:
    """2,000 steps of tabular Q-learning by eight walkers in a maze, each with its own table."""
    jnp = jax.numpy
    moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

    def run(walls: Any, seed: Any) -> Any:
        def walk(key: Any) -> Any:
            def step(state: Any, key: Any) -> Any:
                table, place = state
                explore_key, action_key = jax.random.split(key)
                row = table[place[0], place[1]]
                random = jax.random.randint(action_key, (), 0, 4)
                explores = jax.random.uniform(explore_key) < 0.2
                action = jnp.where(explores, random, row.argmax())
                to = jnp.clip(place + jnp.asarray(moves)[action], 0, 15)
                to = jnp.where(walls[to[0], to[1]], place, to)
                done = (to == 15).all()
                best = table[to[0], to[1]].max()
                target = jnp.where(done, 1.0, 0.95 * best)
                change = 0.5 * (target - row[action])
                table = table.at[place[0], place[1], action].add(change)
                return (table, jnp.where(done, 0, to)), done

            start = jnp.zeros((16, 16, 4)), jnp.zeros(2, jnp.int32)
            (table, _), done = jax.lax.scan(step, start, jax.random.split(key, 2000))
            return table, done.sum()

        return jax.vmap(walk)(jax.random.split(jax.random.key(seed), 8))

    return run


def value_iteration(jax: Any) -> Any:
    """Values of a random decision process of 512 states and 8 actions, until they stay the same."""
    jnp = jax.numpy

    def run(moves: Any, rewards: Any) -> Any:
        def unfinished(state: Any) -> Any:
            return (state[1] > 1e-3) & (state[2] < 500)

        def sweep(state: Any) -> Any:
            values, _, count = state
            new = (rewards + 0.9 * jnp.einsum("ast,t->sa", moves, values)).max(1)
            return new, jnp.abs(new - values).max(), count + 1

        start = jnp.zeros(512), jnp.inf, 0
        values, _, count = jax.lax.while_loop(unfinished, sweep, start)
        return values, count

    return run


def decision_process() -> tuple[np.ndarray, ...]:
    """Probabilities of moves (8 × 512 × 512), and rewards (512 × 8)."""
    rng = np.random.default_rng(0)
    moves = rng.gamma(0.1, size=(8, 512, 512)) + 1e-9
    moves /= moves.sum(-1, keepdims=True)
    return moves.astype(np.float32), rng.standard_normal((512, 8), np.float32)


# ---- control ------------------------------------------------------------------------------------


def plan() -> tuple[np.ndarray, ...]:
    """A state of the pendulum on a cart, a plan of 50 forces, and a seed."""
    state = np.array([0, 0, np.pi, 0], np.float32)
    return state, np.zeros(50, np.float32), np.int32(0)


def swinging(jax: Any) -> Any:
    """The rates of a pendulum on a cart, by state and force."""
    jnp = jax.numpy

    def rates(state: Any, force: Any) -> Any:
        _, v, angle, spin = state
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        mass = 1.0 + 0.3 * sine**2
        pull = (force + 0.3 * sine * (0.5 * spin**2 - 9.81 * cosine)) / mass
        turn = (9.81 * sine * 1.3 - cosine * (force + 0.15 * spin**2 * sine)) / (0.5 * mass)
        return jnp.stack([v, pull, spin, turn])

    return rates


def mppi(jax: Any) -> Any:
    """Five rounds of path-integral control: 512 noisy plans of 50 forces, weighed by their cost."""
    jnp = jax.numpy
    rates = swinging(jax)

    def run(state: Any, plan: Any, seed: Any) -> Any:
        def cost(forces: Any) -> Any:
            def step(state: Any, force: Any) -> Any:
                state = state + 0.04 * rates(state, force)
                x, v, angle, spin = state
                price = x**2 + 5 * (1 - jnp.cos(angle)) + 0.1 * (v**2 + spin**2)
                return state, price + 1e-3 * force**2

            return jax.lax.scan(step, state, forces)[1].sum()

        def improve(plan: Any, key: Any) -> Any:
            noise = 2 * jax.random.normal(key, (512, 50))
            plans = jnp.clip(plan + noise, -10, 10)
            costs = jax.vmap(cost)(plans)
            weights = jax.nn.softmax(-(costs - costs.min()) / 20)
            return weights @ plans, costs.min()

        return jax.lax.scan(improve, plan, jax.random.split(jax.random.key(seed), 5))

    return run


def ilqr(jax: Any) -> Any:
    """Five iterations of the iterative linear quadratic regulator on 50 steps of the pendulum."""
    jnp = jax.numpy
    rates = swinging(jax)
    goal = np.diag(np.array([1, 0.1, 5, 0.1], np.float32))

    def move(state: Any, force: Any) -> Any:
        return state + 0.04 * rates(state, force[0])

    def price(state: Any, force: Any) -> Any:
        return 0.5 * state @ goal @ state + 0.05 * force @ force

    def run(state: Any, plan: Any, _: Any) -> Any:
        start = state.at[2].set(0.6)

        def roll(forces: Any) -> Any:
            def step(x: Any, u: Any) -> Any:
                return move(x, u), (x, price(x, u))

            last, (states, prices) = jax.lax.scan(step, start, forces)
            return states, last, prices.sum()

        def iteration(forces: Any, _: Any) -> Any:
            states, last, total = roll(forces)
            a, b = jax.vmap(jax.jacfwd(move, (0, 1)))(states, forces)
            qx, qu = jax.vmap(jax.grad(price, (0, 1)))(states, forces)

            def backward(value: Any, row: Any) -> Any:
                s, v = value
                a, b, qx, qu = row
                hx, hu = qx + a.T @ v, qu + b.T @ v
                hxx, hux = goal + a.T @ s @ a, b.T @ s @ a
                huu = 0.1 * jnp.eye(1) + b.T @ s @ b
                gain = -jnp.linalg.solve(huu, jnp.concatenate([hux, hu[:, None]], 1))
                big, small = gain[:, :-1], gain[:, -1]
                return (hxx + hux.T @ big, hx + hux.T @ small), (big, small)

            final = (goal, goal @ last)
            _, (big, small) = jax.lax.scan(backward, final, (a, b, qx, qu), reverse=True)

            def forward(x: Any, row: Any) -> Any:
                old, u, big, small = row
                u = u + 0.5 * small + big @ (x - old)
                return move(x, u), u

            return jax.lax.scan(forward, start, (states, forces, big, small))[1], total

        return jax.lax.scan(iteration, plan[:, None], None, length=5)

    return run


# ---- evolution ----------------------------------------------------------------------------------


def evolution_strategies(jax: Any) -> Any:
    """20 generations of 128 mirrored policies for a cart, by the ranks of what they earn."""
    jnp = jax.numpy
    environment = cart_pole(jax)

    def run(state: Any, _: Any, seed: Any) -> Any:
        def earned(flat: Any) -> Any:
            w1, w2 = flat[:32].reshape(4, 8), flat[32:]

            def step(carry: Any, _: Any) -> Any:
                x, alive = carry
                action = jnp.where(jnp.tanh(x @ w1) @ w2 > 0, 1, 0)
                x, reward, done = environment(x, action)
                alive = alive * (1.0 - done)
                return (x, alive), alive * reward

            start = jnp.full(4, 0.02), 1.0
            return jax.lax.scan(step, start, None, length=50)[1].sum()

        def generation(mean: Any, key: Any) -> Any:
            noise = jax.random.normal(key, (64, 40))
            both = jnp.concatenate([noise, -noise])
            rewards = jax.vmap(earned)(mean + 0.3 * both)
            ranks = jnp.argsort(jnp.argsort(rewards)) / 127 - 0.5
            return mean + 0.5 * (ranks @ both) / 128, rewards.mean()

        return jax.lax.scan(generation, jnp.zeros(40), jax.random.split(jax.random.key(seed), 20))

    return run


ROWS = (
    Workload("PPO", policy, ppo, (faster(1),)),
    Workload("Q-learning", maze, q_learning, (faster(1),)),
    Workload("value iteration", decision_process, value_iteration, (faster(1),)),
    Workload("path-integral control", plan, mppi, (faster(1),)),
    Workload("iterative LQR", plan, ilqr, (faster(1),)),
    Workload("evolution strategies", plan, evolution_strategies, (faster(1),)),
)
