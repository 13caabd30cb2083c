"""Names of a package that are imported when they are first asked for.

``import functrax`` is a part of every program's start, so what few programs use is not loaded by
it.  A package says which of its names these are; :func:`on_demand` makes the two functions that
Python asks for names which a module does not have (PEP 562).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def on_demand(
    namespace: dict[str, Any],
    submodules: Collection[str],
    members: Mapping[str, str],
    prepare: Callable[[Any], Any] = lambda x: x,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    Args:
      namespace: the globals of the package; what was imported becomes a part of them.
      submodules: names of modules of the package.
      members: of other names, the module that has them.
      prepare: what is done to a member, once.
    """
    package = namespace["__name__"]
    made: dict[int, tuple[Any, Any]] = {}

    def getattr_(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")  # which makes it a part of the package
        if name in members:
            found = getattr(import_module(members[name]), name)
            if id(found) not in made:  # so that two names of one thing stay one thing
                made[id(found)] = found, prepare(found)
            namespace[name] = made[id(found)][1]
            return namespace[name]
        if name == "__all__":  # of "from package import *"
            return [x for x in dir_() if not x.startswith("_")]
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def dir_() -> list[str]:
        return sorted({*namespace, *submodules, *members})

    return getattr_, dir_


def late(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that stands above the caller, imported by the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call


def sources(modules: Mapping[str, str]) -> dict[str, str]:
    """For each name the module that has it, from the names of each module, separated by spaces."""
    return {name: module for module, names in modules.items() for name in names.split()}
