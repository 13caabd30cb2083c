"""What a kernel does, in cycles: the half of the model of cost that looks at kernels.

A node of a kernel is computed inside of the loops that it depends on, for a vector of points at
once if it depends on the vector dim.  Functions such as ``exp`` count as the operations that they
are written with, loads and stores by how their elements lie.

Start at :func:`kernel_ns`.
"""

from __future__ import annotations

from functrax.backends.cost import launch_ns
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.kernels.operations import FREE, count
from functrax.backends.targets.facts import Target
from functrax.core.index.expr import IndexExpr
from functrax.core.scalars.scalar import Scalar


def kernel_ns(kernel: Kernel, target: Target) -> int:
    """Estimated nanoseconds of a scheduled kernel on one thread."""
    if kernel.tiling is not None:
        return kernel.tiling.ns
    counted = _Count(kernel, target)
    extents = [kernel.steps(d) for d in counted.order]
    if any(stage.condition is not None for stage in kernel.stages):
        # Nobody knows how many: so many that it pays to wake threads for steps of a nanosecond.
        extents[-1] *= target.wake_ns
    arrays = [(o.size, o.dtype.itemsize) for o in kernel.operands if o.alias is None]
    return launch_ns(extents, counted.cycles, arrays, target)


class _Count:
    """Adds up the cycles of a kernel by the depth of loops.

    Attributes:
      order: the dims, outermost first.
      cycles: for each step of the first so many loops.
    """

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.order = (*kernel.outer, *kernel.inner)
        self._place = {d: n + 1 for n, d in enumerate(self.order)}
        self.cycles = [0.0] * (len(self.order) + 1)
        #: Of each node how many loops it is in, and whether it is a vector.
        self._depth: dict[Scalar, tuple[int, bool]] = {}
        self._turned = any(x.kind == "turn" for x in kernel.schedule)
        if self.order:
            self._add(target.step_cycles, len(self.order))
        for node in kernel.nodes():
            self._node(node)
        for stage in kernel.stages:
            for store in stage.stores:
                self._store(store, len(self.order))
            if stage.scan is not None and kernel.vector in kernel.inner:
                self._add(target.scan_cycles, len(self.order))
        for store in kernel.rows:
            self._store(store, len(kernel.outer))

    def _add(self, cycles: float, depth: int) -> None:
        """Count cycles of a step at a depth, which is one of a vector of points inside its loop."""
        inside = 0 < self._place.get(self.kernel.vector, 0) <= depth  # type: ignore[arg-type]
        self.cycles[depth] += cycles / (self.kernel.lanes if inside else 1)

    def _node(self, node: Scalar) -> None:
        kernel = self.kernel
        known = [self._depth[x] for x in node.args]
        depth = max([d for d, _ in known], default=0)
        vector = any(v for _, v in known)
        cycles = 0.0
        if node.op == "load":
            _, address, has_offset, _ = node.attr
            varies = has_offset and self._depth[node.args[0]][1]
            depth = max(depth, max([self._place.get(d, 0) for d in address.used_dims()], default=0))
            vector = varies or coefficient(address, kernel.vector) != 0
            cycles = self._access(address, varies, node.dtype.itemsize, self.target.gather_cycles)
        elif node.op == "dim":
            depth, vector = self._place.get(node.attr, 0), node.attr == kernel.vector
        elif node.op in ("acc", "tail", "lane"):
            depth, vector = len(self.order), kernel.vector is not None
        elif node.op == "result":
            depth, vector = len(kernel.outer), kernel.vector in kernel.outer
        self._depth[node] = depth, vector
        if node.op not in FREE:
            self._add(cycles or self._operation(node, vector), depth)

    def _operation(self, node: Scalar, vector: bool) -> float:
        """Cycles of an operation on a vector, or on one element."""
        target = self.target
        each = target.operation_cycles if vector else target.scalar_cycles
        operations = count(node)
        if operations is not None:
            each *= operations
        else:
            each = target.remainder_cycles if node.op == "rem" else target.division_cycles
        return each * (self._registers(max(node.dtype.itemsize, 4)) if vector else 1)

    def _registers(self, itemsize: int) -> float:
        """How many registers the elements of a vector of points take."""
        return max(1.0, self.kernel.lanes * itemsize / self.target.vector_bytes)

    def _access(self, address: IndexExpr, varies: bool, itemsize: int, gather: float) -> float:
        """Cycles to load or store an element at an address, or those of a vector of points.

        Args:
          address: the affine part of where they are.
          varies: whether the rest of it differs from point to point of a vector.
          itemsize: bytes of an element.
          gather: cycles for each of the elements that lie anywhere.
        """
        target, stride = self.target, coefficient(address, self.kernel.vector)
        if varies:
            return self.kernel.lanes * gather
        if not stride:
            return target.operation_cycles
        if stride == 1:
            return target.operation_cycles * self._registers(itemsize)
        if stride == -1:
            return target.reverse_cycles * self._registers(itemsize)
        if self._turned:
            return target.turn_cycles * self.kernel.lanes
        near = abs(stride) * itemsize < target.cache_line
        return (target.turn_cycles if near else target.stride_cycles) * self.kernel.lanes

    def _store(self, store: Store, depth: int) -> None:
        vector = self._place.get(self.kernel.vector, depth + 1) <= depth  # type: ignore[arg-type]
        varies = vector and store.offset is not None and self._depth[store.offset][1]
        size = self.kernel.operands[store.buffer].dtype.itemsize
        cycles = self._access(store.address, varies, size, self.target.scatter_cycles)
        self._add(cycles, depth)
