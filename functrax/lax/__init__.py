"""``functrax.lax``: the strict functions that jax.lax has, under the same names.

Where ``functrax.numpy`` promotes dtypes and broadcasts shapes, these functions ask for operands
that fit.  Each is a primitive, or a few of them: the elementwise functions, reindexes
(broadcasting, slicing, padding, gathering), reductions, and what is made of the three, such as
contractions and convolutions.  :func:`reindex` and :func:`reindex_reduce` are the meta-operators
themselves, for index maps of the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.core.boundaries.arguments import (
    explain_all as _explain_all,
    explained_member as _explained,
)
from functrax.core.boundaries.namespaces import public_names as _public_names
from functrax.core.lazy import sources as _sources
from functrax.core.prims.rounding import RoundingMethod as RoundingMethod
from functrax.lax.choice import (
    clamp as clamp,
    integer_pow as integer_pow,
    pow as pow,
    reciprocal as reciprocal,
    reduce_precision as reduce_precision,
    round as round,
    select as select,
    select_n as select_n,
    stop_gradient as stop_gradient,
)
from functrax.lax.conversion import (
    bitcast_convert_type as bitcast_convert_type,
    complex as complex,
    conj as conj,
    convert_element_type as convert_element_type,
    dtype as dtype,
    imag as imag,
    real as real,
)
from functrax.lax.creation import (
    broadcast_like as broadcast_like,
    broadcasted_iota as broadcasted_iota,
    empty as empty,
    full as full,
    full_like as full_like,
    iota as iota,
    shape_as_value as shape_as_value,
)
from functrax.lax.dot import (
    DotDimensionNumbers as DotDimensionNumbers,
    batch_matmul as batch_matmul,
    dot as dot,
    dot_general as dot_general,
)
from functrax.lax.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bessel_i0e as bessel_i0e,
    bessel_i1e as bessel_i1e,
    betainc as betainc,
    bitwise_and as bitwise_and,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    cbrt as cbrt,
    ceil as ceil,
    clz as clz,
    cos as cos,
    cosh as cosh,
    digamma as digamma,
    div as div,
    eq as eq,
    erf as erf,
    erf_inv as erf_inv,
    erfc as erfc,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    ge as ge,
    gt as gt,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    is_finite as is_finite,
    le as le,
    lgamma as lgamma,
    log as log,
    log1p as log1p,
    logistic as logistic,
    lt as lt,
    max as max,
    min as min,
    mul as mul,
    mulhi as mulhi,
    ne as ne,
    neg as neg,
    nextafter as nextafter,
    polygamma as polygamma,
    population_count as population_count,
    random_gamma_grad as random_gamma_grad,
    rem as rem,
    rsqrt as rsqrt,
    shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    sub as sub,
    tan as tan,
    tanh as tanh,
    zeta as zeta,
)
from functrax.lax.joining import (
    concatenate as concatenate,
    split as split,
    stack as stack,
    tile as tile,
    unstack as unstack,
)
from functrax.lax.monoids import reduce as reduce
from functrax.lax.ordering import (
    approx_max_k as approx_max_k,
    approx_min_k as approx_min_k,
    cumlogsumexp as cumlogsumexp,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    sort as sort,
    sort_key_val as sort_key_val,
    top_k as top_k,
)
from functrax.lax.precision import (
    AccuracyMode as AccuracyMode,
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmPreset as DotAlgorithmPreset,
    Precision as Precision,
    PrecisionLike as PrecisionLike,
    Tolerance as Tolerance,
)
from functrax.lax.reductions import (
    argmax as argmax,
    argmin as argmin,
    reduce_and as reduce_and,
    reduce_max as reduce_max,
    reduce_min as reduce_min,
    reduce_or as reduce_or,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    reduce_xor as reduce_xor,
)
from functrax.lax.shapes import (
    broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim,
    broadcast_shapes as broadcast_shapes,
    broadcast_to_rank as broadcast_to_rank,
    collapse as collapse,
    expand_dims as expand_dims,
    pad as pad,
    reshape as reshape,
    rev as rev,
    squeeze as squeeze,
    transpose as transpose,
)
from functrax.lax.slicing import (
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice as dynamic_slice,
    dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice as dynamic_update_slice,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    index_in_dim as index_in_dim,
    slice as slice,
    slice_in_dim as slice_in_dim,
)
from functrax.transforms.operations.barrier import optimization_barrier as optimization_barrier

_explain_all(globals())

if TYPE_CHECKING:
    from functrax.backends.sharding.moving import (
        with_sharding_constraint as with_sharding_constraint,
    )
    from functrax.lax import linalg as linalg
    from functrax.lax.conv_numbers import (
        ConvDimensionNumbers as ConvDimensionNumbers,
        ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
        conv_dimension_numbers as conv_dimension_numbers,
        conv_general_permutations as conv_general_permutations,
        conv_general_shape_tuple as conv_general_shape_tuple,
        conv_shape_tuple as conv_shape_tuple,
        conv_transpose_shape_tuple as conv_transpose_shape_tuple,
    )
    from functrax.lax.convolution import (
        conv as conv,
        conv_general_dilated as conv_general_dilated,
        conv_transpose as conv_transpose,
        conv_with_general_padding as conv_with_general_padding,
    )
    from functrax.lax.exchanges import (
        all_to_all as all_to_all,
        pbroadcast as pbroadcast,
        pshuffle as pshuffle,
        psum_scatter as psum_scatter,
        pswapaxes as pswapaxes,
    )
    from functrax.lax.fourier import FftType as FftType, fft as fft
    from functrax.lax.gather_maps import (
        GatherDimensionNumbers as GatherDimensionNumbers,
        GatherScatterMode as GatherScatterMode,
        ScatterDimensionNumbers as ScatterDimensionNumbers,
    )
    from functrax.lax.generators import (
        RandomAlgorithm as RandomAlgorithm,
        rng_bit_generator as rng_bit_generator,
    )
    from functrax.lax.indexed import (
        gather as gather,
        index_take as index_take,
        scatter as scatter,
        scatter_add as scatter_add,
        scatter_apply as scatter_apply,
        scatter_max as scatter_max,
        scatter_min as scatter_min,
        scatter_mul as scatter_mul,
        scatter_sub as scatter_sub,
    )
    from functrax.lax.mapping import map as map
    from functrax.lax.meta_operators import (
        reindex as reindex,
        reindex_reduce as reindex_reduce,
    )
    from functrax.lax.platforms import (
        composite as composite,
        platform_dependent as platform_dependent,
    )
    from functrax.lax.ragged import (
        RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
        ragged_dot as ragged_dot,
        ragged_dot_general as ragged_dot_general,
    )
    from functrax.lax.scaled import scaled_dot as scaled_dot
    from functrax.lax.tokens import (
        after_all as after_all,
        create_token as create_token,
        dce_sink as dce_sink,
        stage as stage,
    )
    from functrax.lax.window_shapes import (
        padtype_to_pads as padtype_to_pads,
        reduce_window_shape_tuple as reduce_window_shape_tuple,
    )
    from functrax.lax.windows import (
        conv_general_dilated_local as conv_general_dilated_local,
        conv_general_dilated_patches as conv_general_dilated_patches,
        reduce_window as reduce_window,
    )
    from functrax.transforms.control.associative import associative_scan as associative_scan
    from functrax.transforms.control.choices import cond as cond, switch as switch
    from functrax.transforms.control.linear_solve import custom_linear_solve as custom_linear_solve
    from functrax.transforms.control.user_loops import (
        fori_loop as fori_loop,
        scan as scan,
        while_loop as while_loop,
    )
    from functrax.transforms.differentiation.root import custom_root as custom_root
    from functrax.transforms.operations.collective_functions import (
        all_gather as all_gather,
        axis_index as axis_index,
        axis_size as axis_size,
        pcast as pcast,
        pmax as pmax,
        pmean as pmean,
        pmin as pmin,
        ppermute as ppermute,
        psum as psum,
    )
else:
    __getattr__, __dir__ = _public_names(
        globals(),
        ("linalg",),
        _sources(
            {
                "functrax.backends.sharding.moving": "with_sharding_constraint",
                "functrax.lax.conv_numbers": (
                    "ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers "
                    "conv_dimension_numbers conv_general_permutations conv_general_shape_tuple "
                    "conv_shape_tuple conv_transpose_shape_tuple"
                ),
                "functrax.lax.convolution": (
                    "conv conv_general_dilated conv_transpose conv_with_general_padding"
                ),
                "functrax.lax.exchanges": "all_to_all pbroadcast pshuffle psum_scatter pswapaxes",
                "functrax.lax.fourier": "FftType fft",
                "functrax.lax.gather_maps": (
                    "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers"
                ),
                "functrax.lax.generators": "RandomAlgorithm rng_bit_generator",
                "functrax.lax.indexed": (
                    "gather index_take scatter scatter_add scatter_apply scatter_max scatter_min "
                    "scatter_mul scatter_sub"
                ),
                "functrax.lax.mapping": "map",
                "functrax.lax.meta_operators": "reindex reindex_reduce",
                "functrax.lax.platforms": "composite platform_dependent",
                "functrax.lax.ragged": ("RaggedDotDimensionNumbers ragged_dot ragged_dot_general"),
                "functrax.lax.scaled": "scaled_dot",
                "functrax.lax.tokens": "after_all create_token dce_sink stage",
                "functrax.lax.window_shapes": "padtype_to_pads reduce_window_shape_tuple",
                "functrax.lax.windows": (
                    "conv_general_dilated_local conv_general_dilated_patches reduce_window"
                ),
                "functrax.transforms.operations.collective_functions": (
                    "all_gather axis_index axis_size pcast pmax pmean pmin ppermute psum"
                ),
                "functrax.transforms.control.associative": "associative_scan",
                "functrax.transforms.control.choices": "cond switch",
                "functrax.transforms.control.linear_solve": "custom_linear_solve",
                "functrax.transforms.control.user_loops": "fori_loop scan while_loop",
                "functrax.transforms.differentiation.root": "custom_root",
            }
        ),
        _explained(__name__),
    )
