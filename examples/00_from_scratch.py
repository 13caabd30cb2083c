"""functrax from scratch: the architecture in one file, with NumPy alone.

    python examples/00_from_scratch.py

functrax turns Python functions of arrays into programs of three classes of *meta-operators*, and its transformations
are interpreters of those programs.  This file builds a small functrax in that way, from the bottom up, and uses it:

    1. the language      Var, Eqn, Jaxpr
    2. the primitives    elementwise, reindex, reindex_reduce: rules once per class
    3. tracing           one current interpreter; bind() hands it every operation
    4. interpreters      Eval, Stage (makes programs), JVP, Partial (linearizes), Batch
    5. transformations   grad = jvp + partial evaluation + reading the tape backwards; vmap; jit
    6. a demonstration   a convolution as four meta-operators, its derivatives, and a fitted model

What the real one adds: dtypes and promotion, pytrees, index maps with division, conditions and data-dependent reads,
errors that name your line, the names of NumPy and JAX, and backends.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import numpy as np

# ---- 1. The language ---------------------------------------------------------------------------------------------
# A program is a list of equations.  Each value is defined once and has a type, which here is only a shape.


class Var:
    def __init__(self, shape):
        self.shape = shape


class Eqn:
    def __init__(self, prim, ins, out, params):
        self.prim, self.ins, self.out, self.params = prim, ins, out, params


class Jaxpr:
    def __init__(self, ins, eqns, outs):
        self.ins, self.eqns, self.outs = ins, eqns, outs

    def __str__(self):
        names = {}

        def name(v):
            return names.setdefault(v, "abcdefghijklmnopqrstuvwxyz"[len(names) % 26] + "'" * (len(names) // 26))

        def typed(v):
            return f"{name(v)}:f64{list(v.shape)}"

        def operand(x):
            return name(x) if isinstance(x, Var) else np.array2string(np.asarray(x), threshold=4)

        lines = [f"{{ lambda {' '.join(map(typed, self.ins))}. let"]
        for e in self.eqns:
            right = f"{e.prim.name}{e.prim.show(e.params)} {' '.join(map(operand, e.ins))}"
            lines.append(f"    {typed(e.out)} = {right}")
        return "\n".join([*lines, f"  in ({', '.join(map(operand, self.outs))}) }}"])


# ---- 2. The primitives -------------------------------------------------------------------------------------------
# One class per meta-operator; an operator adds its scalar function and partial derivatives, or its index map.
# A tangent or cotangent that is zero is None: zeros are never made.


class Primitive:
    def __init__(self, name):
        self.name = name

    def __call__(self, *args, **params):
        return current.process(self, [as_value(a) for a in args], params)

    def show(self, params):
        return "".join(f"[{k}={v}]" for k, v in params.items())


class Elementwise(Primitive):
    """O[i] = f(A[i], B[i], ...): operands of one shape, or numbers."""

    def __init__(self, name, function, *partials):
        super().__init__(name)
        self.function, self.partials = function, partials

    def shape(self, *shapes):
        return max(shapes, key=len)

    def evaluate(self, *xs):
        return self.function(*xs)

    def jvp(self, xs, ts):
        terms = [t * d(*xs) for t, d in zip(ts, self.partials) if t is not None]
        return self(*xs), sum(terms[1:], terms[0])

    def transpose(self, ct, *xs):  # derivatives are made of `add` and of `mul` by something known
        if self is add:
            return [ct, ct]
        return [ct * xs[1] if isinstance(xs[0], Linear) else None, xs[0] * ct if isinstance(xs[1], Linear) else None]

    def batch(self, size, xs, batched):
        return self(*(x if b or not np.shape(x) else spread(x, size) for x, b in zip(xs, batched)))


class Map:
    """An index map: for each axis of the array an affine form (constant, coefficients) of the iteration's indices."""

    def __init__(self, domain, codomain, forms):
        self.domain, self.codomain, self.forms = tuple(domain), tuple(codomain), tuple(forms)
        self.key = (self.domain, self.codomain, self.forms)

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __str__(self):
        def form(const, coefs):
            terms = [f"{c if c != 1 else ''}i{k}".replace("-1i", "-i") for k, c in enumerate(coefs) if c]
            return "+".join(terms + [str(const)] * (const != 0 or not terms)).replace("+-", "-")

        return f"{list(self.domain)}->({', '.join(form(*f) for f in self.forms)})"

    def indices(self):
        """The element that each point means, and whether it is inside the array."""
        grid = np.indices(self.domain)
        at = [c + sum((k * g for k, g in zip(ks, grid)), np.zeros(self.domain, int)) for c, ks in self.forms]
        inside = np.ones(self.domain, bool)
        for i, n in zip(at, self.codomain):
            inside &= (i >= 0) & (i < n)
        return tuple(i[inside] for i in at), inside

    def batched(self, size):
        """One more dimension in front, of the iteration and of the array."""
        forms = [(0, (1,) + (0,) * len(self.domain)), *((c, (0, *ks)) for c, ks in self.forms)]
        return Map((size, *self.domain), (size, *self.codomain), forms)


