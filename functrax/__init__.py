"""functrax: composable transformations of array functions, traced into a small typed language.

The names are JAX's: ``grad``, ``vmap``, ``jit`` and their kin here, arrays in
``functrax.numpy``, primitives' functions in ``functrax.lax``.

>>> import functrax, functrax.numpy as jnp
>>> functrax.grad(lambda x: jnp.sum(x**2))(jnp.arange(3.0))
Array([0., 2., 4.], dtype=float32)
"""

from __future__ import annotations

from functrax import (
    debug as debug,
    errors as errors,
    extend as extend,
    lax as lax,
    nn as nn,
    numpy as numpy,
    random as random,
    scipy as scipy,
    tree as tree,
    tree_util as tree_util,
)
from functrax.backends import reference as reference
from functrax.core import prims as prims
from functrax.core.array import live_arrays as live_arrays
from functrax.core.aval import ShapedArray as ShapedArray
from functrax.core.config import (
    check_tracer_leaks as check_tracer_leaks,
    checking_leaks as checking_leaks,
    config as config,
    debug_infs as debug_infs,
    debug_nans as debug_nans,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    disable_jit as disable_jit,
    enable_x64 as enable_x64,
    log_compiles as log_compiles,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
)
from functrax.core.dtypes import float0 as float0
from functrax.core.jaxpr import ClosedJaxpr as ClosedJaxpr, Jaxpr as Jaxpr
from functrax.core.operators import Array as Array
from functrax.core.parsing import parse as parse
from functrax.transforms.callbacks import pure_callback as pure_callback
from functrax.transforms.checkpoint import (
    checkpoint as checkpoint,
    checkpoint_policies as checkpoint_policies,
)
from functrax.transforms.custom import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
)
from functrax.transforms.derivatives import (
    grad as grad,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from functrax.transforms.inspect_types import (
    ShapeDtypeStruct as ShapeDtypeStruct,
    eval_shape as eval_shape,
    make_jaxpr as make_jaxpr,
)
from functrax.transforms.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from functrax.transforms.jit import (
    clear_caches as clear_caches,
    jit as jit,
    named_call as named_call,
)
from functrax.transforms.vmap import vmap as vmap

remat = checkpoint
__version__ = "0.1.0"
