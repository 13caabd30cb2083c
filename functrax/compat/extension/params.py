"""The parameters of equations as JAX names them.

Start at :func:`shown_params` and :func:`own_params`, which are inverse to one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from functrax.core.errors.typed import ArgumentError

#: Where JAX calls a parameter otherwise: primitive -> {functrax's name: JAX's}.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "custom_jvp_call": {"jaxpr": "call_jaxpr"},
    "custom_vjp_call": {"jaxpr": "call_jaxpr"},
    "while": {
        "cond": "cond_jaxpr", "body": "body_jaxpr",
        "cond_consts": "cond_nconsts", "body_consts": "body_nconsts",
    },
    "convert_element_type": {"dtype": "new_dtype"},
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "concatenate": {"axis": "dimension"},
    "iota": {"axis": "dimension"},
    "reshape": {"shape": "new_sizes"},
    "rev": {"axes": "dimensions"},
    "slice": {"start": "start_indices", "limit": "limit_indices"},
    "transpose": {"perm": "permutation"},
}  # fmt: skip

_PLACED: Final = {"sharding": None}
_REDUCED: Final = {"out_sharding": None}
#: What JAX says besides, and has one value here: the steps of a loop that are done at once are
#: written out in its body, and nothing is spread over devices.
_FIXED: Final[Mapping[str, Mapping[str, Any]]] = {
    "scan": {"unroll": 1},
    "convert_element_type": _PLACED,
    "broadcast_in_dim": _PLACED,
    "iota": _PLACED,
    "reshape": {"dimensions": None, **_PLACED},
    "reduce_sum": _REDUCED,
    "reduce_max": _REDUCED,
    "reduce_min": _REDUCED,
    "reduce_prod": _REDUCED,
}
#: What JAX says besides, and follows from the parameters.
_DERIVED: Final[Mapping[str, Mapping[str, Callable[[Mapping[str, Any]], Any]]]] = {
    "jit": {"name": lambda params: params["jaxpr"].name},
}
_NONE: Final[Mapping[str, Any]] = {}


def shown_params(primitive: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a primitive of functrax, by JAX's names."""
    names = _NAMES.get(primitive, _NONE)
    found = {names.get(k, k): v for k, v in params.items()}
    found.update(_FIXED.get(primitive, _NONE))
    found.update({k: of(params) for k, of in _DERIVED.get(primitive, _NONE).items()})
    return found


def own_params(primitive: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters by functrax's names, from either's.

    Raises:
      ArgumentError: if one that has a single value here is given another.
    """
    names = {v: k for k, v in _NAMES.get(primitive, _NONE).items()}
    fixed = _FIXED.get(primitive, _NONE)
    derived = _DERIVED.get(primitive, _NONE)
    found = {}
    for name, value in params.items():
        if name in derived:
            continue
        if name not in fixed:
            found[names.get(name, name)] = value
        elif value != fixed[name]:
            raise ArgumentError(
                f"{primitive}: {name} is always {fixed[name]}",
                got=f"{name}={value!r}",
                fix=f"leave {name} out",
            )
    return found
