"""Loops without what need not be in them: products of inputs before, sums of products after.

A ``scan`` goes through its steps one by one because of its carry.  What depends on the inputs
alone needs not wait: a reduction of them (the input product of a recurrent network) is done for
all steps at once, before the loop.  A reduction that is only stacked (the gradient of inputs) is
done after it, from what it is made of.  So is what the carry only collects: a part to which each
step adds, and which it never looks at (the gradient of the weights), is a sum over all steps, of
stacked values that are smaller than what is added.  All are then products of matrices, where the
loop had products with vectors, or wrote all of a matrix in each step.

Matrices that the loop multiplies vectors with are laid out in front of it such that the results,
not what is summed, are contiguous (an LSTM of 64 units takes 0.63 of the time).

What is summed after the loop is added up in another order, so strict mode leaves this pass out.
Equations are batched by their primitives' own rules (``Primitive.batch``).

Start at :func:`split_loops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from functrax.backends.kernels.values import reduced_axes
from functrax.backends.passes.inner import renamed, with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.control import ScanLoop
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindexing, broadcast_in_dim, transpose, transpose_
from functrax.core.records import field, record
from functrax.core.tracing.primitive import Elementwise
from functrax.core.tracing.stage import live_eqns, stage
from functrax.core.types.size_bounds import roughly

#: Fewer steps stay as they are.
MIN_STEPS: Final = 4
#: A reduction leaves the loop if its operand is so many times as large as its result.
REDUCES: Final = 8
#: The most bytes that are stacked for one value.
MOST_BYTES: Final = 1 << 28


def split_loops(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with what leaves its loops in front of them, and behind them."""
    new: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    for old in jaxpr.eqns:
        eqn = renamed(with_programs(old, lambda inner: split_loops(inner, rewrites)), new)
        split = _split(eqn, rewrites) if isinstance(eqn.primitive, ScanLoop) else None
        if split is not None:
            eqns += split.eqns
            new.update(zip(eqn.outvars, split.outvars, strict=True))
        else:
            eqns.append(eqn)
    return with_eqns(jaxpr, eqns, new)


@record
class _Late:
    """A value that is computed after the loop, for all steps: stacked, or summed up in the carry.

    Args:
      value: the result, or what is summed over all steps.
      eqns: what computes it from ``cut`` after the loop.
      cut: values of the loop that they need.
      carry: the part of the carry that only collects it, by number; None of a stacked result.
      axes: what is summed of it besides.
      linear: unary equations from the sum to what is added, in order.
    """

    value: Var
    eqns: tuple[Eqn, ...]
    cut: tuple[Var, ...]
    carry: int | None = None
    axes: tuple[int, ...] = ()
    linear: tuple[Eqn, ...] = ()


@record(frozen=False)
class _Loop:
    """A ``scan`` and what is known of its body."""

    eqn: Eqn
    body: Jaxpr
    length: int
    consts: tuple[Var, ...]
    carry: tuple[Var, ...]
    xs: tuple[Var, ...]
    users: dict[Atom, list[Eqn]] = field(default_factory=dict)
    makers: dict[Atom, Eqn] = field(default_factory=dict)


def _split(eqn: Eqn, rewrites: Rewrites) -> Jaxpr | None:
    """A program that does what a loop does, or None to leave it as it is."""
    body: Jaxpr = eqn.params["jaxpr"]
    length: int = eqn.params["length"]
    if length < MIN_STEPS or body.effects:
        return None
    first = eqn.params["num_consts"]
    second = first + eqn.params["num_carry"]
    inputs = body.invars
    loop = _Loop(eqn, body, length, inputs[:first], inputs[first:second], inputs[second:])
    for inner in body.eqns:
        for x in dict.fromkeys(inner.invars):
            loop.users.setdefault(x, []).append(inner)
        loop.makers.update(dict.fromkeys(inner.outvars, inner))
    early = _early(loop)
    early = [v for v in early if rewrites.allow("before the loop", loop.makers[v])]
    stacked = {*loop.consts, *loop.xs, *early}
    results = _results(loop, stacked)
    results = [r for r in results if rewrites.allow("after the loop", loop.makers[r.value])]
    stacked.update(v for r in results for v in r.cut)
    sums = _sums(loop, stacked)
    sums = [s for s in sums if rewrites.allow("summed after the loop", eqn)]
    turned = _turned(loop, {*early, *(r.value for r in results)})
    turned = [t for t in turned if rewrites.allow("laid out before the loop", t.eqn)]
    late = [*sums, *results]
    return _rebuilt(loop, early, late, turned) if early or late or turned else None


