"""Random training programs: the same source runs lazily, immediately and with its steps jitted.

``program(seed)`` chooses one to three models of ``training_models``, for each an optimizer, a way
to take gradients, a source of its parameters, and what is looked at and when; the models are
trained in turns.  ``Run(program, mode)`` is one as it runs: ``step()`` advances it, ``results()``
gives all that was looked at and the parameters at the end.  To look at one seed by hand::

    python -m tests.eager.training_programs SEED [STEPS]
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import random, tree_util
from tests.eager.training_models import INITIALISERS, MODELS, Model, Source

OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam")
GRADIENTS = ("value_and_grad", "grad", "vjp", "hvp", "per_example", "jit_loss", "jit_grad")
LOOKS = ("nothing", "loss", "parameters", "repr", "float", "asarray", "item", "block", "bool")
MODES = ("lazy", "immediate", "jit")


class SkippedError(Exception):
    """What the user's code raises in the middle of a step."""


@dataclass(frozen=True)
class Choices:
    """What one model's training does.

    Attributes:
      model: its place in ``MODELS``.
      seed: decides its sizes, data and parameters.
      source: one of ``INITIALISERS``.
      optimizer: one of ``OPTIMIZERS``.
      as_loop: whether the optimizer is written as a loop over leaves instead of ``tree_map``.
      gradient: one of ``GRADIENTS``.
      look: one of ``LOOKS``.
      every: so many steps are from one look to the next.
      clip: the largest norm of gradients, smoothly; 0 for none.
      schedule: whether the learning rate is a new Python float each step.
      collect: whether losses go into a list that is looked at in the end.
      metric: whether something is computed each step and dropped.
      raises: of so many steps one raises in its middle; 0 for none.
      chained: whether keys come from splitting the last one instead of ``fold_in``.
    """

    model: int
    seed: int
    source: str
    optimizer: str
    as_loop: bool
    gradient: str
    look: str
    every: int
    clip: float
    schedule: bool
    collect: bool
    metric: bool
    raises: int
    chained: bool

    def __str__(self) -> str:
        name = MODELS[self.model].__name__
        fields = ", ".join(f"{k}={v}" for k, v in vars(self).items() if k != "model")
        return f"{name}({fields})"


@dataclass(frozen=True)
class Program:
    seed: int
    x64: bool
    models: tuple[Choices, ...]

    def __str__(self) -> str:
        each = "; ".join(map(str, self.models))
        return f"seed {self.seed}, {'f64' if self.x64 else 'f32'}: {each}"

    def run(self, mode: str = "lazy", steps: int = 60) -> list[np.ndarray[Any, Any]]:
        """``steps`` steps of each model, and all that was seen."""
        run = Run(self, mode)
        for _ in range(steps):
            run.step()
        return run.results()


def program(seed: int) -> Program:
    rng = np.random.default_rng(seed)

    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def choose() -> Choices:
        return Choices(
            model=int(rng.integers(len(MODELS))),
            seed=int(rng.integers(2**31)),
            source=pick(*INITIALISERS),
            optimizer=pick(*OPTIMIZERS),
            as_loop=pick(True, False),
            gradient=pick("value_and_grad", *GRADIENTS),
            look=pick("nothing", *LOOKS),
            every=pick(1, 1, 3, 10, 25),
            clip=pick(0.0, 0.0, 1.0),
            schedule=pick(True, False),
            collect=pick(True, False),
            metric=pick(True, False, False),
            raises=pick(0, 0, 7),
            chained=pick(True, False),
        )

    return Program(seed, pick(False, False, True), tuple(choose() for _ in range(pick(1, 1, 2, 3))))


def _update(c: Choices, p: Any, g: Any, m: Any, v: Any, lr: Any) -> tuple[Any, Any, Any]:
    """One leaf.  Epsilons are large, for a quotient of small numbers is not tame."""
    if c.optimizer == "sgd":
        return p - lr * g, m, v
    if c.optimizer == "momentum":
        m = 0.9 * m + g
        return p - lr * m, m, v
    v = 0.95 * v + 0.05 * g * g
    if c.optimizer == "rmsprop":
        return p - lr * g / (jnp.sqrt(v + 1e-3) + 0.05), m, v
    m = 0.9 * m + 0.1 * g
    return p - lr * m / (jnp.sqrt(v + 1e-3) + 0.05), m, v


