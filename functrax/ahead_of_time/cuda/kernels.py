"""Kernels of a program as PTX, each once, and how they are launched.

Kernels of the compiler's are one module.  One of the user's own, whose text may be for another
version of PTX, is a module by itself.

Start at :class:`DeviceKernels`.
"""

from __future__ import annotations

from functrax.ahead_of_time.cuda.constants import literal
from functrax.backends.executables.program import Launch
from functrax.backends.ptx.code import DeviceCode
from functrax.backends.ptx.pieces import joined
from functrax.core.records import record


@record
class KernelUse:
    """What a launch says.

    Args:
      number: of the kernel.
      grid: how many blocks.
      numbers: the name of the run-time arguments in C.
    """

    number: int
    grid: int
    numbers: str


class DeviceKernels:
    """The kernels of a program that is being written."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}  # by module and name
        self._kernels: list[tuple[str | None, str, int]] = []  # the user's module, name, threads
        self._own: list[str] = []
        self._tables: dict[tuple[int, ...], str] = {}
        self.most_places = 0

    @property
    def count(self) -> int:
        """How many kernels there are."""
        return len(self._kernels)

    def used(self, x: Launch) -> KernelUse:
        """A launch of a kernel, which is added the first time."""
        code = x.owner
        key = (code.own_ptx, code.name)
        if key not in self._numbers:
            self._numbers[key] = len(self._kernels)
            compiled = isinstance(code, DeviceCode)
            self._kernels.append((None if compiled else code.own_ptx, code.name, code.block))
            if compiled:
                self._own.append(code.own_ptx)
        numbers = x.params or (0,)
        table = self._tables.setdefault(numbers, f"functrax_numbers_{len(self._tables)}")
        self.most_places = max(self.most_places, len(x.inputs) + len(x.outputs))
        return KernelUse(self._numbers[key], code.grid(x.units), table)

    def modules(self) -> tuple[str, ...]:
        """The texts of PTX: of the compiler's kernels first, if there are any."""
        own = (joined(self._own),) if self._own else ()
        return (*own, *dict.fromkeys(x[0] for x in self._kernels if x[0] is not None))

    def definitions(self) -> list[str]:
        """The lines of C that define them."""
        modules, lines = self.modules(), list[str]()
        for n, text in enumerate(modules):
            lines.append(f"static const char *const functrax_module_{n}[] = {{")
            lines += [f"    {_pieces(line)}," for line in text.splitlines(keepends=True)]
            lines.append("    NULL};")
        names = ", ".join([*[f"functrax_module_{n}" for n in range(len(modules))], "NULL"])
        lines.append(f"static const char *const *const functrax_modules[] = {{{names}}};")
        lines.append("static const functrax_cuda_kernel functrax_kernels[] = {")
        for module, name, block in self._kernels:
            number = 0 if module is None else modules.index(module)
            lines.append(f"    {{{number}, {literal(name.encode())}, {block}}},")
        lines += ["    {0, NULL, 0}};"]
        for numbers, name in self._tables.items():
            values = ", ".join(_number(x) for x in numbers)
            lines.append(f"static const int64_t {name}[] = {{{values}}};")
        return lines


def _pieces(line: str) -> str:
    """A line as literals, none longer than compilers must take."""
    data = line.encode()
    return ", ".join(literal(data[n : n + 1024]) for n in range(0, len(data), 1024))


def _number(x: int) -> str:
    """A constant of 64 bits; C has no literal of the least one."""
    return f"INT64_C({x})" if x > -(1 << 63) else f"(-INT64_C({-(x + 1)}) - 1)"