def _is_plain(eqn: Eqn) -> bool:
    """Whether an equation can be done for all steps at once, by a kernel."""
    moves_or_computes = isinstance(eqn.primitive, (Elementwise, Reindexing))
    known = moves_or_computes or reduced_axes(eqn) is not None
    return known and len(eqn.outvars) == 1


def _early(loop: _Loop) -> list[Var]:
    """Reductions that depend on the inputs alone."""
    known: dict[Atom, bool] = {**dict.fromkeys(loop.consts, False), **dict.fromkeys(loop.xs, True)}
    found = []
    for eqn in loop.body.eqns:
        operands = [x for x in eqn.invars if isinstance(x, Var)]
        if not _is_plain(eqn) or not all(x in known for x in operands):
            continue
        (out,) = eqn.outvars
        known[out] = any(known[x] for x in operands)
        reduces = reduced_axes(eqn) and eqn.invars[0].aval.size >= REDUCES * out.aval.size
        if known[out] and reduces and _nbytes(loop, out) <= MOST_BYTES:
            found.append(out)
    return found


def _nbytes(loop: _Loop, v: Var) -> int:
    return loop.length * v.aval.size * v.aval.dtype.itemsize


def _results(loop: _Loop, stacked: set[Var]) -> list[_Late]:
    """Reductions that are stacked and nothing else."""
    found = []
    known = set(stacked)
    outputs = loop.body.outvars
    for v in dict.fromkeys(outputs[len(loop.carry) :]):
        maker = loop.makers.get(v)
        if maker is None or v in stacked or loop.users.get(v) or outputs.count(v) > 1:
            continue
        assert isinstance(v, Var)
        if not reduced_axes(maker) or maker.invars[0].aval.size < REDUCES * v.aval.size:
            continue
        eqns, cut = _traced_back(loop, v, {maker}, known, start=maker)
        if _is_little(loop, cut, known, REDUCES * v.aval.size):
            known.update(cut)
            found.append(_Late(v, eqns, cut))
    return found


def _sums(loop: _Loop, stacked: set[Var]) -> list[_Late]:
    """Parts of the carry that become sums, the largest first."""
    stacked = set(stacked)
    candidates = []
    outputs = loop.body.outvars
    for k, c in enumerate(loop.carry):
        last = loop.makers.get(outputs[k])
        uses = loop.users.get(c, [])
        collects = last is not None and last.primitive is add and uses == [last]
        if not collects or c in outputs or outputs.count(outputs[k]) > 1:
            continue
        if last is None or loop.users.get(outputs[k]) or last.invars[0] is last.invars[1]:
            continue
        added = last.invars[1] if last.invars[0] is c else last.invars[0]
        if isinstance(added, Var) and added in loop.makers and c.aval.dtype.kind == "f":
            candidates.append((k, added, last))
    sums = []
    for k, added, last in sorted(candidates, key=lambda c: -c[1].aval.size):
        found = _sum(loop, k, added, last, stacked)
        # A step writes what is stacked in place of what is added.
        if _is_little(loop, found.cut, stacked, added.aval.size - 1):
            stacked.update(found.cut)
            sums.append(found)
    return sums


def _is_little(loop: _Loop, cut: Sequence[Var], stacked: set[Var], most: int) -> bool:
    """Whether values of the loop differ from step to step, and few elements are to be stacked."""
    fresh = [v for v in cut if v not in stacked]
    few = sum(v.aval.size for v in fresh) <= most
    fits = all(roughly(_nbytes(loop, v)) <= MOST_BYTES for v in fresh)
    return few and fits and any(v not in loop.consts for v in cut)


def _sum(loop: _Loop, k: int, added: Var, last: Eqn, stacked: set[Var]) -> _Late:
    late = {last}
    linear: list[Eqn] = []
    value = added
    axes: tuple[int, ...] = ()
    while value not in stacked:  # a sum of what is linear is linear in the sum
        maker = loop.makers.get(value)
        if maker is None or not _is_linear(maker) or not _belongs(loop, maker, late):
            break
        late.add(maker)
        linear.append(maker)
        (x,) = maker.invars
        assert isinstance(x, Var)
        value = x
    sums = [n for n, eqn in enumerate(linear) if eqn.primitive is reduce_sum]
    if sums:  # the innermost one is done together with that over the steps
        deepest = sums[-1]
        axes = tuple(linear[deepest].params["axes"])
        (x,) = linear[deepest].invars
        assert isinstance(x, Var)
        value = x
        linear = linear[:deepest]
    eqns, cut = _traced_back(loop, value, late, stacked)
    return _Late(value, eqns, cut, k, axes, tuple(reversed(linear)))