def _optimized(c: Choices, p: Any, g: Any, moments: Any, lr: Any) -> tuple[Any, Any]:
    m, v = moments
    if not c.as_loop:
        new = [
            tree_util.tree_map(lambda *a, i=i: _update(c, *a, lr)[i], p, g, m, v) for i in range(3)
        ]
        return new[0], (new[1], new[2])
    leaves, tree = tree_util.tree_flatten(p)
    others = [tree_util.tree_leaves(x) for x in (g, m, v)]
    done = [_update(c, *each, lr) for each in zip(leaves, *others)]
    p, m, v = (tree_util.tree_unflatten(tree, list(each)) for each in zip(*done))
    return p, (m, v)


def _gradient(c: Choices, model: Model, loss: Any, p: Any, batch: Any, key: Any) -> Any:
    """The loss, what else there is, and the gradient."""
    kind = c.gradient
    if kind == "per_example" and not model.per_example:
        kind = "value_and_grad"

    def alone(q: Any) -> Any:
        return loss(q, batch, key)[0]

    if kind == "value_and_grad":
        (value, aux), g = functrax.value_and_grad(loss, has_aux=True)(p, batch, key)
        return value, aux, g
    if kind == "jit_grad":
        return alone(p), None, functrax.jit(functrax.grad(alone))(p)
    if kind == "jit_loss":
        value, g = functrax.value_and_grad(functrax.jit(alone))(p)
        return value, None, g
    if kind == "vjp":
        value, back = functrax.vjp(alone, p)
        return value, None, back(jnp.ones_like(value))[0]
    if kind == "per_example":

        def one(q: Any, example: Any) -> Any:
            return loss(q, tree_util.tree_map(lambda a: a[None], example), key)[0]

        each = functrax.vmap(functrax.grad(one), in_axes=(None, 0))(p, batch)
        return alone(p), None, tree_util.tree_map(lambda a: a.mean(axis=0), each)
    g = functrax.grad(alone)(p)
    if kind == "hvp":
        _, hessian = functrax.jvp(functrax.grad(alone), (p,), (g,))
        g = tree_util.tree_map(lambda a, h: a + 0.02 * h, g, hessian)
    return alone(p), None, g