class Mapped(Primitive):
    """The two mapped classes: linear, and each other's transposes."""

    def jvp(self, xs, ts, map):
        return self(xs[0], map=map), self(ts[0], map=map)

    def batch(self, size, xs, batched, map):
        return self(xs[0], map=map.batched(size))


class Reindex(Mapped):
    """O[o] = I[f(o)], or 0 where f(o) is out of bounds."""

    def shape(self, x, map):
        assert x == map.codomain, f"reindex: {x} is not {map.codomain}"
        return map.domain

    def evaluate(self, x, map):
        out = np.zeros(map.domain)
        at, inside = map.indices()
        out[inside] = np.asarray(x)[at]
        return out

    def transpose(self, ct, x, map):
        return [reindex_sum(ct, map=map)]


class ReindexSum(Mapped):
    """O[f(i)] += I[i], leaving out what is out of bounds."""

    def shape(self, x, map):
        assert x == map.domain, f"reindex_sum: {x} is not {map.domain}"
        return map.codomain

    def evaluate(self, x, map):
        out = np.zeros(map.codomain)
        at, inside = map.indices()
        np.add.at(out, at, np.asarray(x)[inside])
        return out

    def transpose(self, ct, x, map):
        return [reindex(ct, map=map)]


add = Elementwise("add", np.add, lambda x, y: 1.0, lambda x, y: 1.0)
mul = Elementwise("mul", np.multiply, lambda x, y: y, lambda x, y: x)
sin = Elementwise("sin", np.sin, lambda x: cos(x))
cos = Elementwise("cos", np.cos, lambda x: sin(x) * -1.0)
tanh = Elementwise("tanh", np.tanh, lambda x: 1.0 + tanh(x) * tanh(x) * -1.0)
reindex, reindex_sum = Reindex("reindex"), ReindexSum("reindex_sum")


# Broadcast, sum, matmul and convolution are not primitives: they are index maps.


def unit(ndim, axis):
    return (0, tuple(int(k == axis) for k in range(ndim)))


def broadcast(x, shape, axes):
    """Axis k of x becomes axis axes[k] of the result; the other axes repeat it."""
    return reindex(x, map=Map(shape, np.shape(x), [unit(len(shape), a) for a in axes]))


def spread(x, size):
    return broadcast(x, (size, *np.shape(x)), range(1, np.ndim(x) + 1))


def total(x, axes):
    kept = [k for k in range(np.ndim(x)) if k not in axes]
    shape = np.shape(x)
    return reindex_sum(x, map=Map(shape, [shape[k] for k in kept], [unit(len(shape), k) for k in kept]))


def matmul(x, w):
    (m, k), n = np.shape(x), np.shape(w)[1]
    return total(broadcast(x, (m, n, k), (0, 2)) * broadcast(w, (m, n, k), (2, 1)), (2,))


# ---- 3. Tracing --------------------------------------------------------------------------------------------------
# One interpreter is current and knows its parent.  It treats every value that is not its own as a constant.


class Tracer:
    __array_priority__ = 1000

    def __init__(self, trace, shape):
        self.trace, self.shape, self.ndim = trace, tuple(shape), len(shape)

    def __add__(self, other):
        return add(self, other)

    def __mul__(self, other):
        return mul(self, other)

    __radd__, __rmul__ = __add__, __mul__


class Linear:
    """Stands, in a transpose, for the operand that is being transposed."""


def as_value(x):
    return x if isinstance(x, (Tracer, Linear)) else np.asarray(x, float)