def _traced_back(
    loop: _Loop, value: Var, late: set[Eqn], stacked: set[Var], start: Eqn | None = None
) -> tuple[tuple[Eqn, ...], tuple[Var, ...]]:
    """What computes a value after the loop, and which values of the loop that needs.

    An equation belongs to it if nothing in the loop needs its result; ``late`` are those known.
    """
    wanted, cut, eqns = {value}, [], []
    for eqn in reversed(loop.body.eqns):
        if not wanted.intersection(eqn.outvars):
            continue
        mine = eqn is start
        if not mine and not stacked.isdisjoint(eqn.outvars):
            cut += [v for v in eqn.outvars if v in wanted]
        elif _is_plain(eqn) and (mine or _belongs(loop, eqn, late)):
            late.add(eqn)
            eqns.append(eqn)
            wanted.update(x for x in eqn.invars if isinstance(x, Var))
        else:
            cut += [v for v in eqn.outvars if v in wanted]
    cut += [v for v in loop.body.invars if v in wanted]
    return tuple(reversed(eqns)), tuple(cut)


@record
class _Turned:
    """A constant that is read in another order than it lies in.

    Args:
      eqn: the last equation that moves its elements.
      const: the constant.
      perm: the order of its axes that it is read in.
      dims: the axes of the result of ``eqn`` that they become.
    """

    eqn: Eqn
    const: Var
    perm: tuple[int, ...]
    dims: tuple[int, ...]

    def laid_out(self) -> tuple[Var, Eqn]:
        """The constant in that order, and the equation that reads it."""
        shape = tuple([self.const.aval.shape[k] for k in self.perm])
        v = Var(self.const.aval.update(shape=shape))
        params = {"shape": self.eqn.outvars[0].aval.shape, "dims": self.dims}
        return v, Eqn(broadcast_in_dim, (v,), self.eqn.outvars, params, self.eqn.source)


def _turned(loop: _Loop, gone: set[Var]) -> list[_Turned]:
    """Constants that are factors of sums, and contiguous along what is summed, each once."""
    found: dict[Eqn, _Turned] = {}
    for eqn in loop.body.eqns:
        axes = reduced_axes(eqn)
        product = loop.makers.get(eqn.invars[0]) if axes else None
        if axes and product and product.primitive is mul and gone.isdisjoint(eqn.outvars):
            for x in product.invars:
                turned = _read_across(loop, x, axes)
                if turned is not None:
                    found.setdefault(turned.eqn, turned)
    return list(found.values())


def _read_across(loop: _Loop, x: Atom, axes: tuple[int, ...]) -> _Turned | None:
    """How a constant lies better, if ``x`` is one, repeated, and the sum is along its last axis."""
    last, shape = loop.makers.get(x), x.aval.shape
    places = list(range(len(shape)))  # the axis of `x` that each axis becomes
    while (maker := loop.makers.get(x)) is not None:
        if maker.primitive is transpose:
            places = [place for _, place in sorted(zip(maker.params["perm"], places))]
        elif maker.primitive is broadcast_in_dim:
            places = [places[d] for d in maker.params["dims"]]
        else:
            return None
        (x,) = maker.invars
    if last is None or not isinstance(x, Var) or x not in loop.consts or 1 in x.aval.shape:
        return None
    kept = [k for k, p in enumerate(places) if p not in axes]
    if not kept or places[-1] not in axes or [shape[p] for p in places] != list(x.aval.shape):
        return None
    if x.aval.shape[kept[-1]] * x.aval.dtype.itemsize < target().vector_bytes:
        return None  # less than a vector of results
    perm = (*(k for k, p in enumerate(places) if p in axes), *kept)
    return _Turned(last, x, perm, tuple([places[k] for k in perm]))


def _is_linear(eqn: Eqn) -> bool:
    """Whether an equation is linear in its one operand."""
    if len(eqn.invars) != 1 or not isinstance(eqn.invars[0], Var):
        return False
    if eqn.primitive is reduce_sum:
        return True
    fill = eqn.params.get("fill")
    return isinstance(eqn.primitive, Reindexing) and (fill is None or fill.val == 0)


