"""Options: layers, threads, overrides that undo themselves, and refusals that help."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest

import functrax
from functrax.core.errors.typed import ArgumentError, UnknownNameError
from functrax.core.options import (
    accepted_contexts as accepted,
    checking_contexts as checking,
    contexts as options,
    option_text,
)
from functrax.core.options.config import OPTIONS, Override, config, state, trace_context
from functrax.core.options.jax_options import is_foreign


@pytest.fixture(autouse=True)
def restored():
    before = config.values
    yield
    assert not set(vars(state)) & set(OPTIONS), "an override outlived its block"
    for name, value in before.items():
        config.update(name, value)


def in_thread(function):
    """What ``function`` returns in a thread of its own."""
    out = []
    thread = threading.Thread(target=lambda: out.append(function()))
    thread.start()
    thread.join()
    return out[0]


def run(code, **environment):
    root = str(pathlib.Path(functrax.__file__).parents[1])
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTRAX_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_option_has_its_documentation_and_a_default_it_takes():
    assert {"enable_x64", "strict", "memory_budget"} <= set(OPTIONS)
    for name, option in OPTIONS.items():
        assert option.doc.endswith(".")
        assert option.variable == f"FUNCTRAX_{(option.short or name).upper()}"
        assert option.check(option.default) == option.default
        assert getattr(config, name) == getattr(config, "jax_" + name) == config.read(name)


def test_defaults():
    defaults = run("from functrax.core.options.config import config; print(config.values)")
    found = eval(defaults.stdout)
    assert {n: v for n, v in found.items() if not is_foreign(n)} == {
        "enable_x64": False,
        "debug_nans": False,
        "device_timeout": 0,
        "cuda_graphs": True,
        "cuda_conditional_nodes": "simulated",
        "cuda_libraries": "simulated",
        "debug_infs": False,
        "disable_jit": False,
        "default_matmul_precision": None,
        "numpy_dtype_promotion": "standard",
        "numpy_rank_promotion": "allow",
        "check_static_indices": False,
        "check_tracer_leaks": False,
        "log_compiles": False,
        "explain_cache_misses": False,
        "default_device": None,
        "mesh_context": None,
        "user_contexts": (),
        "no_tracing": False,
        "no_execution": False,
        "transfer_guard": None,
        "transfer_guard_host_to_device": None,
        "transfer_guard_device_to_device": None,
        "transfer_guard_device_to_host": None,
        "default_prng_impl": "threefry2x32",
        "threefry_partitionable": True,
        "high_dynamic_range_gumbel": False,
        "random_seed_offset": 0,
        "enable_custom_prng": False,
        "legacy_prng_key": "allow",
        "platform_name": "",
        "platforms": "",
        "xla_backend": "",
        "eager_constant_folding": False,
        "cache": True,
        "cache_programs": True,
        "plans": True,
        "compilation_cache_dir": None,
        "cache_limit": "512MB",
        "memory_budget": "",
        "backend": "auto",
        "eager": "lazy",
        "async_dispatch": False,
        "strict": False,
        "strict_tiles": False,
        "schedule_off": "",
        "autotune": "off",
        "compile_threads": True,
        "opt": True,
        "check": False,
        "opt_limit": "",
        "log": "",
        "dump": "",
        "dump_dir": None,
        "traceback_filtering": "auto",
    }


def test_environment_variables():
    found = run(
        "from functrax import config as c, enable_x64\n"
        "print(c.enable_x64, c.numpy_rank_promotion, c.default_matmul_precision, c.debug_nans)\n"
        "with enable_x64(False): print(c.enable_x64)\n",
        FUNCTRAX_ENABLE_X64="True",
        FUNCTRAX_NUMPY_RANK_PROMOTION="raise",
        FUNCTRAX_DEFAULT_MATMUL_PRECISION="none",
        FUNCTRAX_DEBUG_NANS="0",
        JAX_DEBUG_INFS="1",
    )
    assert found.stdout == "True raise None False\nFalse\n"


def test_environment_variables_of_no_meaning():
    refused = run("import functrax.core.options.config", FUNCTRAX_ENABLE_X64="perhaps")
    assert "the environment variable FUNCTRAX_ENABLE_X64 is on or off" in refused.stderr
    assert "perhaps" in refused.stderr
    refused = run("import functrax.core.options.config", FUNCTRAX_NUMPY_RANK_PROMOTION="never")
    assert "'allow', 'warn', 'raise'" in refused.stderr


def test_update_is_seen_by_all_threads():
    config.update("jax_enable_x64", True)
    assert config.enable_x64 is state.enable_x64 is True
    assert in_thread(lambda: state.enable_x64) is True
    config.update("enable_x64", False)
    assert in_thread(lambda: state.enable_x64) is False


def test_an_override_is_seen_by_its_thread_alone():
    with options.enable_x64():
        assert state.enable_x64 is True
        assert in_thread(lambda: state.enable_x64) is False
        config.update("enable_x64", False)
        assert state.enable_x64 is True
    assert state.enable_x64 is False


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (options.enable_x64, "enable_x64", True),
        (checking.debug_nans, "debug_nans", True),
        (checking.debug_infs, "debug_infs", True),
        (options.disable_jit, "disable_jit", True),
        (checking.check_tracer_leaks, "check_tracer_leaks", True),
        (checking.checking_leaks, "check_tracer_leaks", True),
        (checking.log_compiles, "log_compiles", True),
        (lambda: checking.debug_nans(new_val=True), "debug_nans", True),
        (
            lambda: options.default_matmul_precision("float32"),
            "default_matmul_precision",
            "float32",
        ),
        (lambda: options.numpy_dtype_promotion("strict"), "numpy_dtype_promotion", "strict"),
        (lambda: options.numpy_rank_promotion("raise"), "numpy_rank_promotion", "raise"),
        (lambda: options.default_device("cpu"), "default_device", "cpu"),
        (lambda: options.default_prng_impl("threefry2x32"), "default_prng_impl", "threefry2x32"),
        (lambda: options.threefry_partitionable(False), "threefry_partitionable", False),
        (lambda: options.enable_custom_prng(), "enable_custom_prng", True),
        (lambda: options.legacy_prng_key("error"), "legacy_prng_key", "error"),
        (lambda: checking.enable_checks(), "check", True),
        (lambda: accepted.softmax_custom_jvp(), "softmax_custom_jvp", True),
    ],
)
def test_each_override_sets_its_option_and_puts_it_back(make, name, value):
    before = getattr(config, name)
    with make():
        assert getattr(config, name) == value
    assert getattr(config, name) == before


def test_overrides_nest_and_undo_themselves_after_errors():
    with options.enable_x64(True):
        with pytest.raises(ZeroDivisionError), options.enable_x64(False):
            assert state.enable_x64 is False
            _ = 1 / 0
        assert state.enable_x64 is True
    assert state.enable_x64 is False


def test_one_override_entered_twice_and_by_two_threads():
    wide = options.enable_x64()
    with wide:
        with wide:
            assert state.enable_x64 is True
        assert state.enable_x64 is True

        def elsewhere():
            with wide:
                return state.enable_x64

        assert in_thread(elsewhere) is True
    assert state.enable_x64 is False


def test_an_override_decorates():
    @options.enable_x64()
    def factorial(n):
        """Recursive."""
        assert state.enable_x64
        return n * factorial(n - 1) if n else 1

    assert factorial(4) == 24
    assert factorial.__doc__ == "Recursive."
    assert state.enable_x64 is False


def test_unknown_names_are_refused_and_the_near_ones_named():
    for ask in (
        lambda: config.update("enable_x46", True),
        lambda: config.jax_enable_x46,
        lambda: Override("enable_x46", True),
    ):
        with pytest.raises(UnknownNameError, match="enable_x46") as caught:
            ask()
        assert "try   enable_x64" in str(caught.value)
    with pytest.raises(UnknownNameError, match="debug_nans, debug_infs"):
        config.read("quux")
    with pytest.raises(UnknownNameError):
        config.update(3, True)
    assert not hasattr(config, "quux")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("enable_x64", 1, "True or False"),
        ("enable_x64", None, "True or False"),
        ("debug_nans", "yes", "True or False"),
        ("numpy_rank_promotion", "never", "'allow', 'warn', 'raise'"),
        ("numpy_dtype_promotion", None, "'standard', 'strict'"),
        ("default_matmul_precision", "float31", "'F32_F32_F32', or None"),
        ("default_prng_impl", "philox", "'threefry2x32', 'rbg'"),
        ("compilation_cache_dir", 3, "a path, or None"),
        ("default_device", [], "can be hashed"),
    ],
)
def test_wrong_values_are_refused(name, value, hint):
    before = getattr(config, name)
    for set_it in (config.update, Override):
        with pytest.raises(ArgumentError, match=f"{name} does not take this value") as caught:
            set_it(name, value)
        assert hint in str(caught.value)
    assert getattr(config, name) == before


def test_the_cache_has_short_names_in_the_environment():
    found = run(
        "from functrax.core.options.config import config as c\n"
        "print(c.cache, c.compilation_cache_dir, c.cache_limit)",
        FUNCTRAX_CACHE="0",
        FUNCTRAX_CACHE_DIR="/somewhere",
        FUNCTRAX_CACHE_LIMIT="2GB",
    )
    assert found.stdout == "False /somewhere 2GB\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("100", 100), ("3k", 3072), ("512MB", 512 << 20), ("2g", 2 << 30), ("1TB", 1 << 40)],
)
def test_numbers_of_bytes(text, number):
    assert option_text.byte_count(text) == number


@pytest.mark.parametrize("text", ["", "MB", "-1", "1.5GB", "1PB", "many", "٣"])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(ArgumentError, match="cache_limit is not a number of bytes"):
        config.update("cache_limit", text)


def test_paths_are_kept_as_text(tmp_path):
    config.update("compilation_cache_dir", tmp_path)
    assert config.compilation_cache_dir == str(tmp_path)


def test_assignment_is_refused():
    with pytest.raises(ArgumentError, match=r"config\.update\('jax_enable_x64', True\)"):
        config.jax_enable_x64 = True
    assert state.enable_x64 is False


def test_the_trace_context_follows_what_changes_programs():
    plain = trace_context()
    assert hash(plain) == hash(config.trace_context())
    assert trace_context() is plain
    changes = [
        options.enable_x64(),
        checking.debug_nans(),
        checking.debug_infs(),
        options.default_matmul_precision("highest"),
        options.numpy_dtype_promotion("strict"),
        options.numpy_rank_promotion("raise"),
    ]
    contexts = []
    for change in changes:
        with change:
            contexts.append(trace_context())
            assert trace_context() is contexts[-1]
        assert trace_context() is plain
    assert len({plain, *contexts}) == 7
    for neutral in (checking.log_compiles(), options.disable_jit(), options.default_device("cpu")):
        with neutral:
            assert trace_context() is plain


def test_the_trace_context_of_a_thread_sees_updates():
    def changing():
        with checking.debug_nans():
            first = trace_context()
            config.update("enable_x64", True)
            second = trace_context()
            config.update("enable_x64", False)
            return first, second, trace_context()

    first, second, third = in_thread(changing)
    assert first is third
    assert first != second
    assert trace_context() not in (first, second)


def test_the_representation_lists_everything():
    assert all((f" {name}=" in repr(config)) != is_foreign(name) for name in OPTIONS)