@contextmanager
def using(trace):
    global current
    previous, current = current, trace
    try:
        yield trace
    finally:
        current = previous


# ---- 4. The interpreters -----------------------------------------------------------------------------------------


class Eval:
    """The bottom: compute with NumPy."""

    def process(self, prim, xs, params):
        return prim.evaluate(*xs, **params)


current = Eval()


class Stage:
    """Write the program down; equal operations on equal operands are shared as it is built."""

    def __init__(self):
        self.eqns, self.shared = [], {}

    def input(self, shape):
        t = Tracer(self, shape)
        t.var = Var(t.shape)
        return t

    def atom(self, x):
        return x.var if isinstance(x, Tracer) and x.trace is self else x

    def process(self, prim, xs, params):
        ins = [self.atom(x) for x in xs]
        key = (prim, *(id(i) if isinstance(i, Var) else i.tobytes() + str(i.shape).encode() for i in ins), *params.values())
        if key not in self.shared:
            out = self.shared[key] = self.input(prim.shape(*(x.shape for x in xs), **params))
            self.eqns.append(Eqn(prim, ins, out.var, params))
        return self.shared[key]


class JVP:
    """Carry a tangent beside each value."""

    def __init__(self, parent):
        self.parent = parent

    def dual(self, primal, tangent):
        t = Tracer(self, np.shape(primal))
        t.primal, t.tangent = primal, tangent
        return t

    def split(self, x):
        return (x.primal, x.tangent) if isinstance(x, Tracer) and x.trace is self else (x, None)

    def process(self, prim, xs, params):
        primals, tangents = zip(*map(self.split, xs))
        with using(self.parent):
            if all(t is None for t in tangents):
                return prim(*primals, **params)
            return self.dual(*prim.jvp(primals, tangents, **params))


class Partial:
    """Compute what is known; write what depends on a tangent on a tape."""

    def __init__(self, parent):
        self.parent, self.tape = parent, []

    def unknown(self, x):
        return isinstance(x, Tracer) and x.trace is self

    def process(self, prim, xs, params):
        if not any(map(self.unknown, xs)):
            with using(self.parent):
                return prim(*xs, **params)
        out = Tracer(self, prim.shape(*(np.shape(x) for x in xs), **params))
        self.tape.append(Eqn(prim, xs, out, params))
        return out


class Batch:
    """Carry arrays with one more axis, in front."""

    def __init__(self, parent, size):
        self.parent, self.size = parent, size

    def row(self, value):
        t = Tracer(self, np.shape(value)[1:])
        t.value = value
        return t

    def process(self, prim, xs, params):
        batched = [isinstance(x, Tracer) and x.trace is self for x in xs]
        values = [x.value if b else x for x, b in zip(xs, batched)]
        with using(self.parent):
            if not any(batched):
                return prim(*values, **params)
            return self.row(prim.batch(self.size, values, batched, **params))


# ---- 5. The transformations --------------------------------------------------------------------------------------


def grad(f):
    """Reverse mode is linearization (a jvp whose tangents are unknown), then the tape read backwards."""

    def gradient(x, *rest):
        partial = Partial(current)
        forward = JVP(partial)
        tangent = Tracer(partial, np.shape(x))
        with using(forward):
            _, out = forward.split(f(forward.dual(as_value(x), tangent), *rest))
        cts = {id(out): 1.0}
        for e in reversed(partial.tape):
            ct = cts.pop(id(e.out), None)
            if ct is not None:
                operands = [Linear() if partial.unknown(x) else x for x in e.ins]
                for x, c in zip(e.ins, e.prim.transpose(ct, *operands, **e.params)):
                    if c is not None and partial.unknown(x):
                        cts[id(x)] = cts[id(x)] + c if id(x) in cts else c
        return cts[id(tangent)]

    return gradient


def vmap(f):
    def mapped(*xs):
        batch = Batch(current, np.shape(xs[0])[0])
        with using(batch):
            return f(*map(batch.row, map(as_value, xs))).value

    return mapped