def _belongs(loop: _Loop, eqn: Eqn, late: set[Eqn]) -> bool:
    """Whether nothing in the loop needs an equation's result, or would not mind its repetition."""
    if isinstance(eqn.primitive, Reindexing):
        return True
    (out,) = eqn.outvars
    return out not in loop.body.outvars and all(user in late for user in loop.users.get(out, ()))


def _rebuilt(
    loop: _Loop, early: Sequence[Var], late: Sequence[_Late], turned: Sequence[_Turned]
) -> Jaxpr:
    """The program of what is before, the loop, and what is after."""
    body, length, num_carry = loop.body, loop.length, len(loop.carry)
    done = {r.value if r.carry is None else r.carry for r in late}
    known = {*loop.consts, *loop.xs, *early}
    cuts = list(dict.fromkeys(v for r in late for v in r.cut if v not in known))
    kept = [k for k in range(num_carry) if k not in done]
    stacked = [v for v in body.outvars[num_carry:] if v not in done]
    results = [*(body.outvars[k] for k in kept), *stacked, *cuts]
    hoisted = set(early)
    instead = {t.eqn: t.laid_out() for t in turned}
    inside = [instead[e][1] if e in instead else e for e in body.eqns]
    inside = [e for e in inside if hoisted.isdisjoint(e.outvars)]
    inside = live_eqns(inside, results)
    used = {x for e in inside for x in e.invars} | set(results)
    consts = [v for v in loop.consts if v in used]
    rows = [v for v in (*loop.xs, *early) if v in used]
    given = [*(loop.carry[k] for k in kept), *rows]
    inputs = [*consts, *(v for v, _ in instead.values()), *given]
    params = {
        **loop.eqn.params,
        "jaxpr": Jaxpr((), inputs, results, inside, body.name),
        "num_consts": len(consts) + len(turned),
        "num_carry": len(kept),
    }

    def program(*operands: Any) -> list[Any]:
        env: dict[Atom, Any] = dict(zip(body.invars, operands, strict=True))
        flags: dict[Atom, bool] = dict.fromkeys(loop.xs, True)
        _evaluate(live_eqns(body.eqns, early), env, flags, length)
        fixed = (*(env[v] for v in consts), *(transpose_(env[t.const], t.perm) for t in turned))
        outs = loop.eqn.primitive.bind(*fixed, *[env[v] for v in given], **params)
        last: dict[int, Any] = dict(zip(kept, outs))
        ys: dict[Atom, Any] = dict(zip([*stacked, *cuts], outs[len(kept) :], strict=True))
        env.update((v, ys[v]) for v in cuts)
        flags.update(dict.fromkeys(cuts, True))
        for r in late:
            _evaluate(r.eqns, env, flags, length)
            assert flags[r.value], "what is done after the loop differs from step to step"
            if r.carry is None:
                ys[r.value] = env[r.value]
            else:  # what all steps add
                total = reduce_sum.bind(env[r.value], axes=(0, *(a + 1 for a in r.axes)))
                for eqn in r.linear:
                    total = eqn.primitive.bind(total, **eqn.params)
                last[r.carry] = add.bind(env[loop.carry[r.carry]], total)
        return [*(last[k] for k in range(num_carry)), *(ys[v] for v in body.outvars[num_carry:])]

    staged, constants = stage(program, [x.aval for x in loop.eqn.invars], body.name)
    assert not constants, "a loop's body has no constants"
    new: dict[Atom, Atom] = dict(zip(staged.invars, loop.eqn.invars, strict=True))
    eqns = [renamed(e, new) for e in staged.eqns]
    return Jaxpr((), (), [new.get(x, x) for x in staged.outvars], eqns, staged.name)


def _evaluate(
    eqns: Sequence[Eqn], env: dict[Atom, Any], flags: dict[Atom, bool], length: int
) -> None:
    """Do equations for all steps; ``flags`` says which values differ from step to step."""
    for eqn in eqns:
        (out,) = eqn.outvars
        operands = [x if isinstance(x, Literal) else env[x] for x in eqn.invars]
        batched = [flags.get(x, False) for x in eqn.invars]
        if any(batched):
            env[out], flags[out] = eqn.primitive.batch(length, operands, batched, **eqn.params)
        else:
            env[out] = eqn.primitive.bind(*operands, **eqn.params)
