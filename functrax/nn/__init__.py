"""Functions for neural networks, with the names, signatures and meaning of ``jax.nn``.

``activations`` and ``piecewise`` are elementwise, ``normalization`` looks along axes,
``attention`` is attention, and ``initializers`` makes the first values of weights.

>>> import functrax, functrax.numpy as jnp
>>> functrax.nn.relu(jnp.array([-1.0, 2.0]))
Array([0., 2.], dtype=float32)
"""

from __future__ import annotations

from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.lazy import listing as _listing
from functrax.nn import initializers as initializers
from functrax.nn.activations import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    identity as identity,
    log1mexp as log1mexp,
    log_sigmoid as log_sigmoid,
    mish as mish,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softplus as softplus,
    squareplus as squareplus,
    swish as swish,
)
from functrax.nn.attention import dot_product_attention as dot_product_attention
from functrax.nn.normalization import (
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    one_hot as one_hot,
    softmax as softmax,
    standardize as standardize,
)
from functrax.nn.piecewise import (
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    leaky_relu as leaky_relu,
    relu as relu,
    relu6 as relu6,
    sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid,
)
from functrax.nn.scaled import scaled_matmul as scaled_matmul
from functrax.numpy import tanh as tanh
from functrax.numpy.trace_cached import record_all as _record_all

#: Functions that have recipes; those with a rule of their own have theirs where they are defined.
_RECORDED = (
    "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
    "log_softmax logmeanexp logsumexp mish one_hot selu sigmoid silu soft_sign softmax softplus "
    "sparse_plus sparse_sigmoid squareplus standardize swish"
)
_record_all(globals(), frozenset(_RECORDED.split()))
_explain_all(globals())
__dir__ = _listing(globals())
