"""Random numbers: keys that are values, and functions from keys to samples.

The names, signatures and numbers are those of ``jax.random``: a function of the same key, shape and
dtype gives the same result on every machine, under every transformation.

``keys`` makes keys, ``cipher`` makes random bits from a key, and the other modules make samples
from the bits: ``continuous`` and ``parametric``, ``gammas``, ``multivariate``, ``discrete``,
``counts`` and ``shuffles``.  Samplers take ``out_sharding`` as in JAX, the sharding that their
result is to have (``shardings``).

>>> from functrax import random
>>> key, subkey = random.split(random.key(42))
>>> random.normal(subkey, (2,)).shape
(2,)
"""

from __future__ import annotations

from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.lazy import listing as _listing
from functrax.random.continuous import (
    bits as bits,
    cauchy as cauchy,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    normal as normal,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
from functrax.random.counts import (
    binomial as binomial,
    multinomial as multinomial,
    poisson as poisson,
)
from functrax.random.discrete import (
    bernoulli as bernoulli,
    categorical as categorical,
    geometric as geometric,
    rademacher as rademacher,
    randint as randint,
)
from functrax.random.gammas import (
    beta as beta,
    chisquare as chisquare,
    dirichlet as dirichlet,
    f as f,
    gamma as gamma,
    loggamma as loggamma,
    t as t,
)
from functrax.random.key_array import KeyArray as KeyArray
from functrax.random.keys import (
    PRNGKey as PRNGKey,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
from functrax.random.multivariate import (
    ball as ball,
    generalized_normal as generalized_normal,
    multivariate_normal as multivariate_normal,
    orthogonal as orthogonal,
)
from functrax.random.parametric import (
    double_sided_maxwell as double_sided_maxwell,
    lognormal as lognormal,
    maxwell as maxwell,
    pareto as pareto,
    rayleigh as rayleigh,
    triangular as triangular,
    wald as wald,
    weibull_min as weibull_min,
)
from functrax.random.shuffles import choice as choice, permutation as permutation

_explain_all(globals())
__dir__ = _listing(globals())
