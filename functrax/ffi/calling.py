"""``ffi_call``: a registered function as a function of arrays.

Start at :func:`ffi_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.foreign import targets
from functrax.core.foreign.attributes import normal
from functrax.core.foreign.element_types import code_of
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.ffi_call import VMAP_METHODS, ffi_call_p

#: The version of XLA's custom calls that handlers of frames have, and that of ``api_version=0``.
_TYPED, _UNTYPED = 4, 1


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that calls what was registered by a name.

    Args:
      target_name: the name.
      result_shape_dtypes: what has ``shape`` and ``dtype``, or a sequence of these: the types of
        the results.
      has_side_effect: whether it is called even if nobody uses its results.
      vmap_method: what ``vmap`` does, as of ``functrax.pure_callback``: ``"sequential"`` and
        ``"sequential_unrolled"`` call once for each element, in a loop of the program;
        ``"expand_dims"`` calls once, with a leading axis (of size 1 on operands that are not
        mapped); ``"broadcast_all"`` once with all operands repeated; ``"legacy_vectorized"`` once,
        with operands that are not mapped as they are.  None refuses.
      input_layouts: orders of axes, or None for row-major ones, which are all that there are.
      output_layouts: the same of the results.
      input_output_aliases: of numbers of operands, the number of the result in whose memory the
        operand lies; it is copied there where somebody else needs it.
      custom_call_api_version: 4; 1 of a target that was registered with ``api_version=0``.
      legacy_backend_config: what only other versions take; None.

    Returns:
      A function of arrays, and of attributes by name: numbers, texts, arrays of NumPy, dicts.  It
      gives one array, or as many as ``result_shape_dtypes``, in a tuple or a list as that is.

    Raises:
      ArgumentError: an argument is wrong.
      UnavailableError: the target is not registered, when the function is called.
      ForeignCallError: the target failed, when the program runs.
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise _wrong(
            "vmap_method must be one of the allowed methods",
            repr(vmap_method),
            f"one of {', '.join(VMAP_METHODS)}",
        )
    if custom_call_api_version not in (_UNTYPED, _TYPED) or legacy_backend_config is not None:
        raise _wrong(
            "XLA's custom calls are those of version 4, or 1 without legacy_backend_config",
            f"custom_call_api_version={custom_call_api_version}, "
            f"legacy_backend_config={legacy_backend_config!r}",
            "register_ffi_target(..., api_version=0) and custom_call_api_version=1 for older ones",
        )
    several = isinstance(result_shape_dtypes, Sequence)
    declared = result_shape_dtypes if several else [result_shape_dtypes]
    out_avals = tuple([_result_type(k, x) for k, x in enumerate(declared)])
    layouts = output_layouts if several or output_layouts is None else [output_layouts]
    _check_layouts("output", [a.ndim for a in out_avals], layouts)

    def call(*args: Any, **attributes: Any) -> Any:
        values = [as_value(x, f"argument {k} of ffi_call") for k, x in enumerate(args)]
        in_avals = [x.aval for x in values]
        _check_layouts("input", [a.ndim for a in in_avals], input_layouts)
        for aval in in_avals:
            code_of(aval.dtype, "ffi_call")
        _check_convention(target_name, custom_call_api_version, attributes)
        outs = ffi_call_p.bind(
            *values,
            target=target_name,
            out_avals=out_avals,
            attributes=normal("ffi_call", attributes),
            shared=_shared(input_output_aliases or {}, in_avals, out_avals),
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
        )
        found = list(map(concrete, outs))
        if not several:
            return found[0]
        return tuple(found) if isinstance(result_shape_dtypes, tuple) else found

    call.__name__ = call.__qualname__ = str(target_name)
    return call


def _wrong(what: str, got: str, fix: str) -> ArgumentError:
    return ArgumentError(f"ffi_call: {what}", got=got, fix=fix)


def _result_type(number: int, declared: Any) -> ShapedArray:
    if not hasattr(declared, "shape") or not hasattr(declared, "dtype"):
        raise _wrong(
            "all elements of result_shape_dtypes must have 'shape' and 'dtype' attributes",
            f"{declared!r} at position {number}",
            "functrax.ShapeDtypeStruct(shape, dtype)",
        )
    dtype = dtypes.as_dtype(declared.dtype)
    code_of(dtype, "ffi_call")
    if dtypes.canonicalize_dtype(dtype) != dtype:
        raise _wrong(
            "result_shape_dtypes cannot specify 64-bit types when enable_x64 is off",
            f"{dtype.name}{list(declared.shape)}",
            f"{dtypes.canonicalize_dtype(dtype).name}, or functrax.enable_x64",
        )
    return ShapedArray(tuple(declared.shape), dtype)


def _check_layouts(what: str, ranks: Sequence[int], layouts: Sequence[Any] | None) -> None:
    """Refuse arrays that are not row-major."""
    if layouts is None:
        return
    if len(layouts) != len(ranks):
        raise _wrong(
            f"the number of {what} arrays must equal the number of {what} layouts",
            f"{len(ranks)} arrays, {len(layouts)} layouts",
            "one layout, or None, for each",
        )
    for number, (rank, layout) in enumerate(zip(ranks, layouts, strict=True)):
        order = getattr(layout, "major_to_minor", layout)
        if order is None or tuple(order) == tuple(range(rank)):
            continue
        raise _wrong(
            "arrays are row-major",
            f"the order of axes {tuple(order)} for {what} {number}",
            "transpose the array with functrax.numpy before or after the call, and None here",
        )


def _check_convention(name: str, version: int, attributes: Mapping[str, Any]) -> None:
    found = targets.target_of(name, "cpu")
    if found is None:
        return
    older = found.convention == "untyped"
    if older != (version == _UNTYPED):
        raise _wrong(
            f"the target {name!r} is called by another version of the interface",
            f"custom_call_api_version={version}",
            f"custom_call_api_version={_UNTYPED if older else _TYPED}",
        )
    if older and attributes:
        raise _wrong(
            "attributes need a custom call API version of at least 4",
            f"{', '.join(attributes)} for {name!r}",
            "operands, or a handler of functrax/ffi.h",
        )


def _shared(
    aliases: Mapping[int, int], in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> tuple[tuple[int, int], ...]:
    found = tuple(sorted((int(k), int(j)) for k, j in aliases.items()))
    for k, j in found:
        pair = f"the mapping '{k}:{j}' of input_output_aliases"
        if not 0 <= k < len(in_avals) or not 0 <= j < len(out_avals):
            outside = f"input index {k}" if not 0 <= k < len(in_avals) else f"output index {j}"
            count = len(in_avals) if not 0 <= k < len(in_avals) else len(out_avals)
            raise _wrong(
                f"input_output_aliases contains the mapping '{k}:{j}' with {outside} outside the "
                f"range [0, {count})",
                pair,
                "numbers of operands and of results",
            )
        if (in_avals[k].shape, in_avals[k].dtype) != (out_avals[j].shape, out_avals[j].dtype):
            raise _wrong(
                f"input_output_aliases contains the mapping '{k}:{j}' referring to an input and an "
                "output with a different abstract value",
                f"{in_avals[k].str_short()} and {out_avals[j].str_short()}",
                "a result of the operand's shape and dtype",
            )
    if len({j for _, j in found}) < len(found):
        raise _wrong(
            "two operands cannot lie in one result", repr(dict(aliases)), "one operand for each"
        )
    return found


def ffi_lowering(call_target_name: str, **options: Any) -> NoReturn:
    """Refused: there is no MLIR that a rule could write.

    Raises:
      UnavailableError: always.
    """
    raise _no_lowering("ffi_lowering", call_target_name)


def build_ffi_lowering_function(call_target_name: str, **options: Any) -> NoReturn:
    """Refused: there is no MLIR that a rule could write.

    Raises:
      UnavailableError: always.
    """
    raise _no_lowering("build_ffi_lowering_function", call_target_name)


def _no_lowering(name: str, target: str) -> UnavailableError:
    return UnavailableError(
        f"{name}: programs are not lowered to MLIR",
        got=f"a lowering of {target!r}",
        fix=f"functrax.ffi.ffi_call({target!r}, ...)",
    )
