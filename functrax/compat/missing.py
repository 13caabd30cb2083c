"""Names of JAX that functrax lacks: they can be asked for, and raise when they are used.

A library asks for names that most of its users never use.  So such a name is a :class:`Missing`,
which can be imported, stand in an annotation, be a base class and be asked of ``isinstance``
(nothing is an instance of it); to call it raises :class:`MissingNameError`.  Every request is
noted with who made it: :func:`report`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from functrax.compat import names
from functrax.core.errors.typed import FunctraxError
from functrax.core.records import record

_PACKAGE = __name__.rpartition(".")[0]


class MissingNameError(FunctraxError, NotImplementedError):
    """A name of JAX was used that functrax lacks."""


@record
class Request:
    """A name that was asked for and is not there.

    Args:
      name: its full name, as ``jax.experimental.pallas.pallas_call``.
      module: the module that asked.
      where: the line that asked, as ``file:line``.
      used: whether it was used, which raised.
    """

    name: str
    module: str
    where: str
    used: bool = False

    def __str__(self) -> str:
        return f"{self.name}: asked for by {self.module} ({self.where}){', used' * self.used}"


class Report(tuple[Request, ...]):
    """What a program asked of JAX and did not get, in the order in which it asked."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "every name of JAX that was asked for is there"
        lines = [f"  {request}{_advice(request.name)}" for request in self]
        return "\n".join([f"{len(self)} names of JAX were asked for that functrax lacks:", *lines])

    __repr__ = __str__


_requests: dict[tuple[str, str], Request] = {}
_lock = threading.Lock()


def report() -> Report:
    """What was asked for since :func:`functrax.compat.install`, and was not there.

    >>> print(report())
    every name of JAX that was asked for is there
    """
    with _lock:
        return Report(_requests.values())


def note(name: str, *, used: bool = False) -> Request:
    """Remember that a name was asked for, or used, by the code that runs."""
    module, where = asker()
    with _lock:
        earlier = _requests.get((name, module))
        if earlier is None or (used and not earlier.used):
            where = where if earlier is None else earlier.where
            _requests[name, module] = Request(name, module, where, used)
        return _requests[name, module]


def asker() -> tuple[str, str]:
    """The module whose code asks, and its line: the first outside of compat and the importer."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "?"))
        if not module.startswith((_PACKAGE, "importlib.", "typing")):
            return module, f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?", "?"


def _advice(name: str) -> str:
    instead = names.instead_of(name)
    return f"; {instead}" if instead else ""


class Missing:
    """Stands for a name that functrax lacks."""

    if TYPE_CHECKING:
        _name: str
        _requested: Request

    def __init__(self, name: str, requested: Request) -> None:
        self.__dict__.update(_name=name, _requested=requested)
        module, _, last = name.rpartition(".")
        self.__dict__.update(__name__=last, __qualname__=last, __module__=module, __doc__=None)

    def _raise(self) -> NoReturn:
        used = note(self._name, used=True)
        raise MissingNameError(
            f"functrax has no {self._name}",
            got=f"its use by {used.module}; asked for by {self._requested.module}, "
            f"{self._requested.where}",
            fix=names.instead_of(self._name)
            or "docs/jax_compatibility.md says what there is; functrax.compat.report() lists what "
            "else this program asked for",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._raise()

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is missing in functrax, and so has no {name}")
        return Missing(f"{self._name}.{name}", self._requested)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        self._raise()

    def __getitem__(self, key: Any) -> Missing:
        return self  # of an annotation

    def __or__(self, other: Any) -> Any:
        return object if other is None else other  # of an annotation

    __ror__ = __or__

    def __instancecheck__(self, value: Any) -> bool:
        return False  # what does not exist has no instances

    def __subclasscheck__(self, cls: Any) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        missing = self

        class MissingBase:
            """The base of a class that is derived from a missing one: it has no instances."""

            def __new__(cls, *args: Any, **kwargs: Any) -> Any:
                missing._raise()

            def __init_subclass__(cls, **kwargs: Any) -> None:
                super().__init_subclass__()

        return (MissingBase,)

    def __iter__(self) -> Iterator[Any]:
        self._raise()

    def __bool__(self) -> bool:  # noqa: PLE0304 - it raises
        self._raise()

    def __enter__(self) -> NoReturn:
        self._raise()

    def __exit__(self, *args: Any) -> None:
        """Never entered."""

    def __repr__(self) -> str:
        return f"<{self._name}, which functrax lacks>"
