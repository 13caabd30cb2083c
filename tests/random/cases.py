"""The samples that are recorded from JAX: functions, arguments, and how each is called.

Every function that nearly every program uses is drawn in several shapes and dtypes, from several
keys, typed and raw, with x64 off and on, under jit, under vmap over keys, and under jit of vmap
over keys and parameters.  The others are drawn once or twice.  A case is JSON: arguments after the
key, in which arrays are as ``recorded.encoded`` makes them.

Start at :func:`cases`.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from tests.random.recorded import encoded

SHAPES = [[], [1], [7], [3, 5], [0, 2], [2, 1, 4]]
HALVES = ["float16", "bfloat16"]
SIGNED, UNSIGNED = ["int8", "int16", "int32"], ["uint8", "uint16", "uint32"]
KEYS = [(False, 0), (True, 42), (False, 2**31 + 5), (True, -3)]
WIDE_SEED = 2**40 + 17
SIMPLE = ["exponential", "gumbel", "laplace", "logistic", "cauchy"]


def array(values, dtype="float32"):
    """An array as JSON."""
    return encoded(np.asarray(values, getattr(ml_dtypes, dtype, dtype)))


def case(name, args, kwargs, typed, seed, x64=False, under=""):
    return {
        "name": name, "args": args, "kwargs": kwargs, "typed": typed, "seed": seed, "x64": x64,
        "under": under,
    }  # fmt: skip


LOGITS = np.log(np.float32([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]))
MATRIX = np.arange(12).reshape(3, 4)
COV = np.array([[2.0, 0.5], [0.5, 1.0]])
WEIGHTS = [0.1, 0.2, 0.3, 0.4]


def keys():
    """Keys from keys."""
    specs = [("split", [n], {}) for n in (2, 3, 7, [2, 3], 0)]
    specs += [("fold_in", [n], {}) for n in (0, 1, 77, 2**31, 2**32 - 1)]
    return [*specs, ("fold_in", [array(9, "int32")], {}), ("fold_in", [array(200, "uint8")], {})]


def uniform_and_normal():
    specs = [(n, [s], {}) for n in ("uniform", "normal") for s in SHAPES]
    specs += [(n, [[5], d], {}) for n in ("uniform", "normal") for d in [*HALVES, "float32"]]
    return [
        *specs,
        ("uniform", [[3, 5], "float32", -2.5, 4.0], {}),
        ("uniform", [[6], "float16"], {"minval": 1.0, "maxval": 3.0}),
        ("uniform", [[6], "bfloat16", -1, 1], {}),
        ("uniform", [[2, 3], "float32", array([[0], [5]]), 9.0], {}),
        ("uniform", [[3], "float32", array([1, 2, 3]), array([4, 3, 8])], {}),
        ("normal", [[4], "complex64"], {}),
    ]


def bernoulli():
    return [
        ("bernoulli", [], {}),
        ("bernoulli", [0.3, [11]], {}),
        ("bernoulli", [0.3, [11]], {"mode": "high"}),
        ("bernoulli", [array([0.1, 0.5, 0.9]), [4, 3]], {}),
        ("bernoulli", [array([0.1, 0.5, 0.9])], {"mode": "high"}),
        *(("bernoulli", [array([0.2, 0.7], d), [5, 2]], {}) for d in HALVES),
        *(("bernoulli", [0.5, s], {}) for s in SHAPES),
    ]


def randint():
    specs = [("randint", [s, 0, 10], {}) for s in SHAPES]
    bounds = [(-7, 8), (5, 5), (6, 2), (-(2**31), 2**31 - 1)]
    specs += [("randint", [[9], lo, hi], {}) for lo, hi in bounds]
    specs += [("randint", [[9], 0, 256, d], {}) for d in SIGNED + UNSIGNED]
    specs += [("randint", [[9], -300, 300, d], {}) for d in ("uint8", "int8", "uint16")]
    return [
        *specs,
        ("randint", [[2, 3], array([0, 5, 9], "int32"), array([4, 50, 8], "int32")], {}),
        ("randint", [[4], array(-3, "int8"), array(90, "int16"), "int16"], {}),
    ]


def categorical():
    logits = array(LOGITS)
    return [
        ("categorical", [logits], {}),
        ("categorical", [logits], {"shape": [5, 2]}),
        ("categorical", [logits], {"axis": 0}),
        ("categorical", [logits, 0, [4, 3]], {}),
        ("categorical", [logits], {"mode": "high"}),
        ("categorical", [logits], {"shape": [2, 2], "replace": False}),
        ("categorical", [logits], {"shape": [3, 2], "replace": False, "mode": "high"}),
        ("categorical", [array(LOGITS[0])], {"shape": [3], "replace": False}),
        *(("categorical", [array(LOGITS, d)], {"shape": [5, 2]}) for d in HALVES),
    ]


def permutations():
    matrix = array(MATRIX, "int32")
    specs = [("permutation", [n], {}) for n in (0, 1, 9, 2000)]
    specs += [
        ("permutation", [matrix], {"axis": a, "independent": i})
        for a in (0, 1, -1)
        for i in (True, False)
    ]
    dtypes = ["float32", "uint8", "bool", *HALVES]
    specs += [("permutation", [array(MATRIX % 5, d)], {}) for d in dtypes]
    return [*specs, ("permutation", [array([3.5, 1, 2])], {})]


def choices():
    matrix, weights = array(MATRIX, "int32"), array(WEIGHTS)
    specs = [
        ("choice", [10], {}),
        ("choice", [10, [4]], {}),
        ("choice", [10, [0]], {}),
        ("choice", [10, [2, 3], False], {}),
        ("choice", [matrix, [2, 2]], {"axis": 1}),
        ("choice", [matrix, [2]], {"axis": 0, "replace": False}),
        ("choice", [4, [9], True, array([0.1, 0.2, 0.0, 0.7])], {}),
        ("choice", [4, [3], False, weights], {}),
        ("choice", [4, [3], False, weights, 0, "high"], {}),
        ("choice", [matrix, [3], True, array([0.5, 0.3, 0.2])], {}),
        ("choice", [matrix, [2, 3], True, weights, -1], {}),
        *(("choice", [4, [5], True, array(WEIGHTS, d)], {}) for d in HALVES),
    ]
    dtypes = ["float32", "uint8", "bool", *HALVES]
    return [*specs, *(("choice", [array([0, 1, 2, 3], d), [3]], {}) for d in dtypes)]


def multivariate_normals():
    mean, cov = array([1.0, -1.0]), array(COV)
    name = "multivariate_normal"
    return [
        (name, [mean, cov], {}),
        (name, [mean, cov, [3]], {}),
        (name, [mean, cov, [2, 0]], {}),
        (name, [array(np.zeros((4, 1, 2))), array([COV, 2 * COV, 3 * COV])], {}),
        (name, [array([0, 1], "int32"), array(np.eye(2), "int32"), [3]], {}),
        (name, [mean, cov, [3], "float16"], {}),
        # Not in bfloat16: there XLA does not round the normal samples before the product.
    ]


def wide():
    """What 64 bits add to the functions of every program."""
    wide64 = array([1.0, 2.0], "float64")
    return [
        *(("bits", [s], {}) for s in SHAPES),
        ("uniform", [[2, 3], "float64", array([[0], [5]], "float64"), 9], {}),
        ("uniform", [[4], "float64", -2.0, 7.0], {}),
        ("normal", [[4], "complex128"], {}),
        ("bernoulli", [array([0.3, 0.6], "float64"), [5, 2]], {}),
        ("randint", [[9], -(2**40), 2**62], {}),
        ("randint", [[9], 0, 2**31, "int32"], {}),
        ("randint", [[9], 0, 2**32, "uint32"], {}),
        ("randint", [[9], -(2**63), 2**63 - 1, "uint64"], {}),
        ("randint", [[5], array([1, 2, 3, 4, 5], "int64"), array(2**50, "int64")], {}),
        ("categorical", [array(LOGITS, "float64")], {"shape": [5, 2]}),
        ("choice", [array(MATRIX, "int64"), [2]], {"replace": False}),
        ("choice", [4, [5], True, array(WEIGHTS, "float64")], {}),
        ("permutation", [array(MATRIX, "float64")], {}),
        ("multivariate_normal", [wide64, array(COV, "float64"), [3]], {}),
    ]


def batched():
    """Calls whose array arguments all have a leading axis of 3 to be mapped over."""
    ramp = np.arange(3.0)
    return [
        ("fold_in", [array([4, 5, 6], "int32")], {}),
        ("uniform", [[2], "float32", array(ramp), array(ramp + 3)], {}),
        ("normal", [[2]], {}),
        ("split", [2], {}),
        ("bernoulli", [array(ramp / 4)], {}),
        ("bernoulli", [array(np.outer(ramp, [0.1, 0.5])), [4, 2]], {}),
        ("randint", [[4], array([0, -5, 9], "int32"), array([3, 70, 8], "int32")], {}),
        ("categorical", [array(np.outer(ramp, [0.5, -1, 2, 0]))], {"shape": [4]}),
        ("permutation", [array(np.arange(12).reshape(3, 4), "int32")], {}),
        ("choice", [array(MATRIX, "int32"), [3]], {}),
        ("choice", [array(MATRIX), [2], False, array([WEIGHTS] * 3)], {}),
        ("choice", [array(MATRIX), [2], True, array([WEIGHTS] * 3)], {}),
        (
            "multivariate_normal",
            [array(np.outer(ramp, [1, -1])), array([COV, 2 * COV, 3 * COV]), [2]],
            {},
        ),
    ]


def every_program():
    """Arguments of the functions that nearly every program uses."""
    return [
        *keys(), *uniform_and_normal(), *bernoulli(), *randint(), *categorical(), *permutations(),
        *choices(), *multivariate_normals(),
    ]  # fmt: skip


def continuous():
    """Other samplers of floats: name, arguments, keyword arguments."""
    specs = [(n, [[5]], {"dtype": d}) for n in SIMPLE for d in [*HALVES, "float32"]]
    specs += [(n, [a, [9]], {}) for n in ("gamma", "loggamma") for a in (0.05, 1.0, 40.0)]
    return [
        *specs,
        ("gumbel", [[6]], {"mode": "high"}),
        ("truncated_normal", [-2.0, 2.0, [9]], {}),
        ("truncated_normal", [0.5, 1.5, [3, 3], "float16"], {}),
        ("truncated_normal", [array([-1, 0, 1]), array([0, 2, 1.5])], {}),
        ("lognormal", [0.5, [5]], {}),
        ("pareto", [array([1, 2.5]), [3, 2]], {}),
        ("rayleigh", [array([1, 2.5]), [3, 2]], {}),
        ("weibull_min", [2.0, 1.5, [5]], {}),
        ("triangular", [-1.0, 0.25, 2.0, [6]], {}),
        ("maxwell", [[5]], {}),
        ("double_sided_maxwell", [1.0, 2.0, [5]], {}),
        ("wald", [array([0.5, 3.0]), [4, 2]], {}),
        ("gamma", [array([0.3, 1, 2.5, 90])], {}),
        ("gamma", [array([[0.5], [2.0]]), [2, 3], "bfloat16"], {}),
        ("gamma", [array([-1.0, 0.0, np.nan, np.inf])], {}),
        ("loggamma", [array([1e-3, 1, 20]), [2, 3], "float16"], {}),
        ("beta", [array([0.1, 2.0]), 1.5, [3, 2]], {}),
        ("dirichlet", [array([0.2, 1, 5]), [4]], {}),
        ("dirichlet", [array(np.ones((2, 3)))], {}),
        ("chisquare", [array([1.0, 7.0]), [3, 2]], {}),
        ("f", [array([2.0, 9.0]), array([5.0, 3.0])], {}),
        ("f", [4.0, 5.0, [5]], {}),
        ("t", [array([2.0, 9.0]), [3, 2]], {}),
        ("generalized_normal", [1.5, [7]], {}),
        ("ball", [3], {}),
        ("ball", [2, 1.5, [4]], {}),
        ("orthogonal", [3], {}),
        ("orthogonal", [4, [2]], {"m": 2}),
        ("orthogonal", [2], {"m": 5, "dtype": "complex64"}),
    ]


def discrete():
    """Other samplers of integers and counts."""
    specs = [("bits", [s], {"dtype": d}) for s, d in itertools.product(SHAPES, UNSIGNED)]
    specs += [("poisson", [lam, [12]], {}) for lam in (0.0, 0.7, 9.5, 10.0, 80.0)]
    specs += [("binomial", [n, p, [12]], {}) for n, p in ((9, 0.3), (60, 0.25), (300, 0.85))]
    odd = array([-1, np.nan, np.inf, 5, 5, 5, 7.5]), array([0.5, 0.5, 0.5, np.nan, -0.1, 1.0, 0.0])
    return [
        *specs,
        ("rademacher", [[9]], {}),
        ("rademacher", [[9], "float32"], {}),
        ("rademacher", [[9], "bfloat16"], {}),
        ("geometric", [0.3, [9]], {}),
        ("poisson", [array([1.0, 30.0, np.nan])], {}),
        ("poisson", [6, [5], "uint8"], {}),
        ("binomial", [array([4, 200]), array([0.5, 0.4]), [5, 2]], {}),
        ("binomial", [*odd], {}),
        ("binomial", [20, 0.3, [6], "float16"], {}),
        ("multinomial", [50, array([0.15, 0.5, 0.35])], {}),
        ("multinomial", [array([10, 600]), array([0.15, 0.5, 0.35])], {"shape": [2, 3]}),
    ]


def others_batched():
    """As :func:`batched`, of the samplers that reject and try again."""
    ramp = np.arange(1.0, 4.0)
    return [
        ("gamma", [array(np.outer(ramp, [0.2, 1.0]))], {}),
        ("dirichlet", [array(np.outer(ramp, [1, 2, 3]))], {}),
        ("poisson", [array(ramp * 6), [4]], {}),
        ("binomial", [array(ramp * 20), array(ramp / 5), [4]], {}),
        ("multinomial", [array(ramp * 20), array(np.outer(ramp, [1, 2, 4]))], {}),
        ("orthogonal", [3], {}),
    ]


def cases():
    """All cases."""
    found, turn = [], itertools.cycle(KEYS)
    for spec in every_program():
        first, second = next(turn), next(turn)
        found += [case(*spec, *first), case(*spec, *second)]
        found += [case(*spec, *first, under="jit"), case(*spec, *second, under="vmap")]
    for spec in [*every_program(), *wide()]:
        found.append(case(*spec, next(turn)[0], WIDE_SEED, x64=True))
    for spec in [*batched(), *others_batched()]:
        found += [case(*spec, *next(turn), x64=x64, under="batch") for x64 in (False, True)]
    for spec in [*continuous(), *discrete()]:
        found += [case(*spec, *next(turn)), case(*spec, *next(turn), under="jit")]
        found.append(case(*spec, next(turn)[0], WIDE_SEED, x64=True))
    return found
