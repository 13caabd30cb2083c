"""Pieces of C, C++, CUDA C and PTX as functions of arrays.

Start at :func:`code`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends import disk_cache
from functrax.core.errors.typed import ArgumentError
from functrax.core.foreign import targets
from functrax.core.foreign.element_types import code_of
from functrax.core.process.locks import new_lock
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.ffi.calling import ffi_call
from functrax.ffi.code_text import SYMBOL, ArrayForm, CodeForm, handler_text
from functrax.ffi.compilers import compiled
from functrax.ffi.gpu_code import kernel_of
from functrax.ffi.registration import pycapsule, register_ffi_target
from functrax.ffi.rules import types_of, with_rules
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct

LANGUAGES: Final = ("c", "c++", "cuda", "ptx")
_NAME: Final = re.compile(r"[A-Za-z]\w*")
_IN_TURN: Final = ("sequential", "sequential_unrolled")


@record
class Bounded:
    """The type of a result that may have fewer rows when it is computed.

    Args:
      shape: its largest shape; the first size is the bound of the rows.
      dtype: of its elements.
    """

    shape: tuple[int, ...]
    dtype: Any


def code(
    source: str,
    results: Mapping[str, Any],
    *,
    operands: str | Sequence[str] = (),
    attributes: Mapping[str, Any] | None = None,
    language: str = "c",
    headers: str = "",
    flags: Sequence[str] = (),
    name: str = "code",
    has_side_effect: bool = False,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    vmap: str | Callable[..., Any] | None = "sequential",
    threads: int = 256,
    blocks: Callable[..., int] | None = None,
) -> Callable[..., Any]:
    """A piece of C or C++, or a kernel of a GPU, as a function of arrays.

    Of C and C++ ``source`` is the inside of a function.  An array ``x`` is there as ``x``, the
    address of its elements in row-major order, ``x_shape``, ``x_ndim`` and ``x_size``, and
    ``x_at(i, j)`` is an element of it.  An attribute is a variable of its name; of a text and of an
    array there is ``x_size``, too.  ``FAIL("why");`` ends the program with an error, and so does an
    exception of C++.  It is compiled when it is called with types for the first time; sizes and
    attributes are looked at when it runs.

    Of CUDA C and PTX ``source`` is a whole text, of which the kernel ``name`` is launched, for
    programs on a GPU.  Its parameters are the addresses of the operands, those of the results, the
    number of elements of the first result, and the attributes, which are integers of 64 bits.

    Args:
      source: the text.
      results: of each result's name its type (``functrax.ShapeDtypeStruct``), or a function of the
        operands' types, and of the attributes by name, that gives it.  With :class:`Bounded` for a
        type, the text may set ``*y_count`` to the number of rows that there are; what is behind
        them becomes 0.
      operands: the names of the operands, in order: ``"x y"``, or a sequence.
      attributes: of each attribute's name its type: ``float``, ``int``, ``bool``, ``str``, a type
        of NumPy's scalars, or one of these types in a list, for arrays.
      language: ``"c"``, ``"c++"``, ``"cuda"`` or ``"ptx"``.
      headers: text in front of the function: lines of ``#include``, functions.
      flags: for the compiler, behind its own.
      name: what it is called, in programs and errors.
      has_side_effect: whether it runs even if nobody uses its results.
      jvp: ``(operands, tangents, **attributes) -> (results, tangents of the results)``.
      vjp: ``(operands, results, cotangents, **attributes) -> cotangents of the operands``.
      vmap: what ``vmap`` does: a ``vmap_method`` of :func:`functrax.ffi.ffi_call`, or
        ``(size, batched, *operands, **attributes) -> (results, whether they are batched)``.  Where
        the method is another one than ``"sequential"``, arrays may have leading axes, and
        ``x_at`` is not there.
      threads: of a kernel, how many threads a block has.
      blocks: of a kernel, a function of the results' types that gives the number of blocks; as
        many as there are elements of the first result, by the threads of a block, if left out.

    Returns:
      A function of arrays, and of attributes by name.  It gives one array for one result, else a
      tuple; of a result that is bounded, a pair of the array and the number of its rows.

    Raises:
      ArgumentError: an argument is wrong.
      UnavailableError: when it is called: there is no compiler of the language.
      CompilerError: when it is called: the compiler does not take the text.

    Example:
      >>> import functrax, functrax.numpy as jnp
      >>> scaled = functrax.code(
      ...     "for (int64_t i = 0; i < x_size; ++i) y[i] = a * x[i];",
      ...     {"y": lambda x, **_: x}, operands="x", attributes={"a": float})
      >>> functrax.jit(lambda x: scaled(x, a=3.0) + 1)(jnp.arange(3.0))
      Array([1., 4., 7.], dtype=float32)
    """
    names = tuple(operands.split()) if isinstance(operands, str) else tuple(operands)
    kinds = {key: _kind(key, x) for key, x in (attributes or {}).items()}
    _check(source, results, names, kinds, language, name)
    piece = _Piece(
        source, dict(results), names, kinds, language, headers, tuple(flags), name, has_side_effect,
        threads, blocks,
    )  # fmt: skip
    return with_rules("code", name, piece.call, jvp, vjp, vmap, piece.converted)


def _kind(name: str, given: Any) -> Any:
    """What an attribute is: ``str``, a dtype, or a dtype in a tuple."""
    if given is str:
        return str
    inner = given[0] if isinstance(given, list | tuple) and len(given) == 1 else given
    python = {float: np.float64, int: np.int64, bool: np.bool_, complex: np.complex128}
    try:
        dtype = dtypes.as_dtype(python.get(inner, inner))
        code_of(dtype, "code")
    except TypeError:
        raise ArgumentError(
            "code: the type of an attribute is float, int, bool, complex, str, a type of NumPy's "
            "scalars, or one of these in a list",
            got=f"{name}={given!r}",
            fix=f"attributes={{{name!r}: float}}",
        ) from None
    return dtype if inner is given else (dtype,)


def _check(
    source: str,
    results: Mapping[str, Any],
    operands: Sequence[str],
    attributes: Mapping[str, Any],
    language: str,
    name: str,
) -> None:
    if language not in LANGUAGES:
        raise ArgumentError("code: unknown language", got=repr(language), fix=", ".join(LANGUAGES))
    if not results:
        raise ArgumentError("code: there is no result", got="results={}", fix="{'y': type}")
    every = [*operands, *results, *attributes, name]
    for word in every:
        if not _NAME.fullmatch(word) or word.startswith("functrax"):
            raise ArgumentError(
                "code: a name is one of C, and does not begin with functrax",
                got=repr(word),
                fix="letters, digits and _",
            )
    arrays = every[:-1]
    if len(set(arrays)) < len(arrays):
        raise ArgumentError(
            "code: a name stands for one thing", got=", ".join(arrays), fix="another name"
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


class _Piece:
    """A piece of code, and what it was compiled to."""

    def __init__(
        self,
        source: str,
        results: dict[str, Any],
        operands: tuple[str, ...],
        attributes: dict[str, Any],
        language: str,
        headers: str,
        flags: tuple[str, ...],
        name: str,
        has_side_effect: bool,
        threads: int,
        blocks: Callable[..., int] | None,
    ) -> None:
        self.source, self.results, self.operands = source, results, operands
        self.attributes, self.language, self.headers = attributes, language, headers
        self.flags, self.name, self.has_side_effect = flags, name, has_side_effect
        self.threads, self.blocks = threads, blocks

    def converted(self, given: dict[str, Any]) -> dict[str, Any]:
        """Attributes of the types that they are declared with."""
        if given.keys() != self.attributes.keys():
            raise ArgumentError(
                f"code: {self.name} takes other attributes",
                got=", ".join(given) or "none",
                fix=", ".join(f"{key}=" for key in self.attributes) or "none",
            )
        return {key: self._converted(key, given[key]) for key in given}

    def _converted(self, key: str, value: Any) -> Any:
        kind = self.attributes[key]
        try:
            if kind is str:
                return _text(value)
            if isinstance(kind, tuple):
                return np.asarray(value, kind[0]).reshape(-1)
            if kind.kind in "iu":
                value = operator.index(value)
            return kind.type(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(
                f"code: the attribute {key} of {self.name} is of another type",
                got=f"{value!r} of type {type(value).__name__}: {error}",
                fix=f"{kind}; arrays of programs are operands",
            ) from None

    def call(self, args: Sequence[Any], named: dict[str, Any], method: str | None) -> Any:
        """Call it on arrays."""
        if len(args) != len(self.operands):
            raise ArgumentError(
                f"code: {self.name} takes another number of operands",
                got=f"{len(args)}, where operands= names {len(self.operands)}",
                fix=", ".join(self.operands) or "none",
            )
        types = types_of(args, self.name)
        outs = [x(*types, **named) if callable(x) else x for x in self.results.values()]
        flat: list[Any] = []
        for x in outs:
            flat.append(ShapeDtypeStruct(x.shape, x.dtype))
            if isinstance(x, Bounded):
                flat.append(ShapeDtypeStruct((), np.int32))
        target = self._target(types, outs, in_turn=method is None or method in _IN_TURN)
        options: dict[str, Any] = {"has_side_effect": self.has_side_effect, "vmap_method": method}
        found = iter(ffi_call(target, tuple(flat), **options)(*args, **named))
        packed = [
            (next(found), next(found)) if isinstance(x, Bounded) else next(found) for x in outs
        ]
        return packed[0] if len(packed) == 1 else tuple(packed)

    def _target(self, types: Sequence[Any], outs: Sequence[Any], in_turn: bool) -> str:
        """The target of these types, compiled if it is not yet; its name is that of its content."""
        if self.language in ("cuda", "ptx"):
            return self._gpu_target()

        def forms(names: Sequence[str], given: Sequence[Any]) -> tuple[ArrayForm, ...]:
            return tuple(
                [
                    ArrayForm(
                        key,
                        np.dtype(x.dtype),
                        len(x.shape) if in_turn else -1,
                        isinstance(x, Bounded),
                    )
                    for key, x in zip(names, given, strict=True)
                ]
            )

        form = CodeForm(
            self.language,
            self.headers,
            self.source,
            self.name,
            forms(self.operands, types),
            forms(tuple(self.results), outs),
            tuple(self.attributes.items()),
        )
        key = form, self.flags
        target = _targets.get(key)
        if target is None:
            text = handler_text(form)
            digest = disk_cache.content_key(text, self.language, *self.flags).hex()[:_DIGITS]
            target = f"{self.name}_{digest}"
            with _compiling:
                if not targets.is_registered(target):
                    library = compiled(self.name, text, self.language, self.flags)
                    register_ffi_target(target, pycapsule(getattr(library, SYMBOL)))
            _targets[key] = target
        return target

    def _gpu_target(self) -> str:
        kernel = kernel_of(
            self.source, self.language, self.flags, self.name, self.threads, self.blocks
        )
        text = [kernel.ptx, self.name, str(self.threads), repr(self.blocks)]
        target = f"{self.name}_{disk_cache.content_key(*text).hex()[:_DIGITS]}"
        made = targets.ForeignTarget(target, "cuda", "ptx", (0, 0, 0, 0), kernel=kernel)
        targets.register(made, "code")
        return target


#: Of a name's hash.
_DIGITS: Final = 12
_targets: Final[dict[Any, str]] = {}
_compiling = new_lock()
