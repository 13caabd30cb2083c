"""Functions that have recipes: outside of ``jit`` they are recorded without being called.

What the functions named here record follows from the types of the arrays and from the values of
their other arguments, as :func:`~functrax.backends.eager.cached_traces.with_recipe` wants it.
Left out are functions that look at values (``nonzero``, ``repeat``) or refuse some of them
(``choose``, ``insert``), and those that do little besides recording one operation.

Start at :func:`record_all`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from functrax.backends.eager.cached_traces import with_long_recipe, with_recipe
from functrax.core.boundaries.arguments import is_function

#: Functions of ``functrax.numpy`` of an operation or few.
_SHORT: Final = (
    "abs absolute acos acosh add all amax amin angle any append arccos arccosh arcsin arcsinh "
    "arctan arctan2 arctanh argmax argmin argsort array_split asin asinh atan atan2 atanh "
    "average bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or "
    "bitwise_right_shift bitwise_xor broadcast_to cbrt ceil clip concat concatenate conj "
    "conjugate copysign cos cosh count_nonzero cumprod cumsum cumulative_prod cumulative_sum "
    "deg2rad degrees diag diagonal divide dot dsplit equal exp exp2 expand_dims expm1 fabs fix "
    "flip fliplr flipud floor floor_divide fmax fmin fmod greater greater_equal heaviside hsplit "
    "hypot i0 imag inner invert iscomplex isfinite isinf isnan isneginf isposinf isreal ldexp "
    "left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and "
    "logical_not logical_or logical_xor matmul matrix_transpose matvec max maximum mean min "
    "minimum mod moveaxis multiply negative nextafter not_equal outer permute_dims prod ptp "
    "rad2deg radians ravel real reciprocal remainder right_shift rint rollaxis rot90 round sign "
    "signbit sin sinc sinh sort split sqrt square squeeze std subtract sum swapaxes take tan "
    "tanh tensordot trace transpose tril triu true_divide trunc unstack var vdot vecdot vecmat "
    "vsplit where"
)
#: Those of more.
_LONG: Final = (
    "allclose argpartition array_equal array_equiv bartlett blackman column_stack convolve "
    "corrcoef correlate cov cross diagflat diff digitize divmod dstack ediff1d einsum "
    "float_power frexp gcd geomspace gradient hamming hanning histogram histogram_bin_edges "
    "hstack interp isclose isin kaiser kron lcm lexsort linspace logspace median meshgrid modf "
    "nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin "
    "nanpercentile nanprod nanquantile nanstd nansum nanvar pad partition percentile poly "
    "polyadd polyder polyint polymul polysub polyval quantile resize roll searchsorted select "
    "sort_complex spacing stack take_along_axis tile trapezoid unwrap vander vstack"
)
SHORT: Final = frozenset(_SHORT.split())
LONG: Final = frozenset(_LONG.split())


def recorded_member(x: Any) -> Any:
    """A member of ``functrax.numpy`` that is imported when it is asked for, with its recipe."""
    if not is_function(x) or x.__name__ not in SHORT | LONG:
        return x
    return with_recipe(x) if x.__name__ in SHORT else with_long_recipe(x)


def record_all(
    namespace: dict[str, Any],
    names: frozenset[str],
    decorate: Callable[[Any], Any] = with_recipe,
) -> None:
    """Give functions of a namespace their recipes.

    Args:
      namespace: the globals of a public module; changed in place.
      names: which functions; those that are imported later are left to :func:`recorded_member`.
      decorate: ``with_recipe``, or ``with_long_recipe`` for functions of several operations.
    """
    made: dict[int, Any] = {}  # so that two names of one function stay one function
    for name in sorted(names & namespace.keys()):
        function = namespace[name]
        if id(function) not in made:
            made[id(function)] = decorate(function)
        namespace[name] = made[id(function)]
