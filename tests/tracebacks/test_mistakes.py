"""Tracebacks of mistakes hold the user's frames alone, and say how to see the others."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.boundaries import tracebacks
from functrax.core.boundaries.tracebacks import NOTE
from functrax.core.options.config import Override

SCRIPT = Path(__file__).parent / "mistakes.py"
PACKAGE = os.path.dirname(functrax.__file__) + os.sep


def load() -> Any:
    spec = importlib.util.spec_from_file_location("mistakes", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MISTAKES = load().MISTAKES


def caught(function: Any) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


def files(error: BaseException | None) -> list[str]:
    """The files of the frames of an exception and of those that are printed with it."""
    if error is None:
        return []
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [f.filename for f in traceback.extract_tb(error.__traceback__)] + files(shown)


def own(error: BaseException) -> list[str]:
    return [name for name in files(error) if name.startswith(PACKAGE)]


def test_there_are_forty() -> None:
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("eager", ["lazy", "immediate"])
@pytest.mark.parametrize("name", MISTAKES)
def test_frames_are_the_users(name: str, eager: str) -> None:
    with functrax.eager(eager):
        error = caught(MISTAKES[name])
    assert own(error) == []
    assert {*files(error)} == {__file__, str(SCRIPT)}
    last = traceback.extract_tb(error.__traceback__)[-1].name
    assert last in (name, "inner", "<lambda>"), last
    assert error.__notes__ == [NOTE]


@pytest.mark.parametrize("name", MISTAKES)
def test_all_frames_are_there_if_asked_for(name: str) -> None:
    with Override("traceback_filtering", "off"):
        error = caught(MISTAKES[name])
    assert own(error) != [] and not hasattr(error, "__notes__")


def test_marked_frames_stay() -> None:
    with Override("traceback_filtering", "tracebackhide"):
        error = caught(MISTAKES["product_inside_jit_of_grad"])
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    inside = [f for f in frames if f.f_code.co_filename.startswith(PACKAGE)]
    assert inside and all(f.f_locals["__tracebackhide__"] for f in inside)
    assert not any("__tracebackhide__" in f.f_locals for f in frames if f not in inside)


def test_the_cause_has_all_frames() -> None:
    with Override("traceback_filtering", "remove_frames"):
        error = caught(MISTAKES["product_inside_jit_of_grad"])
    whole = error.__cause__
    assert isinstance(whole, tracebacks.UnfilteredStackTrace)
    names = [f.name for f in traceback.extract_tb(whole.__traceback__)]
    assert "_matrix_product" in names and "_gradients" in names and "inner" in names
    assert {f.filename for f in traceback.extract_tb(error.__traceback__)} == {
        __file__,
        str(SCRIPT),
    }


def test_an_error_inside_of_functrax_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    import functrax.numpy.contraction as inside

    def broken(*args: Any) -> Any:
        return {}["a fault of functrax"]

    broken.__code__ = broken.__code__.replace(co_filename=inside.__file__)
    broken_inside = type(broken)(broken.__code__, vars(inside), "broken")
    monkeypatch.setattr(inside, "_matrix_product", broken_inside)
    error = caught(lambda: functrax.jit(lambda a: a @ a)(jnp.ones((2, 2))))
    assert isinstance(error, KeyError) and not hasattr(error, "__notes__")
    assert len(own(error)) >= 5 and files(error)[-1] == inside.__file__


def test_what_numpy_raises_for_functrax_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    import functrax.numpy.contraction as inside

    scope = {"np": np, "__name__": inside.__name__}
    source = "def broken(*args): return np.linalg.inv(np.zeros((2, 2)))"
    exec(compile(source, inside.__file__, "exec"), scope)
    monkeypatch.setattr(inside, "_matrix_product", scope["broken"])
    # of a shape of its own: what was recorded before is not called
    error = caught(lambda: jnp.ones((2, 89)) @ jnp.ones((89, 2)))
    assert isinstance(error, np.linalg.LinAlgError)
    assert inside.__file__ in own(error) and not hasattr(error, "__notes__")


def test_what_the_user_handles_leaves_no_frames() -> None:
    import weakref

    class Witness:
        pass

    def handle() -> weakref.ref[Any]:
        witness = Witness()
        try:
            product_of(witness)
        except TypeError:
            return weakref.ref(witness)
        raise AssertionError

    def product_of(witness: Any) -> Any:
        return jnp.ones(3) @ jnp.ones(4)

    gc.collect()
    gc.disable()
    try:
        assert handle()() is None
    finally:
        gc.enable()


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_script(native: str) -> None:
    text = run(str(SCRIPT), "product_inside_jit_of_grad", FUNCTRAX_NATIVE=native)
    assert text.count('  File "') == 3 == text.count("mistakes.py", 0, text.index("ShapeError"))
    assert PACKAGE not in text and text.rstrip().endswith(NOTE)
    full = run(str(SCRIPT), "product_inside_jit_of_grad", FUNCTRAX_TRACEBACK="full")
    assert full.count(PACKAGE) >= 8 and NOTE not in full


def test_without_the_extension() -> None:
    checks = f"""
        import sys
        sys.path.insert(0, {str(SCRIPT.parent)!r})
        import mistakes, traceback, functrax
        assert not functrax.core.native.available
        for name, function in mistakes.MISTAKES.items():
            try:
                function()
            except Exception as error:
                files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
                assert {PACKAGE!r} not in "".join(files), (name, files)
                assert error.__notes__ == [{NOTE!r}], name
            else:
                raise AssertionError(name)
        print("fine")
        sys.exit(3)
    """
    text = run("-c", textwrap.dedent(checks), FUNCTRAX_NATIVE="0")
    assert text == "fine\n"


def test_pytest_shows_the_users_frames(tmp_path: Path) -> None:
    lines = SCRIPT.read_text().replace("def product_inside_jit_of_grad", "def test_product")
    (tmp_path / "test_it.py").write_text(lines)
    text = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)
    )
    assert "ShapeError" in text and NOTE in text
    assert PACKAGE not in text and "functrax/numpy" not in text and "test_it.py:" in text


def test_ipython_shows_the_users_frames() -> None:
    pytest.importorskip("IPython")
    cell = SCRIPT.read_text().partition('if __name__ == "__main__"')[0]
    text = run(
        "-c",
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell(colors='nocolor', history_manager=None)\n"
        f"shell.run_cell({cell!r})\n"
        "shell.run_cell('product_inside_jit_of_grad()')\nsys.exit(3)",
    )
    assert "ShapeError" in text and NOTE in text and "in inner" in text.replace(".<locals>.", " ")
    assert PACKAGE not in text and "functrax/numpy" not in text
