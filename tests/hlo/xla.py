"""Runs HLO text by XLA, as jaxlib has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def read(text: str) -> Any:
    """The module of a text."""
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text)


def run(text: str, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The results of a module whose parameters are given: read, compiled and run."""
    import jax
    from jaxlib import _hlo, _jax

    device = jax.local_devices(backend="cpu")[0]
    computation = _hlo.XlaComputation(read(text).as_serialized_hlo_module_proto())
    program = _jax.mlir.xla_computation_to_mlir_module(computation)
    executable = device.client.compile_and_load(program, _jax.DeviceList((device,)))
    with jax.enable_x64(True):
        placed = [jax.device_put(np.asarray(x), device) for x in arguments]
    shards = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [np.asarray(x[0]) for x in shards]
