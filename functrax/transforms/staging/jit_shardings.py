"""``in_shardings`` and ``out_shardings`` of jitted functions, and the other options of a call.

:class:`CallShardings` checks the arguments of a call against what was asked for, and puts its
results where they shall be.  :func:`check_options` refuses compiler options that do not exist.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from functrax.backends.device import Device, current_device, put_on, running_on
from functrax.backends.places import known
from functrax.backends.sharding.placement import devices
from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError, PyTreeError, ShardingError, UnavailableError
from functrax.core.pytree.operations import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value


class _Unspecified:
    """The type of what ``in_shardings`` and ``out_shardings`` are where nobody gives them."""

    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED: Final = _Unspecified()


class CallShardings:
    """Where the arguments and the results of a function are to lie.

    Args:
      name: of the function, for errors.
      inputs: a sharding, a spec or None, or a tuple with a pytree prefix of them for each argument
        that is not static; or UNSPECIFIED.
      outputs: a pytree prefix of the result, of the same; or UNSPECIFIED.
      device: where all calls run, or None.

    Raises:
      ArgumentError: if there is something else in them.
    """

    def __init__(self, name: str, inputs: Any, outputs: Any, device: Device | None = None) -> None:
        self.name = name
        self.device = device
        self.inputs = tuple(inputs) if isinstance(inputs, list) else inputs
        self.outputs = outputs
        _check_leaves("in_shardings", inputs)
        _check_leaves("out_shardings", outputs)

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Refuse arguments that cannot have the shardings that were asked for.

        Raises:
          ShardingError: if one cannot, or they do not fit the arguments.
        """
        if self.inputs is UNSPECIFIED:
            return
        if kwargs and self.inputs is not None:
            raise ShardingError(
                f"{self.name}: with in_shardings there are no arguments by name",
                got=", ".join(kwargs),
                fix="give them by position",
            )
        self.of_inputs(tuple(args))

    @property
    def are_here(self) -> bool:
        """Whether all that they say is to run on the device that runs everything, the only one."""
        if self.inputs is not UNSPECIFIED or self.outputs is not UNSPECIFIED or known.several:
            return False
        return self.device is None or self.device.platform == current_device().platform

    def running(self) -> AbstractContextManager[None]:
        """The block in which a call is made: the device runs everything."""
        return nullcontext() if self.device is None else running_on(self.device)

    def moved(self, arguments: Any) -> Any:
        """The arguments of a call, bound to the device that it is to run on."""
        leaves, tree = tree_flatten(arguments)
        made = [as_value(x, f"an argument of {self.name}") for x in leaves]
        return tree_unflatten(tree, self._on_device(made))

    def _on_device(self, values: list[Any]) -> list[Any]:
        """Arrays bound to the device; traced ones stay: the program around them runs somewhere."""
        if self.device is None or not known.several:
            return values
        return [put_on(x, self.device) if type(x) is ConcreteArray else x for x in values]

    def of_inputs(self, args: tuple[Any, ...]) -> list[Any]:
        """The sharding of each leaf of the arguments, or None; each fits."""
        if self.inputs is UNSPECIFIED:
            return [None] * len(tree_leaves(args))
        from functrax.backends.sharding.prefixes import prefix_leaves

        if isinstance(self.inputs, tuple) and len(self.inputs) != len(args):
            raise ShardingError(
                f"{self.name}: in_shardings has not one entry for each argument",
                got=f"{len(self.inputs)} entries for {len(args)} arguments",
                fix="one sharding for all, or a tuple with an entry for each argument",
            )
        try:
            wheres = prefix_leaves(self.inputs, args, f"{self.name}: in_shardings")
        except PyTreeError as error:
            raise PyTreeError(
                error.what,
                got=error.got,
                fix="a tuple with an entry for each argument, a prefix of its structure",
            ) from None
        return self._fitting(wheres, args, "in_shardings", "argument ")

    def of_outputs(self, shaped: Any) -> list[Any]:
        """The sharding of each leaf of a result, or None; each fits."""
        if self.outputs is UNSPECIFIED:
            return [None] * len(tree_leaves(shaped))
        from functrax.backends.sharding.prefixes import prefix_leaves

        wheres = prefix_leaves(self.outputs, shaped, f"{self.name}: out_shardings")
        return self._fitting(wheres, shaped, "out_shardings", "result ")

    def _fitting(self, wheres: list[Any], tree: Any, what: str, prefix: str) -> list[Any]:
        from functrax.backends.sharding.layouts import Format, check_row_major
        from functrax.backends.sharding.placed import as_sharding, check_fits

        found = []
        for (path, leaf), where in zip(tree_flatten_with_path(tree)[0], wheres, strict=True):
            sharding = as_sharding(where, f"{self.name}: {what}")
            shape = getattr(leaf, "shape", ())
            if isinstance(where, Format):
                check_row_major(where.layout, shape, f"{self.name}: {what}")
            if sharding is not None:
                check_fits(sharding, shape, f"{self.name}: {what} of {prefix}{keystr(path)}")
            found.append(sharding)
        return found

    def placed(self, results: list[Any], tree: PyTreeDef) -> list[Any]:
        """The results of a call, each on its sharding where one is asked for."""
        if self.outputs is UNSPECIFIED:
            return self._on_device(results)
        from functrax.backends.sharding.placed import put_all

        return put_all(results, self.of_outputs(tree_unflatten(tree, results)))


