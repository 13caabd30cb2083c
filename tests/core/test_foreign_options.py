"""Options of JAX: those by another name, those without effect, and flags of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import functrax
from functrax import config
from functrax.core.errors.typed import ArgumentError
from functrax.core.options import table as table
from functrax.core.options.jax_options import ALIASES, INERT, SILENT
from functrax.core.options.table import OPTIONS


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(table, "_told", set())
    before = config.values
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in before.items():
            config.update(name, value)


def test_every_name_is_in_one_list():
    lists = [*INERT.values(), SILENT, dict.fromkeys(ALIASES)]
    names = [name for names in lists for name in names]
    assert len(names) == len(set(names)) > 80
    assert not set(ALIASES) & set(OPTIONS)
    assert set(ALIASES.values()) <= set(OPTIONS)


def test_options_by_other_names():
    config.update("jax_enable_compilation_cache", False)
    assert config.cache is config.jax_enable_compilation_cache is False
    with functrax.enable_checks():
        assert config.check is True


def test_an_option_without_effect_keeps_its_value_and_warns_once():
    with pytest.warns(UserWarning, match="jax_num_cpu_devices .* there is one device") as caught:
        config.update("jax_num_cpu_devices", 2)
    assert caught[0].filename == __file__
    assert config.jax_num_cpu_devices == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.update("jax_num_cpu_devices", 4)
        config.update("jax_use_shardy_partitioner", False)
        config.update("jax_thread_guard", False)  # as it is
        with functrax.softmax_custom_jvp(True):
            assert config.jax_softmax_custom_jvp is True
    with pytest.warns(UserWarning, match="jax_debug_key_reuse"), functrax.debug_key_reuse():
        assert config.debug_key_reuse is True


def test_platforms_that_are_not_there_are_refused():
    config.update("jax_platform_name", "cpu")
    for name in ("jax_platforms", "jax_platform_name", "jax_xla_backend"):
        with pytest.raises(ArgumentError, match="does not take this value"):
            config.update(name, "tpu")


def test_an_integer_is_refused_where_it_is_none():
    with pytest.raises(ArgumentError, match="random_seed_offset"):
        config.update("random_seed_offset", 0.5)


PROGRAM = """
import sys, jax
{before}
def main(argv):
    jax.config.parse_flags_with_absl()
    c = jax.config
    print(c.jax_enable_x64, c.x64_enabled, c.jax_platform_name, sys.argv[1:], argv)
{run}
"""


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "functrax.compat", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "FUNCTRAX_ENABLE_X64"},
    )


def test_flags_of_the_command_line():
    flags = ("--jax_enable_x64", "--jax_platform_name=cpu")
    alone = run(PROGRAM.format(before="", run="main(None)"), *flags, "--other=3")
    assert alone.stdout == f"True True cpu {[*flags, '--other=3']} None\n", alone.stderr
    app = "from absl import app; jax.config.config_with_absl()"
    under = run(PROGRAM.format(before=app, run="app.run(main)"), *flags, "input")
    assert under.stdout == f"True True cpu {[*flags, 'input']} ['-c', 'input']\n", under.stderr
    refused = run(PROGRAM.format(before="", run="main(None)"), "--jax_platform_name=tpu")
    assert "'tpu'" in refused.stderr or "=tpu" in refused.stderr


def test_options_from_the_environment_of_jax_are_for_programs_under_compat(monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_NUMPY_RANK_PROMOTION", "warn")
    monkeypatch.setenv("FUNCTRAX_NUMPY_RANK_PROMOTION", "raise")
    program = "import jax; print(jax.config.jax_enable_x64, jax.config.jax_numpy_rank_promotion)"
    assert run(program).stdout == "True raise\n"
    plain = program.replace("import jax", "import functrax as jax")
    out = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True, check=True)
    assert out.stdout == "False raise\n"
