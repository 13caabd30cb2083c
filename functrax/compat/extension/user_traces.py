"""Interpreters that a user writes with JAX's interface: subclasses of ``jax.core.Trace``.

Such a class says what an operation means by ``process_primitive(primitive, tracers, params)``, and
what calls with rules of derivatives mean by ``process_custom_jvp_call`` and
``process_custom_vjp_call``; primitives and parameters are shown as in programs.  An object of it
is made current by ``jax.extend.core.set_current_trace``.

Start at :class:`UserTrace`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from functrax.compat.extension.linear_util import WrappedFun, wrap_init
from functrax.compat.extension.programs import builtin, viewed_params
from functrax.compat.extension.user_primitives import UserCall
from functrax.core.errors.typed import FunctraxError
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Primitive as LanguagePrimitive, Value
from functrax.core.tracing.trace import CustomCall, Trace, Tracer, current, current_trace
from functrax.transforms.interpreters.custom_call import CustomJVP, CustomVJP


class MissingRuleError(FunctraxError, NotImplementedError):
    """An interpreter of the user's does not say what an operation means."""


class UserTrace(Trace):
    """The base of interpreters, with JAX's interface: ``jax.core.Trace``.

    >>> from functrax import numpy as jnp
    >>> class Counting(UserTrace):
    ...     names = []
    ...
    ...     def process_primitive(self, primitive, tracers, params):
    ...         self.names.append(primitive.name)
    ...         return primitive.bind_with_trace(self.below, tracers, [], params)
    >>> trace = Counting()
    >>> with current(trace):
    ...     _ = jnp.sin(1.0) * 2.0
    >>> trace.names
    ['sin', 'mul']
    """

    def __init__(self) -> None:
        super().__init__(current_trace(), type(self).__name__)

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        return Trace in kind.__mro__ if cls is UserTrace else NotImplemented

    @property
    def below(self) -> Trace | None:
        """The interpreter that was current when this one was made."""
        return self.parent

    # ---- what a subclass says -------------------------------------------------------------------

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /
    ) -> Any:
        """What ``primitive`` means: its result, or the list of its results."""
        self._lacks("process_primitive", primitive.name)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, *, symbolic_zeros: bool
    ) -> Any:
        """What a call of a function with a forward rule means: the list of its results."""
        self._lacks("process_custom_jvp_call", primitive.name)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, *,
        out_trees: Any, symbolic_zeros: bool,
    ) -> Any:  # fmt: skip
        """What a call of a function with a backward rule means: the list of its results."""
        self._lacks("process_custom_vjp_call", primitive.name)

    def _lacks(self, method: str, name: str) -> NoReturn:
        raise MissingRuleError(
            f"{type(self).__name__} must override {method} to interpret {name}",
            got=f"{name} under {type(self).__name__}",
            fix=f"a method {method} of {type(self).__name__}",
        )

    # ---- what functrax asks ---------------------------------------------------------------------

    def process(
        self, primitive: LanguagePrimitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """As :meth:`process_primitive` says."""
        shown = viewed_params(primitive.name, params)
        out = self.process_primitive(builtin(primitive.name), [*map(concrete, args)], shown)
        return [as_value(x) for x in out] if primitive.multiple_results else as_value(out)

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        """As the method of its kind says; other calls are their functions."""
        tracers = [*map(concrete, args)]
        if isinstance(call, UserCall):
            outs = self.process_primitive(call.primitive, tracers, call.params)
            outs = outs if call.primitive.multiple_results else [outs]
        elif isinstance(call, CustomJVP):
            rule = self._flat(call.rule)
            outs = self.process_custom_jvp_call(
                builtin("custom_jvp_call"), self._flat(call.function), rule, tracers,
                symbolic_zeros=call.symbolic,
            )  # fmt: skip
        elif isinstance(call, CustomVJP):
            forward = backward = wrap_init(_only_under_grad)
            outs = self.process_custom_vjp_call(
                builtin("custom_vjp_call"), self._flat(call.function), forward, backward, tracers,
                out_trees=_only_under_grad, symbolic_zeros=call.symbolic,
            )  # fmt: skip
        else:
            outs = call.function(*args)
        return [as_value(x) for x in outs]

    def _flat(self, function: Callable[..., Any]) -> WrappedFun:
        """A function of values; where they are this interpreter's, it runs under it."""

        def call(*xs: Any) -> list[Value]:
            values = [as_value(x) for x in xs]
            if any(isinstance(x, Tracer) and x._trace is self for x in values):
                with current(self):
                    return [concrete(x) for x in function(*values)]
            return [concrete(x) for x in function(*values)]

        return wrap_init(call)


def _only_under_grad(*args: Any) -> NoReturn:
    raise MissingRuleError(
        "the rules of a custom_vjp apply under grad and vjp, and not by themselves",
        got="a call of one by an interpreter of the user's",
        fix="the function that process_custom_vjp_call is given",
    )
