"""Type promotion: the dtype in which values of different dtypes meet.

The rule is JAX's (docs.jax.dev, "Type promotion semantics"): dtypes and three weak types form a
lattice, and the result is the least upper bound. Python scalars are weak: they decide the kind of
the result (int, float, complex) but not its width, so ``x + 1.0`` keeps a bfloat16 ``x`` bfloat16.

    bool → i* → u8 → u16 → u32 → u64 → f* → bf16, f16 → f32 → f64
           i* → i8 → i16 → i32 → i64 → f* → c*          f32 → c64, f64 → c128
           u8 → i16, u16 → i32, u32 → i64                c* → c64 → c128

While x64 is off, u32 and i32 meet at i32, so that no 64-bit dtype arises from narrower ones. In
strict mode dtypes do not meet at all, and a weak type meets only what can hold it.

What enters is pairs (dtype, weak); what leaves is such a pair. Everything is worked out once per
combination and then looked up. Start at :func:`lattice_result_type`; :func:`result_type` is the
same for arrays, scalars and dtypes.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from functrax.core.errors.typed import ArgumentError, DTypeError, FunctraxError
from functrax.core.options.config import state
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType, DTypeLike

# A node of the lattice: a dtype, or the Python type that stands for a weak type.
Node: TypeAlias = "DType | type"
Typed: TypeAlias = "tuple[DType, bool]"


class TypePromotionError(DTypeError, ValueError):
    """Dtypes that no implicit promotion brings together."""


class IntegerOverflowError(FunctraxError, OverflowError):
    """A Python integer that the dtype it would get cannot hold."""


def check_positions(name: str, size: int, dtype: DType, fix: str | None = None) -> None:
    """Refuse integers that do not hold all positions along ``size`` elements.

    Raises:
      IntegerOverflowError: if ``size - 1`` is more than the dtype holds.

    >>> check_positions("argmax", 128, dtypes.int8)
    """
    if dtypes.is_integer(dtype) and size - 1 > dtypes.iinfo(dtype).max:
        wide = dtypes.position_dtype(size)
        needs = wide == dtypes.int64 and not state.enable_x64
        raise IntegerOverflowError(
            f"{name}: {dtype.name} does not hold all positions",
            got=f"{size} elements",
            fix=fix or f"positions of {wide.name}" + ", which need enable_x64()" * needs,
        )


_STANDARD_X64: Final[dict[Node, tuple[Node, ...]]] = {
    dtypes.bool_: (int,),
    int: (dtypes.uint8, dtypes.int8, *dtypes.STORED_INTEGERS),
    **dict.fromkeys(dtypes.STORED, ()),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (float,),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (float,),
    float: (dtypes.bfloat16, dtypes.float16, *dtypes.STORED_FLOATS, complex),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64, dtypes.complex64),
    dtypes.float64: (dtypes.complex128,),
    complex: (dtypes.complex64,),
    dtypes.complex64: (dtypes.complex128,),
    dtypes.complex128: (),
}
_STANDARD_X32: Final = {**_STANDARD_X64, dtypes.uint32: (dtypes.int32, dtypes.uint64)}
_STRICT: Final[dict[Node, tuple[Node, ...]]] = {
    **dict.fromkeys(dtypes.ALL, ()),
    int: (float, *dtypes.INTEGER),
    float: (complex, *dtypes.FLOATING),
    complex: tuple(dtypes.COMPLEX),
}


def _upper_bounds(lattice: dict[Node, tuple[Node, ...]]) -> dict[Node, frozenset[Node]]:
    """For every node, itself and all that is above it."""
    found: dict[Node, frozenset[Node]] = {}

    def above(node: Node) -> frozenset[Node]:
        if node not in found:
            found[node] = frozenset({node}).union(*map(above, lattice[node]))
        return found[node]

    for node in lattice:
        above(node)
    return found


_BOUNDS: Final[dict[tuple[str, bool], dict[Node, frozenset[Node]]]] = {
    ("standard", True): _upper_bounds(_STANDARD_X64),
    ("standard", False): _upper_bounds(_STANDARD_X32),
    ("strict", True): _upper_bounds(_STRICT),
    ("strict", False): _upper_bounds(_STRICT),
}
_PYTHON_TYPES: Final[frozenset[type]] = frozenset({bool, int, float, complex})

_joined: dict[tuple[tuple[Typed, ...], str, bool], Typed] = {}
_promoted: dict[tuple[Any, Any, str, bool], DType] = {}


def _join(nodes: frozenset[Node]) -> Node:
    """The least upper bound of ``nodes``."""
    bounds = _BOUNDS[state.numpy_dtype_promotion, state.enable_x64]
    outside = [node for node in nodes if node not in bounds]
    if outside:
        raise TypePromotionError(
            "promotion: float0s do not support any operations by design: they are the derivatives "
            "of integers and booleans, which have none",
            got=_named(nodes),
            fix="jnp.zeros(x.shape), if numbers are needed",
        )
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    if not common and state.numpy_dtype_promotion == "standard":
        raise TypePromotionError(
            "promotion: dtypes that are only stored have no available implicit dtype promotion path"
            " to others, so that nothing is widened unnoticed",
            got=_named(nodes),
            fix="x.astype('float32') or x.astype('int32') first",
        )
    if not common:
        raise TypePromotionError(
            "promotion: no implicit promotion between these dtypes in strict mode",
            got=_named(nodes),
            fix='x.astype(...), or config.update("numpy_dtype_promotion", "standard")',
        )
    return max(common, key=lambda node: len(bounds[node]))  # the one that all others are above


def _named(nodes: frozenset[Node]) -> str:
    return ", ".join(sorted(_node_name(node) for node in nodes))


def _node_name(node: Node) -> str:
    if isinstance(node, type):
        return f"weak {node.__name__}"
    return "float0" if node == dtypes.float0 else node.name


def _weak_node(dtype: DType) -> Node:
    return dtype if dtype == dtypes.bool_ else dtypes.scalar_type_of(dtype)


def lattice_result_type(*typed: Typed) -> Typed:
    """The dtype and weak type in which values of the given (dtype, weak type) meet.

    Raises:
      TypePromotionError: if they do not meet (in strict mode, or with float0).
      ArgumentError: without arguments.

    >>> lattice_result_type((dtypes.int32, False), (dtypes.float32, True))
    (dtype('float32'), True)
    """
    key = (typed, state.numpy_dtype_promotion, state.enable_x64)
    found = _joined.get(key)
    if found is None:
        found = _joined[key] = _lattice_result_type(typed)
    return found


def _lattice_result_type(typed: tuple[Typed, ...]) -> Typed:
    if not typed:
        raise ArgumentError(
            "promotion: takes at least one array or dtype",
            got="none",
            fix="result_type(x) with an array or a dtype",
        )
    if len(typed) == 1:
        return typed[0]
    all_weak = all(weak for _, weak in typed)
    if len({dtype for dtype, _ in typed}) == 1 and not all_weak:
        return typed[0][0], False
    if all_weak and state.numpy_dtype_promotion == "standard":
        # Weak values of several widths keep the widest: they meet as if strong.
        joined = _join(frozenset(dtype for dtype, _ in typed))
        dtype = _strong(joined)
        return dtype, dtype != dtypes.bool_
    joined = _join(frozenset(_weak_node(d) if weak else d for d, weak in typed))
    return _strong(joined), isinstance(joined, type)


def _strong(node: Node) -> DType:
    return dtypes.as_dtype(node) if isinstance(node, type) else node


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype in which dtypes ``a`` and ``b`` meet.

    Args:
      a: a dtype or its name; Python's ``int``, ``float``, ``complex`` are weak types.
      b: the same.

    Returns:
      The dtype, not narrowed by the x64 switch: where the result is a weak type (``int8`` with
      ``float``, or ``uint64`` with ``int64``), it is the 64-bit dtype (128-bit complex), as in JAX.

    Raises:
      TypePromotionError: if they do not meet.
      DTypeError: if they are not dtypes.

    >>> promote_types("int32", "float16"), promote_types("bfloat16", float)
    (dtype('float16'), dtype(bfloat16))
    """
    key = (a, b, state.numpy_dtype_promotion, state.enable_x64)
    try:
        found = _promoted.get(key)
    except TypeError:
        raise DTypeError(
            "promote_types: takes dtypes",
            got=f"{a!r}, {b!r}",
            fix="dtypes, as jnp.float32 or 'float32'; result_type for arrays",
        ) from None
    if found is None:
        node = _join(frozenset({_node_of(a), _node_of(b)}))
        found = _WIDEST[node] if isinstance(node, type) else node
        _promoted[key] = found
    return found


