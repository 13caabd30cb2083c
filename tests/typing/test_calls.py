"""What type checkers make of functrax: typical calls, wrong ones, the examples; how much is Any.

mypy is needed beside pytest; pyright is used where it is installed (``pip install pyright``).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_docstrings_complete import functions

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: Of each namespace how many arguments of public functions are Any: what takes anything, such as
#: pytrees, nested lists and what is handed to NumPy.  The numbers may only fall.
ANY_ARGUMENTS = {
    "functrax": 59,
    "functrax.lax": 24,
    "functrax.lax.linalg": 0,
    "functrax.nn": 0,
    "functrax.nn.initializers": 0,
    "functrax.numpy": 32,
    "functrax.numpy.fft": 0,
    "functrax.numpy.linalg": 0,
    "functrax.random": 3,
    "functrax.scipy.linalg": 2,
    "functrax.scipy.signal": 1,
    "functrax.scipy.special": 0,
    "functrax.scipy.stats": 0,
}

#: Errors of mypy and of pyright in the examples, whose functions have no annotations: options in a
#: dict of several types, attributes of other libraries, names that are bound in a branch.
IN_EXAMPLES = {
    "errors_of_mypy": {
        "00_from_scratch.py": 7,
        "autodiff_tour.py": 1,
        "foreign_code.py": 13,
        "hessian_vector_products.py": 1,
        "lorenz.py": 1,
        "maml.py": 2,
    },
    "errors_of_pyright": {
        "00_from_scratch.py": 6,
        "autodiff_tour.py": 1,
        "digits.py": 6,
        "fixed_point.py": 1,
        "foreign_code.py": 13,
        "gaussian_process.py": 1,
        "lorenz.py": 1,
        "wgan_gp.py": 1,
    },
}


def any_arguments(namespace: str) -> list[str]:
    """The arguments of the public functions of a namespace that are Any, or have no type."""
    found = []
    for name, function in functions(namespace):
        for parameter in inspect.signature(function).parameters.values():
            if str(parameter.annotation) in ("Any", str(inspect.Parameter.empty)):
                found.append(f"{name}({parameter.name})")
    return found


@pytest.mark.parametrize("namespace", ANY_ARGUMENTS)
def test_no_more_arguments_are_any(namespace: str) -> None:
    found = any_arguments(namespace)
    assert len(found) <= ANY_ARGUMENTS[namespace], f"{len(found)}: {', '.join(found)}"


@pytest.mark.parametrize("namespace", ANY_ARGUMENTS)
def test_results_are_no_internal_types(namespace: str) -> None:
    for name, function in functions(namespace):
        result = str(inspect.signature(function).return_annotation)
        assert not re.search(r"\bValue\b", result), f"{name} -> {result}"


def test_the_calls_can_be_made() -> None:
    runpy.run_path(str(HERE / "calls.py"))
    runpy.run_path(str(HERE / "gradients.py"))


def test_methods_of_arrays_are_as_written_down() -> None:
    script = ROOT / "scripts/write_array_methods.py"
    written = runpy.run_path(str(script))
    assert written["text"]() == written["PLACE"].read_text(), f"run {script}"


def errors_of_mypy(*paths: Path, strict: bool = True) -> list[tuple[str, int]]:
    """Files and lines of the errors that mypy finds, by the rules of functrax or by its own."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    lenient = ("--config-file=", "--check-untyped-defs", "--ignore-missing-imports")
    options = () if strict else lenient
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", *options]
    done = subprocess.run(
        [*command, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    found = re.findall(r"^(.*?):(\d+): error: ", done.stdout, re.MULTILINE)
    return [(Path(name).name, int(line)) for name, line in found]


@functools.cache
def pyright() -> str | None:
    beside = Path(sys.executable).with_name("pyright")
    return str(beside) if beside.exists() else shutil.which("pyright")


def errors_of_pyright(*paths: Path, strict: bool = True) -> list[tuple[str, int]]:
    """Files and lines of the errors that pyright finds; missing packages are none."""
    command = pyright()
    if command is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run(
        [command, "--outputjson", "--pythonpath", sys.executable, *map(str, paths)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (Path(x["file"]).name, x["range"]["start"]["line"] + 1)
        for x in found
        if x["severity"] == "error" and x.get("rule") != "reportMissingImports"
    ]


def marked(path: Path) -> set[int]:
    """The lines of a file that say that they are wrong."""
    lines = path.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


@pytest.mark.slow
def test_mypy_sees_the_types_of_calls() -> None:
    assert errors_of_mypy(HERE / "calls.py", HERE / "gradients.py") == []


@pytest.mark.slow
def test_pyright_sees_the_types_of_calls() -> None:
    assert errors_of_pyright(HERE / "calls.py", HERE / "gradients.py") == []


@pytest.mark.slow
@pytest.mark.parametrize("checker", [errors_of_mypy, errors_of_pyright])
def test_wrong_calls_are_errors(checker: Any) -> None:
    path = HERE / "wrong_calls.py"
    assert {line for _, line in checker(path)} == marked(path)


@pytest.mark.slow
@pytest.mark.parametrize("checker", [errors_of_mypy, errors_of_pyright])
def test_examples_have_no_more_errors(checker: Any) -> None:
    known = IN_EXAMPLES[checker.__name__]
    found = checker(*sorted((ROOT / "examples").glob("*.py")), strict=False)
    for name in {name for name, _ in found}:
        lines = [line for other, line in found if other == name]
        assert len(lines) <= known.get(name, 0), f"{name}: lines {lines}"


def test_help_says_the_types() -> None:
    jnp = importlib.import_module("functrax.numpy")
    text = str(inspect.signature(jnp.sum)).replace("'", "")
    assert text.startswith("(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None")
    assert text.endswith("-> Array")
    assert inspect.getdoc(jnp.sum).startswith("The sum along axes.")
