"""functrax from scratch: the architecture in one file that runs, with NumPy alone.

functrax turns functions of arrays into programs of three classes of *meta-operators*, and its
transformations are interpreters.  This file builds a small functrax and uses it:

    1. the language      Var, Eqn, Jaxpr
    2. the primitives    elementwise, reindex, reindex_sum: the rules are written once per class
    3. tracing           one current interpreter; calling a primitive hands it the operation
    4. interpreters      Eval, Stage (writes programs), JVP, Partial (linearizes), Batch
    5. transformations   grad = jvp + partial evaluation + the tape read backwards; vmap; jit
    6. a demonstration   a convolution of four meta-operators, its derivatives, a fitted model

The real one adds dtypes, pytrees, richer index maps, good errors, NumPy's names, and backends.
"""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager
from functools import cache
from math import prod

import numpy as np

# ---- 1. The language ----------------------------------------------------------------------------
# A program is a list of equations.  Each value is defined once and has a type, here only a shape.

Eqn = namedtuple("Eqn", "prim ins out params")


class Var:
    def __init__(self, shape):
        self.shape = shape


class Jaxpr(namedtuple("Jaxpr", "ins eqns out")):
    def __call__(self, *xs):  # it calls primitives, so a program can itself be transformed
        env = dict(zip(self.ins, xs))
        for e in self.eqns:
            env[e.out] = e.prim(*(env[x] if isinstance(x, Var) else x for x in e.ins), **e.params)
        return env[self.out]

    def __str__(self):
        variables = [*self.ins, *(e.out for e in self.eqns)]
        names = {v: chr(97 + n % 26) * (n // 26 + 1) for n, v in enumerate(variables)}
        typed = {v: f"{names[v]}:f64{list(v.shape)}" for v in variables}
        lines = [f"{{ lambda {' '.join(typed[v] for v in self.ins)}. let"]
        for e in self.eqns:
            params = "".join(f"[{value}]" for value in e.params.values())
            operands = (names[x] if isinstance(x, Var) else np.array2string(x) for x in e.ins)
            lines.append(f"    {typed[e.out]} = {e.prim.name}{params} {' '.join(operands)}")
        return "\n".join([*lines, f"  in {names[self.out]} }}"])


# ---- 2. The primitives --------------------------------------------------------------------------
# One class per meta-operator.  An operator adds its scalar function and partial derivatives, or
# its index map, and nothing else.  A tangent that is zero is None: zeros are never computed.


class Primitive:
    def __call__(self, *args, **params):
        return current.process(self, list(map(as_value, args)), params)


class Elementwise(Primitive):  # O[i] = f(A[i], B[i]); a constant number stands for any shape
    def __init__(self, name, function, *partials):
        self.name, self.evaluate, self.partials = name, function, partials

    def shape(self, *shapes):
        assert len({s for s in shapes if s}) <= 1, f"{self.name}: {shapes}"
        return max(shapes, key=len)

    def jvp(self, xs, ts):
        terms = [t * d(*xs) for t, d in zip(ts, self.partials) if t is not None]
        return self(*xs), sum(terms[1:], terms[0])

    def transpose(self, ct, x, y):  # None stands for the operand that is transposed
        if self is add:  # tangents are only added, or multiplied by a known value
            return [ct, ct]
        return [ct * y, None] if x is None else [None, ct * x]

    def batch(self, size, xs, batched):
        def rows(x):  # copies of x along a new axis in front
            return broadcast(x, (size, *np.shape(x)), range(1, np.ndim(x) + 1))

        return self(*(x if b or is_number(x) else rows(x) for x, b in zip(xs, batched)))


# An index map says which element of an array (codomain) each point of a loop nest (domain) means:
# for each axis of the array it has an affine form of the loop's indices, (constant, (c0, c1, ...)).


class Map(namedtuple("Map", "domain codomain forms")):
    def __str__(self):
        sums = ([f"{c}*i{k}" for k, c in enumerate(cs) if c] + [str(n)] for n, cs in self.forms)
        text = ", ".join(" + ".join(s if s[-1] != "0" or len(s) == 1 else s[:-1]) for s in sums)
        return f"{list(self.domain)} -> ({text.replace('1*', '')})"

    def elements(self):
        """Which points are inside of the array, and the (row-major) elements that those mean."""
        flat, inside = np.zeros(self.domain, int), np.ones(self.domain, bool)
        loops = np.indices(self.domain)
        for (const, coefs), n in zip(self.forms, self.codomain):
            index = const + sum(c * i for c, i in zip(coefs, loops))
            flat, inside = flat * n + index, inside & (index >= 0) & (index < n)
        return inside, flat[inside]


class Mapped(Primitive):  # the two mapped classes are linear, and each is the other's transpose
    def jvp(self, xs, ts, map):
        return self(*xs, map=map), self(*ts, map=map)

    def batch(self, size, xs, batched, map):  # one more axis, of the loop nest and of the array
        forms = (unit(len(map.domain) + 1, 0), *((c, (0, *ks)) for c, ks in map.forms))
        return self(*xs, map=Map((size, *map.domain), (size, *map.codomain), forms))

    def transpose(self, ct, _, map):
        return [self.dual(ct, map=map)]


class Reindex(Mapped):  # O[i] = I[f(i)], and 0 where f(i) is outside of I
    name = "reindex"

    def shape(self, x, map):
        assert x == map.codomain, f"reindex: {x} is not {map.codomain}"
        return map.domain

    def evaluate(self, x, map):
        inside, elements = map.elements()
        out = np.zeros(map.domain)
        out[inside] = x.ravel()[elements]
        return out


class ReindexSum(Mapped):  # O[f(i)] += I[i], leaving out those i whose f(i) is outside of O
    name = "reindex_sum"

    def shape(self, x, map):
        assert x == map.domain, f"reindex_sum: {x} is not {map.domain}"
        return map.codomain

    def evaluate(self, x, map):
        inside, elements = map.elements()
        return np.bincount(elements, x[inside], prod(map.codomain)).reshape(map.codomain)


add = Elementwise("add", np.add, lambda x, y: 1.0, lambda x, y: 1.0)
mul = Elementwise("mul", np.multiply, lambda x, y: y, lambda x, y: x)
sin = Elementwise("sin", np.sin, lambda x: cos(x))
cos = Elementwise("cos", np.cos, lambda x: sin(x) * -1.0)
tanh = Elementwise("tanh", np.tanh, lambda x: tanh(x) * tanh(x) * -1.0 + 1.0)
reindex, reindex_sum = Reindex(), ReindexSum()
reindex.dual, reindex_sum.dual = reindex_sum, reindex

# Broadcasting, sums, products of matrices and convolutions are not primitives: they are index
# maps, so nobody writes a derivative or a batching rule for any of them.


def unit(ndim, axis):  # the form that is one of the loop's indices
    return (0, tuple(int(k == axis) for k in range(ndim)))


def broadcast(x, shape, axes):  # axis k of x becomes axis axes[k]; the other axes repeat it
    return reindex(x, map=Map(shape, np.shape(x), tuple(unit(len(shape), a) for a in axes)))


def total(x, axes):
    shape, kept = np.shape(x), [k for k in range(np.ndim(x)) if k not in axes]
    forms = tuple(unit(len(shape), k) for k in kept)
    return reindex_sum(x, map=Map(shape, tuple(shape[k] for k in kept), forms))


def matmul(x, w):
    (m, k), n = np.shape(x), np.shape(w)[1]
    return total(broadcast(x, (m, n, k), (0, 2)) * broadcast(w, (m, n, k), (2, 1)), (2,))


# ---- 3. Tracing ---------------------------------------------------------------------------------
# One interpreter is current.  It knows its parent, and treats values not its own as constants.


class Tracer:  # what an interpreter puts in the place of an array, with fields of its own
    __array_ufunc__ = None  # NumPy's arrays leave their operators to us

    def __init__(self, trace, shape, **fields):
        self.trace, self.shape, self.ndim = trace, tuple(shape), len(shape)
        self.__dict__.update(fields)

    def __add__(self, other):
        return add(*same_shape(self, other))

    def __mul__(self, other):
        return self if is_number(other) and other == 1 else mul(*same_shape(self, other))

    __radd__, __rmul__ = __add__, __mul__


def as_value(x):
    return x if isinstance(x, Tracer) else np.asarray(x, float)


def is_number(x):
    return not isinstance(x, Tracer) and np.ndim(x) == 0


def same_shape(*xs):
    shape = max(map(np.shape, xs), key=len)
    fits = [is_number(x) or np.shape(x) == shape for x in xs]
    return [x if fit else broadcast(x, shape, ()) for x, fit in zip(xs, fits)]


@contextmanager
def using(trace):
    global current
    previous, current = current, trace
    try:
        yield
    finally:
        current = previous


# ---- 4. The interpreters ------------------------------------------------------------------------


class Eval:  # the bottom: compute with NumPy
    def process(self, prim, xs, params):
        return prim.evaluate(*xs, **params)


class Interpreter:
    def __init__(self, parent=None):
        self.parent, self.eqns = parent, {}

    def owns(self, x):
        return isinstance(x, Tracer) and x.trace is self

    def process(self, prim, xs, params):
        if any(map(self.owns, xs)):
            return self.apply(prim, xs, params)
        with using(self.parent):
            return prim(*xs, **params)


class Stage(Interpreter):  # write a program; equal operations become one (hash-consing)
    def process(self, prim, xs, params):
        ins = [x.var if self.owns(x) else x for x in xs]
        operands = (x if isinstance(x, Var) else (x.shape, x.tobytes()) for x in ins)
        key = (prim, *operands, *params.values())
        if key not in self.eqns:
            out = Var(prim.shape(*(x.shape for x in xs), **params))
            self.eqns[key] = Eqn(prim, ins, out, params)
        return Tracer(self, self.eqns[key].out.shape, var=self.eqns[key].out)


class JVP(Interpreter):  # carry a tangent beside each value
    def split(self, x):
        return (x.primal, x.tangent) if self.owns(x) else (x, None)

    def apply(self, prim, xs, params):
        with using(self.parent):
            primal, tangent = prim.jvp(*zip(*map(self.split, xs)), **params)
        return Tracer(self, np.shape(primal), primal=primal, tangent=tangent)


class Partial(Interpreter):  # compute what is known; tape what depends on a tangent
    def apply(self, prim, xs, params):
        out = Tracer(self, prim.shape(*map(np.shape, xs), **params))
        self.eqns[out] = Eqn(prim, xs, out, params)
        return out

    def backward(self, out, into):
        """Read the tape from its end: transpose each linear operation, add up the cotangents."""
        cts = {out: 1.0}
        for prim, xs, y, params in reversed(self.eqns.values()):
            if y in cts:
                operands = [None if self.owns(x) else x for x in xs]
                for x, ct in zip(xs, prim.transpose(cts.pop(y), *operands, **params)):
                    if self.owns(x):
                        cts[x] = cts[x] + ct if x in cts else ct
        return cts.get(into, np.zeros(into.shape))


class Batch(Interpreter):  # carry arrays that have one more axis, in front
    def rows(self, values):
        return Tracer(self, np.shape(values)[1:], values=values)

    def apply(self, prim, xs, params):
        batched = list(map(self.owns, xs))
        values = [x.values if b else x for x, b in zip(xs, batched)]
        size = np.shape(values[batched.index(True)])[0]
        with using(self.parent):
            return self.rows(prim.batch(size, values, batched, **params))


# ---- 5. The transformations ---------------------------------------------------------------------
current = Eval()


def grad(f):  # reverse mode: forward mode with an unknown tangent, then the tape backwards
    def gradient(x, *rest):
        partial = Partial(current)
        forward, tangent = JVP(partial), Tracer(partial, np.shape(x))
        with using(forward):
            y = f(Tracer(forward, np.shape(x), primal=as_value(x), tangent=tangent), *rest)
        return partial.backward(forward.split(y)[1], tangent)

    return gradient


def vmap(f):  # a function of rows, over all rows of its arguments at once
    def mapped(*xs):
        batch = Batch(current)
        with using(batch):
            return f(*(batch.rows(as_value(x)) for x in xs)).values

    return mapped


def make_jaxpr(f):
    def traced(*xs):
        stage, ins = Stage(), [Var(np.shape(x)) for x in xs]
        with using(stage):
            out = f(*(Tracer(stage, v.shape, var=v) for v in ins)).var
        needed, live = {out}, []
        for e in reversed(stage.eqns.values()):  # what nothing reads is left out
            if e.out in needed:
                live.append(e)
                needed.update(x for x in e.ins if isinstance(x, Var))
        return Jaxpr(ins, live[::-1], out)

    return traced


def jit(f):  # trace once per tuple of shapes; here a backend would fuse and compile the program
    program = cache(lambda *shapes: make_jaxpr(f)(*map(np.empty, shapes)))
    return lambda *xs: program(*map(np.shape, xs))(*xs)


# ---- 6. A demonstration -------------------------------------------------------------------------


def conv(x, p):
    """Four meta-operators: y[o,a] = sum over i, h of x[i,a-h] * p[o,i,h], 0 outside of x."""
    (channels, length), (out, _, width) = np.shape(x), np.shape(p)
    loops = (out, length, channels, width)  # o, a, i, h
    window = Map(loops, (channels, length), (unit(4, 2), (0, (0, 1, 0, -1))))
    return total(reindex(x, map=window) * broadcast(p, loops, (0, 2, 3)), (2, 3))


def show_convolution(rng):
    x, p = rng.normal(size=(3, 5)), rng.normal(size=(4, 3, 2))
    assert np.allclose(conv(x, p), [sum(map(np.convolve, x, filters))[:5] for filters in p])
    print(f"\nA convolution:\n{make_jaxpr(conv)(x, p)}")

    def loss(p, x):
        return total(tanh(conv(x, p)), (0, 1))

    def roughness(p, x):  # a function of a gradient, so that its gradient is a second derivative
        g = grad(loss)(p, x)
        return total(g * g, (0, 1, 2))

    step = 1e-5 * (np.arange(24.0) == 10).reshape(p.shape)
    for f in (loss, roughness):
        difference = (f(p + step, x) - f(p - step, x)) / 2e-5
        assert np.isclose(jit(grad(f))(p, x)[1, 2, 0], difference, rtol=1e-6)
    images = rng.normal(size=(6, 3, 5))
    rows = vmap(lambda image: grad(loss)(p, image))(images)
    assert np.allclose(rows, [grad(loss)(p, image) for image in images])
    program = make_jaxpr(grad(roughness))(p, x)
    classes = sorted({type(e.prim).__name__ for e in program.eqns})
    print(f"\nIts second derivative: {len(program.eqns)} equations of {', '.join(classes)}.")


def fit(rng):  # x² on [-1, 1], with a network of 16 units, by gradient descent
    xs = np.stack([np.linspace(-1, 1, 64), np.ones(64)], axis=1)
    w, v = rng.normal(size=(2, 16)), rng.normal(size=(16, 1)) * 0.3

    def error(w, v):
        miss = matmul(tanh(matmul(xs, w)), v) + xs[:, :1] ** 2 * -1.0
        return total(miss * miss, (0, 1)) * (1 / 64)

    by_w, by_v = jit(grad(error)), jit(lambda w, v: grad(lambda v: error(w, v))(v))
    before = error(w, v)
    for _ in range(1000):
        w, v = w - 0.15 * by_w(w, v), v - 0.15 * by_v(w, v)
    print(f"\nFitting x²: mean squared error {before:.4f} -> {error(w, v):.6f}.")
    assert error(w, v) < before / 1000


def main():
    print(f"The gradient of sin(x) * x:\n{make_jaxpr(grad(lambda x: sin(x) * x))(1.0)}")
    shared = make_jaxpr(lambda x: sin(x * 2.0) + sin(x * 2.0))(1.0)
    assert [e.prim for e in shared.eqns] == [mul, sin, add]  # hash-consing: no sin twice
    rng = np.random.default_rng(0)
    show_convolution(rng)
    fit(rng)


if __name__ == "__main__":
    main()
