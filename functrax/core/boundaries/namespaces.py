"""Public packages whose names are imported on demand, and what they say of names they lack.

Start at :func:`public_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Final

from functrax.core.boundaries.tracebacks import boundary, deliberate
from functrax.core.lazy import on_demand

#: Where a name is looked for that another one of these does not have.
NAMESPACES: Final = (
    *("functrax", "functrax.numpy", "functrax.lax", "functrax.nn", "functrax.random"),
    *("functrax.numpy.linalg", "functrax.numpy.fft", "functrax.lax.linalg", "functrax.image"),
    *("functrax.scipy", "functrax.scipy.special", "functrax.scipy.linalg"),
    *("functrax.scipy.signal", "functrax.scipy.optimize", "functrax.nn.initializers"),
    *("functrax.tree_util", "functrax.ops", "functrax.debug", "functrax.experimental"),
)


def public_names(
    namespace: dict[str, Any],
    submodules: Collection[str],
    members: Mapping[str, str],
    prepare: Callable[[Any], Any] = lambda x: x,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """:func:`~functrax.core.lazy.on_demand` whose errors tell where else a name is to be found."""
    getattr_, dir_ = on_demand(namespace, submodules, members, prepare, _missing)
    return boundary(getattr_), dir_


def _missing(package: str, name: str) -> AttributeError:
    return deliberate(AttributeError(_NoSuchName(package, name), name=name))


class _NoSuchName:
    """The text of an error, worked out where it is read: ``hasattr`` does not pay for it."""

    def __init__(self, package: str, name: str) -> None:
        self.package, self.name = package, name

    def __str__(self) -> str:
        text = f"module {self.package!r} has no attribute {self.name!r}"
        found = "" if self.name.startswith("_") else _elsewhere(self.package, self.name)
        return f"{text}\n  try   {found}" if found else text

    def __repr__(self) -> str:
        return repr(str(self))


def _elsewhere(package: str, name: str) -> str:
    """The namespaces that have a name, or the names of this one that are spelled like it."""
    import difflib

    others = [x for x in NAMESPACES if x != package and name in dir(import_module(x))]
    if others:
        return " or ".join(f"{x}.{name}" for x in others)
    near = difflib.get_close_matches(name, dir(import_module(package)), n=3, cutoff=0.75)
    return " or ".join(f"{package}.{x}" for x in near)