_WIDEST: Final[dict[type, DType]] = {
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}


def _node_of(spec: Any) -> Node:
    if isinstance(spec, type) and spec in _WIDEST:
        return spec
    return dtypes.as_dtype(spec)


def result_type(*args: DTypeLike | complex) -> DType:
    """The dtype of an operation on ``args``: arrays, avals, Python scalars, dtypes, None.

    Python scalars and the types ``int``, ``float``, ``complex`` are weak; None is the default
    float. A weak result gets the default width of its kind.

    Args:
      *args: what takes part in the operation.

    Returns:
      A NumPy dtype.

    Raises:
      TypePromotionError: if they do not meet.
      DTypeError: if an argument has no dtype.
      ArgumentError: without arguments.

    Example:
      >>> result_type(3, "bfloat16"), result_type(1, 2.0)
      (dtype(bfloat16), dtype('float32'))
    """
    dtype, weak = lattice_result_type(*[typed_of(arg) for arg in args])
    return dtypes.as_dtype(dtypes.scalar_type_of(dtype)) if weak else dtype


def typed_of(value: Any) -> Typed:
    """The dtype and weak type of an array, an aval, a Python scalar, a dtype or its name, or None.

    Dtypes of functrax's own values (those with a ``weak_type``) stay as they are; NumPy's and
    those named are narrowed while x64 is off.

    Raises:
      DTypeError: if ``value`` has no dtype.
    """
    kind = type(value)
    if kind in _PYTHON_TYPES:
        return dtypes.as_dtype(kind), kind is not bool
    weak = getattr(value, "weak_type", None)
    if weak is not None:
        return value.dtype, bool(weak)
    if value is None:
        return dtypes.default_float(), False
    named_type = value if kind is type and value in _PYTHON_TYPES else _python_type(value)
    if named_type is not None:
        return dtypes.as_dtype(named_type), named_type is not bool
    named = not hasattr(value, "shape") or isinstance(value, type)
    try:
        dtype = dtypes.as_dtype(value if named or not hasattr(value, "dtype") else value.dtype)
    except DTypeError as error:
        raise DTypeError(
            "result_type: takes arrays, scalars and dtypes", got=error.got, fix=error.fix
        ) from None
    return dtypes.canonicalize_dtype(dtype), False