def _check_leaves(what: str, shardings: Any) -> None:
    if shardings is UNSPECIFIED:
        return
    from functrax.backends.sharding.layouts import Format
    from functrax.backends.sharding.partition import PartitionSpec
    from functrax.backends.sharding.shardings import Sharding

    for leaf in tree_leaves(shardings):
        if not isinstance(leaf, (Sharding, PartitionSpec, Format)):
            raise ArgumentError(
                f"jit: {what} holds something else than shardings",
                got=f"{leaf!r} of type {type(leaf).__name__}",
                fix="a functrax.sharding.Sharding, a functrax.P, or None",
            )


def call_shardings(
    name: str, inputs: Any, outputs: Any, device: Any, backend: str | None
) -> CallShardings | None:
    """The shardings of a function; None if ``jit`` was given none.

    Raises:
      ArgumentError: if they are of a wrong type, or ``device`` is no device.
      ShardingError: if a device or a backend is given beside shardings, or beside each other.
      UnavailableError: if there is no such backend.
    """
    if device is not None or backend is not None:
        _check_place(inputs, outputs, device, backend)
        device = device or devices(backend)[0]
    elif inputs is UNSPECIFIED and outputs is UNSPECIFIED:
        return None
    return CallShardings(name, inputs, outputs, device)


def _check_place(inputs: Any, outputs: Any, device: Any, backend: str | None) -> None:
    if device is not None and backend is not None:
        raise ShardingError(
            "jit: both a device and a backend are given",
            got=f"device={device!r}, backend={backend!r}",
            fix="one of them",
        )
    if inputs is not UNSPECIFIED or outputs is not UNSPECIFIED:
        raise ShardingError(
            "jit: a device or a backend is given beside shardings",
            got=f"device={device!r}, backend={backend!r}",
            fix="shardings alone",
        )
    if device is not None and not isinstance(device, Device):
        raise ArgumentError(
            "jit: not a device",
            got=f"{device!r} of type {type(device).__name__}",
            fix="functrax.devices()[0]",
        )


_warned: set[str] = set()


#: How hard XLA is to try, in its words.
_EFFORT: Final = frozenset(
    {
        *("exec_time_optimization_effort", "memory_fitting_effort"),
        *("optimization_level", "memory_fitting_level"),
    }
)


def check_options(what: str, options: Any) -> None:
    """Refuse compiler options that there are not; warn once of those that only XLA has.

    Args:
      what: the function that they were given to.
      options: a dict from names to values, or None.

    Raises:
      ArgumentError: if it is no dict.
      UnavailableError: for an unknown option; it is a RuntimeError.
    """
    if options is None:
        return
    if not isinstance(options, dict):
        raise ArgumentError(
            f"{what}: compiler_options is no dict",
            got=f"{options!r} of type {type(options).__name__}",
            fix="compiler_options=None",
        )
    unknown = [n for n in options if not str(n).startswith("xla_") and n not in _EFFORT]
    if unknown:
        raise UnavailableError(
            f"{what}: No such compile option: {str(unknown[0])!r}",
            got=repr(options),
            fix="functrax.config, which has the compiler's options; print it to see them",
        )
    for name in options:
        if name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"{what}: {name} is an option of XLA, and changes nothing here",
                UserWarning,
                stacklevel=3,
            )
