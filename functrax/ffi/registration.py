"""Names for functions that were compiled elsewhere.

Start at :func:`register_ffi_target`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any, Final

from functrax.core import native
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.foreign import targets
from functrax.core.foreign.targets import STAGES, ForeignTarget

_MAJOR: Final = 0
_NEWEST: Final = 3
_EXECUTE: Final = STAGES.index("execute")

_POINTERS: Final = (type(ctypes.pythonapi.PyCapsule_New).__mro__[1], ctypes.c_void_p)
_get_pointer: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_get_name: Any = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_new: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def include_dir() -> str:
    """The directory that holds ``functrax/ffi.h`` and ``functrax/ffi.hpp``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def pycapsule(funcptr: Any) -> Any:
    """A function of a shared library as what :func:`register_ffi_target` takes.

    Args:
      funcptr: a function of ``ctypes``, or an address.

    >>> import ctypes, functrax
    >>> functrax.ffi.pycapsule(ctypes.CDLL(None).malloc)  # doctest: +ELLIPSIS
    <capsule object NULL at 0x...>
    """
    return _new(address_of(funcptr, "pycapsule"), None, None)


def address_of(function: Any, what: str) -> int:
    """The address of a function: of ctypes, of numba, of a capsule, or of a number.

    Raises:
      ArgumentError: it is none of these.
    """
    found: Any = None
    if type(function).__name__ == "PyCapsule":
        found = _get_pointer(function, _get_name(function))
    elif isinstance(function, int) and not isinstance(function, bool):
        found = function
    elif isinstance(getattr(function, "address", None), int):  # numba's cfunc
        found = function.address
    elif isinstance(function, _POINTERS):
        found = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    if not found:
        raise ArgumentError(
            f"{what}: not the address of a function",
            got=f"{function!r} of type {type(function).__name__}",
            fix="a function of ctypes.CDLL, numba's @cfunc, functrax.ffi.pycapsule(...), or an int",
        )
    return int(found)


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    *,
    replace: bool = False,
    **kwargs: Any,
) -> None:
    """Make a function known by a name, under which :func:`ffi_call` calls it.

    Args:
      name: the name.
      fn: a capsule with the address of a handler (:func:`pycapsule`), or a dict with one for each
        stage: ``"execute"``, and if it has them ``"instantiate"``, ``"prepare"``,
        ``"initialize"``.
      platform: ``"cpu"``.  Handlers for other platforms can be registered, and are not called.
      api_version: 1 for handlers of frames (``functrax/ffi.h``, XLA's typed interface); 0 for
        XLA's older ``void f(void* out, const void** in)``.
      replace: whether another function may have had the name; programs that were compiled before
        call the new one then.
      kwargs: taken for JAX's sake: ``traits`` changes nothing.

    Raises:
      ArgumentError: another function has the name, or an argument is wrong.
      UnavailableError: the handler was built with a version of the interface that is not known.
    """
    if not name:
        raise _wrong("the name is empty", repr(name), "'my_function'")
    if kwargs.keys() - {"traits"}:
        raise _wrong(f"unknown keyword {min(kwargs)!r}", ", ".join(sorted(kwargs)), "traits=")
    if api_version not in (0, 1):
        raise _wrong("unknown api_version", repr(api_version), "1, or 0 for XLA's older interface")
    given = dict(fn) if isinstance(fn, Mapping) else {"execute": fn}
    if (
        given.keys() - set(STAGES)
        or "execute" not in given
        or (api_version == 0 and len(given) > 1)
    ):
        raise _wrong(
            "a handler has 'execute', and no stages but instantiate, prepare and initialize",
            ", ".join(map(str, given)),
            "{'execute': functrax.ffi.pycapsule(library.symbol)}",
        )
    stages = [0, 0, 0, 0]
    for stage, function in given.items():
        stages[STAGES.index(stage)] = address_of(function, "register_ffi_target")
    where = targets.platform_name(platform)
    if api_version == 1 and where == "cpu":
        for address in stages:
            if address:
                _check_version(name, address)
    convention = "frame" if api_version == 1 else "untyped"
    i, p, n, e = stages
    made = ForeignTarget(name, where, convention, (i, p, n, e), fn)
    targets.register(made, "register_ffi_target", replace)


def _wrong(what: str, got: str, fix: str) -> ArgumentError:
    return ArgumentError(f"register_ffi_target: {what}", got=got, fix=fix)


def _check_version(name: str, address: int) -> None:
    """Ask a handler with which version of the interface it was built."""
    if native.extension is None:
        from functrax.core.foreign.frames import metadata

        message, major, minor, *_ = metadata(address)
    else:
        message, major, minor, *_ = native.extension.foreign_metadata(address)
    if message is not None:
        raise UnavailableError(
            f"register_ffi_target: the handler of {name!r} does not say what it is",
            got=message,
            fix="a handler made by XLA_FFI_DEFINE_HANDLER_SYMBOL or FUNCTRAX_FFI_HANDLER",
        )
    if major != _MAJOR or minor > _NEWEST or minor < 1:
        raise UnavailableError(
            f"register_ffi_target: the handler of {name!r} was built with another version of the "
            "interface",
            got=f"version {major}.{minor}, where {_MAJOR}.1 to {_MAJOR}.{_NEWEST} are known",
            fix="compile it with the header in functrax.ffi.include_dir()",
        )


def register_ffi_type(
    name: str, type_registration: Mapping[str, Any], platform: str = "cpu"
) -> None:
    """Make the type of a handler's state known.

    Args:
      name: of the type.
      type_registration: capsules by name: ``"type_id"`` with the address of the type's number,
        which is written there, and ``"type_info"`` with that of what frees its objects, if there
        is one.
      platform: as :func:`register_ffi_target` takes it.

    Raises:
      ArgumentError: a name or a number stands for two types.
    """
    if "type_id" not in type_registration or type_registration.keys() - {"type_id", "type_info"}:
        raise ArgumentError(
            "register_ffi_type: a registration has 'type_id', and may have 'type_info'",
            got=", ".join(map(str, type_registration)),
            fix="{'type_id': capsule, 'type_info': capsule}",
        )
    number = address_of(type_registration["type_id"], "register_ffi_type")
    info = type_registration.get("type_info")
    about = 0 if info is None else address_of(info, "register_ffi_type")
    try:
        if native.extension is not None:
            native.extension.foreign_type(name, number, about)
        else:
            from functrax.core.foreign import frames

            frames.add_type(name, number, about)
    except ValueError as error:
        raise ArgumentError(
            "register_ffi_type: a name or a number stands for two types",
            got=str(error),
            fix="another name",
        ) from None


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Refused, as JAX since its version 0.8 does.

    Raises:
      UnavailableError: always.
    """
    raise UnavailableError(
        "register_ffi_type_id: JAX's newer interface has none",
        got=repr(name),
        fix="functrax.ffi.register_ffi_type(name, {'type_id': capsule})",
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that a target computes the rows of its operands one by one; there is one device.

    Raises:
      UnavailableError: the target is not registered.
    """
    if not targets.is_registered(name):
        targets.find(name, "cpu")