def make_jaxpr(f):
    def traced(*xs):
        stage = Stage()
        inputs = [stage.input(np.shape(x)) for x in xs]
        with using(stage):
            out = stage.atom(f(*inputs))
        needed, live = {out}, []
        for e in reversed(stage.eqns):
            if e.out in needed:
                live.insert(0, e)
                needed |= {i for i in e.ins if isinstance(i, Var)}
        return Jaxpr([t.var for t in inputs], live, [out])

    return traced


def run(jaxpr, xs):
    env = dict(zip(jaxpr.ins, xs))
    for e in jaxpr.eqns:
        env[e.out] = e.prim(*(env[i] if isinstance(i, Var) else i for i in e.ins), **e.params)
    return env[jaxpr.outs[0]]


def jit(f):
    programs = {}

    def compiled(*xs):
        key = tuple(map(np.shape, xs))
        if key not in programs:
            programs[key] = make_jaxpr(f)(*xs)  # a backend would fuse and compile here
        return run(programs[key], list(map(as_value, xs)))

    return compiled


# ---- 6. A demonstration ------------------------------------------------------------------------------------------


def conv(x, p):
    """y[n,o,a] = sum over i, h of x[n, i, a-h] p[o,i,h], zero outside of x: reindex, broadcast, multiply, sum."""
    (n, c, length), (out, _, k) = np.shape(x), np.shape(p)
    window = Map((n, out, length, c, k), (n, c, length), [unit(5, 0), unit(5, 3), (0, (0, 0, 1, 0, -1))])
    pp = broadcast(p, window.domain, (1, 3, 4))
    return total(reindex(x, map=window) * pp, (3, 4))


def main():
    rng = np.random.default_rng(0)
    print("The gradient of sin(x) * x, as a program:")
    print(make_jaxpr(grad(lambda x: sin(x) * x))(1.0))

    x, p = rng.normal(size=(2, 3, 5)), rng.normal(size=(4, 3, 2))
    direct = np.zeros((2, 4, 5))
    for n, o, a, i, h in itertools.product(range(2), range(4), range(5), range(3), range(2)):
        direct[n, o, a] += x[n, i, a - h] * p[o, i, h] if a >= h else 0.0
    assert np.allclose(conv(x, p), direct)

    def loss(p, x):
        return total(tanh(conv(x, p)), (0, 1, 2))

    gradient, step = grad(loss)(p, x), np.zeros_like(p)
    step[1, 2, 0] = 1e-6
    assert np.isclose(gradient[1, 2, 0], (loss(p + step, x) - loss(p - step, x)) / 2e-6)
    rows = vmap(grad(lambda row, p: loss(p, broadcast(row, (1, 3, 5), (1, 2)))))(x, np.stack([p, p]))
    assert np.allclose(rows, grad(lambda x: loss(p, x))(x))
    curvature = jit(grad(lambda p, x: total(grad(loss)(p, x) * grad(loss)(p, x), (0, 1, 2))))
    program = make_jaxpr(grad(lambda p, x: total(grad(loss)(p, x) * grad(loss)(p, x), (0, 1, 2))))(p, x)
    classes = sorted({type(e.prim).__name__ for e in program.eqns})
    print(f"\nA second derivative of a convolution: {len(program.eqns)} equations of {', '.join(classes)}.")
    assert np.isfinite(curvature(p, x)).all()

    xs = np.linspace(-1, 1, 64)[:, None]
    ys, w1, w2 = xs**2, rng.normal(size=(1, 16)), rng.normal(size=(16, 1)) * 0.3

    def error(w1, w2, xs, ys):
        miss = matmul(tanh(matmul(xs, w1)), w2) + ys * -1.0
        return total(miss * miss, (0, 1)) * (1 / 64)

    by_w1, by_w2 = jit(grad(error)), jit(grad(lambda w2, w1, xs, ys: error(w1, w2, xs, ys)))
    inputs = np.concatenate([xs, np.ones_like(xs)], 1)
    w1 = np.concatenate([w1, rng.normal(size=(1, 16))])
    before = error(w1, w2, inputs, ys)
    for _ in range(400):
        w1, w2 = w1 - 0.3 * by_w1(w1, w2, inputs, ys), w2 - 0.3 * by_w2(w2, w1, inputs, ys)
    after = error(w1, w2, inputs, ys)
    print(f"Fitting x² with a network of 16 units: mean squared error {before:.4f} -> {after:.6f}.")
    assert after < 1e-3


if __name__ == "__main__":
    main()
