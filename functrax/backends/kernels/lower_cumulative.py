"""Running sums, products, extrema and log-sum-exps as kernels: one value carried along an axis.

What enters is an equation of ``cumsum`` or its kin; what leaves is a kernel without a schedule,
whose outer dims are the other axes.  Start at :func:`lower_cumulative`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Carry, Kernel, LoopStage, Operand, Reduce, Store, load
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.steps import LoopKernel, variables
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.index.map_form import flatten
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims.cumulative import Cumulative
from functrax.core.scalars.scalar import Builder


def lower_cumulative(eqn: Eqn) -> LoopKernel | Refusal:
    """The kernel of a cumulative operation along one axis.

    It is refused if the operation is none of scalars, or there are no elements.
    """
    (x,), (out,) = eqn.invars, eqn.outvars
    assert isinstance(eqn.primitive, Cumulative)
    if x.aval.size == 0 or not eqn.primitive.is_numeric((x.aval,), dict(eqn.params)):
        return Refusal("it is no operation of scalars")
    how = eqn.primitive.reduction(x.aval)
    axis, shape = int(eqn.params["axis"]), x.aval.shape
    b = Builder()
    point: list[IndexExpr] = [Dim(d) if n > 1 else as_expr(0) for d, n in enumerate(shape)]
    if eqn.params["reverse"]:
        point[axis] = shape[axis] - 1 - point[axis]
    address = flatten(point, shape)
    element = load(b, x.aval.dtype, 0, (address, None))
    values = how.start(b, element, b.const(0, how.place))
    accs = tuple(b.node("acc", v.dtype, (), ("running", k, True)) for k, v in enumerate(values))
    new = how.combine(b, accs, values)
    results = [b.node("result", v.dtype, (), v.attr[:2]) for v in accs]
    carries = list(map(Carry, how.empty(b), accs, new, results))
    operands = [Operand(v.aval.dtype, v.aval.size, v is out) for v in (x, out)]
    scan = Reduce(how, values, accs, new)
    stage = LoopStage([], [Store(1, address, how.finish(b, new))], carries, scan=scan)
    outer = tuple(d for d in range(len(shape)) if d != axis)
    kernel = Kernel(eqn.primitive.name, b, operands, shape, outer, (axis,), [stage], [])
    return LoopKernel(kernel, variables(eqn.invars))
