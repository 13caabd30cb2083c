"""``import jax`` that gives functrax: what finds the modules, and what they are.

A module ``jax.x`` is a :class:`ModuleView`: its names are those of ``functrax.compat.jax.x``, where
what exists under JAX's name alone is written, then those of ``functrax.x``; a name that JAX has and
neither of these is :class:`~functrax.compat.missing.Missing`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from functrax.compat import names
from functrax.compat.environment import set_options
from functrax.compat.missing import Missing, note
from functrax.core.errors.typed import FunctraxError

_HERE = "functrax.compat"
_PACKAGES = ("jax", "jaxlib")


class CompatError(FunctraxError, RuntimeError):
    """``jax`` cannot be made to mean functrax."""


class ModuleView(ModuleType):
    """A module of JAX, whose names are functrax's."""

    _sources: tuple[ModuleType, ...]

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if name.startswith("__") and name not in ("__version__", "__version_info__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if own(full) or full in names.public_names() or public_of(full):
            return import_module(full)
        for source in self._sources:
            try:
                found = getattr(source, name)
            except AttributeError:
                continue
            if not isinstance(found, ModuleType):
                self.__dict__[name] = found
                return found
        if name in names.public_names().get(self.__name__, ()) or (
            names.in_absent_package(self.__name__) and not name.startswith("__")
        ):
            return Missing(full, note(full))
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}: JAX {names.VERSION}, which "
            "functrax.compat stands for, has no such name, so the program may be written for an "
            "older or a newer JAX"
        )

    def __dir__(self) -> list[str]:
        found = {
            n
            for source in self._sources
            for n in dir(source)
            if not n.startswith("_") and not isinstance(vars(source).get(n), ModuleType)
        }
        return sorted(found | names.public_names().get(self.__name__, frozenset()))

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which functrax.compat gives>"


def exists(name: str) -> bool:
    """Whether ``name`` is a module that is found here."""
    if own(name) is not None:
        return True
    return names.is_module(name)


def own(name: str) -> str | None:
    """The module of functrax.compat for what exists under JAX's name alone, if there is one."""
    path = Path(__file__).parent.joinpath(*name.split("."))
    found = path.with_suffix(".py").exists() or (path / "__init__.py").exists()
    return f"{_HERE}.{name}" if found else None


def public_of(name: str) -> str | None:
    """The public module of JAX with the names of the private ``jax._src.x``, if there is one."""
    package, found, last = name.partition("._src.")
    if not found:
        return None
    candidates = (f"{package}.{last}", f"{package}.experimental.{last}")
    return next((c for c in candidates if c in names.public_names()), None)


def counterpart(name: str) -> str | None:
    """The module of functrax that has the names of a public module of JAX, if there is one."""
    if name not in names.public_names():
        return None
    mine = "functrax" + name.removeprefix("jax")
    try:
        return mine if find_spec(mine) is not None else None
    except ModuleNotFoundError:  # its package is not there
        return None


class _Loader:
    """Makes the views."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        view = ModuleView(spec.name)
        sources = (own(spec.name), counterpart(spec.name), public_of(spec.name))
        view._sources = tuple(import_module(s) for s in sources if s is not None)
        view.__doc__ = next((s.__doc__ for s in view._sources), None)
        return view

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do: names are looked up as they are asked for."""


class Finder:
    """What ``sys.meta_path`` has to find ``jax`` and ``jaxlib``, before what is installed."""

    _loader = _Loader()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of JAX."""
        if name.partition(".")[0] not in _PACKAGES or not exists(name):
            return None
        return ModuleSpec(name, self._loader, origin=_HERE, is_package=True)  # type: ignore[arg-type]

    def find_distributions(
        self, context: metadata.DistributionFinder.Context | None = None
    ) -> Iterable[metadata.Distribution]:
        """``jax`` and ``jaxlib``, for programs that ask which version is installed."""
        name = None if context is None else context.name
        wanted = _PACKAGES if name is None else (name,)
        return [_Distribution(name) for name in wanted if name in _PACKAGES]


class _Distribution(metadata.Distribution):
    """Says which JAX this is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {names.VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        return Path(__file__).parent / path


def is_installed() -> bool:
    """Whether ``import jax`` gives functrax."""
    return any(isinstance(f, Finder) for f in sys.meta_path)


def install() -> None:
    """Have ``import jax`` give functrax, in this process and in those that it starts.

    To call it twice does no harm.

    Raises:
      CompatError: if JAX has been imported.
      ArgumentError: if a variable of the environment such as ``JAX_ENABLE_X64`` has no value
        that its option takes.
    """
    if is_installed():
        return
    there = [n for n in _PACKAGES if n in sys.modules]
    if there:
        module = sys.modules[there[0]]
        raise CompatError(
            f"functrax.compat.install: {there[0]} is imported already",
            got=f"{there[0]} {getattr(module, '__version__', '')} from "
            f"{getattr(module, '__file__', 'an unknown place')}",
            fix="call it before the first `import jax`, or run `python -m functrax.compat "
            "program.py`",
        )
    set_options(os.environ)
    sys.meta_path.insert(0, Finder())
    os.environ["FUNCTRAX_COMPAT"] = "1"
