"""Special functions with the names, signatures and meaning of ``jax.scipy.special``.

``gammas`` has gamma and beta functions, ``probabilities`` error functions, the normal distribution
and entropies, ``exponential_integrals`` what it says; sums of exponentials are those of
``functrax.nn``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax import nn
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.lazy import listing as _listing
from functrax.nn.normalization import logsumexp as logsumexp
from functrax.numpy.trace_cached import record_all as _record_all
from functrax.scipy.special.exponential_integrals import (
    exp1 as exp1,
    expi as expi,
    expn as expn,
    hyp1f1 as hyp1f1,
    hyp2f1 as hyp2f1,
)
from functrax.scipy.special.faddeeva import (
    dawsn as dawsn,
    erfcx as erfcx,
    fresnel as fresnel,
    wofz as wofz,
)
from functrax.scipy.special.gammas import (
    bernoulli as bernoulli,
    beta as beta,
    betainc as betainc,
    betaln as betaln,
    comb as comb,
    digamma as digamma,
    factorial as factorial,
    gamma as gamma,
    gammainc as gammainc,
    gammaincc as gammaincc,
    gammaln as gammaln,
    gammasgn as gammasgn,
    loggamma as loggamma,
    multigammaln as multigammaln,
    poch as poch,
    polygamma as polygamma,
    zeta as zeta,
)
from functrax.scipy.special.harmonics import bessel_jn as bessel_jn, sph_harm_y as sph_harm_y
from functrax.scipy.special.integrals import owens_t as owens_t, sici as sici, spence as spence
from functrax.scipy.special.power_transformations import boxcox as boxcox, boxcox1p as boxcox1p
from functrax.scipy.special.probabilities import (
    entr as entr,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    expit as expit,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    kl_div as kl_div,
    log_ndtr as log_ndtr,
    logit as logit,
    ndtr as ndtr,
    ndtri as ndtri,
    rel_entr as rel_entr,
    xlog1py as xlog1py,
    xlogy as xlogy,
)

if TYPE_CHECKING:
    from functrax.core.arrays.operators import Array
    from functrax.typing import ArrayLike, Axes


def softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """``exp(x)`` divided by its sum along axes, without overflow.

    All axes if none are named; :func:`functrax.nn.softmax` takes the last.

    Args:
      x: an array or a number; integers are computed in float32.
      axis: an axis, a tuple of axes, or None for all.

    Returns:
      Floats of the shape of ``x``, which add up to 1.

    Raises:
      AxisError: for an axis out of range.
      DTypeError: for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import softmax
    >>> softmax(jnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """The logarithm of :func:`softmax`, precise where that is nearly 0.

    Args:
      x: an array or a number; integers are computed in float32.
      axis: an axis, a tuple of axes, or None for all.

    Returns:
      Floats of the shape of ``x``, up to 0.

    Raises:
      AxisError: for an axis out of range.
      DTypeError: for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import log_softmax
    >>> log_softmax(jnp.array([0.0, 100.0])).round(4)
    Array([-100.,    0.], dtype=float32)
    """
    return nn.log_softmax(x, axis=axis)


#: Functions that have recipes.
_RECORDED = (
    "beta betaln boxcox boxcox1p comb entr expit factorial gamma gammasgn kl_div log_ndtr "
    "log_softmax logit logsumexp multigammaln ndtr ndtri poch rel_entr softmax xlog1py xlogy"
)
_record_all(globals(), frozenset(_RECORDED.split()))
_explain_all(globals())
__dir__ = _listing(globals())
