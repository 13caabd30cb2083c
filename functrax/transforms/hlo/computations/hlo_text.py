"""A module as text: what the entry needs, callees first, each instruction with a name of its own.

Names are an opcode (of parameters, the argument's name) and a number.  They and the order depend on
the graph alone, so equal programs have equal texts.

Start at :func:`module_text`.
"""

from __future__ import annotations

import re
from typing import Any

from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.computations.literals import type_text


class _Names:
    """Names that occur once."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        base = re.sub(r"[^\w-]+", "_", wanted).strip("_")
        base = base if re.match(r"[a-zA-Z_]", base) else f"_{base}"
        number = self._counts[base] = self._counts.get(base, 0) + 1
        return f"{base}.{number}"


class _Printer:
    """Prints the computations of a module, each behind those that it calls."""

    def __init__(self) -> None:
        self._names = _Names()
        self._called: dict[Computation, str] = {}
        self.texts: list[str] = []

    def print(self, computation: Computation, head: str = "") -> str:
        """The name of a computation, whose text is added if it is not there yet."""
        found = self._called.get(computation)
        if found is not None:
            return found
        nodes = _needed(computation)
        for node in nodes:
            for _, value in node.attributes:
                for callee in value if isinstance(value, tuple) else (value,):
                    if isinstance(callee, Computation):
                        self.print(callee)
        title = self._called[computation] = self._names.new(computation.name)
        lines = self._lines(computation, nodes)
        self.texts.append(f"{head}{title} {{\n{''.join(lines)}}}\n")
        return title

    def _lines(self, computation: Computation, nodes: list[Node]) -> list[str]:
        assert computation.root is not None
        root = computation.root.resolved()
        asked = dict(zip(computation.parameters, computation.parameter_names, strict=True))
        names = {node: self._names.new(asked.get(node, node.opcode)) for node in nodes}
        lines = []
        for node in nodes:
            inside = node.text or ", ".join(names[x] for x in node.operands)
            line = f"{names[node]} = {type_text(node.type)} {node.opcode}({inside})"
            for key, value in node.attributes:
                line += f", {key}={self._attribute(value)}"
            lines.append(f"  {'ROOT ' if node is root else ''}{line}\n")
        return lines

    def _attribute(self, value: Any) -> str:
        if isinstance(value, Computation):
            return self._called[value]
        if isinstance(value, tuple):
            comma = ", " if any(isinstance(x, Computation) for x in value) else ","
            return f"{{{comma.join(map(self._attribute, value))}}}"
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)


def _needed(computation: Computation) -> list[Node]:
    """The parameters, and what the root needs, operands first."""
    assert computation.root is not None
    order = dict.fromkeys(computation.parameters)
    waiting = [(computation.root.resolved(), False)]
    while waiting:
        node, ready = waiting.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        waiting.append((node, True))
        waiting.extend((x, False) for x in reversed(node.operands))
    return list(order)


def module_text(entry: Computation, name: str) -> str:
    """The module whose entry computation is given.

    Args:
      entry: the computation that is run.
      name: of the module.
    """
    assert entry.root is not None
    printer = _Printer()
    printer.print(entry, "ENTRY ")
    arguments = ", ".join(type_text(p.type) for p in entry.parameters)
    layout = f"{{({arguments})->{type_text(entry.root.type)}}}"
    head = f"HloModule {name}, entry_computation_layout={layout}\n"
    return "\n".join([head, *printer.texts])
