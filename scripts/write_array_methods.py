"""Writes functrax/core/arrays/array_methods.pyi: what type checkers know of an array's methods.

``functrax.numpy`` gives arrays their methods and properties when it is imported, which no type
checker sees.  Their signatures and the first lines of their documentation are written down here
for it: ``python scripts/write_array_methods.py``.  ``--check`` writes nothing, and fails if the
file would change.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import functrax
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import BINARY, COMPARE, UNARY
from functrax.numpy.at import AtIndex

PLACE = Path(__file__).parents[1] / "functrax/core/arrays/array_methods.pyi"

HEAD = '''# What scripts/write_array_methods.py wrote: the methods of arrays, for type checkers.
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from functrax.core.arrays.operators import Array, ArrayLike, Axes, ShapeLike
from functrax.core.types.dtypes import DTypeLike

class At:
    """``x.at``: takes an index in brackets."""

    def __getitem__(self, index: Any) -> AtIndex: ...
'''

#: Types of layers above the language, and those that say no more than Any.
ABOVE = re.compile(
    r"\b(?:Device \| Sharding|Sharding \| PartitionSpec|PrecisionLike|Value|Fetch|set\[Device\])"
    r"(?: \| None)?"
)
#: What arrays have by other means than functions whose signatures say it.
BY_HAND = {
    "reshape": "*shape: ShapeLike, order: str = 'C', copy: bool | None = None) -> Array",
    "transpose": "*axes: Axes) -> Array",
    "flatten": "order: str = 'C') -> Array",
    "compress": "condition: ArrayLike, axis: int | None = None, **options: Any) -> Array",
    "view": "dtype: DTypeLike | None = None) -> Array",
    "byteswap": ") -> Array",
    "item": "*args: int) -> Any",
    "tolist": ") -> Any",
    "block_until_ready": ") -> Array",
    "delete": ") -> None",
    "is_deleted": ") -> bool",
    "__array__": "dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray",
    "__dlpack__": "**options: Any) -> Any",
    "__dlpack_device__": ") -> tuple[int, int]",
}
PROPERTIES = {"at": "At", "T": "Array", "mT": "Array", "real": "Array", "imag": "Array"}
PROPERTIES |= {"flat": "Array"}
CONVERSIONS = {"bool": "bool", "int": "int", "float": "float", "complex": "complex"}
CONVERSIONS |= {"index": "int"}


def summary(member: Any) -> str:
    """The first paragraph of the documentation of a member, as the body of a function."""
    text = (inspect.getdoc(member) or "").split("\n\n")[0].replace("\n", " ")
    return f'\n        """{text}"""\n' if text else " ...\n"


def signature(function: Callable[..., Any]) -> str:
    """The arguments and the result of a function after its first argument."""
    found = inspect.signature(function)
    _, *parameters = found.parameters.values()
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", text[1:])
    return ABOVE.sub("Any", text)


def operators() -> Iterator[str]:
    """What Python writes with signs and brackets, and conversions to its numbers."""
    for name in BINARY:
        result = "tuple[Array, Array]" if name == "divmod" else "Array"
        for form in (name, f"r{name}"):
            yield f"    def __{form}__(self, other: ArrayLike, /) -> {result}: ...\n"
    for name in COMPARE:
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        yield f"    def __{name}__(self, other: ArrayLike, /) -> Array: ...{ignored}\n"
    for name in UNARY:
        arguments = ", decimals: int = 0, /" if name == "round" else ""
        yield f"    def __{name}__(self{arguments}) -> Array: ...\n"
    for name, result in CONVERSIONS.items():
        yield f"    def __{name}__(self) -> {result}: ...\n"
    yield "    def __getitem__(self, index: Any, /) -> Array: ...\n"
    yield "    def __iter__(self) -> Iterator[Array]: ...\n"


def methods(cls: type, by_hand: dict[str, str]) -> Iterator[str]:
    """The public members of a class, and those whose signatures are given."""
    for name in sorted({*dir(cls), *by_hand}):
        member = inspect.getattr_static(cls, name, None) or getattr(ConcreteArray, name, None)
        if (name.startswith("_") and name not in by_hand) or name in vars(Plain):
            continue
        if isinstance(member, property):
            given = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
            result = PROPERTIES.get(name) or (given if given in ("bool", "int", "None") else "Any")
            yield f"    @property\n    def {name}(self) -> {result}:{summary(member)}"
        elif callable(member):
            rest = by_hand.get(name) or signature(member)
            comma = "" if rest.startswith(")") else ", "
            yield f"    def {name}(self{comma}{rest}:{summary(member)}"


class Plain:
    """What the class says by itself, in functrax/core/arrays/operators.py."""

    shape = dtype = ndim = size = itemsize = nbytes = weak_type = is_fully_addressable = None


def text() -> str:
    """The whole file."""
    updates = "".join(methods(AtIndex, {}))
    return (
        f"{HEAD}\nclass AtIndex:\n"
        f'    """``x.at[index]``: what is read there, and other arrays that differ there."""\n\n'
        f"{updates}\nclass ArrayMethods:\n"
        + "".join(operators())
        + "".join(methods(functrax.Array, BY_HAND))
    )


if __name__ == "__main__":
    found = text()
    if "--check" in sys.argv[1:]:
        sys.exit(found != PLACE.read_text() and f"{PLACE} is not current: python {sys.argv[0]}")
    PLACE.write_text(found)
