"""Programs that outlive the process that traced them: ``export`` and what it gives.

A function is traced for the types of its arguments; :class:`Exported` is its program, the structure
of arguments and results, and nothing of Python.  It is a function again, for every transformation;
its bytes (:meth:`Exported.serialize`) are a file that people can read as text, and that runs no
code when it is read.

Start at :func:`export`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from functrax.backends.sharding.placement import default_backend
from functrax.core.boundaries.tracebacks import as_boundary, with_boundaries
from functrax.core.errors.typed import ArgumentError, PyTreeError, ShapeError, UnavailableError
from functrax.core.ir.jaxpr import ClosedJaxpr, Jaxpr
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_structure, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.stage import eval_jaxpr
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import is_symbolic_dim
from functrax.export.content import Content, content_of, read_content, write_content
from functrax.export.names import constant_names
from functrax.export.sizes import leaf_names, sizes_of_call
from functrax.transforms.arguments.types_of_arrays import ShapeDtypeStruct
from functrax.transforms.differentiation.derivatives import vjp
from functrax.transforms.staging.jit import jit
from functrax.transforms.staging.traces import argument_names

#: What the platforms of JAX are called.
_PLATFORMS: Final = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "tpu": "tpu", "rocm": "rocm"}
CALLING_CONVENTION: Final = 10


class Traceable(Protocol):
    """What ``functrax.jit`` returns."""

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The function traced for types of arguments."""


class DisabledSafetyCheck:
    """A check that an exported program is to be used without."""

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """That it runs on one of the platforms that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """That a custom call is known to be stable; there are none here, so it is never asked."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target, if this is about a custom call."""
        name, _, target = self._impl.partition(":")
        return target if name == "custom_call" else None

    def __repr__(self) -> str:
        return f"DisabledSafetyCheck.{self._impl}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


def default_export_platform() -> str:
    """The platform that programs are exported for if none is named: the one that runs here.

    Returns:
      ``"cpu"`` or ``"cuda"``.

    Raises:
      UnavailableError: if the GPU was chosen and there is none.

    >>> from functrax import export
    >>> export.default_export_platform()
    'cpu'
    """
    return _PLATFORMS[default_backend()]


