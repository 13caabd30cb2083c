"""functrax: composable transformations of array functions, traced into a small typed language.

The names are JAX's: ``grad``, ``vmap``, ``jit`` and their kin here, arrays in
``functrax.numpy``, primitives' functions in ``functrax.lax``.

>>> import functrax, functrax.numpy as jnp
>>> functrax.grad(lambda x: jnp.sum(x**2))(jnp.arange(3.0))
Array([0., 2., 4.], dtype=float32)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from functrax.backends.cache import preload as _preload
from functrax.core.process.gc_pause import Pause as _Pause

_pause = _Pause()  # until all is imported
_preload.start()

from functrax import (
    dtypes as dtypes,
    errors as errors,
    lax as lax,
    numpy as numpy,
    tree as tree,
    tree_util as tree_util,
    typing as typing,
)
from functrax.backends import cpu as cpu
from functrax.backends.device import Device as Device
from functrax.backends.eager import pending_program as pending_program
from functrax.backends.reference import (
    reference_device as reference,  # noqa: F401  (public)
)
from functrax.backends.sharding.placement import (
    block_until_ready as block_until_ready,
    default_backend as default_backend,
    device_count as device_count,
    device_get as device_get,
    device_put as device_put,
    devices as devices,
    effects_barrier as effects_barrier,
    live_arrays as live_arrays,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
)
from functrax.core import prims as prims
from functrax.core.arrays.operators import Array as Array
from functrax.core.asynchronous.async_tasks import fork as fork
from functrax.core.asynchronous.fetch import fetch as fetch
from functrax.core.boundaries.arguments import (
    explain_all as _explain_all,
    explained_member as _explained,
)
from functrax.core.boundaries.namespaces import public_names as _public_names
from functrax.core.ir.jaxpr import ClosedJaxpr as ClosedJaxpr, Jaxpr as Jaxpr
from functrax.core.lazy import sources as _sources
from functrax.core.options.accepted_contexts import (
    allow_f16_reductions as allow_f16_reductions,
    array_garbage_collection_guard as array_garbage_collection_guard,
    auto_pcast as auto_pcast,
    debug_key_reuse as debug_key_reuse,
    jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions,
    remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
    softmax_custom_jvp as softmax_custom_jvp,
    thread_guard as thread_guard,
)
from functrax.core.options.checking_contexts import (
    check_tracer_leaks as check_tracer_leaks,
    checking_leaks as checking_leaks,
    debug_infs as debug_infs,
    debug_nans as debug_nans,
    enable_checks as enable_checks,
    explain_cache_misses as explain_cache_misses,
    log_compiles as log_compiles,
    no_execution as no_execution,
    no_tracing as no_tracing,
    transfer_guard as transfer_guard,
    transfer_guard_device_to_device as transfer_guard_device_to_device,
    transfer_guard_device_to_host as transfer_guard_device_to_host,
    transfer_guard_host_to_device as transfer_guard_host_to_device,
)
from functrax.core.options.config import config as config
from functrax.core.options.contexts import (
    backend as backend,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    default_prng_impl as default_prng_impl,
    disable_jit as disable_jit,
    eager as eager,
    enable_custom_prng as enable_custom_prng,
    enable_x64 as enable_x64,
    legacy_prng_key as legacy_prng_key,
    memory_budget as memory_budget,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    threefry_partitionable as threefry_partitionable,
)
from functrax.core.types.aval import ShapedArray as ShapedArray
from functrax.core.types.dtypes import float0 as float0
from functrax.transforms.arguments.inspect_types import (
    ShapeDtypeStruct as ShapeDtypeStruct,
    eval_shape as eval_shape,
    make_jaxpr as make_jaxpr,
    typeof as typeof,
)
from functrax.transforms.differentiation.derivatives import (
    jvp as jvp,
    linearize as linearize,
    vjp as vjp,
)
from functrax.transforms.mapping.vmap import vmap as vmap
from functrax.transforms.operations.barrier import stop_fuse as stop_fuse
from functrax.transforms.staging.jit import clear_caches as clear_caches, jit as jit
from functrax.transforms.staging.scopes import (
    ensure_compile_time_eval as ensure_compile_time_eval,
    named_call as named_call,
    named_scope as named_scope,
)
from functrax.tree_util import (  # names that JAX has moved, for older programs
    tree_flatten as tree_flatten,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_structure as tree_structure,
    tree_transpose as tree_transpose,
    tree_unflatten as tree_unflatten,
)

if TYPE_CHECKING:
    MYPY = False  # mypy takes it to be true; function_types.pyi says what it needs
    if MYPY:
        from functrax.transforms.arguments.function_types import (
            grad as grad,
            value_and_grad as value_and_grad,
        )
    else:
        from functrax.transforms.differentiation.derivatives import (
            grad as grad,
            value_and_grad as value_and_grad,
        )
else:
    from functrax.transforms.differentiation.derivatives import (
        grad as grad,
        value_and_grad as value_and_grad,
    )

tree_multimap = tree_map
sys.modules["functrax.config"] = config  # type: ignore[assignment]  # an import path in old programs
__version__ = "0.1.0"

_explain_all(globals())

if TYPE_CHECKING:
    from functrax import (
        ad as ad,
        ad_checkpoint as ad_checkpoint,
        custom_batching as custom_batching,
        custom_derivatives as custom_derivatives,
        debug as debug,
        distributed as distributed,
        dlpack as dlpack,
        example_libraries as example_libraries,
        experimental as experimental,
        export as export,
        extend as extend,
        ffi as ffi,
        flatten_util as flatten_util,
        image as image,
        interop as interop,
        interpreters as interpreters,
        monitoring as monitoring,
        nn as nn,
        ops as ops,
        profiler as profiler,
        random as random,
        ref as ref,
        scipy as scipy,
        sharding as sharding,
        stages as stages,
        test_util as test_util,
    )
    from functrax.ahead_of_time import aot as aot
    from functrax.backends.sharding.array_places import Shard as Shard
    from functrax.backends.sharding.assembling import (
        make_array_from_callback as make_array_from_callback,
        make_array_from_process_local_data as make_array_from_process_local_data,
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from functrax.backends.sharding.context import make_mesh as make_mesh, set_mesh as set_mesh
    from functrax.backends.sharding.hosts import (
        copy_to_host_async as copy_to_host_async,
        host_count as host_count,
        host_id as host_id,
        host_ids as host_ids,
        print_environment_info as print_environment_info,
        process_indices as process_indices,
    )
    from functrax.backends.sharding.moving import reshard as reshard
    from functrax.backends.sharding.partition import P as P
    from functrax.backends.sharding.shardings import NamedSharding as NamedSharding
    from functrax.core.options.user_contexts import make_user_context as make_user_context
    from functrax.core.state.lifetime import (
        empty_ref as empty_ref,
        free_ref as free_ref,
        freeze as freeze,
        new_ref as new_ref,
    )
    from functrax.core.state.references import Ref as Ref
    from functrax.core.syntax.parsing import parse as parse
    from functrax.core.syntax.schemas import schemas as schemas
    from functrax.explanation import (
        check as check,
        explain as explain,
        explain_misses as explain_misses,
    )
    from functrax.export.saving import (
        load as load,
        load_tree as load_tree,
        save as save,
        save_tree as save_tree,
    )
    from functrax.ffi.code import Bounded as Bounded, code as code
    from functrax.interop import from_torch as from_torch, to_torch as to_torch
    from functrax.notebook import (
        load_ipython_extension as load_ipython_extension,
        progress as progress,
    )
    from functrax.transforms.differentiation.checkpoint import (
        checkpoint as checkpoint,
        checkpoint_policies as checkpoint_policies,
        remat as remat,
    )
    from functrax.transforms.differentiation.forward_and_backward import fwd_and_bwd as fwd_and_bwd
    from functrax.transforms.differentiation.jacobians import (
        hessian as hessian,
        jacfwd as jacfwd,
        jacobian as jacobian,
        jacrev as jacrev,
    )
    from functrax.transforms.differentiation.linear_transpose import (
        linear_transpose as linear_transpose,
    )
    from functrax.transforms.operations.callbacks import pure_callback as pure_callback
    from functrax.transforms.sharded.pmap import pmap as pmap
    from functrax.transforms.sharded.shard_map import shard_map as shard_map, smap as smap
    from functrax.transforms.staging.steps import steps as steps
    from functrax.transforms.user_rules.custom_gradient import (
        closure_convert as closure_convert,
        custom_gradient as custom_gradient,
    )
    from functrax.transforms.user_rules.custom_jvp import custom_jvp as custom_jvp
    from functrax.transforms.user_rules.custom_vjp import custom_vjp as custom_vjp
else:
    __getattr__, __dir__ = _public_names(
        globals(),
        (
            *("ad", "ad_checkpoint", "compat", "custom_batching", "custom_derivatives", "debug"),
            *("distributed", "dlpack"),
            *("example_libraries", "experimental", "extend", "ffi"),
            *(
                "export",
                "flatten_util",
                "image",
                "interop",
                "interpreters",
                "monitoring",
                "nn",
                "notebook",
                "ops",
                "profiler",
                "ref",
            ),
            *("random", "scipy", "sharding", "stages", "test_util"),
        ),
        {
            "fwd_and_bwd": "functrax.transforms.differentiation.forward_and_backward",
            "make_user_context": "functrax.core.options.user_contexts",
            "parse": "functrax.core.syntax.parsing",
            "schemas": "functrax.core.syntax.schemas",
            "steps": "functrax.transforms.staging.steps",
            **_sources(
                {
                    "functrax.ahead_of_time": "aot",
                    "functrax.backends.sharding.array_places": "Shard",
                    "functrax.backends.sharding.hosts": (
                        "copy_to_host_async host_count host_id host_ids print_environment_info "
                        "process_indices"
                    ),
                    "functrax.backends.sharding.assembling": (
                        "make_array_from_callback make_array_from_process_local_data "
                        "make_array_from_single_device_arrays"
                    ),
                    "functrax.backends.sharding.context": "make_mesh set_mesh",
                    "functrax.backends.sharding.moving": "reshard",
                    "functrax.backends.sharding.partition": "P",
                    "functrax.backends.sharding.shardings": "NamedSharding",
                    "functrax.core.state.lifetime": "empty_ref free_ref freeze new_ref",
                    "functrax.core.state.references": "Ref",
                    "functrax.export.saving": "load load_tree save save_tree",
                    "functrax.transforms.operations.callbacks": "pure_callback",
                    "functrax.transforms.differentiation.checkpoint": (
                        "checkpoint checkpoint_policies remat"
                    ),
                    "functrax.transforms.differentiation.linear_transpose": "linear_transpose",
                    "functrax.transforms.user_rules.custom_gradient": (
                        "closure_convert custom_gradient"
                    ),
                    "functrax.transforms.user_rules.custom_jvp": "custom_jvp",
                    "functrax.transforms.user_rules.custom_vjp": "custom_vjp",
                    "functrax.transforms.differentiation.jacobians": (
                        "hessian jacfwd jacobian jacrev"
                    ),
                    "functrax.transforms.sharded.pmap": "pmap",
                    "functrax.transforms.sharded.shard_map": "shard_map smap",
                }
            ),
            **dict.fromkeys(("check", "explain", "explain_misses"), "functrax.explanation"),
            **dict.fromkeys(("from_torch", "to_torch"), "functrax.interop"),
            **dict.fromkeys(("load_ipython_extension", "progress"), "functrax.notebook"),
            **dict.fromkeys(("Bounded", "code"), "functrax.ffi.code"),
        },
        _explained(__name__),
    )

_pause.end()
_preload.imported()
