"""``jit``: trace a function once per signature, and run the program.

A signature is the structure of the arguments, their types, the values of the static ones, and the
options that change what a program means.  The program is a call
(``transforms/interpreters/call.py``), so nested ``jit``s stay visible in a program; ``inline=True``
writes their equations into the caller.

Start at :class:`Jitted`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from functrax.backends.device import Device, bound_to, device_for, free
from functrax.backends.places import known
from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.errors.source import user_line
from functrax.core.errors.typed import GuardError, ReferenceUseError
from functrax.core.events import monitoring
from functrax.core.events.recorder import recorder
from functrax.core.options.config import state as options, trace_context
from functrax.core.pytree.operations import PyTreeDef, tree_leaves, tree_unflatten
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import close, eval_jaxpr, stage_with_references
from functrax.core.tracing.trace import EVAL, Tracer, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction, check_callable, flatten_args, name_of
from functrax.transforms.arguments.inspect_types import flatten_types, type_of
from functrax.transforms.arguments.static_args import ArgumentRoles, StaticKey, warn_of_unused
from functrax.transforms.interpreters.call import Call
from functrax.transforms.staging import shared_traces
from functrax.transforms.staging.jit_caller import JitCaller, Prepared, connect, prepare
from functrax.transforms.staging.jit_shardings import (
    UNSPECIFIED,
    CallShardings,
    call_shardings,
    check_options,
)
from functrax.transforms.staging.trace_cache import TraceCache
from functrax.transforms.staging.traces import (
    CacheInfo,
    Traced,
    TraceRecord,
    TraceSignature,
    compiles,
    planned,
)

if TYPE_CHECKING:
    from functrax.transforms.staging.jitted_function import Decorator, JittedFunction, P, R
    from functrax.transforms.staging.lowered import Lowered
    from functrax.transforms.staging.traced_function import TracedFunction

jit_call = Call("jit")
#: Traces of a function that it can still explain.
_REMEMBERED: Final = 100
_all_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()
#: The parts of a Signature.
_Key: TypeAlias = tuple[PyTreeDef, tuple[ShapedArray, ...], StaticKey, Any, Any]


def _key(avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticKey) -> _Key:
    return (tree, tuple(avals), static, trace_context(), state.axis_env)


class Jitted(JitCaller):
    """A function that is traced once per signature and then called as a program.

    Made by :func:`jit`; ``checkpoint`` makes them with another call.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        roles: ArgumentRoles,
        inline: bool = False,
        call: Call = jit_call,
        call_params: Mapping[str, Any] | None = None,
        shardings: CallShardings | None = None,
    ) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._roles = roles
        self._inline = inline
        self._call = call
        self._call_params = dict(call_params or {})
        self._name = name_of(fun)
        self._shardings = shardings
        self._cache = shared_traces.traces_of(fun, roles)
        self._hits = self._misses = 0
        self._history: deque[TraceRecord] = deque(maxlen=_REMEMBERED)
        self._register()

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._fun)

    def _register(self) -> None:
        roles = self._roles
        self._set_roles(
            roles.static_nums, roles.static_names, roles.donate_nums, roles.donate_names
        )
        _all_jitted.add(self)

    def _call_in_python(self, *args: Any, **kwargs: Any) -> Any:
        if options.disable_jit:
            return self._fun(*args, **kwargs)
        if self._shardings is None:
            return self._call_program(args, kwargs)[0]
        with self._shardings.running():
            return self._call_program(args, kwargs)[0]

    def _call_and_prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Prepared | None]:
        if self._shardings is not None and not self._shardings.are_here:
            return self._call_in_python(*args, **kwargs), None
        result, traced = self._call_program(args, kwargs)
        if traced.effects is not None:  # which C++ knows nothing of
            return result, None
        if known.several and any(
            map(bound_to, (*tree_leaves(result), *tree_leaves((args, kwargs))))
        ):
            return result, None  # the call may have run elsewhere than calls of other arrays will
        return result, prepare(traced.jaxpr, traced.consts, traced.out_tree)

    def _call_program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Traced]:
        dynamic, dynamic_kwargs, static = self._roles.split(args, kwargs)
        shardings = self._shardings
        if shardings is not None:
            shardings.check(dynamic, dynamic_kwargs)
            if shardings.device is not None:
                dynamic, dynamic_kwargs = shardings.moved((dynamic, dynamic_kwargs))
        refs: Sequence[Any] = ()
        try:
            flat, in_tree = flatten_args(
                self._fun, dynamic, dynamic_kwargs, self._roles.static_nums
            )
        except ReferenceUseError as error:
            flat, in_tree, refs = self._with_references((dynamic, dynamic_kwargs), error)
        misses = self._misses
        traced = self._trace(_key([x.aval for x in flat], in_tree, static))
        if self._roles.donates and self._misses != misses:
            donated = self._roles.donated_leaves(args, kwargs)
            warn_of_unused([x.aval for x in flat], donated, traced.jaxpr.out_avals)
        if traced.effects is not None:
            if traced.effects.hands_on and state.trace.parent is not None:
                return self._fun(*args, **kwargs), traced  # rules get the references themselves
            outs = self._run_writing(traced, flat, refs)
        elif self._inline and state.trace is not EVAL:
            outs = eval_jaxpr(traced.jaxpr, (), *traced.consts, *flat)
        else:
            outs = self._call.bind(*traced.consts, *flat, jaxpr=traced.jaxpr, **self._call_params)
        results = [concrete(x) for x in outs]
        if shardings is not None:
            results = shardings.placed(results, traced.out_tree)
        if self._roles.donates:
            self._roles.donate(args, kwargs, results)
        return tree_unflatten(traced.out_tree, results), traced

    def _with_references(
        self, dynamic: tuple[Any, dict[str, Any]], error: ReferenceUseError
    ) -> tuple[list[Value], PyTreeDef, Sequence[Any]]:
        """Leaves and structure of arguments among which are references, and these."""
        from functrax.transforms.arguments.discharge import given

        (positional, named), refs = given(self._fun, dynamic, error)
        return *flatten_args(self._fun, positional, named, self._roles.static_nums), refs

    def _run_writing(
        self, traced: Traced, flat: Sequence[Value], refs: Sequence[Any]
    ) -> Sequence[Value]:
        """The results of a program that reads and writes references; ``refs`` are arguments."""
        from functrax.transforms.arguments import discharge

        assert traced.effects is not None
        if traced.effects.hands_on:
            discharge.hand_on()
        discharge.check_not_closed_over(self._name, refs, traced.consts)
        consts = discharge.values_of(traced.consts)
        outs = self._call.bind(*consts, *flat, jaxpr=traced.jaxpr, **self._call_params)
        count = len(traced.effects.targets)
        discharge.write_back(traced.effects.targets, outs[:count], refs)
        return outs[count:]  # type: ignore[no-any-return]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _trace(self, key: _Key) -> Traced:
        found = self._cache.find(key)
        if found is not None:
            self._hits += 1
            return found
        if options.no_tracing:
            raise GuardError(
                f"jit: {self._name} would have to be traced, and no_tracing forbids it",
                got=", ".join([a.str_short() for a in key[1]]) or "no arguments",
                fix="call the function with such arguments before",
            )
        self._misses += 1
        begin = time.perf_counter()
        signature = TraceSignature(*key)
        flat_fun = FlatFunction(self._roles.merge(self._fun, signature.static), signature.tree)
        name = flat_fun.__name__ = self._name
        with monitoring.timed(monitoring.TRACE, name):
            jaxpr, consts, effects = stage_with_references(flat_fun, signature.avals, name)
        milliseconds = (time.perf_counter() - begin) * 1e3
        if recorder.on:
            recorder.add("trace", name, round(begin * 1e9), time.perf_counter_ns())
        if known.several:
            consts = [free(c) for c in consts]  # where a program runs is up to its arguments
        traced = Traced(close(jaxpr), tuple(consts), flat_fun.out_tree, milliseconds, effects)
        if options.log_compiles:
            import logging

            shown = ", ".join(a.str_short() for a in signature.avals)
            log = logging.getLogger("functrax.jit")
            log.warning("Finished tracing %s for jit in %.2f ms, of %s", name, milliseconds, shown)
        kept = not any(isinstance(c, Tracer) for c in consts)
        if effects is not None:
            from functrax.transforms.arguments.discharge import outlive

            kept = kept and outlive((*consts, *effects.targets))
        if kept and self._cache.keep(key, traced):
            self._cache.drop_unused(self._drop_unused())
        where = state.source or user_line()
        if options.explain_cache_misses:
            from functrax.transforms.staging.cache_misses import explain_miss

            earlier = [record.signature for record in self._history]
            explain_miss(self._fun, name, where, signature, earlier)
        self._history.append(
            TraceRecord(signature, weakref.ref(traced.jaxpr), where, milliseconds, kept)
        )
        return traced

    @as_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for certain arguments, without running it.

        Args:
          args: arrays, or :class:`ShapeDtypeStruct`; of arrays only shapes and dtypes matter.
          kwargs: the same by name.

        Returns:
          A :class:`Lowered`, with ``as_text()``, ``cost_analysis()`` and ``compile()``.

        >>> import functrax, functrax.numpy as jnp
        >>> lowered = functrax.jit(lambda x: jnp.sqrt(x) * 2).lower(1.0)
        >>> lowered.out_info
        ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
        >>> lowered.compile()(0.0)
        Array(0., dtype=float32, weak_type=True)
        """
        return self._staged(args, kwargs).lower()

    @as_boundary
    def trace(self, *args: Any, **kwargs: Any) -> TracedFunction:
        """The function traced for certain arguments, without compiling or running anything.

        Args:
          args: arrays, or :class:`ShapeDtypeStruct`; of arrays only shapes and dtypes matter.
          kwargs: the same by name.

        Returns:
          A :class:`TracedFunction`, with ``jaxpr``, ``out_info``, ``fun_name`` and ``lower()``.

        >>> import functrax
        >>> traced = functrax.jit(lambda x: {"twice": x + x}).trace(1.0)
        >>> traced.out_info
        {'twice': ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)}
        """
        return self._staged(args, kwargs)

    @as_boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for certain arguments, as their pytree; see :meth:`trace`."""
        return self._staged(args, kwargs).out_info

    def _staged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedFunction:
        from functrax.transforms.staging.staged import Places
        from functrax.transforms.staging.traced_function import TracedFunction

        dynamic, dynamic_kwargs, static = self._roles.split(args, kwargs)
        if self._shardings is not None:
            self._shardings.check(dynamic, dynamic_kwargs)
        leaves, tree = flatten_types((tuple(dynamic), dynamic_kwargs))
        what = f"an argument of {self._name}"
        key = _key([type_of(x, what) for x in leaves], tree, static)
        traced = self._trace(key)
        if traced.effects is not None:
            from functrax.core.state.references import read_only

            consts = tuple(read_only(self._name, traced.effects, traced.consts))
            traced = replace(traced, consts=consts)

        def bind(values: Sequence[Value]) -> Sequence[Value]:
            outs: Sequence[Value] = self._call.bind(
                *values, jaxpr=traced.jaxpr, **self._call_params
            )
            return outs

        places = Places(self._shardings, leaves, self._roles.donated_leaves(args, kwargs))
        return TracedFunction(self._name, self._fun, traced, TraceSignature(*key), bind, places)

    def dynamic(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call without the static ones."""
        positional, named, _ = self._roles.split(args, kwargs)
        return positional, named

    def device_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Device:
        """The device that a call with certain arguments runs on.

        Raises:
          ShardingError: two arguments are bound to different devices.
        """
        if self._shardings is not None and self._shardings.device is not None:
            return self._shardings.device
        return device_for(self._name, tree_leaves(self.dynamic(args, kwargs)))

    def cache_info(self) -> CacheInfo:
        """How often the function was traced and compiled, and why."""
        programs = [traced.jaxpr for traced in self._cache.values()]
        return CacheInfo(
            self._hits + self._direct_hits,
            self._misses,
            len(self._cache),
            sum(map(compiles, programs)),
            sum(map(planned, programs)),
            tuple(self._history),
            self._fun,
        )

    def _cache_size(self) -> int:
        """How many programs are remembered; libraries written for JAX ask for it."""
        return len(self._cache)

    def clear_cache(self) -> None:
        """Forget the programs of this function."""
        self._cache.clear()
        self._history.clear()
        self._forget()

    def __reduce_ex__(self, protocol: Any) -> Any:
        named: Any = sys.modules.get(self.__module__)
        path = str(vars(self).get("__qualname__", ""))
        for part in path.split("."):
            named = getattr(named, part, None)
        if named is self:
            return path  # it is pickled by its name, as a function is
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        fresh = {
            "_cache": TraceCache(),
            "_hits": 0,
            "_misses": 0,
            "_history": deque(maxlen=_REMEMBERED),
        }
        return {**vars(self), **fresh}  # a copy traces for itself

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._register()

    def __repr__(self) -> str:
        return f"<{self._call.name} of {self._name}>"


connect(Jitted)


def clear_caches() -> None:
    """Forget the programs of all jitted functions, and what is known of operations outside.

    Returns:
      None.

    >>> import functrax
    >>> f = functrax.jit(lambda x: 2 * x)
    >>> f(1.0)
    Array(2., dtype=float32, weak_type=True)
    >>> functrax.clear_caches()  # the next call traces and compiles again
    """
    for jitted in list(_all_jitted):
        jitted.clear_cache()
    shared_traces.forget()
    from functrax.backends.eager import cached_traces, run as eager_run

    eager_run.forget()
    cached_traces.forget()


@overload
def jit(
    fun: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    inline: bool = ...,
    device: Device | None = ...,
    backend: str | None = ...,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    compiler_options: dict[str, Any] | None = ...,
) -> JittedFunction[P, R]: ...
@overload
def jit(
    *,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    inline: bool = ...,
    device: Device | None = ...,
    backend: str | None = ...,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    compiler_options: dict[str, Any] | None = ...,
) -> Decorator: ...
def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: Device | None = None,
    backend: str | None = None,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Trace a function once per signature, and run the resulting program.

    Args:
      fun: a pure function of pytrees of arrays; None to get a decorator.
      static_argnums: positions of arguments that are part of the signature, not traced.  Their
        values must be hashable; a new value traces again.
      static_argnames: names of such arguments.
      donate_argnums: positions of arguments whose buffers the call may use up.  They are deleted.
      donate_argnames: names of such arguments.
      keep_unused: accepted for compatibility; unused arguments cost nothing here.
      inline: whether a call inside another traced function writes its equations there.
      device: the device to run on, wherever the arguments are; results are bound to it.
      backend: its platform, ``"cpu"`` or ``"gpu"``; not together with ``device``.
      in_shardings: where the arguments have to be able to lie: a sharding, a ``functrax.P`` for the
        mesh that is set, or None for anywhere; or a tuple with a pytree prefix of them for each
        argument that is not static.
      out_shardings: where the results are to lie: a pytree prefix of them of the same.
      compiler_options: a dict; names that begin with ``xla_`` change nothing, and a warning says
        so once; others there are not.

    Returns:
      A function of the same arguments, with ``lower()``, ``cache_info()`` and ``clear_cache()``.

    Raises:
      StaticArgumentError: if a static argument cannot be hashed.
      ShardingError: if shardings do not fit the function or the devices.
      UnavailableError: for a backend or a compiler option that there is not.

    >>> import functrax, functrax.numpy as jnp
    >>> f = functrax.jit(lambda x: jnp.sin(x) ** 2)
    >>> f(0.0)
    Array(0., dtype=float32, weak_type=True)
    """

    def decorate(function: Callable[..., Any]) -> Jitted:
        check_callable("jit", function)
        roles = ArgumentRoles(
            function, static_argnums, static_argnames, donate_argnums, donate_argnames
        )
        shardings = call_shardings(name_of(function), in_shardings, out_shardings, device, backend)
        check_options("jit", compiler_options)
        return Jitted(function, roles, inline, shardings=shardings)

    return decorate if fun is None else decorate(fun)
