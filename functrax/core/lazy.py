"""Names of a package that are imported when they are first asked for, and those that it shows.

``import functrax`` is a part of every program's start, so what few programs use is not loaded by
it.  A package says which of its names these are; :func:`on_demand` makes the two functions that
Python asks for names which a module does not have, and for its list of names (PEP 562).
:func:`listing` makes the second one alone.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast


def on_demand(
    namespace: dict[str, Any],
    submodules: Collection[str],
    members: Mapping[str, str],
    prepare: Callable[[Any], Any] = lambda x: x,
    missing: Callable[[str, str], AttributeError] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    Args:
      namespace: the globals of the package; what was imported becomes a part of them.
      submodules: names of modules of the package.
      members: of other names, the module that has them.
      prepare: what is done to a member, once.
      missing: makes the error for a name that there is not, of the package's name and of that one.
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
        if missing is not None:
            raise missing(package, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def dir_() -> list[str]:
        return sorted({*shown(), *submodules, *members})

    shown = listing(namespace)
    return getattr_, dir_


def listing(namespace: dict[str, Any]) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module, which leaves out what the module imports for its own use.

    Type checkers go by the same rule: a module exports what it defines, what it imports as
    ``from m import name as name``, and what ``__all__`` says.  The source is read when the list is
    first asked for; a module without its source shows all that it has.

    Args:
      namespace: the globals of the module.
    """

    @functools.cache
    def imports() -> dict[str, bool]:
        import ast
        import inspect

        try:
            source = inspect.getsource(import_module(namespace["__name__"]))
        except OSError:
            return dict.fromkeys(namespace, True)
        listed = dict.fromkeys(namespace.get("__all__", ()), True)
        return dict(_imports(ast.parse(source).body)) | listed

    def is_shown(name: str) -> bool:
        return imports().get(name, not isinstance(namespace[name], types.ModuleType))

    return lambda: sorted(filter(is_shown, list(namespace)))


def _imports(body: Sequence[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """The names that statements import, and whether the module exports them."""
    import ast

    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name in statement.names:
                is_exported = name.asname == name.name
                yield name.asname or name.name.partition(".")[0], is_exported
        elif isinstance(statement, ast.If):
            yield from _imports(statement.body)
            yield from _imports(statement.orelse)


def late(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that stands above the caller, imported by the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call


def sources(modules: Mapping[str, str]) -> dict[str, str]:
    """For each name the module that has it, from the names of each module, separated by spaces."""
    return {name: module for module, names in modules.items() for name in names.split()}
