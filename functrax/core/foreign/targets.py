"""Functions of the user's own by name and platform.

A :class:`ForeignTarget` is what was registered.  Programs hold its name; what they call is looked
up when they are compiled, in a place of memory that stays the target's own: one that is registered
again is called by programs that were compiled before.

Start at :func:`register` and :func:`find`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.core import native
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.process.locks import new_lock
from functrax.core.records import record, replace
from functrax.core.types.aval import ShapedArray

PLATFORMS: Final = {"host": "cpu", "gpu": "cuda"}  # other names of them
STAGES: Final = ("instantiate", "prepare", "initialize", "execute")

#: Gives the arguments of a plain C function, in its order: addresses of arrays stand as the
#: :class:`Placed` that were given, numbers are numbers.  Called with the operands' types, the
#: results' types and the attributes.
Arguments = Callable[[Sequence["Placed"], Sequence["Placed"], dict[str, Any]], Sequence[Any]]
#: Raises where operands and results are not what the function takes.
Check = Callable[[Sequence[ShapedArray], Sequence[ShapedArray], dict[str, Any]], None]


@record(eq=False)
class Placed:
    """An array among the arguments of a plain C function; it stands for its address.

    Args:
      number: which operand, or behind the operands which result, it is.
      aval: its type.
    """

    number: int
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self.aval.dtype

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.aval.size

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self.aval.ndim


@record(eq=False)
class ForeignTarget:
    """A function of the user's own.

    Args:
      name: by which programs call it.
      platform: ``"cpu"`` or ``"cuda"``; others are kept, and not called.
      convention: how it is called: ``"frame"`` for handlers of ``functrax/ffi.h``, ``"untyped"``
        for XLA's older ``void f(void* out, const void** in)``, ``"plain"`` for C functions,
        ``"ptx"`` for a kernel of a GPU.
      stages: the addresses for :data:`STAGES`; 0 where there is none.
      owner: what keeps the machine code in memory.
      arguments: of a plain function.
      has_status: whether a plain function returns an ``int`` that says whether it failed.
      check: looks at types when a call is traced.
      place: where the extension keeps its functions.
      kernel: of a GPU: what makes launches.
    """

    name: str
    platform: str
    convention: str
    stages: tuple[int, int, int, int]
    owner: Any = None
    arguments: Arguments | None = None
    has_status: bool = False
    check: Check | None = None
    place: int = 0
    kernel: Any = None


_targets: Final[dict[tuple[str, str], ForeignTarget]] = {}
_lock = new_lock()


def platform_name(platform: str) -> str:
    """The one name of a platform: ``"cpu"``, ``"cuda"``, ..."""
    lower = platform.lower()
    return PLATFORMS.get(lower, lower)


def register(target: ForeignTarget, what: str, replaces: bool = False) -> None:
    """Make a target known.

    Args:
      target: without a place.
      what: the function that does, for errors.
      replaces: whether there may be another one of its name.

    Raises:
      ArgumentError: there is another one, and ``replaces`` is false.
    """
    key = target.name, target.platform
    with _lock:
        before = _targets.get(key)
        place = 0 if before is None else before.place
        if before is not None and not replaces:
            if _what_runs(before) == _what_runs(target):
                return
            raise ArgumentError(
                f"{what}: another function has this name",
                got=f"{target.name!r} for {target.platform}",
                fix="another name; or register_ffi_target(..., replace=True) for a new handler",
            )
        if before is not None and before.convention != target.convention:
            raise ArgumentError(
                f"{what}: a target keeps its convention",
                got=f"{target.name!r}, so far {before.convention}, now {target.convention}",
                fix="another name",
            )
        if native.extension is not None and target.platform == "cpu":
            place = place or native.extension.foreign_target()
            native.extension.foreign_functions(place, list(target.stages))
        _targets[key] = replace(target, place=place)
        if before is not None:
            _kept.append(before)  # a thread may be in it


def _what_runs(target: ForeignTarget) -> tuple[Any, ...]:
    """What decides what a call of a target does."""
    return target.convention, target.stages, target.arguments, target.has_status


_kept: Final[list[ForeignTarget]] = []


def is_registered(name: str) -> bool:
    """Whether a target is known on some platform."""
    return any(key[0] == name for key in _targets)


def platforms_of(name: str) -> list[str]:
    """The platforms on which a target is known."""
    return sorted(key[1] for key in _targets if key[0] == name)


def target_of(name: str, platform: str) -> ForeignTarget | None:
    """A target, if it is known."""
    return _targets.get((name, platform))


def find(name: str, platform: str, where: Any = None) -> ForeignTarget:
    """A target.

    Raises:
      UnavailableError: it is not registered, or only for other platforms.
    """
    found = target_of(name, platform)
    if found is not None:
        return found
    others = platforms_of(name)
    if others:
        raise UnavailableError(
            f"ffi_call: the target {name!r} is not registered for the platform {platform!r}",
            got=f"it is registered for {', '.join(others)}",
            fix=f"functrax.ffi.register_ffi_target(..., platform={platform!r})",
            where=where,
        )
    known = sorted({key[0] for key in _targets})
    raise UnavailableError(
        f"ffi_call: the target {name!r} is not registered",
        got=f"registered are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
        if known
        else "no target is registered",
        fix=f"functrax.ffi.register_ffi_target({name!r}, functrax.ffi.pycapsule(library.symbol))",
        where=where,
    )
