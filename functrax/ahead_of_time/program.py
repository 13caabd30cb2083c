"""A function compiled ahead of time, and the files that it is written to.

Start at :func:`aot`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from functrax.ahead_of_time.archive import archive
from functrax.ahead_of_time.arguments import CArgument, checked_name, identifier, named
from functrax.ahead_of_time.cmake import cmake_files
from functrax.ahead_of_time.compiling import compiled_for, target_named
from functrax.ahead_of_time.cuda.header import loader
from functrax.ahead_of_time.cuda.module import CudaModule, cuda_module
from functrax.ahead_of_time.cuda.targets import is_gpu
from functrax.ahead_of_time.header import common_file, header_text
from functrax.ahead_of_time.linking import shared_object
from functrax.ahead_of_time.module import ObjectModule, object_module
from functrax.ahead_of_time.sizes.interface import size_names, workspace_bytes
from functrax.ahead_of_time.sizes.module import scope_of, sized_module
from functrax.ahead_of_time.wrapper import wrapper_text
from functrax.backends.machine_code.code_generator import generator_for
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.pytree.operations import keystr, tree_flatten_with_path
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.trace import Tracer
from functrax.core.types.symbolic_scopes import SymbolicScope
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.staging.jit import Jitted, jit
from functrax.transforms.staging.traces import argument_names

#: What is written, by the kind of file: the file of the code.
KINDS: Final = {"object": "{}.o", "static": "lib{}.a", "shared": "lib{}.so"}


def aot(
    fun: Callable[..., Any],
    *specs: Any,
    name: str | None = None,
    target: str | None = None,
    debug: bool = True,
    **named_specs: Any,
) -> AheadOfTime:
    """A function compiled to machine code that C, C++ and others call without Python.

    Args:
      fun: a pure function of pytrees of arrays; jitted or not, a derivative, anything.  Arrays that
        it closes over become constants of the code.
      specs: its arguments, of which shapes and dtypes matter: arrays, or ``ShapeDtypeStruct``.
        Sizes may have names (``export.symbolic_shape``): callers give their values.
      name: of the functions of C; that of ``fun`` if it is not given.
      target: the processors that the code is for: a kind, as ``FUNCTRAX_CPU`` has them, or an
        architecture for what all of its processors have (docs/aot.md names them); None for the
        machine that this runs on.
      debug: whether the code knows the user's lines, for debuggers and profilers.
      named_specs: arguments by name.

    Returns:
      An :class:`AheadOfTime`, whose ``write(folder)`` writes the code, a header of C and a wrapper
      of C++.

    Raises:
      ArgumentError: the name is none of C, or the target is not known.
      UnavailableError: the function calls what does not leave this process: Python, LAPACK.

    >>> import functrax, functrax.numpy as jnp
    >>> x = functrax.ShapeDtypeStruct((3,), jnp.float32)
    >>> program = functrax.aot(functrax.grad(lambda x: jnp.sum(x**2)), x, name="slope")
    >>> program.arguments[0].type_text, program.results[0].type_text
    ('f32[3]', 'f32[3]')
    """
    check_callable("aot", fun)
    function: Any = fun if isinstance(fun, Jitted) else jit(fun)
    traced = function.trace(*specs, **named_specs)
    shown = name_of(fun)
    values = [_constant(x, shown) for x in traced.traced.consts]
    chosen = checked_name(identifier(shown) if name is None else name)
    jaxpr: Jaxpr = traced.traced.jaxpr
    inputs = argument_names(traced.function, traced.signature)
    trees, _ = tree_flatten_with_path(traced.out_info)
    outputs = [f"out{keystr(path)}" for path, _ in trees]
    scope = scope_of([v.aval for v in jaxpr.invars])
    taken = [
        chosen,
        *([] if scope is None else size_names(scope, [v.aval.shape for v in jaxpr.invars])),
    ]
    arguments = _arguments(inputs, [v.aval for v in jaxpr.invars[len(values) :]], taken)
    taken += [x.name for x in arguments]
    results = _arguments(outputs, jaxpr.out_avals, taken)
    return AheadOfTime(chosen, jaxpr, tuple(values), (arguments, results), target, debug)


def _constant(value: Any, name: str) -> np.ndarray[Any, Any]:
    found = as_value(value, f"a value that {name} closes over")
    if isinstance(found, Tracer):
        raise ArgumentError(
            f"aot: {name} closes over a value that is being traced",
            got=found.aval.str_short(),
            fix="call aot outside of jit, grad and vmap",
        )
    return np.asarray(value)


def _arguments(paths: Sequence[str], avals: Sequence[Any], taken: Sequence[str]) -> list[CArgument]:
    names = named(paths, taken)
    return [
        CArgument(name, path, tuple(aval.shape), np.dtype(aval.dtype))
        for name, path, aval in zip(names, paths, avals, strict=True)
    ]


@with_boundaries
class AheadOfTime:
    """A program for C.

    What depends on the target is made when it is first asked for.

    Attributes:
      name: of its functions.
      target: the processors that it is for, by name; None for those of this machine.
    """

    def __init__(
        self,
        name: str,
        jaxpr: Jaxpr,
        values: tuple[np.ndarray[Any, Any], ...],
        both: tuple[Sequence[CArgument], Sequence[CArgument]],
        target: str | None,
        debug: bool,
    ) -> None:
        self.name, self.target = name, target
        self._jaxpr, self._values, self._both, self._debug = jaxpr, values, both, debug
        self._target = target_named(target)
        self._others: dict[str | None, AheadOfTime] = {target: self}

    def for_target(self, target: str | None) -> AheadOfTime:
        """The same program for other processors.

        Raises:
          ArgumentError: the target is not known.
        """
        if target not in self._others:
            rest = self._jaxpr, self._values, self._both, target, self._debug
            self._others[target] = AheadOfTime(self.name, *rest)
        return self._others[target]

    @cached_property
    def _module(self) -> ObjectModule:
        self._need(gpu=False)
        rest = self._values, *self._both, self._debug
        if self._scope is not None:
            return sized_module(self.name, self._jaxpr, self._scope, self._target, *rest)
        return object_module(self.name, compiled_for(self._jaxpr, self._target), *rest)

    @property
    def _scope(self) -> SymbolicScope | None:
        return scope_of([v.aval for v in self._jaxpr.invars])

    @cached_property
    def _cuda(self) -> CudaModule:
        self._need(gpu=True)
        if self._scope is not None:
            raise UnavailableError(
                "aot: code for GPUs is made for certain sizes, and some have names",
                got=", ".join(self._scope.names),
                fix="a ShapeDtypeStruct with a number for each size",
            )
        compiled = compiled_for(self._jaxpr, self._target)
        return cuda_module(self.name, compiled, self._values, *self._both, self._debug)

    def _need(self, *, gpu: bool) -> None:
        """Refuse what only programs for the other kind of target have."""
        if gpu != is_gpu(self.target):
            has = ("an object file and LLVM IR", "C source, which has its PTX")
            raise UnavailableError(
                f"aot: a program for {self._processors} is {has[not gpu]}",
                got=f"target={self.target!r}",
                fix="for_target('sm_80')" if gpu else "source, header and ptx; or for_target(None)",
            )

    @property
    def arguments(self) -> tuple[CArgument, ...]:
        """What the program takes: name, path, shape and dtype of each array."""
        return tuple(self._both[0])

    @property
    def results(self) -> tuple[CArgument, ...]:
        """What it gives, and of each result the argument whose memory it may have."""
        return (self._cuda if is_gpu(self.target) else self._module).results

    @property
    def workspace(self) -> int:
        """Bytes of memory that a call needs beside its arguments and results.

        Raises:
          UnavailableError: they follow from sizes; :meth:`workspace_bytes` computes them.
        """
        if is_gpu(self.target):
            return self._cuda.workspace
        if self._module.sized is not None:
            raise UnavailableError(
                f"{self.name}: the bytes of the workspace follow from sizes",
                got=f"sizes {', '.join(self._module.sized.names)}",
                fix="workspace_bytes(**sizes)",
            )
        return self._module.workspace

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of sizes that callers give, in their order."""
        if self._scope is None or self._module.sized is None:
            return ()
        return self._module.sized.names

    def workspace_bytes(self, **sizes: int) -> int:
        """Bytes of memory that a call with some sizes needs beside its arguments and results.

        Args:
          sizes: a value for each name.

        Raises:
          ArgumentError: there are others, or they break a constraint.
        """
        if self._scope is None or self._module.sized is None:
            return self.workspace
        return workspace_bytes(self._module.sized, sizes)

    @property
    def program(self) -> str:
        """The program as text, in the language of functrax."""
        return self._jaxpr.as_text()

    @property
    def llvm(self) -> str:
        """Its code as LLVM IR; constant arrays are zeros in it."""
        return self._module.text

    @cached_property
    def object(self) -> bytes:
        """Its code as an object file (ELF, as Linux has them)."""
        module = self._module
        return module.constants.filled(generator_for(self._target).object_code(module.text))

    @property
    def header(self) -> str:
        """The header of C."""
        if is_gpu(self.target):
            return self._cuda.header
        return header_text(self.name, self._module, self._processors)

    @property
    def wrapper(self) -> str:
        """The header of C++."""
        return wrapper_text(self.name, self._module)

    @property
    def source(self) -> str:
        """For a GPU: C source that has the kernels and drives them."""
        return self._cuda.source

    @property
    def ptx(self) -> tuple[str, ...]:
        """For a GPU: its modules of PTX, of the compiler's own kernels first."""
        return self._cuda.ptx

    @property
    def _processors(self) -> str:
        return self.target or f"{self._target.name}, the machine that compiled it"

    def write(
        self, folder: str | os.PathLike[str], target: str | None = None, kind: str = "object"
    ) -> tuple[str, ...]:
        """Write the code, and what C, C++ and CMake need to use it.

        Args:
          folder: is made if it is not there.
          target: the processors that the code is for, if others than ``aot`` was told.
          kind: ``"object"`` for ``name.o``, ``"static"`` for ``libname.a``, ``"shared"`` for
            ``libname.so``, which a linker of this machine makes.

        Returns:
          The paths of the files: the code first, then ``name.h`` and ``name.hpp``,
          ``functrax_pool.h``, and the two files of CMake.

        Raises:
          ArgumentError: the kind or the target is not known.
          UnavailableError: there is no linker for a shared library.
        """
        if kind not in KINDS:
            raise ArgumentError(
                "write: code is written as an object file or as a library",
                got=f"kind={kind!r}",
                fix=f"one of {', '.join(map(repr, KINDS))}",
            )
        if target is not None and target != self.target:
            return self.for_target(target).write(folder, kind=kind)
        if is_gpu(self.target):
            return _written(folder, self._gpu_files(kind))
        data = self.object
        if kind == "static":
            data = archive(f"{self.name}.o", data, self.symbols)
        elif kind == "shared":
            data = shared_object(KINDS[kind].format(self.name), data, self._target)
        code = KINDS[kind].format(self.name)
        files: dict[str, bytes] = {
            code: data,
            f"{self.name}.h": self.header.encode(),
            f"{self.name}.hpp": self.wrapper.encode(),
            "functrax_pool.h": common_file("functrax_pool.h").encode(),
        }
        files |= {x: text.encode() for x, text in cmake_files(self.name, code, kind).items()}
        return _written(folder, files)

    def _gpu_files(self, kind: str) -> dict[str, bytes]:
        if kind != "object":
            raise ArgumentError(
                "write: a program for a GPU is C source, which the caller's compiler takes",
                got=f"kind={kind!r}",
                fix="leave kind= out",
            )
        texts = {f"{self.name}.c": self.source, f"{self.name}.h": self.header}
        texts["functrax_cuda.h"] = loader()
        return {file: text.encode() for file, text in texts.items()}

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions of C that the code has."""
        rest = ["_call", "_workspace_bytes", "_error_text", "_description"]
        if self._scope is not None:
            rest += ["_check_sizes", "_shape"]
        return (self.name, *[self.name + x for x in rest])

    def __repr__(self) -> str:
        shown = [", ".join(f"{x.name}:{x.type_text}" for x in xs) for xs in self._both]
        return f"<{self.name}({shown[0]}) -> ({shown[1]}) for {self._processors}>"


def _written(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write files to a folder; their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for file, content in files.items():
        path = os.path.join(folder, file)
        with open(path, "wb") as out:
            out.write(content)
        paths.append(path)
    return tuple(paths)
