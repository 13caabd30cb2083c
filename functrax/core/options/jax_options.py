"""Options of JAX that functrax knows and that change nothing, and names of its own for others.

Programs set them; each can be set and read here too.  Setting one of :data:`INERT` to something
else than its default is told once, by a warning that says why it changes nothing; nobody needs to
be told of those in :data:`SILENT`, for with functrax what they ask for holds anyway.
"""

from __future__ import annotations

from typing import Any, Final

#: JAX's names of options that functrax has by another.
ALIASES: Final[dict[str, str]] = {
    "cpu_enable_async_dispatch": "async_dispatch",
    "enable_checks": "check",
    "enable_compilation_cache": "cache",
}

#: By reason: the options that change nothing, and their defaults.
INERT: Final[dict[str, dict[str, Any]]] = {
    "there is one device, a CPU": {
        "cpu_collectives_implementation": "gloo",
        "cpu_get_global_topology_timeout_minutes": 5,
        "cpu_get_local_topology_timeout_minutes": 2,
        "cross_host_transfer_socket_address": "",
        "cross_host_transfer_timeout_seconds": None,
        "cross_host_transfer_transfer_size": None,
        "cross_host_transport_addresses": "",
        "cuda_visible_devices": "all",
        "disallow_mesh_context_manager": False,
        "distributed_debug": False,
        "enable_preemption_service": True,
        "enable_recoverability": False,
        "force_dcn_cross_host_transfers": False,
        "mock_gpu_topology": "",
        "mock_num_gpu_processes": 0,
        "num_cpu_devices": -1,
        "oneapi_visible_devices": "all",
        "ragged_dot_use_gpu_pallas_triton_lowering": False,
        "rocm_visible_devices": "all",
        "share_binary_between_hosts": False,
        "share_binary_between_hosts_timeout_ms": 1200000,
        "sort_devices_by_process_index": True,
        "threefry_gpu_kernel_lowering": False,
        "use_magma": "auto",
    },
    "it is for XLA's compiler and its cache": {
        "bcoo_cusparse_lowering": False,
        "compilation_cache_check_contents": False,
        "compilation_cache_expect_pgle": False,
        "compilation_cache_include_metadata_in_key": False,
        "compilation_cache_max_size": -1,
        "compiler_detailed_logging_min_ops": 10,
        "compiler_enable_remat_pass": True,
        "disable_most_optimizations": False,
        "dump_ir_modes": "stablehlo",
        "dump_ir_to": "",
        "embedded_constants_max_bytes": 32,
        "enable_pgle": False,
        "exec_time_optimization_effort": 0.0,
        "experimental_unsafe_xla_runtime_errors": False,
        "export_calling_convention_version": 10,
        "export_ignore_forward_compatibility": False,
        "hlo_source_file_canonicalization_regex": None,
        "include_debug_info_in_dumps": True,
        "include_full_tracebacks_in_locations": True,
        "memory_fitting_effort": 0.0,
        "memory_fitting_level": "O2",
        "optimization_level": "UNKNOWN",
        "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
        "persistent_cache_min_compile_time_secs": 1.0,
        "persistent_cache_min_entry_size_bytes": 0,
        "pgle_aggregation_percentile": 90,
        "pgle_profiling_runs": 3,
        "pjrt_client_create_options": None,
        "raise_persistent_cache_errors": False,
        "remove_custom_partitioning_ptr_from_cache_key": False,
        "send_traceback_to_runtime": "off",
        "serialization_version": 0,
        "traceback_in_locations_limit": 100,
        "use_simplified_jaxpr_constants": False,
        "xla_profile_version": 0,
    },
    "functrax does not look for this": {
        "allow_f16_reductions": True,
        "array_garbage_collection_guard": None,
        "captured_constants_report_frames": 0,
        "captured_constants_warn_bytes": 2000000000,
        "debug_key_reuse": False,
        "error_checking_behavior_divide": "ignore",
        "error_checking_behavior_nan": "ignore",
        "error_checking_behavior_oob": "ignore",
        "log_checkpoint_residuals": False,
        "mutable_array_checks": True,
        "pallas_enable_debug_checks": False,
        "pallas_poison_buffers": False,
        "pallas_verbose_errors": False,
        "thread_guard": False,
    },
    "functrax logs by its own option, log": {
        "debug_log_modules": "",
        "logging_level": "NOTSET",
        "tracer_error_num_traceback_frames": 5,
    },
}

#: Options whose every value means what functrax does anyway, and their defaults.
SILENT: Final[dict[str, Any]] = {
    "auto_pcast": True,
    "backend_target": "",
    "check_proxy_envs": True,
    "check_vma": False,
    "custom_vjp3": False,
    "debug_leaked_clients_on_clear_backends": False,
    "disable_bwd_checks": False,
    "disable_vmap_shmap_error": False,
    "explicit_x64_dtypes": "warn",
    "jax2tf_associative_scan_reductions": False,
    "jax2tf_default_native_serialization": True,
    "mosaic_allow_hlo": False,
    "pallas_use_mosaic_gpu": True,
    "pmap_shmap_merge": True,
    "pprint_use_color": True,
    "ragged_dot_use_ragged_dot_instruction": True,
    "refs_to_pins": False,
    "remat3": False,
    "remove_size_one_mesh_axis_from_type": False,
    "scan3": False,
    "softmax_custom_jvp": False,
    "source_url_schema": None,
    "use_direct_linearize": True,
    "use_emit_pipeline_primitive": False,
    "use_shardy_partitioner": True,
}


def is_foreign(name: str) -> bool:
    """Whether an option changes nothing here."""
    return name in SILENT or any(name in names for names in INERT.values())
