"""Comparison of compiled random functions with the reference device.

:func:`check_seed` makes the function of a seed (``random_functions.py``), or a derivative of it,
runs it on the reference device and compiled in several ways, and compares the results.  For floats
that are rounded, the tolerance is found by experiment: the reference is run with every result of
every operation moved by about one unit in its last place, and the spread of the results tells what
rounding may do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.reference.reference_device import ReferenceDevice
from functrax.backends.runtime.choice import CURRENT
from functrax.core.ir.jaxpr import Jaxpr, Literal, all_eqns
from functrax.core.options.config import Override
from functrax.core.tracing.stage import close, stage
from functrax.core.types import dtypes
from tests.backends.random_functions import RandomFunction
from tests.backends.random_values import bind

NOISY_RUNS = 3
MAX_EQUATIONS = 600
Arrays = list[np.ndarray[Any, Any]]


def scalar(outs: Sequence[Any]) -> Any:
    """A number that depends on all floats among some values."""
    total = None
    for out in outs:
        if not dtypes.is_float(out.aval.dtype) or not out.aval.size:
            continue
        x = bind("convert_element_type", out, dtype=dtypes.float32, weak_type=False)
        x = bind("tanh", x)
        x = bind("reduce_sum", x, axes=tuple(range(x.aval.ndim))) if x.aval.ndim else x
        total = x if total is None else bind("add", total, x)
    return total


def derived(function: RandomFunction, order: int) -> tuple[Callable[..., Any], list[Any]] | None:
    """A derivative of a function, and arguments for it; order 0 is the function."""
    args = function.arguments
    floats = [i for i, x in enumerate(args) if dtypes.is_float(x.aval.dtype)]
    if order == 0:
        return function, args
    if not any(args[i].aval.size for i in floats):
        return None

    def loss(*xs: Any) -> Any:
        full = list(args)
        for i, x in zip(floats, xs, strict=True):
            full[i] = x
        total = scalar(function(*full))
        return scalar(xs) if total is None else total

    numbers = tuple(range(len(floats)))
    points = [args[i] for i in floats]
    grad = functrax.grad(loss, argnums=numbers)
    if order == 1:
        return lambda *xs: list(grad(*xs)), points
    if order == 2:
        return lambda *xs: list(functrax.jvp(grad, xs, xs)[1]), points
    if order == 3:
        stacked = [functrax.numpy.stack([x, x * 0.5]) for x in points]
        return lambda *xs: list(functrax.vmap(grad)(*xs)), stacked
    return lambda *xs: list(functrax.grad(lambda *ys: scalar(grad(*ys)), numbers)(*xs)), points


def traced(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """The program of a function without constants, and its inputs."""
    jaxpr, consts = stage(lambda *xs: function(*xs), [x.aval for x in args])
    values = [np.asarray(x.value) for x in (*consts, *args)]
    return close(jaxpr), values


def on_reference(jaxpr: Jaxpr, values: Sequence[Any]) -> Arrays:
    with np.errstate(all="ignore"), Override("backend", "interp"):
        return [as_array(x) for x in ReferenceDevice().compile(jaxpr)(values)]


def as_array(x: Any) -> Any:
    """A copy of a raw value."""
    return np.array(x.materialize() if hasattr(x, "materialize") else x)


def noisy(jaxpr: Jaxpr, values: Sequence[Any], rng: np.random.Generator) -> Arrays:
    """The results when each operation is off by about a unit in the last place."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, values, strict=True))
    with np.errstate(all="ignore"), Override("backend", "interp"):
        for eqn in jaxpr.eqns:
            operands = [x.val if isinstance(x, Literal) else env[x] for x in eqn.invars]
            if eqn.primitive.inlines(dict(eqn.params)) is None:
                out = eqn.primitive.reference(*operands, **eqn.params)
                outs = out if eqn.primitive.multiple_results else [out]
                outs = [x.materialize() if hasattr(x, "materialize") else x for x in outs]
            else:
                outs = noisy(eqn.primitive.inlines(dict(eqn.params)), operands, rng)
            if eqn.primitive.family != "reindex":
                outs = [moved(np.asarray(x), rng) for x in outs]
            env.update(zip(eqn.outvars, outs, strict=True))
    return [np.asarray(x.val if isinstance(x, Literal) else env[x]) for x in jaxpr.outvars]


def epsilon(dtype: np.dtype[Any]) -> float:
    return float(dtypes.finfo(dtype).eps)


def moved(x: np.ndarray[Any, Any], rng: np.random.Generator) -> Any:
    if not dtypes.is_inexact(x.dtype):
        return x
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    noise = 1 + epsilon(x.dtype) * rng.choice((-1.5, -1.0, 1.0, 1.5), x.shape)
    return np.asarray(x.astype(wide) * noise).astype(x.dtype)