@with_boundaries
class Exported:
    """A program with the structure of its arguments and results: see :func:`export`.

    It is a function: ``exported.call(*args)``, or ``exported(*args)``, takes what the function took
    that it was exported from, but for static arguments.

    Attributes:
      fun_name: the name of the function.
      in_tree: the structure of ``(args, kwargs)``.
      in_avals: the types of the arguments' leaves; their sizes may have names in place of values.
      out_tree: the structure of the results.
      out_avals: the types of the results' leaves.
      platforms: on which it may run.
      arg_names: what the leaves of the arguments are called.
      constants: the arrays that the function closed over, by the names that it calls them.
      scope: of the sizes that have names; None if none has.
      disabled_safety_checks: what is not checked.
      nr_devices: 1.
      ordered_effects, unordered_effects: none.
      calling_convention_version: JAX's number for how such programs are called.
      in_shardings_hlo, out_shardings_hlo: None for each leaf.
      module_kept_var_idx: the numbers of the leaves of the arguments that the program gets: all
        but those of ``float0``, which are the cotangents of integers.
      uses_global_constants: whether sizes have names.
    """

    nr_devices = 1
    ordered_effects = unordered_effects = ()
    calling_convention_version = CALLING_CONVENTION

    def __init__(
        self, content: Content, disabled_safety_checks: Sequence[DisabledSafetyCheck] = ()
    ) -> None:
        self._content = content
        self.fun_name = content.name
        self.in_tree: PyTreeDef = content.in_tree
        self.out_tree: PyTreeDef = content.out_tree
        self.in_avals = content.in_avals
        self.out_avals = content.out_avals
        self.platforms = content.platforms
        self.arg_names = content.arg_names
        self.constants = content.tensors
        self.scope = content.scope
        self.disabled_safety_checks = tuple(disabled_safety_checks)
        self.in_shardings_hlo = (None,) * len(self.in_avals)
        self.out_shardings_hlo = (None,) * len(self.out_avals)
        self.module_kept_var_idx = tuple(
            [n for n, a in enumerate(self.in_avals) if a.dtype != dtypes.float0]
        )
        self.uses_global_constants = content.scope is not None
        self._programs: dict[tuple[Any, ...], ClosedJaxpr] = {}

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._traced(args, kwargs)

        function.__name__ = function.__qualname__ = self.fun_name
        self._call = jit(function)

    def __repr__(self) -> str:
        ins = ", ".join(a.str_short() for a in self.in_avals)
        outs = ", ".join(a.str_short() for a in self.out_avals)
        return f"Exported({self.fun_name}: ({ins}) -> ({outs}), platforms={self.platforms})"

    # ---- calls ----------------------------------------------------------------------------------

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; it can be transformed as any function.

        Raises:
          PyTreeError: if the arguments have another structure.
          ShapeError: if one is of another type.
          UnavailableError: if the program is for other platforms than this one.
        """
        here = _PLATFORMS[default_backend()]
        if here not in self.platforms:
            if DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
                raise UnavailableError(
                    f"Function '{self.fun_name}' was exported for platforms '{self.platforms}' but "
                    f"it is used on '({here!r},)'",
                    got=f"platforms={self.platforms}",
                    fix=f"export(f, platforms=({here!r},)), or disabled_checks="
                    "[DisabledSafetyCheck.platform()]",
                )
        return self._call(*args, **kwargs)

    __call__ = call

    def program(self, sizes: Mapping[str, Any] | None = None) -> ClosedJaxpr:
        """The program as data.

        Args:
          sizes: a value for each size that has a name, or a size of another scope.
        """
        given = dict(sizes or {})
        names = [] if self._content.scope is None else sorted(self._content.scope.names)
        if sorted(given) != names:
            raise ArgumentError(
                f"{self.fun_name}: the program is for sizes with other names",
                got=f"sizes={given}",
                fix=f"a value for each of {names}",
            )
        key = tuple([given[name] for name in names])
        if any(map(is_symbolic_dim, key)):
            return self._content.program(given)
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = self._content.program(given)
        return found

    def as_text(self) -> str:
        """The program as text, arrays by their names."""
        return self._content.text

    def mlir_module(self) -> str:
        """The program as text; functrax has no MLIR."""
        return self.as_text()

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise PyTreeError(
                f"{self.fun_name}: the arguments have another structure than the exported program: "
                "The invocation args and kwargs must have the same pytree structure as when the "
                f"function '{self.fun_name}' was exported",
                got=f"{tree}",
                fix=f"{self.in_tree}",
            )
        values = [as_value(x) for x in leaves]
        avals = [x.aval for x in values]
        sizes = sizes_of_call(self._content, avals)
        program = self.program(sizes)
        for n, (aval, wanted) in enumerate(zip(avals, self.in_avals, strict=True)):
            if aval.dtype != wanted.dtype:
                raise ShapeError(
                    f"{self.fun_name}: Dtype mismatch for {leaf_names(self._content)[n]}: an "
                    "argument of another dtype than the exported program's",
                    got=f"{self._content.arg_names[n]} is {aval.str_short()}",
                    fix=f"{self.in_avals[n].str_short()}"
                    + ("; functrax.enable_x64()" if wanted.dtype.itemsize == 8 else ""),
                )
        kept = [values[n] for n in self.module_kept_var_idx]
        found = iter(eval_jaxpr(program.jaxpr, program.consts, *kept))
        outs = [
            np.zeros(a.shape, dtypes.float0) if a.dtype == dtypes.float0 else concrete(next(found))
            for a in self.out_avals
        ]
        return tree_unflatten(self.out_tree, outs)

    # ---- derivatives ----------------------------------------------------------------------------

    def has_vjp(self) -> bool:
        """Whether :meth:`vjp` can be called; not where sizes have names and it was not kept."""
        return self._content.vjp is not None or self._content.scope is None

    def vjp(self) -> Exported:
        """The program of the reverse derivative.

        Returns:
          An :class:`Exported` of the arguments' leaves and the cotangents of the results' leaves,
          which gives the cotangents of the arguments' leaves as a tuple.

        Raises:
          UnavailableError: if sizes have names and the file was written with ``vjp_order=0``.
        """
        if self._content.vjp is not None:
            return Exported(self._content.vjp(), self.disabled_safety_checks)
        if self._content.scope is not None:
            raise UnavailableError(
                f"{self.fun_name}: No VJP is available: the file has no derivative for sizes that "
                "have names",
                got="vjp_order=0",
                fix="serialize(vjp_order=1); or functrax.vjp(exported.call, ...), for known sizes",
            )
        return _derivative(self._call_flat, self)

    def _call_flat(self, *leaves: Any) -> list[Any]:
        program = self.program()
        outs = eval_jaxpr(program.jaxpr, program.consts, *map(as_value, leaves))
        return [concrete(x) for x in outs]

    # ---- bytes ----------------------------------------------------------------------------------

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as the bytes of a file; :func:`deserialize` is the inverse.

        Args:
          vjp_order: how often :meth:`vjp` can be taken of what is read; it matters only where sizes
            have names: else any number of times.

        Raises:
          PyTreeError: if arguments or results have containers of types that are not registered for
            files.
        """
        inner = self.vjp().serialize(vjp_order - 1) if vjp_order > 0 and self._symbolic else None
        return bytearray(write_content(self._content, None if inner is None else bytes(inner)))

    @property
    def _symbolic(self) -> bool:
        return self._content.scope is not None