def python_scalar_dtype(value: complex) -> Typed:
    """The dtype that an array made of a Python scalar has, and whether it is weak.

    Raises:
      IntegerOverflowError: for an integer that does not fit the default integer dtype; it is an
        OverflowError.
      DTypeError: if ``value`` is not a Python scalar.

    >>> python_scalar_dtype(True), python_scalar_dtype(2.5)
    ((dtype('bool'), False), (dtype('float32'), True))
    """
    kind = _python_type(value)
    if kind is None:
        raise DTypeError(
            "python_scalar_dtype: takes a Python scalar",
            got=type(value).__name__,
            fix="a bool, an int, a float or a complex number",
        )
    dtype = dtypes.as_dtype(kind)
    if isinstance(value, int) and kind is int and not _fits(value, dtype):
        raise IntegerOverflowError(
            f"Python int too large to convert to {dtype.name}",
            got=repr(value),
            fix="enable_x64()" if not state.enable_x64 else "a float",
        )
    return dtype, kind is not bool


def _python_type(value: object) -> type | None:
    """Which Python scalar ``value`` is, or is a subclass of (an IntEnum, say); NumPy's are none."""
    kind = type(value)
    if kind in _PYTHON_TYPES:
        return kind
    if hasattr(value, "dtype"):
        return None
    return next((base for base in (int, float, complex) if isinstance(value, base)), None)


def _fits(value: int, dtype: DType) -> bool:
    bits = dtypes.itemsize_bits(dtype)
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)
