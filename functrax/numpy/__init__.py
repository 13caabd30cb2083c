"""Arrays and their functions: the names, signatures and meaning are those of ``jax.numpy``.

Functions take arrays, NumPy arrays and numbers, and not lists, which :func:`array` makes arrays
of.  Dtypes meet by the rules of ``functrax.core.types.promotion``; 64-bit types become 32-bit ones
unless ``enable_x64`` is set.

Elementwise functions: ``ufuncs`` (arithmetic), ``extrema``, ``powers``, ``divisors``, ``analytic``,
``logic``, ``bits``, ``complex_parts``, ``rounding``, all on top of ``promote``. Making arrays:
``creation``, ``buffers``, ``filling``, ``ranges``. Along axes: ``reductions``,
``logical_reductions``, ``nan_reductions``, ``cumulative``, ``statistics``, ``quantiles``,
``covariance``, ``histograms``. Shapes and elements: ``shaping``, ``broadcasting``, ``flips``,
``indexing``, ``at``, ``index_tricks``, ``packing``, ``insertion``, ``selecting``, ``placing``.
Order: ``sorting``, ``searching``, ``uniqueness``, ``sets``, ``differences``. Products:
``contraction``, ``vector_products``, ``einsum``, ``convolving``, ``polynomials``, ``fitting``.
Functions of functions: ``vectorizing``, ``universal``. Types: ``scalar_types``, ``inquiry``. Text:
``printing``. What arrays can do by themselves (operators, methods) is installed by ``methods``.

>>> import functrax.numpy as jnp
>>> x = jnp.arange(4.0)
>>> jnp.sum(x * x)
Array(14., dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.backends.eager.cached_traces import with_long_recipe as _with_long_recipe
from functrax.core.arrays.operators import Array as Array
from functrax.core.boundaries.arguments import (
    explain_all as _explain_all,
    explained_member as _explained,
)
from functrax.core.boundaries.namespaces import public_names as _public_names
from functrax.core.lazy import sources as _sources
from functrax.core.types.dtypes import STORED as _STORED, finfo as finfo, iinfo as iinfo
from functrax.core.types.promotion import promote_types as promote_types, result_type as result_type
from functrax.numpy.analytic import (
    acos as acos,
    acosh as acosh,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cbrt as cbrt,
    cos as cos,
    cosh as cosh,
    deg2rad as deg2rad,
    degrees as degrees,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    i0 as i0,
    log as log,
    log1p as log1p,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    rad2deg as rad2deg,
    radians as radians,
    sin as sin,
    sinc as sinc,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
)
from functrax.numpy.at import At as _At
from functrax.numpy.bits import (
    bitwise_and as bitwise_and,
    bitwise_count as bitwise_count,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)
from functrax.numpy.broadcasting import (
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to,
)
from functrax.numpy.complex_parts import (
    angle as angle,
    conj as conj,
    conjugate as conjugate,
    imag as imag,
    iscomplex as iscomplex,
    isreal as isreal,
    real as real,
)
from functrax.numpy.constants import (
    e as e,
    euler_gamma as euler_gamma,
    inf as inf,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
)
from functrax.numpy.contraction import dot as dot, matmul as matmul, tensordot as tensordot
from functrax.numpy.creation import (
    array as array,
    asarray as asarray,
    astype as astype,
    copy as copy,
    from_dlpack as from_dlpack,
)
from functrax.numpy.cumulative import (
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
)
from functrax.numpy.einsum import (
    einsum as einsum,
    einsum_path as einsum_path,
)
from functrax.numpy.extrema import (
    clip as clip,
    fmax as fmax,
    fmin as fmin,
    maximum as maximum,
    minimum as minimum,
)
from functrax.numpy.filling import (
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    fromfunction as fromfunction,
    full as full,
    full_like as full_like,
    identity as identity,
    ones as ones,
    ones_like as ones_like,
    tri as tri,
    zeros as zeros,
    zeros_like as zeros_like,
)
from functrax.numpy.indexing import getitem as _getitem
from functrax.numpy.joining import (
    append as append,
    array_split as array_split,
    block as block,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    dsplit as dsplit,
    dstack as dstack,
    hsplit as hsplit,
    hstack as hstack,
    split as split,
    stack as stack,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from functrax.numpy.logic import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
    signbit as signbit,
    where as where,
)
from functrax.numpy.logical_reductions import (
    all as all,
    allclose as allclose,
    any as any,
    array_equal as array_equal,
    array_equiv as array_equiv,
    isclose as isclose,
)
from functrax.numpy.methods import install_all as _install_all
from functrax.numpy.powers import (
    float_power as float_power,
    log2 as log2,
    log10 as log10,
    pow as pow,
    power as power,
    reciprocal as reciprocal,
    square as square,
)
from functrax.numpy.ranges import (
    arange as arange,
    geomspace as geomspace,
    linspace as linspace,
    logspace as logspace,
)
from functrax.numpy.rearranging import (
    repeat as repeat,
    resize as resize,
    roll as roll,
    tile as tile,
)
from functrax.numpy.reductions import (
    amax as amax,
    amin as amin,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    max as max,
    min as min,
    prod as prod,
    ptp as ptp,
    sum as sum,
)
from functrax.numpy.rounding import (
    around as around,
    ceil as ceil,
    copysign as copysign,
    fix as fix,
    floor as floor,
    frexp as frexp,
    ldexp as ldexp,
    modf as modf,
    nan_to_num as nan_to_num,
    nextafter as nextafter,
    rint as rint,
    round as round,
    spacing as spacing,
    trunc as trunc,
)
from functrax.numpy.scalar_types import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    cdouble as cdouble,
    character as character,
    complex64 as complex64,
    complex128 as complex128,
    complex_ as complex_,
    complexfloating as complexfloating,
    csingle as csingle,
    double as double,
    dtype as dtype,
    flexible as flexible,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    float_ as float_,
    floating as floating,
    generic as generic,
    inexact as inexact,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int_ as int_,
    integer as integer,
    number as number,
    object_ as object_,
    signedinteger as signedinteger,
    single as single,
    uint as uint,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    unsignedinteger as unsignedinteger,
)
from functrax.numpy.searching import (
    argwhere as argwhere,
    digitize as digitize,
    flatnonzero as flatnonzero,
    nonzero as nonzero,
    searchsorted as searchsorted,
)
from functrax.numpy.selecting import (
    choose as choose,
    compress as compress,
    extract as extract,
    select as select,
    take as take,
    take_along_axis as take_along_axis,
    trim_zeros as trim_zeros,
)
from functrax.numpy.shaping import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    expand_dims as expand_dims,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    ravel as ravel,
    reshape as reshape,
    rollaxis as rollaxis,
    squeeze as squeeze,
    swapaxes as swapaxes,
    transpose as transpose,
)
from functrax.numpy.sorting import (
    argpartition as argpartition,
    argsort as argsort,
    lexsort as lexsort,
    partition as partition,
    sort as sort,
    sort_complex as sort_complex,
)
from functrax.numpy.statistics import (
    average as average,
    mean as mean,
    std as std,
    var as var,
)
from functrax.numpy.trace_cached import (
    LONG as _LONG,
    SHORT as _SHORT,
    record_all as _record_all,
    recorded_member as _recorded_member,
)
from functrax.numpy.triangles import (
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    fill_diagonal as fill_diagonal,
    trace as trace,
    tril as tril,
    triu as triu,
)
from functrax.numpy.ufuncs import (
    abs as abs,
    absolute as absolute,
    add as add,
    divide as divide,
    divmod as divmod,
    fabs as fabs,
    floor_divide as floor_divide,
    fmod as fmod,
    heaviside as heaviside,
    hypot as hypot,
    mod as mod,
    multiply as multiply,
    negative as negative,
    positive as positive,
    remainder as remainder,
    sign as sign,
    subtract as subtract,
    true_divide as true_divide,
)
from functrax.numpy.universal import make_universal as _make_universal

bool = bool_
ndarray = DeviceArray = Array  # the second is what it was called in older programs

_record_all(globals(), _SHORT)
_record_all(globals(), _LONG, _with_long_recipe)
_explain_all(globals())
_make_universal(globals())
_install_all(globals(), _getitem, _At)

if TYPE_CHECKING:
    from numpy.exceptions import ComplexWarning as ComplexWarning

    from functrax.numpy import fft as fft, linalg as linalg
    from functrax.numpy.buffers import (
        frombuffer as frombuffer,
        fromiter as fromiter,
        fromstring as fromstring,
    )
    from functrax.numpy.convolving import (
        convolve as convolve,
        correlate as correlate,
    )
    from functrax.numpy.covariance import (
        corrcoef as corrcoef,
        cov as cov,
    )
    from functrax.numpy.differences import (
        diff as diff,
        ediff1d as ediff1d,
        gradient as gradient,
        interp as interp,
        trapezoid as trapezoid,
        unwrap as unwrap,
    )
    from functrax.numpy.divisors import (
        gcd as gcd,
        lcm as lcm,
    )
    from functrax.numpy.files import (
        fromfile as fromfile,
        load as load,
        save as save,
        savez as savez,
    )
    from functrax.numpy.fitting import (
        polyfit as polyfit,
        roots as roots,
    )
    from functrax.numpy.flips import (
        flip as flip,
        fliplr as fliplr,
        flipud as flipud,
        rot90 as rot90,
    )
    from functrax.numpy.grids import (
        diag_indices as diag_indices,
        diag_indices_from as diag_indices_from,
        indices as indices,
        ix_ as ix_,
        mask_indices as mask_indices,
        meshgrid as meshgrid,
        mgrid as mgrid,
        ogrid as ogrid,
        ravel_multi_index as ravel_multi_index,
        tril_indices_from as tril_indices_from,
        triu_indices_from as triu_indices_from,
        unravel_index as unravel_index,
    )
    from functrax.numpy.histograms import (
        bincount as bincount,
        histogram as histogram,
        histogram2d as histogram2d,
        histogram_bin_edges as histogram_bin_edges,
        histogramdd as histogramdd,
    )
    from functrax.numpy.index_triangles import (
        tril_indices as tril_indices,
        triu_indices as triu_indices,
    )
    from functrax.numpy.index_tricks import (
        c_ as c_,
        index_exp as index_exp,
        r_ as r_,
        s_ as s_,
    )
    from functrax.numpy.inquiry import (
        can_cast as can_cast,
        iscomplexobj as iscomplexobj,
        isdtype as isdtype,
        isrealobj as isrealobj,
        isscalar as isscalar,
        issubdtype as issubdtype,
        iterable as iterable,
        ndim as ndim,
        shape as shape,
        size as size,
    )
    from functrax.numpy.insertion import (
        delete as delete,
        insert as insert,
    )
    from functrax.numpy.linear import (
        cross as cross,
        kron as kron,
    )
    from functrax.numpy.nan_reductions import (
        nanargmax as nanargmax,
        nanargmin as nanargmin,
        nanmax as nanmax,
        nanmean as nanmean,
        nanmin as nanmin,
        nanprod as nanprod,
        nanstd as nanstd,
        nansum as nansum,
        nanvar as nanvar,
    )
    from functrax.numpy.packing import (
        packbits as packbits,
        unpackbits as unpackbits,
    )
    from functrax.numpy.padding import (
        pad as pad,
    )
    from functrax.numpy.placing import (
        place as place,
        put as put,
        put_along_axis as put_along_axis,
    )
    from functrax.numpy.polynomials import (
        poly as poly,
        polyadd as polyadd,
        polyder as polyder,
        polydiv as polydiv,
        polyint as polyint,
        polymul as polymul,
        polysub as polysub,
        polyval as polyval,
        vander as vander,
    )
    from functrax.numpy.printing import (
        array_repr as array_repr,
        array_str as array_str,
        get_printoptions as get_printoptions,
        printoptions as printoptions,
        set_printoptions as set_printoptions,
    )
    from functrax.numpy.quantiles import (
        median as median,
        nanmedian as nanmedian,
        nanpercentile as nanpercentile,
        nanquantile as nanquantile,
        percentile as percentile,
        quantile as quantile,
    )
    from functrax.numpy.sets import (
        intersect1d as intersect1d,
        isin as isin,
        setdiff1d as setdiff1d,
        setxor1d as setxor1d,
        union1d as union1d,
    )
    from functrax.numpy.stored_types import (
        float4_e2m1fn as float4_e2m1fn,
        float6_e2m3fn as float6_e2m3fn,
        float6_e3m2fn as float6_e3m2fn,
        float8_e3m4 as float8_e3m4,
        float8_e4m3 as float8_e4m3,
        float8_e4m3b11fnuz as float8_e4m3b11fnuz,
        float8_e4m3fn as float8_e4m3fn,
        float8_e4m3fnuz as float8_e4m3fnuz,
        float8_e5m2 as float8_e5m2,
        float8_e5m2fnuz as float8_e5m2fnuz,
        float8_e8m0fnu as float8_e8m0fnu,
        int1 as int1,
        int2 as int2,
        int4 as int4,
        uint1 as uint1,
        uint2 as uint2,
        uint4 as uint4,
    )
    from functrax.numpy.uniqueness import (
        unique as unique,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from functrax.numpy.universal_methods import (
        frompyfunc as frompyfunc,
        ufunc as ufunc,
    )
    from functrax.numpy.vector_products import (
        inner as inner,
        matvec as matvec,
        outer as outer,
        vdot as vdot,
        vecdot as vecdot,
        vecmat as vecmat,
    )
    from functrax.numpy.vectorizing import (
        apply_along_axis as apply_along_axis,
        apply_over_axes as apply_over_axes,
        piecewise as piecewise,
        vectorize as vectorize,
    )
    from functrax.numpy.windows import (
        bartlett as bartlett,
        blackman as blackman,
        hamming as hamming,
        hanning as hanning,
        kaiser as kaiser,
    )
else:
    __getattr__, __dir__ = _public_names(
        globals(),
        (
            "fft",
            "linalg",
        ),
        _sources(
            {
                "functrax.numpy.buffers": "frombuffer fromiter fromstring",
                "functrax.numpy.convolving": "convolve correlate",
                "functrax.numpy.covariance": "corrcoef cov",
                "functrax.numpy.differences": "diff ediff1d gradient interp trapezoid unwrap",
                "functrax.numpy.divisors": "gcd lcm",
                "functrax.numpy.files": "fromfile load save savez",
                "functrax.numpy.fitting": "polyfit roots",
                "functrax.numpy.flips": "flip fliplr flipud rot90",
                "functrax.numpy.grids": (
                    "diag_indices diag_indices_from indices ix_ mask_indices meshgrid mgrid ogrid "
                    "ravel_multi_index tril_indices_from triu_indices_from unravel_index"
                ),
                "functrax.numpy.histograms": (
                    "bincount histogram histogram2d histogram_bin_edges histogramdd"
                ),
                "functrax.numpy.index_triangles": "tril_indices triu_indices",
                "functrax.numpy.index_tricks": "c_ index_exp r_ s_",
                "functrax.numpy.inquiry": (
                    "can_cast iscomplexobj isdtype isrealobj isscalar issubdtype iterable ndim "
                    "shape size"
                ),
                "functrax.numpy.insertion": "delete insert",
                "functrax.numpy.linear": "cross kron",
                "functrax.numpy.nan_reductions": (
                    "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
                ),
                "functrax.numpy.packing": "packbits unpackbits",
                "functrax.numpy.padding": "pad",
                "functrax.numpy.placing": "place put put_along_axis",
                "functrax.numpy.polynomials": (
                    "poly polyadd polyder polydiv polyint polymul polysub polyval vander"
                ),
                "functrax.numpy.printing": (
                    "array_repr array_str get_printoptions printoptions set_printoptions"
                ),
                "functrax.numpy.quantiles": (
                    "median nanmedian nanpercentile nanquantile percentile quantile"
                ),
                "functrax.numpy.sets": "intersect1d isin setdiff1d setxor1d union1d",
                "functrax.numpy.stored_types": " ".join(x.name for x in _STORED),
                "functrax.numpy.uniqueness": (
                    "unique unique_all unique_counts unique_inverse unique_values"
                ),
                "functrax.numpy.universal_methods": "frompyfunc ufunc",
                "functrax.numpy.vector_products": "inner matvec outer vdot vecdot vecmat",
                "functrax.numpy.vectorizing": (
                    "apply_along_axis apply_over_axes piecewise vectorize"
                ),
                "functrax.numpy.windows": "bartlett blackman hamming hanning kaiser",
                "numpy.exceptions": "ComplexWarning",
            }
        ),
        lambda x: _explained(__name__)(_recorded_member(x)),
    )