@as_boundary
def export(
    fun_jit: Traceable,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Export a jitted function, so that its program can be kept and called elsewhere.

    Args:
      fun_jit: what ``functrax.jit`` returned.
      platforms: on which the program is to run: ``"cpu"``, ``"cuda"``; the current one if None.
      disabled_checks: checks that are to be left out.

    Returns:
      A function of the arguments, or of :class:`functrax.ShapeDtypeStruct` in their places, that
      returns an :class:`Exported`.  Sizes may have names: see :func:`symbolic_shape`.

    Raises:
      ArgumentError: if the function is not jitted, or a platform is unknown.
      UnavailableError: if the program has what a file cannot hold: calls of Python, meshes.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax import export
    >>> b, = export.symbolic_shape("b")
    >>> exported = export.export(functrax.jit(jnp.sin))(functrax.ShapeDtypeStruct((b,), "float32"))
    >>> exported.in_avals
    (ShapedArray(float32[b]),)
    >>> export.deserialize(exported.serialize()).call(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    module = getattr(fun_jit, "__module__", None) or ""  # Python allows None
    if module.startswith("functrax.") and callable(fun_jit):
        fun_jit = jit(fun_jit)  # jax.numpy's functions are jitted
    if not hasattr(fun_jit, "trace"):
        raise ArgumentError(
            "export: Function to be exported must be the result of `jit`",
            got=repr(fun_jit),
            fix="export(functrax.jit(f))",
        )
    chosen = (default_export_platform(),) if platforms is None else tuple(platforms)
    if not chosen:
        raise ArgumentError("export: no platform", got="platforms=()", fix="('cpu',)")

    @as_boundary
    def exported(*args: Any, **kwargs: Any) -> Exported:
        traced = fun_jit.trace(*args, **kwargs)
        effects = traced.traced.effects
        if effects is not None:
            raise UnavailableError(
                f"export: {traced.fun_name} writes to references that it does not own",
                got="a program with effects",
                fix="pass their values as arguments, and return new ones",
            )
        names = argument_names(traced.function, traced.signature)
        consts = traced.traced.consts
        whole: Jaxpr = traced.traced.jaxpr
        inputs, count = whole.invars, len(consts)
        program = Jaxpr(
            inputs[:count], inputs[count:], whole.outvars, whole.eqns, traced.fun_name, names
        )
        content = content_of(
            ClosedJaxpr(program, consts),
            in_tree=traced.in_tree,
            out_tree=traced.out_tree,
            platforms=chosen,
            constants=constant_names(traced.function, consts),
        )
        made = Exported(content, disabled_checks)
        if content.scope is not None:
            flat = _flat(traced.bind)
            content.vjp = lambda: _derivative(flat, made)._content
        return made

    return exported


def _flat(bind: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[..., list[Any]]:
    return lambda *leaves: [concrete(x) for x in bind([as_value(x) for x in leaves])]


def _derivative(function: Callable[..., list[Any]], of: Exported) -> Exported:
    """The reverse derivative of a function of leaves, exported."""
    count = len(of.in_avals)
    moving = [dtypes.is_inexact(a.dtype) for a in (*of.in_avals, *of.out_avals)]
    kept = [*of.in_avals, *(a for a, m in zip(of.out_avals, moving[count:]) if m)]

    def derivative(*leaves: Any) -> Any:
        outs, pullback = vjp(function, *leaves[:count])
        given = iter(leaves[count:])
        cts = [
            next(given) if m else np.zeros(x.shape, dtypes.float0)
            for x, m in zip(outs, moving[count:])
        ]
        return [ct for ct, m in zip(pullback(cts), moving) if m]

    derivative.__name__ = derivative.__qualname__ = f"{of.fun_name}_vjp"
    specs = [ShapeDtypeStruct(a.shape, a.dtype) for a in kept]
    made = export(jit(derivative), platforms=of.platforms)(*specs)
    content = made._content
    content.in_avals = (*of.in_avals, *_tangents(of.out_avals))
    content.out_avals = _tangents(of.in_avals)
    content.in_tree = tree_structure((tuple(content.in_avals), {}))
    content.out_tree = tree_structure(content.out_avals)
    content.arg_names = (*of._content.arg_names, *(f"ct{n}" for n in range(len(of.out_avals))))
    return Exported(content)


def _tangents(avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """The types of cotangents: those of integers have no elements' values."""
    return tuple(
        [
            ShapedArray(a.shape, a.dtype if dtypes.is_inexact(a.dtype) else dtypes.float0)
            for a in avals
        ]
    )


@as_boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """The program that :meth:`Exported.serialize` wrote.

    Args:
      blob: the bytes.  They may come from anybody: no code of theirs is run.

    Returns:
      The program, which is a function.

    Raises:
      FileFormatError: if they are damaged, of another format, or of a newer functrax.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax import export
    >>> blob = export.export(functrax.jit(jnp.sum))(jnp.ones(3)).serialize()
    >>> export.deserialize(blob).call(jnp.ones(3))
    Array(3., dtype=float32)
    """
    return Exported(read_content(bytes(blob)))
