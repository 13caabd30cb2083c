"""The driver: what it records, checks, limits, logs and dumps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import functrax
from functrax.backends.compilation import pipeline
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.compilation.pipeline import PIPELINE, run_pipeline
from functrax.backends.compilation.stage import as_pass
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.typed import ArgumentError, VerificationError
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.tracing.primitive import registry

TEXT = """{ lambda ; x:f32[3]. let  # f: x
    a:f32[3] = sin x  # train.py:1 in f
    b:f32[3] = sin x  # train.py:2 in f
    c:f32[3] = cos x  # train.py:3 in f
    d:f32[3] = mul a b  # train.py:4 in f
  in (d,) }"""


def test_the_record_of_a_run():
    source = parse_jaxpr(TEXT)
    record = run_pipeline(source)
    assert [stage.name for stage in record.stages] == [step.name for step in PIPELINE]
    assert record.source is source
    assert record["inline"].program is source
    assert record["inline"].rewrites == 0
    assert record["cse"].rewrites == record["dce"].rewrites == 1
    assert record["cse"].milliseconds > 0
    assert [e.primitive.name for e in record["dce"].program.eqns] == ["sin", "mul"]
    assert record.program is record.stages[-1].program
    assert str(record).splitlines()[0].split() == ["pass", "ms", "rewrites", "equations"]


def test_passes_have_names_of_their_own():
    assert len({step.name for step in PIPELINE}) == len(PIPELINE)


def test_optimisation_off_runs_what_is_required():
    with Override("opt", False):
        record = run_pipeline(parse_jaxpr(TEXT))
    assert [stage.name for stage in record.stages] == [s.name for s in PIPELINE if s.required]


def test_limits_from_the_option_and_from_the_caller():
    source = parse_jaxpr(TEXT)
    with Override("opt_limit", "cse=0:dce=1"):
        record = run_pipeline(source)
    assert (record["cse"].rewrites, record["dce"].rewrites) == (0, 1)
    assert run_pipeline(source, rewrite_limits={"dce": 0})["dce"].rewrites == 0


@pytest.mark.parametrize("option", ["opt_limit", "log"])
def test_a_pass_that_there_is_not(option):
    value = "fold_all=1" if option == "opt_limit" else ">fold_all"
    refused = pytest.raises(ArgumentError, match="unknown pass")
    with Override(option, value), refused as error:
        run_pipeline(parse_jaxpr(TEXT))
    assert "fold_all" in error.value.got
    assert "inline, " in error.value.fix


def test_a_pass_that_breaks_the_language_is_named():
    def break_types(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
        first = jaxpr.eqns[0]
        wrong = Eqn(registry["real"], first.invars, first.outvars, {}, first.source)
        return Jaxpr((), jaxpr.invars, jaxpr.outvars, [wrong, *jaxpr.eqns[1:]])

    passes = (as_pass("cse", cse), as_pass("bad", break_types))
    with Override("check", True), pytest.raises(VerificationError, match="the pass bad") as error:
        run_pipeline(parse_jaxpr(TEXT), passes)
    assert str(error.value.where) == "train.py:1 in f"
    run_pipeline(parse_jaxpr(TEXT), passes)


def logged(capsys, text):
    with Override("log", text):
        run_pipeline(parse_jaxpr(TEXT))
    return capsys.readouterr().err


def test_log_levels_nest(capsys):
    assert logged(capsys, "") == ""
    assert logged(capsys, "inline") == "", "it changes nothing"
    program = logged(capsys, "cse")
    assert program.startswith("==== f: cse: 1 rewrites ====\n{ lambda ;")
    assert "computed before" not in program
    line = "1: computed before: c:f32[3] = sin a  # train.py:2 in f"
    rewrites = logged(capsys, ">cse")
    assert rewrites.splitlines()[1] == line
    assert rewrites.replace(line + "\n", "") == program
    assert line in logged(capsys, ">>cse:dce")


def test_detail_says_what_the_limit_stopped(capsys):
    with Override("opt_limit", "dce=0"):
        assert "limit reached: nothing needs it: b:f32[3] = cos a" in logged(capsys, ">>dce")


def test_dumps_go_to_stderr(capsys):
    with Override("dump", "jaxpr, groups"):
        run_pipeline(parse_jaxpr(TEXT))
    found = capsys.readouterr().err
    assert "==== f: jaxpr: source ====" in found
    assert "==== f: groups: groups ====" in found
    assert "cse" not in found


def test_dumps_go_to_files_in_order(tmp_path, capsys):
    with Override("dump", "passes"), Override("dump_dir", tmp_path / "dumps"):
        run_pipeline(parse_jaxpr(TEXT))
    assert capsys.readouterr().err == ""
    files = sorted((tmp_path / "dumps").iterdir())
    assert [f.stem.split("-")[-1] for f in files] == [step.name for step in PIPELINE]
    assert parse_jaxpr(files[0].read_text()) == parse_jaxpr(TEXT)


@pytest.mark.parametrize(
    ("option", "value"), [("opt", False), ("opt_limit", "fuse=0"), ("opt_limit", "cse=0:dce=1")]
)
@pytest.mark.usefixtures("without_plans")
def test_other_options_compile_again(option, value):
    """A program made under one value of an option is not used under another."""

    @functrax.jit
    def f(x):
        return functrax.numpy.sin(x) * functrax.numpy.sum(functrax.numpy.sin(x))

    x = functrax.numpy.arange(3.0)
    f(x)
    f(x)  # by the way of later calls

    def programs():
        (traced,) = f._cache.values()
        return [v for v in traced.jaxpr.memo.values() if isinstance(v, CompiledProgram)]

    (optimised,) = programs()
    with Override(option, value):
        assert f.lower(x).compile().compiled is not optimised
        f(x)
        f(x)
    first, second = programs()
    assert first is optimised
    assert str(second.stages) != str(first.stages)
    f(x)
    assert f.lower(x).compile().compiled is optimised
    assert len(programs()) == 2


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FUNCTRAX_OPT_LIMIT", "cse:3", "not pass=number"),
        ("FUNCTRAX_OPT_LIMIT", "cse=-1", "not pass=number"),
        ("FUNCTRAX_LOG", ">>>cse", "not a list of passes"),
        ("FUNCTRAX_LOG", "a b", "not a list of passes"),
        ("FUNCTRAX_DUMP", "passes,ptx!", "not a list of stages"),
        ("FUNCTRAX_OPT", "2", "on or off"),
    ],
)
def test_environment_variables_of_the_wrong_form(variable, value, said):
    root = str(Path(functrax.__file__).parents[1])
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTRAX_")}
    found = subprocess.run(
        [sys.executable, "-c", "import functrax.core.options.config"],
        env={**clean, "PYTHONPATH": root, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert said in found.stderr
    for part in (f"got   {value!r}", "try   "):
        assert part in found.stderr


def test_passes_ask_once_for_the_primitives_of_a_program_and_of_those_inside():
    text = """{ lambda ; x:f32[3]. let
        y:f32[] = jit[jaxpr={ lambda ; x:f32[3]. let
            s:f32[] = reduce_sum[axes=(0,)] x
          in (s,) }] x
        z:f32[] = neg y
      in (z,) }"""
    jaxpr = parse_jaxpr(text)
    found = pipeline._primitives(jaxpr)
    assert {p.name for p in found} == {"jit", "reduce_sum", "neg"}
    assert pipeline._primitives(jaxpr) is found
    only_sines = parse_jaxpr(TEXT)
    rewrites = Rewrites()
    assert pipeline.recognise(only_sines, rewrites) is only_sines
    assert pipeline.share(only_sines, rewrites) is only_sines
