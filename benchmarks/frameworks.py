"""How each framework places inputs, builds a workload's function, blocks, and gives arrays back.

``load`` imports one framework, in the process that is to use it, and returns its ``Framework``.
"""

from __future__ import annotations

import dataclasses
import glob
import importlib
import importlib.metadata
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trees import leaves, map_leaves
from benchmarks.workload import Workload

DISTRIBUTIONS = {"inductor": "torch"}  # where the name differs from the framework's


@dataclasses.dataclass(frozen=True)
class Framework:
    """One framework, imported.

    ``build`` makes a workload's function; ``place`` puts inputs where the framework computes;
    ``block`` waits for a result; ``arrays`` lists a result's leaves as NumPy arrays.
    """

    name: str
    build: Callable[[Workload], Callable[..., Any]]
    place: Callable[[Any], Any]
    block: Callable[[Any], Any]
    arrays: Callable[[Any], list[np.ndarray]]


def version(name: str) -> str | None:
    """The installed version of a framework, or None."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(name, name))
    except importlib.metadata.PackageNotFoundError:
        return None


def load(name: str) -> Framework:
    """Import a framework.

    Raises:
        ImportError: it is not installed.
    """
    loaders = {"torch": _torch, "inductor": _torch, "drjit": _drjit}
    if name in ("functrax", "jax"):
        return _traced(name)
    return loaders.get(name, _host)(name)


def _traced(name: str) -> Framework:
    """functrax or JAX: the workload's one text, with the library as its argument."""
    library = importlib.import_module(name)

    def build(workload: Workload) -> Callable[..., Any]:
        assert workload.text is not None
        function = workload.text(library)
        return function if workload.mode in ("eager", "record", "first") else library.jit(function)

    def arrays(result: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in library.tree_util.tree_leaves(result)]

    return Framework(name, build, library.device_put, library.block_until_ready, arrays)


def _torch(name: str) -> Framework:
    """PyTorch; gradients are off unless a workload turns them on."""
    torch = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    staged = torch.compile if name == "inductor" else same

    def build(workload: Workload) -> Callable[..., Any]:
        return workload.peers["torch"](torch, staged)

    def place(tree: Any) -> Any:
        return map_leaves(lambda leaf: torch.tensor(leaf) if _is_array(leaf) else leaf, tree)

    def arrays(result: Any) -> list[np.ndarray]:
        return [
            leaf.detach().numpy().copy() if torch.is_tensor(leaf) else np.asarray(leaf)
            for leaf in leaves(result)
        ]

    return Framework(name, build, place, same, arrays)


def _drjit(name: str) -> Framework:
    """Dr.Jit on its LLVM backend; nothing is computed before ``eval``."""
    newest = newest_llvm()
    if newest is not None:
        os.environ.setdefault("DRJIT_LIBLLVM_PATH", str(newest))
    drjit = importlib.import_module(name)
    llvm = importlib.import_module("drjit.llvm.ad")

    def build(workload: Workload) -> Callable[..., Any]:
        return workload.peers["drjit"](drjit)

    def place(tree: Any) -> Any:
        placed = map_leaves(lambda leaf: llvm.TensorXf(leaf) if _is_array(leaf) else leaf, tree)
        drjit.eval(placed)
        drjit.sync_thread()
        return placed

    def block(result: Any) -> Any:
        drjit.eval(result)
        drjit.sync_thread()
        return result

    def arrays(result: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in leaves(result)]

    return Framework(name, build, place, block, arrays)


def newest_llvm() -> Path | None:
    """The newest LLVM library of the system: older ones than the processor may crash on it."""
    places = ("/usr/lib/*/libLLVM*.so*", "/usr/lib/llvm-*/lib/libLLVM*.so*")
    home = pwd.getpwuid(os.getuid()).pw_dir  # $HOME may be a cache directory for the moment
    rust = f"{home}/.rustup/toolchains/*/lib/libLLVM*.so*"
    found = [Path(path) for place in (*places, rust) for path in glob.glob(place)]
    versions = {path: re.search(r"libLLVM\D*(\d+)", path.name) for path in found}
    numbered = [(int(v.group(1)), path) for path, v in versions.items() if v is not None]
    return max(numbered)[1] if numbered else None


def _host(name: str) -> Framework:
    """NumPy and numba: arrays of NumPy, results at once."""
    module = importlib.import_module(name)

    def build(workload: Workload) -> Callable[..., Any]:
        return workload.peers[name](module)

    def arrays(result: Any) -> list[np.ndarray]:
        """numba hands a float32 scalar back as a Python float."""
        return [np.asarray(x, np.float32 if type(x) is float else None) for x in leaves(result)]

    return Framework(name, build, same, same, arrays)


def same(value: Any) -> Any:
    """The value: for frameworks whose results are there at once."""
    return value


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic))
