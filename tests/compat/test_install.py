"""``import jax`` gives functrax, when it is asked to, and says what it lacks."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import functrax
from functrax import compat


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={k: v for k, v in {**os.environ, **environment}.items() if v != ""},
        check=False,
    )


CLEAN = {"FUNCTRAX_COMPAT": ""}


def test_modules_have_functraxs_functions():
    import jax
    import jax.numpy as jnp
    from jax import lax, random
    from jax.scipy.special import logsumexp
    from jax.tree_util import tree_map

    assert jax.grad is functrax.grad
    assert jnp.sin is functrax.numpy.sin
    assert lax.scan is functrax.lax.scan
    assert random.normal is functrax.random.normal
    assert logsumexp is functrax.scipy.special.logsumexp
    assert tree_map is functrax.tree_util.tree_map
    assert jax.Array is functrax.Array
    assert jax.nn.relu is functrax.nn.relu
    assert jax.numpy.linalg.svd is functrax.numpy.linalg.svd


def test_it_says_which_jax_it_is():
    import jax
    import jaxlib

    assert jax.__version__ == jaxlib.__version__ == "0.10.2"
    assert jax.__version_info__ == (0, 10, 2)
    assert importlib.metadata.version("jax") == importlib.metadata.version("jaxlib") == "0.10.2"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("jax-unknown")


def test_a_missing_name_can_be_imported_but_not_used():
    from jax.experimental import pallas as pl
    from jax.experimental.topologies import TopologyDescription, get_topology_desc

    class Described(TopologyDescription):
        pass

    def annotated(x: TopologyDescription | None, y: Described | None) -> TopologyDescription: ...

    assert not isinstance(1, TopologyDescription)
    assert not isinstance(1, (str, TopologyDescription))
    for use in (
        lambda: get_topology_desc("cpu"),
        lambda: pl.pallas_call(None),
        Described,
        lambda: bool(TopologyDescription),
        lambda: list(TopologyDescription),
        lambda: setattr(TopologyDescription, "x", 1),
    ):
        with pytest.raises(compat.MissingNameError, match=r"functrax has no jax\.experimental"):
            use()


def test_the_error_names_who_asked_and_what_there_is():
    from jax.interpreters.mlir import ir_constant

    with pytest.raises(NotImplementedError) as caught:
        ir_constant(1)
    text = str(caught.value)
    assert "jax.interpreters.mlir.ir_constant" in text
    assert "test_install.py" in text
    assert "lower_fun" in text


def test_the_report_lists_what_was_asked_for_and_what_was_used():
    assert not compat.report()
    assert "every name" in str(compat.report())
    from jax.experimental.topologies import TopologyDescription, get_topology_desc

    assert TopologyDescription.__name__ == "TopologyDescription"
    with pytest.raises(compat.MissingNameError):
        get_topology_desc()
    found = {r.name.rpartition(".")[2]: r for r in compat.report()}
    assert not found["TopologyDescription"].used
    assert found["get_topology_desc"].used
    assert found["get_topology_desc"].module == __name__
    assert "2 names" in str(compat.report())


def test_what_jax_has_not_is_not_there():
    import jax

    assert not hasattr(jax, "no_such_name")
    with pytest.raises(AttributeError, match=r"JAX 0\.10\.2.*older or a newer JAX"):
        jax.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        from jax.numpy import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jax.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jax.transforms")  # functrax's own affair


def test_dir_lists_what_there_is():
    import jax

    assert {"grad", "jit", "numpy"} <= {*dir(jax), "numpy"}
    assert "sin" in dir(jax.numpy)
    assert "functrax.compat" in repr(jax)


def test_installing_twice_does_no_harm():
    before = list(sys.meta_path)
    compat.install()
    assert sys.meta_path == before
    assert compat.is_installed()


def test_installing_after_jax_is_an_error():
    code = (
        "import sys, types; sys.modules['jax'] = types.ModuleType('jax')\n"
        "sys.modules['jax'].__version__ = '0.9.9'\n"
        "from functrax import compat\n"
        "compat.install()"
    )
    found = run("-c", code, **CLEAN)
    assert found.returncode
    assert "CompatError" in found.stderr
    assert "jax 0.9.9" in found.stderr
    assert "before the first `import jax`" in found.stderr


def test_importing_functrax_installs_nothing():
    code = (
        "import functrax, functrax.compat, sys\n"
        "assert not functrax.compat.is_installed()\n"
        "assert 'jax' not in sys.modules"
    )
    found = run("-c", code, **CLEAN)
    assert not found.returncode, found.stderr


def test_functrax_does_not_import_compat():
    found = run(
        "-c", "import functrax, sys; print([m for m in sys.modules if 'compat' in m])", **CLEAN
    )
    assert "functrax.compat" not in found.stdout


def test_a_program_runs(tmp_path: Path):
    (tmp_path / "beside.py").write_text("VALUE = 3")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, jax, beside\n"
        "if __name__ == '__main__':\n"
        "    slope = jax.grad(lambda x: x * x)(beside.VALUE * 1.0)\n"
        "    print(jax.__version__, sys.argv[1:], float(slope))\n"
    )
    found = run("-m", "functrax.compat", str(program), "-x", "7", **CLEAN)
    assert found.stdout.split("\n")[0] == "0.10.2 ['-x', '7'] 6.0", found.stderr


def test_a_module_and_code_run():
    found = run(
        "-m", "functrax.compat", "-c", "import jax, sys; print(jax, sys.argv)", "a", **CLEAN
    )
    assert "functrax.compat gives" in found.stdout
    assert "['-c', 'a']" in found.stdout
    found = run("-m", "functrax.compat", "-m", "json.tool", "--help", **CLEAN)
    assert "usage" in found.stdout


def test_a_report_can_be_asked_for():
    code = "from jax.experimental.topologies import make_mesh"
    found = run("-m", "functrax.compat", "--report", "-c", code, **CLEAN)
    assert "jax.experimental.topologies.make_mesh: asked for by __main__" in found.stderr


def test_what_cannot_be_run_is_said():
    found = run("-m", "functrax.compat", "/no/such/program.py", **CLEAN)
    assert found.returncode == 2
    assert "no such file: /no/such/program.py" in found.stderr
    found = run("-m", "functrax.compat", **CLEAN)
    assert found.returncode == 2
    assert "nothing to run" in found.stderr


def test_processes_that_it_starts_have_it_too():
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import jax; print(jax)'], check=True)"
    )
    found = run("-m", "functrax.compat", "-c", code, **CLEAN)
    assert "functrax.compat gives" in found.stdout, found.stderr


def test_the_environment_variable():
    found = run("-c", "import jax; print(jax)", FUNCTRAX_COMPAT="1")
    assert "functrax.compat gives" in found.stdout, found.stderr
    found = run("-c", "import sys; print('functrax' in sys.modules)", FUNCTRAX_COMPAT="0")
    assert found.stdout.strip() == "False"


def test_the_page_runs(tmp_path: Path):
    """The program of docs/compat.md, in a process of its own."""
    page = Path(__file__).parents[2] / "docs" / "compat.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = run("-c", block, **CLEAN)
    assert not found.returncode, found.stderr


def test_the_pytest_plugin(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import jax, pytest\n"
        "from jax.experimental.topologies import make_mesh\n"
        "def test_it():\n"
        "    assert jax.grad(jax.numpy.sin)(0.0) == 1\n"
        "    with pytest.raises(NotImplementedError):\n"
        "        make_mesh()\n"
    )
    found = run(
        "-m", "pytest", "-p", "functrax.compat.pytest_plugin", "-p", "no:cacheprovider",
        "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path), **CLEAN,
    )  # fmt: skip
    assert "1 passed" in found.stdout, found.stdout + found.stderr
    assert "jax.experimental.topologies.make_mesh" in found.stdout