class Training:
    """One model of a run.

    Attributes:
      now: what a step takes and gives: steps done, parameters, moments, key.  It is replaced as a
        whole, so that an interrupted step leaves the one before.
      losses: those that are collected, by step.
      seen: what was looked at, by step.
    """

    def __init__(self, choices: Choices, dtype: Any, mode: str) -> None:
        source = Source(np.random.default_rng(choices.seed), dtype, choices.source)
        self.choices, self.model = choices, MODELS[choices.model](source)
        p = self.model.params
        zeros = tree_util.tree_map(jnp.zeros_like, p)
        key = random.key(7) if choices.source == "typed" else random.PRNGKey(7)
        self.now: tuple[int, Any, Any, Any] = (0, p, (zeros, zeros), key)
        self.losses: dict[int, Any] = {}
        self.seen: dict[int, list[np.ndarray[Any, Any]]] = {}
        self.mode = mode
        count = len(self.model.data[0])
        self.batch_size = int(source.pick(count, max(4, count // 2), max(4, count // 4)))
        self._jitted = {i: self._step_of(i) for i in (False, True)}
        if mode == "jit":
            self._jitted = {i: functrax.jit(step) for i, step in self._jitted.items()}

    def _step_of(self, second: bool) -> Callable[..., Any]:
        c, model = self.choices, self.model
        loss = model.second if second and model.second is not None else model.loss

        def step(p: Any, moments: Any, key: Any, batch: Any, lr: Any) -> Any:
            value, aux, g = _gradient(c, model, loss, p, batch, key)
            if model.second is not None:
                mine = "other" if second else "own"
                g = {k: v if k == mine else tree_util.tree_map(jnp.zeros_like, v)
                     for k, v in g.items()}  # fmt: skip
            if c.clip:
                squares = sum(jnp.sum(x * x) for x in tree_util.tree_leaves(g))
                factor = c.clip / jnp.sqrt(c.clip**2 + squares)
                g = tree_util.tree_map(lambda x: x * factor, g)
            p, moments = _optimized(c, p, g, moments, lr)
            return p, moments, value, aux

        return step

    def _batch(self, t: int) -> Any:
        count = len(self.model.data[0])
        start = t * self.batch_size % (count - self.batch_size + 1)
        return tuple(x[start : start + self.batch_size] for x in self.model.data)

    def step(self) -> None:
        c = self.choices
        t, p, moments, key = self.now
        if c.chained:
            key, sub = random.split(key)
        else:
            sub = random.fold_in(key, t)
        lr = 0.02 / (1 + 0.01 * t) if c.schedule else 0.01
        second = self.model.second is not None and t % 2 == 1
        with contextlib.suppress(SkippedError):
            if c.raises and t % c.raises == c.raises - 1:
                self._raise(p, sub, self._batch(t))
            p, moments, loss, aux = self._jitted[second](p, moments, sub, self._batch(t), lr)
            if c.metric:
                jnp.sqrt(sum(jnp.sum(x * x) for x in tree_util.tree_leaves(p)))
            if c.collect:
                self.losses[t] = loss
            if t % c.every == 0:
                self.seen[t] = self._look(p, loss, aux)
        self.now = (t + 1, p, moments, key)

    def _raise(self, p: Any, key: Any, batch: Any) -> None:
        """A step that fails while its gradient is taken."""

        def fails(p: Any) -> Any:
            value = self.model.loss(p, batch, key)[0]
            raise SkippedError(value.ndim)

        functrax.value_and_grad(fails)(p)

    def _look(self, p: Any, loss: Any, aux: Any) -> list[np.ndarray[Any, Any]]:
        kind = self.choices.look
        if kind == "loss":
            return [np.array(loss)]
        if kind == "parameters":
            return [np.array(x) for x in tree_util.tree_leaves(p)]
        if kind == "float":
            return [np.array(float(loss))]
        if kind == "asarray":
            return [np.array(np.asarray(x)) for x in tree_util.tree_leaves((loss, aux))]
        if kind == "item":
            return [np.array(loss.item())]
        if kind == "repr":
            assert repr(loss)
            assert str(tree_util.tree_leaves(p)[0])
        elif kind == "block":
            functrax.block_until_ready((p, loss))
        elif kind == "bool":
            assert bool(loss < 1e6)
        return []

    def results(self) -> list[np.ndarray[Any, Any]]:
        _, p, moments, _ = self.now
        seen = [x for t in sorted(self.seen) for x in self.seen[t]]
        losses = [self.losses[t] for t in sorted(self.losses)]
        return seen + [np.array(x) for x in tree_util.tree_leaves((p, moments, losses))]


class Run:
    """A program as it runs in one of ``MODES``; its trainings take turns."""

    def __init__(self, program: Program, mode: str) -> None:
        self.program, self.mode = program, mode
        with self.context():
            dtype = np.float64 if program.x64 else np.float32
            self.trainings = [Training(c, dtype, mode) for c in program.models]

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(functrax.enable_x64(self.program.x64))
            if self.mode == "immediate":
                stack.enter_context(functrax.eager("immediate"))
            yield

    def step(self) -> None:
        with self.context():
            self.advance(1 + min(training.now[0] for training in self.trainings))

    def advance(self, steps: int) -> None:
        """Brings every training to its step ``steps``; the caller has entered ``context``."""
        for step in range(steps):
            for training in self.trainings:
                if training.now[0] <= step:
                    training.step()

    def results(self) -> list[np.ndarray[Any, Any]]:
        with self.context():
            return [x for training in self.trainings for x in training.results()]


def difference(
    program: Program, got: list[Any], expected: list[Any], tolerance: float = 0.0
) -> str | None:
    """Where two runs differ by more than rounding explains, or than ``tolerance``; or None."""
    if len(got) != len(expected):
        return f"{len(got)} values instead of {len(expected)}"
    tolerance = max(tolerance, 1e-9 if program.x64 else 1e-3)
    for i, (x, y) in enumerate(zip(got, expected)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"value {i} is {x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        if not np.all(np.isfinite(y)):
            return f"value {i} is not finite where it should be known"
        if not _apart(x, y) <= tolerance:
            return f"value {i} of {len(got)} is {_apart(x, y):.3g} apart, allowed {tolerance:.3g}"
    return None


def _apart(x: Any, y: Any) -> float:
    """How far apart two arrays are, in units of what is largest."""
    return float(np.max(np.abs(x - y), initial=0.0) / (np.max(np.abs(y), initial=0.0) + 0.02))


def compare(seed: int, steps: int = 60, modes: tuple[str, ...] = ("immediate", "jit")) -> None:
    """The lazy run against those of ``modes``.

    Three in two thousand programs amplify roundings until these decide: small differences grow
    exponentially, or at kinks.  There the other two modes are far from each other as well, and the
    lazy run may be ten times as far from them.
    """
    made = program(seed)
    lazy = made.run("lazy", steps)
    if all(difference(made, lazy, made.run(mode, steps)) is None for mode in modes):
        return
    immediate, jitted = made.run("immediate", steps), made.run("jit", steps)
    tolerance = 10 * max(_apart(x, y) for x, y in zip(immediate, jitted, strict=True))
    for mode, other in (("immediate", immediate), ("jit", jitted)):
        wrong = difference(made, lazy, other, tolerance)
        assert wrong is None, f"against {mode}: {wrong} ({made})"


if __name__ == "__main__":
    compare(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60)
    print("ok:", program(int(sys.argv[1])))
