"""Distributions and what is said of samples, with the names and signatures of ``jax.scipy.stats``.

Each distribution is a module: ``norm.logpdf(x, loc, scale)``.  Most are made by
``functrax.scipy.stats.families`` from a few functions of a standard variable.
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.scipy.stats import (
    bernoulli as bernoulli,
    beta as beta,
    betabinom as betabinom,
    binom as binom,
    cauchy as cauchy,
    chi2 as chi2,
    dirichlet as dirichlet,
    expon as expon,
    gamma as gamma,
    gennorm as gennorm,
    geom as geom,
    gumbel_l as gumbel_l,
    gumbel_r as gumbel_r,
    laplace as laplace,
    logistic as logistic,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
    nbinom as nbinom,
    norm as norm,
    pareto as pareto,
    poisson as poisson,
    t as t,
    truncnorm as truncnorm,
    uniform as uniform,
    vonmises as vonmises,
    wrapcauchy as wrapcauchy,
)
from functrax.scipy.stats.kde import gaussian_kde as gaussian_kde
from functrax.scipy.stats.samples import mode as mode, rankdata as rankdata, sem as sem

__dir__ = _listing(globals())
