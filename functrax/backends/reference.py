"""The reference device: a Python loop over NumPy, which defines what every program means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.device import Device, Executable, use
from functrax.core.jaxpr import Jaxpr, Literal
from functrax.core.primitive import Primitive


class ReferenceDevice(Device):
    """Runs equations one by one with their NumPy references."""

    name = "reference"

    def compile(self, jaxpr: Jaxpr) -> Executable:
        def run(values: Sequence[Any]) -> list[Any]:
            env = dict(zip(jaxpr.invars, values, strict=True))
            for eqn in jaxpr.eqns:
                operands = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
                out = self.apply(eqn.primitive, operands, eqn.params)
                if not eqn.primitive.multiple_results:
                    out = [out]
                env.update(zip(eqn.outvars, out))
            return [np.asarray(x.val) if type(x) is Literal else env[x] for x in jaxpr.outvars]

        return run

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            out = primitive.reference(*values, **params)
        return list(out) if primitive.multiple_results else np.asarray(out)


use(ReferenceDevice())