def same_values(a: Any, b: Any) -> bool:
    """Whether two arrays are equal; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not dtypes.is_inexact(a.dtype):
        return bool((a == b).all())
    return bool(((a == b) | ((a != a) & (b != b))).all())


def same_bits(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def coarsest(jaxpr: Jaxpr) -> float:
    """The largest rounding error in loops and branches, to which no noise is added; 0 without."""
    inner = [e for e in all_eqns(jaxpr) if e not in jaxpr.eqns]
    kinds = {v.aval.dtype for e in inner for v in e.outvars if dtypes.is_inexact(v.aval.dtype)}
    return max(map(epsilon, kinds), default=0.0)


def near(got: Any, wanted: Any, spread: Arrays, least: float) -> str:
    """What is wrong with a rounded result; empty if nothing is.

    Args:
      got: the result.
      wanted: that of the reference device.
      spread: those of noisy runs.
      least: a rounding error that there is in any case.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    if not dtypes.is_inexact(wanted.dtype):
        stable = np.all([s == wanted for s in spread], axis=0)
        return "" if bool((got == wanted)[stable].all()) else "integers differ"
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    g, w, *others = (x.astype(wide) for x in (got, wanted, *spread))
    finite = np.all([np.isfinite(x) for x in (w, *others)], axis=0)
    if not np.isfinite(g[finite]).all():
        return "not finite where the reference is"
    if not finite.any():
        return ""
    scale = np.max(np.abs(w[finite]))
    moves = np.max([np.max(np.abs(x - w)[finite]) for x in others])
    tolerance = 20 * moves + 100 * max(epsilon(wanted.dtype), least) * scale + 1e-30
    error = np.max(np.abs(g - w)[finite])
    return "" if error <= tolerance else f"off by {error}, allowed {tolerance}"


def on_compiled(jaxpr: Jaxpr, values: Sequence[Any], opt: bool, strict: bool) -> list[Arrays]:
    """The results of several runs: first, second, with one thread."""
    with Override("opt", opt), Override("strict", strict):
        program = compile_program(jaxpr).program
    run = CURRENT.load(program)
    threads = CURRENT.num_threads()
    runs = []
    try:
        for n in (2, 3, 1):
            CURRENT.set_num_threads(n)
            runs.append([as_array(x) for x in run(values)])
    finally:
        CURRENT.set_num_threads(threads)
    return runs


def program_of(seed: int, kind: str) -> tuple[Jaxpr, list[Any]] | None:
    """The program of a seed, or of a derivative of its function, and inputs; None if it is none."""
    function = RandomFunction(seed, kind)
    found = derived(function, seed // 4 % 5 if kind == "smooth" else 0)
    if found is None:
        return None
    jaxpr, values = traced(*found)
    return (jaxpr, values) if len(jaxpr.eqns) <= MAX_EQUATIONS else None


def check_seed(
    seed: int, kind: str, check: Callable[[Jaxpr, Sequence[Any], Judge], None] | None = None
) -> bool:
    """Compare the function of a seed with the reference device.

    Args:
      seed: of the function.
      kind: of function.
      check: runs a program, and gives what comes out to the judge; :func:`compare` by default.

    Returns:
      Whether there was something to compare.

    Raises:
      AssertionError: they differ.
    """
    with functrax.enable_x64(seed % 4 == 3):
        found = program_of(seed, kind)
        if found is None:
            return False
        jaxpr, values = found
        judge = Judge(jaxpr, values, kind, np.random.default_rng([seed, 3]))
        (check or compare)(jaxpr, values, judge)
    return True


class Judge:
    """Compares results of a program with those of the reference device.

    Args:
      jaxpr: the program.
      values: its inputs.
      kind: of function that it was made of.
      rng: moves the results of operations, to find what rounding may do.
    """

    def __init__(
        self, jaxpr: Jaxpr, values: Sequence[Any], kind: str, rng: np.random.Generator
    ) -> None:
        self.kind = kind
        self._values, self._before = values, [v.tobytes() for v in values]
        self.wanted = on_reference(jaxpr, values)
        self.least = coarsest(jaxpr)
        runs = NOISY_RUNS if kind == "smooth" else 0
        self.spread: list[Arrays] = [noisy(jaxpr, values, rng) for _ in range(runs)]

    def __call__(self, results: Arrays, where: str) -> None:
        """Raise an error that says ``where`` if some results are wrong, or an input changed."""
        assert [v.tobytes() for v in self._values] == self._before, f"{where}: an input was changed"
        for n, (got, wanted) in enumerate(zip(results, self.wanted, strict=True)):
            if self.kind == "smooth":
                wrong = near(got, wanted, [s[n] for s in self.spread], self.least)
                assert not wrong, f"{where}, result {n}: {wrong}"
            elif not same_values(got, wanted):
                raise AssertionError(f"{where}, result {n}: {difference(got, wanted)}")


def compare(jaxpr: Jaxpr, values: Sequence[Any], judge: Judge) -> None:
    """Run a program compiled, with and without passes, several times, and compare."""
    for opt in (True, False):
        first, second, alone = on_compiled(jaxpr, values, opt, strict=judge.kind == "bits")
        where = f"opt={opt}"
        for n, got in enumerate(first):
            assert same_bits(got, second[n]), f"{where}, result {n}: later calls differ"
            assert same_bits(got, alone[n]), f"{where}, result {n}: threads matter"
        judge(first, where)


def difference(got: Any, wanted: Any) -> str:
    """Where two arrays differ first."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    unequal = (got != wanted) & ~((got != got) & (wanted != wanted))
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(unequal)))
    here, there = np.atleast_1d(got)[index], np.atleast_1d(wanted)[index]
    return f"{int(unequal.sum())} of {got.size} differ; {here} for {there} at {index}"
