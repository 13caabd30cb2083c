"""References to values that change: reading, writing, and every transformation that meets them."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, ref as refs
from functrax.errors import AxisError, IndexingError, ReferenceUseError


def equal(ref, expected):
    np.testing.assert_allclose(np.asarray(ref[...]), expected, rtol=1e-6)


def add_three(ref):
    ref[...] += 1.0
    ref[0] += 1
    ref[1] += 5


@pytest.mark.parametrize("transform", [lambda f: f, functrax.jit])
def test_writes_to_an_argument(transform):
    ref = functrax.new_ref(jnp.zeros(3))
    function = transform(add_three)
    function(ref)
    function(ref)
    equal(ref, [4, 12, 2])


@pytest.mark.parametrize("transform", [lambda f: f, functrax.jit])
def test_writes_to_what_is_closed_over(transform):
    ref = functrax.new_ref(jnp.zeros(3))

    @transform
    def function(x):
        add_three(ref)
        return ref[0] + x

    assert float(function(1.0)) == 3.0
    assert float(function(1.0)) == 5.0
    equal(ref, [4, 12, 2])


def test_programs_are_kept_by_the_type_of_a_reference():
    function = functrax.jit(lambda ref: add_three(ref))
    for _ in range(3):
        function(functrax.new_ref(jnp.zeros(3)))
    function(functrax.new_ref(jnp.zeros(4)))
    assert function.cache_info().misses == 2


def test_a_program_reads_the_value_of_the_moment():
    ref = functrax.new_ref(1.0)
    read = functrax.jit(lambda: ref[...] * 2)
    assert float(read()) == 2
    ref[...] = jnp.float32(5)
    assert float(read()) == 10
    assert read.cache_info().misses == 1


def test_what_was_read_stays():
    ref = functrax.new_ref(jnp.arange(3.0))
    before = ref[...]
    ref[0] = jnp.float32(9)
    np.testing.assert_array_equal(before, [0, 1, 2])


@pytest.mark.parametrize("jit", [False, True])
def test_scan_carries_what_its_body_writes(jit):
    def function():
        ref = functrax.new_ref(0)
        other = functrax.new_ref(3)

        def body(carry, x):
            ref[...] += 2 * other[...]
            return carry + x, ref[...]

        return lax.scan(body, 0, jnp.arange(4)), ref[...]

    (carry, seen), last = (functrax.jit(function) if jit else function)()
    assert (int(carry), int(last)) == (6, 24)
    np.testing.assert_array_equal(seen, [6, 12, 18, 24])


def test_scan_over_a_reference():
    ref = functrax.new_ref(jnp.arange(4))

    def body(carry, given):
        i, part = given
        part[...] += i
        return carry, part[...]

    _, seen = lax.scan(body, (), (jnp.arange(4), ref))
    np.testing.assert_array_equal(seen, [0, 2, 4, 6])
    equal(ref, [0, 2, 4, 6])


@pytest.mark.parametrize("jit", [False, True])
def test_while_reads_and_writes(jit):
    def function():
        ref = functrax.new_ref(0)

        def body(x):
            ref[...] += 1
            return x + 2.0

        return lax.while_loop(lambda x: ref[...] < 3, body, 0.0), ref[...]

    value, last = (functrax.jit(function) if jit else function)()
    assert (float(value), int(last)) == (6.0, 3)


@pytest.mark.parametrize("lower", [0, jnp.int32(0)])
def test_fori_loop(lower):
    ref = functrax.new_ref(0.0)

    def body(i, x):
        ref[...] += x
        return x + 1.0

    lax.fori_loop(lower, 3, body, 1.0)
    equal(ref, 6.0)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("pred", [False, True])
def test_branches_write_to_different_references(jit, pred):
    def function(pred):
        a, b = functrax.new_ref(0.0), functrax.new_ref(1.0)

        def yes(x):
            a[...] = 5.0
            return a[...] + x

        def no(x):
            b[...] = 3 * b[...] + a[...]
            return 2.0 * x

        return lax.cond(pred, yes, no, 1.0), a[...], b[...]

    found = (functrax.jit(function) if jit else function)(pred)
    assert [float(x) for x in found] == ([6, 5, 1] if pred else [2, 0, 3])


def test_a_reference_is_an_operand_of_a_choice():
    ref = functrax.new_ref(1.0)

    def double(r):
        r[...] *= 2.0

    def nothing(r):
        pass

    lax.cond(True, double, nothing, ref)
    lax.cond(False, double, nothing, ref)
    equal(ref, 2.0)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_gradient_through_a_reference(inner, outer):
    def function(x):
        ref = functrax.new_ref(x)

        def double():
            ref[...] = jnp.sin(ref[...]) + jnp.sin(ref[...])

        (functrax.jit(double) if inner else double)()
        return functrax.freeze(ref)

    gradient = functrax.grad(functrax.jit(function) if outer else function)(2.0)
    np.testing.assert_allclose(gradient, 2 * np.cos(2.0), rtol=1e-6)


def test_second_derivative_through_a_loop():
    def power(x):
        ref = functrax.new_ref(x)

        def body(carry, _):
            ref[...] *= x
            return carry, None

        lax.scan(body, None, None, length=2)
        return ref[...]

    assert float(functrax.grad(power)(3.0)) == 27.0
    assert float(functrax.grad(functrax.grad(power))(3.0)) == 18.0
    assert float(functrax.jit(functrax.grad(functrax.grad(power)))(3.0)) == 18.0


def test_vmap_of_references():
    ref = functrax.new_ref(jnp.zeros((2, 3)))
    once = functrax.new_ref(2.0)

    def function(r, x):
        r[...] += x * once[...]
        return r[0]

    first = functrax.vmap(function, in_axes=(1, 0))(ref, jnp.arange(3.0))
    np.testing.assert_array_equal(first, [0, 2, 4])
    equal(ref, [[0, 2, 4], [0, 2, 4]])
    made = functrax.vmap(functrax.jit(lambda x: _made(x)))(jnp.arange(3.0))
    np.testing.assert_array_equal(made, [1, 2, 3])


def _made(x):
    ref = functrax.new_ref(1.0)
    ref[...] += x
    return ref[...]


@functrax.custom_vjp
def stash(ref, x):
    return x


def _stash_backward(ref, ct):
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), _stash_backward)


@pytest.mark.parametrize("jit", [False, True])
def test_a_backward_rule_writes(jit):
    ref = functrax.new_ref(jnp.float32(0))

    def loss(ref, x):
        return jnp.sin(stash(ref, jnp.sin(x)))

    functrax.grad(functrax.jit(loss) if jit else loss, argnums=1)(ref, jnp.float32(1))
    equal(ref, np.cos(np.sin(1.0)))


def test_integers_change_under_grad():
    ref = functrax.new_ref(0)

    def function(x):
        def body(c, _):
            ref[...] += 1
            return c, ()

        return lax.scan(body, x, (), length=3)[0]

    functrax.grad(function)(1.0)
    equal(ref, 3)


def test_writing_without_a_gradient():
    ref = functrax.new_ref(1.0, kind="no_grad_no_remat")

    def function(x):
        ref[...] += x * x
        return x * x

    assert float(functrax.grad(functrax.remat(function))(2.0)) == 4.0
    equal(ref, 5.0)


def test_an_exception_changes_nothing():
    ref = functrax.new_ref(1.0)

    @functrax.jit
    def function():
        ref[...] = 2.0
        raise KeyError("no")

    with pytest.raises(KeyError):
        function()
    equal(ref, 1.0)


def test_parts_and_functions():
    ref = functrax.new_ref(jnp.arange(6.0).reshape(2, 3))
    assert (ref.shape, ref.ndim, ref.size, len(ref), ref.dtype) == ((2, 3), 2, 6, 2, "float32")
    np.testing.assert_array_equal(refs.swap(ref, 0, jnp.ones(3)), [0, 1, 2])
    refs.set(ref, (1, 2), jnp.float32(7))
    refs.addupdate(ref, (slice(None), 1), jnp.float32([10, 20]))
    equal(ref, [[1, 11, 1], [3, 24, 7]])
    ref.at[0].at[1:][...] = jnp.zeros(2)
    ref.at[1].addupdate(jnp.ones(3))
    equal(ref, [[1, 0, 0], [4, 25, 8]])
    np.testing.assert_array_equal(refs.get(ref, (jnp.array([0, 1]), jnp.array([0, 2]))), [1, 8])
    assert repr(functrax.typeof(ref)) == "Ref{float32[2,3]}"
    assert not isinstance(ref, functrax.Array)
    assert repr(functrax.new_ref(1.0)) == "Ref(1., dtype=float32, weak_type=True)"
    empty = functrax.empty_ref(functrax.ShapeDtypeStruct((2,), "float32"))
    empty[...] = jnp.ones(2)
    equal(empty, [1, 1])


def test_types_and_programs():
    ref = functrax.new_ref(jnp.ones(2))
    assert functrax.eval_shape(lambda r: r[...] * 2, ref).shape == (2,)
    assert functrax.eval_shape(add_three, ref) is None
    equal(ref, [1, 1])
    program = functrax.make_jaxpr(lambda r: r[...] * 2)(ref)
    np.testing.assert_array_equal(
        functrax.core.tracing.stage.eval_jaxpr(program.jaxpr, program.consts)[0], 2
    )


@pytest.mark.parametrize(
    ("error", "mistake"),
    [
        (AxisError, lambda r: r[5]),
        (AxisError, lambda r: r[::-1]),
        (IndexingError, lambda r: r[None]),
        (ReferenceUseError, lambda r: refs.set(r, 0, jnp.zeros(2))),
        (ReferenceUseError, lambda r: refs.set(r, ..., jnp.zeros(3, "int32"))),
        (ReferenceUseError, lambda r: jnp.sin(r)),
        (ReferenceUseError, lambda r: functrax.new_ref(r)),
        (ReferenceUseError, lambda r: functrax.new_ref(1.0, kind="other")),
        (ReferenceUseError, lambda r: functrax.new_ref(1.0, memory_space="hbm")),
        (ReferenceUseError, lambda r: functrax.jit(lambda x: x)(r)),
        (ReferenceUseError, lambda r: functrax.jit(lambda x, y: 0)(r, r)),
        (ReferenceUseError, lambda r: functrax.jit(lambda x: r[0] + x[0])(r)),
        (ReferenceUseError, lambda r: lax.scan(lambda c, _: (c, None), r, None, length=1)),
        (ReferenceUseError, lambda r: functrax.make_jaxpr(add_three)(r)),
        (ReferenceUseError, lambda r: functrax.vmap(lambda x: refs.set(r, 0, x))(jnp.ones(2))),
        (ReferenceUseError, lambda r: functrax.grad(lambda x: refs.set(r, 0, x) or x)(1.0)),
        (ReferenceUseError, lambda r: functrax.jvp(lambda x: refs.set(r, 0, x), (1.0,), (1.0,))),
        (ReferenceUseError, lambda r: (functrax.freeze(r), r[...])),
        (ReferenceUseError, lambda r: (functrax.free_ref(r), functrax.free_ref(r))),
        (ReferenceUseError, lambda r: functrax.jit(lambda: functrax.freeze(r))()),
    ],
)
def test_mistakes(error, mistake):
    ref = functrax.new_ref(jnp.zeros(3))
    with pytest.raises(error) as found:
        mistake(ref)
    assert isinstance(found.value, (ValueError, IndexError))
    assert found.value.fix


def test_a_reference_does_not_leave_the_function_that_made_it():
    kept = []
    functrax.jit(lambda x: kept.append(functrax.new_ref(x)))(1.0)
    with pytest.raises(ReferenceUseError, match="outside of the function"):
        kept[0][...]


def test_without_jit():
    ref = functrax.new_ref(0.0)
    with functrax.disable_jit():
        functrax.jit(add_three)(functrax.new_ref(jnp.zeros(2)))

        def body(c, _):
            ref[...] += 1.0
            return c, None

        lax.scan(body, None, None, length=2)
    equal(ref, 2.0)


def test_cotangents_are_added_to_references():
    def loss(x, tree, n):
        return (x * tree["y"] * n).sum()

    total = functrax.new_ref(jnp.ones(2))
    part = functrax.new_ref(jnp.zeros(2))
    x, y = jnp.arange(2.0), jnp.array([3.0, 4.0])

    def run(ct):
        _, f_vjp = functrax.vjp(loss, x, {"y": y}, 2)
        return f_vjp.with_refs(total, {"y": part}, functrax.ad.DontWant())(ct)

    assert run(1.0) == (
        functrax.ad.GradRef(),
        {"y": functrax.ad.GradRef()},
        functrax.ad.DidntWant(),
    )
    functrax.jit(run)(1.0)
    equal(total, [13, 17])
    equal(part, [0, 4])
    _, f_vjp = functrax.vjp(loss, x, {"y": y}, 2)
    values = f_vjp.with_refs(None, part, functrax.ad.GradValue())(1.0)
    np.testing.assert_array_equal(values[0], 2 * y)
    equal(part, [0, 6])
    with pytest.raises(ValueError, match="with_refs"):
        f_vjp.with_refs(total)


def test_cotangents_of_steps_are_added_up():
    weights = jnp.ones((2, 2))
    total = functrax.new_ref(jnp.zeros((2, 2)))

    def step(carry, x):
        value, f_vjp = functrax.vjp(lambda w: (x @ w).sum(), weights)
        f_vjp.with_refs(total)(jnp.ones_like(value))
        return carry, value

    lax.scan(step, None, jnp.ones((3, 2)))
    equal(total, 3 * np.ones((2, 2)))


@pytest.mark.parametrize("jit", [False, True])
def test_random_keys(jit):
    def draw(ref):
        ref[...], key = functrax.random.split(ref[...])
        return functrax.random.uniform(key)

    ref = functrax.new_ref(functrax.random.key(0))
    run = functrax.jit(draw) if jit else draw
    found = [float(run(ref)), float(run(ref))]
    key, expected = functrax.random.key(0), []
    for _ in range(2):
        key, used = functrax.random.split(key)
        expected.append(float(functrax.random.uniform(used)))
    assert found == expected
    assert ref[...] == key
    assert ref.shape == ()
    with pytest.raises(ReferenceUseError):
        ref[...] = jnp.zeros(2, "uint32")

    keys = functrax.new_ref(functrax.random.split(functrax.random.key(1), 3))
    drawn = functrax.vmap(draw)(keys)
    assert drawn.shape == (3,)
    assert len(keys) == 3
    keys[1] = functrax.random.key(7)
    assert keys[1] == functrax.random.key(7)
