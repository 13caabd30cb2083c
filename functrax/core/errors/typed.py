"""Typed errors in four parts: what is wrong, what was given, where, and what to do.

Every error that functrax raises on bad input is a :class:`FunctraxError`, and also the built-in
exception that a NumPy or JAX user would expect (``TypeError``, ``ValueError``, ``IndexError``), so
that ``except TypeError`` keeps working.  ``where`` is the user's own line: it is found by walking
out of functrax's frames when the error is made, unless the raiser knows better (an equation that
was traced earlier, for example).

Start at :class:`FunctraxError`; the subclasses only choose a name and a built-in to inherit from.
"""

from __future__ import annotations

from typing import Any

from functrax.core.errors.source import SourceLine, user_line


class FunctraxError(Exception):
    """Base of all errors raised by functrax.

    Args:
      what: one line that says what is wrong, beginning with the name of the function.
      got: what was given, from the data at hand (several lines are allowed).
      fix: what the user can do about it.
      where: the line at fault; found from the stack when omitted.
    """

    __module__ = "functrax.errors"  # where users find it, as tracebacks say

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ == __name__:
            cls.__module__ = FunctraxError.__module__

    def __init__(
        self, what: str, *, got: str = "", fix: str = "", where: SourceLine | None = None
    ) -> None:
        self.what = what
        self.got = got
        self.where = where if where is not None else user_line()
        self.fix = fix
        super().__init__(self._text())

    def __reduce__(self) -> Any:
        return _again, (type(self), self.args, self.__dict__)

    def _text(self) -> str:
        parts = [self.what]
        for label, text in (("got", self.got), ("at", str(self.where or "")), ("try", self.fix)):
            if text:
                parts.append(f"  {label:<5} " + text.replace("\n", "\n        "))
        return "\n".join(parts)


def _again(
    kind: type[FunctraxError], args: tuple[Any, ...], parts: dict[str, Any]
) -> FunctraxError:
    """An error as it was pickled: other processes raise it with its text and its line."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class ShapeError(FunctraxError, TypeError, ValueError):
    """Shapes do not fit together."""


class DTypeError(FunctraxError, TypeError, ValueError):
    """A dtype that the operation does not accept, or dtypes that do not go together."""


class HandleError(DTypeError, AttributeError):
    """An operation on arrays was given a handle, such as an array of typed keys.

    It has no type of an array of numbers, so ``hasattr(keys, "aval")`` is False.
    """


class TangentError(DTypeError):
    """A tangent or a cotangent that is not of the type of its value."""


class ArgumentError(FunctraxError, TypeError, ValueError):
    """An argument other than an array is wrong: an axis list, a mode, an unknown keyword."""


class ShardingError(ArgumentError, RuntimeError):
    """A mesh, a spec or a sharding that does not fit the array, the function or the devices."""


class UnavailableError(ArgumentError, NotImplementedError):
    """Something that this machine or the compiler lacks: a backend, a platform, an option."""


class ListenerError(ArgumentError, AssertionError):
    """A listener of ``functrax.monitoring`` that was never registered."""


class GuardError(FunctraxError, RuntimeError):
    """A program was traced or run where ``no_tracing`` or ``no_execution`` forbids it."""


class AxisError(FunctraxError, ValueError, IndexError):
    """An axis out of range, or named twice."""


class BroadcastAxisError(AxisError, TypeError):
    """The axes that a broadcast names do not fit the array or the shape."""


class IndexingError(FunctraxError, IndexError, TypeError):
    """An index that arrays do not take."""


class MissingRuleError(ArgumentError, AttributeError):
    """A function that was decorated to have a rule of its own, and was not given one."""


class CallbackResultError(ShapeError, DTypeError, RuntimeError):
    """What a callback returned is not what was declared."""


class ForeignCallError(FunctraxError, RuntimeError):
    """A function of the user's own that a program called says that it failed."""


class CompilerError(FunctraxError, RuntimeError):
    """The machine's compiler does not take a piece of code of the user's own."""


class VmapMethodError(ArgumentError, NotImplementedError):
    """A callback is mapped, and it was not said how."""


class FormatError(ArgumentError, KeyError, IndexError):
    """A format string and the values that it is to show do not go together."""

    __str__ = Exception.__str__  # KeyError would quote the whole text


class PyTreeError(FunctraxError, ValueError, TypeError):
    """Pytrees whose structures differ; the message names the path at which they do."""


class UnknownNameError(FunctraxError, AttributeError, KeyError):
    """A name (an option, a named axis, an attribute) that does not exist."""

    __str__ = Exception.__str__  # KeyError would quote the whole text


class AxisNameError(FunctraxError, NameError):
    """A collective names an axis that no enclosing vmap binds."""


class ImmutableError(FunctraxError, TypeError):
    """In-place assignment to an array."""


class ConcretizationError(FunctraxError, TypeError):
    """A traced value was used where a known value is needed."""


class TracerBoolConversionError(ConcretizationError):
    """A traced value was used as a condition: ``if``, ``while``, ``and``, ``or``, ``assert``."""


class TracerIntegerConversionError(ConcretizationError):
    """A traced value was used as a Python integer: an index of a list, a size, ``range``."""


class TracerArrayConversionError(ConcretizationError):
    """A traced value was given to NumPy."""


class NonConcreteBooleanIndexError(ConcretizationError, IndexingError):
    """A traced boolean mask was used as an index, which makes a shape that depends on values."""


class LeakedTracerError(FunctraxError, TypeError):
    """A traced value outlived the function that was being traced."""


class ReferenceUseError(DTypeError):
    """A reference to a value that changes, used where or as it cannot be."""


class DifferentiationError(FunctraxError, TypeError, ValueError, NotImplementedError):
    """A derivative that does not exist, or that the function's types do not allow."""


class StaticArgumentError(FunctraxError, ValueError, TypeError):
    """A static argument of ``jit`` that cannot be hashed, or does not exist."""


class NonFiniteError(FunctraxError, FloatingPointError):
    """``debug_nans`` or ``debug_infs`` met a NaN or an infinity."""


class DonatedBufferError(FunctraxError, RuntimeError):
    """An array was used after it was donated or deleted."""


class InterruptedProgramError(FunctraxError, RuntimeError):
    """An array was used whose program was stopped before it was computed."""


class MachineCodeError(FunctraxError, RuntimeError):
    """Machine code of a kernel that cannot be loaded into this process."""


class OutOfDeviceMemory(FunctraxError, MemoryError):  # noqa: N818, the name that CUDA gives it
    """A device has not as much memory as an array needs."""


class DeviceError(FunctraxError, RuntimeError):
    """A GPU or its driver failed; where a kernel did, no work of this process runs there again."""


class VerificationError(FunctraxError):
    """A jaxpr breaks a rule of the language."""


class MiscompilationError(FunctraxError, AssertionError):
    """A compiled program computes something else than the program that it was made from."""


class FileFormatError(FunctraxError, ValueError):
    """A file that cannot be read: damaged, of another format, or newer than this functrax."""


class SizeError(FunctraxError, TypeError):
    """What a symbolic size does not answer: its value is not known, only what holds for it."""


class ParseError(FunctraxError, SyntaxError):
    """Text that is not a program of the language."""

    __str__ = Exception.__str__  # SyntaxError would add a file name of its own


def add_note(error: BaseException, note: str) -> None:
    """Add a line to what is printed below an exception; Python 3.10 keeps it, but prints none."""
    vars(error).setdefault("__notes__", []).append(note)
