"""Which names JAX has, and what there is instead of those that functrax lacks.

``jax_names.txt`` lists the public modules of JAX 0.10.2, a line each, with their names.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

#: The version of JAX whose names and meaning these are.
VERSION = "0.10.2"

#: Packages of JAX that functrax does not have, whose names are not listed: each is missing.
ABSENT_PACKAGES = (
    "jax._src",
    "jax.experimental.array_serialization",
    "jax.experimental.colocated_python",
    "jax.experimental.mosaic",
    "jax.experimental.pallas",
    "jax.experimental.roofline",
    "jax.experimental.source_mapper",
    "jax.extend.ifrt_programs",
    "jax.extend.mlir",
    "jax.extend.pallas",
    "jax.lib",
    "jaxlib",
)

#: What to use instead, by name or by the package that it is in.
INSTEAD = {
    "jax._src": "a private module of JAX: the public name that it stands behind",
    "jax.experimental.array_serialization": "numpy.savez, or what saves NumPy arrays",
    "jax.experimental.mosaic": "functrax writes its kernels itself: functrax.explain(f) shows them",
    "jax.experimental.pallas": "functrax writes its kernels itself: write what one computes with "
    "jax.numpy and jax.lax, and look at functrax.explain(f)",
    "jax.extend.mlir": "functrax has no MLIR: jax.interpreters.mlir.lower_fun(f) traces f instead",
    "jax.interpreters.mlir": "functrax has no MLIR: jax.interpreters.mlir.lower_fun(f) traces f "
    "instead",
    "jaxlib": "functrax needs no jaxlib: the public name of jax",
}


@lru_cache(maxsize=1)
def public_names() -> dict[str, frozenset[str]]:
    """The names of each public module of JAX."""
    text = files(__package__).joinpath("jax_names.txt").read_text(encoding="utf-8")
    lines = (line.partition(":") for line in text.splitlines())
    return {module: frozenset(listed.split()) for module, _, listed in lines}


def is_module(name: str) -> bool:
    """Whether JAX has a module of that name, as far as the list says."""
    return name in public_names() or in_absent_package(name)


def in_absent_package(name: str) -> bool:
    """Whether it is a package, or in one, that functrax does not have."""
    return any(name == p or name.startswith(f"{p}.") for p in ABSENT_PACKAGES)


def instead_of(name: str) -> str:
    """What to use instead of a missing name; empty where there is nothing to say."""
    while name:
        if name in INSTEAD:
            return INSTEAD[name]
        name = name.rpartition(".")[0]
    return ""
