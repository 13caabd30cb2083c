"""Functions that have recipes: outside of ``jit`` they are recorded without being called.

What the functions named here record follows from the types of the arrays and from the values of
their other arguments, as :func:`~functrax.backends.eager.cached_traces.with_recipe` wants it.
Others look at values (``nonzero``, ``repeat``), or take lists of arrays.

Start at :func:`record_all`.
"""

from __future__ import annotations

from typing import Any, Final

from functrax.backends.eager.cached_traces import with_recipe

#: Functions of ``functrax.numpy``.
_NAMES: Final = (
    "abs absolute add all amax amin any arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
    "argmax argmin average bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to cbrt "
    "ceil clip conj conjugate copysign cos cosh cumprod cumsum diag diagonal divide dot equal "
    "exp exp2 expand_dims expm1 fabs flip floor floor_divide fmax fmin fmod greater "
    "greater_equal heaviside hypot imag inner isfinite isinf isnan less less_equal log log10 "
    "log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor matmul "
    "matrix_transpose matvec max maximum mean min minimum mod moveaxis multiply negative "
    "not_equal outer prod ptp ravel real reciprocal remainder rint round sign sin sinc sinh "
    "sqrt square squeeze std subtract sum swapaxes tan tanh tensordot trace transpose tril triu "
    "true_divide trunc var vdot vecdot vecmat where"
)
NAMES: Final = frozenset(_NAMES.split())


def record_all(namespace: dict[str, Any], names: frozenset[str] = NAMES) -> None:
    """Give functions of a namespace their recipes.

    Args:
      namespace: the globals of a public module; changed in place.
      names: which functions.
    """
    made: dict[int, Any] = {}  # so that two names of one function stay one function
    for name in sorted(names):
        function = namespace[name]
        if id(function) not in made:
            made[id(function)] = with_recipe(function)
        namespace[name] = made[id(function)]
