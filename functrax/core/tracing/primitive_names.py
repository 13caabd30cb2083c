"""The primitives by name, those of modules that are not imported yet among them.

A primitive registers itself when its module is imported.  ``import functrax`` leaves some of these
modules out, for few programs need them: :data:`MODULES` says which names they have, and asking for
one of them, or for all there are, imports them.

Start at :class:`Registry`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from functrax.core.lazy import sources

if TYPE_CHECKING:
    from functrax.core.tracing.primitive import Primitive

#: Of names of primitives, the module that has it.
MODULES: Final = sources(
    {
        "functrax.core.prims.condensed": "geqrf geqp3 hessenberg tridiagonal schur",
        "functrax.core.prims.determinants": "det cofactor slogdet",
        "functrax.core.prims.factorisations": (
            "qr lu lu_pivots_to_permutation linear_solve factored_solve"
        ),
        "functrax.core.prims.fourier": "fft",
        "functrax.core.prims.linear_systems": "triangular_solve cholesky",
        "functrax.core.prims.spectra": "eigh svd eig",
        "functrax.transforms.operations.callbacks": "pure_callback debug_callback",
        "functrax.transforms.differentiation.checkpoint": "checkpoint",
        "functrax.transforms.operations.collectives": "psum axis_index all_gather ppermute",
        "functrax.transforms.control.cond": "cond",
        "functrax.transforms.control.ffi_call": "ffi_call",
        "functrax.transforms.control.linear_call": "linear_call",
        "functrax.transforms.control.linear_solve": "custom_linear_solve",
        "functrax.transforms.differentiation.root": "custom_root",
        "functrax.transforms.control.scan": "scan",
        "functrax.transforms.control.while_loop": "while",
        "functrax.transforms.operations.checkpoint_name": "name",
        "functrax.transforms.operations.user_checks": "check",
        "functrax.transforms.user_rules.custom_vmap": "custom_vmap_call",
    }
)


class Registry(dict[str, "Primitive"]):
    """Primitives by name."""

    def __missing__(self, name: str) -> Primitive:
        import_module(MODULES[name])
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The primitive of a name, or ``default``."""
        if name in MODULES and not super().__contains__(name):
            import_module(MODULES[name])
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in MODULES

    def add(self, name: str, primitive: Primitive) -> None:
        """One more primitive, whose name nobody has."""
        assert not super().__contains__(name), f"two primitives are named {name}"
        self[name] = primitive

    def _fill(self) -> None:
        for module in set(MODULES.values()):
            import_module(module)

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return super().__iter__()

    def keys(self) -> Any:
        """All names."""
        self._fill()
        return super().keys()

    def values(self) -> Any:
        """All primitives."""
        self._fill()
        return super().values()

    def items(self) -> Any:
        """All names and primitives."""
        self._fill()
        return super().items()
