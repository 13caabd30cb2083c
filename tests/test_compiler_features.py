"""The rows of the feature ledger that need a compiler, one small test for each, under its name.

The other rows are in ``test_features.py``, where the letters are explained.  B: "Optimizing models
using the PyTorch JIT".  What a row says is tested in depth where the part is tested that does it;
here is what an observer of the whole sees.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random
from functrax.backends.compilation import pipeline
from functrax.backends.compilation.bisection import first_wrong_rewrite
from functrax.backends.compilation.stage import as_pass
from functrax.backends.eager import pending_program
from functrax.backends.loops.strategies.schedule import can_be_left_out
from functrax.backends.passes.fusion.fuse import fuse
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.runtime.choice import pool_stats
from functrax.core import native
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var
from functrax.core.options.config import Override
from functrax.explanation import Explanation
from functrax.extend import ShapedArray, dtypes, jaxpr_as_fun, registry
from tests.test_features import conv

needs_extension = pytest.mark.skipif(native.extension is None, reason="nothing is recorded")

F32 = 4


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"):
        yield


def array(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


def explained(f: Callable[..., Any], *args: Any) -> Explanation:
    return functrax.explain(f)(*args)


def count(e: Explanation) -> int:
    return len(e.kernels)


def stored_ranks(e: Explanation) -> int:
    """The largest rank of a value in memory."""
    return max(len(x.aval.shape) for k in e.kernels for x in (*k.reads, *k.writes))


def ratio_iou(x1: Any, y1: Any, w1: Any, h1: Any, x2: Any, y2: Any, w2: Any, h2: Any) -> Any:
    xi, yi = jnp.maximum(x1, x2), jnp.maximum(y1, y2)
    wi = jnp.clip(jnp.minimum(x1 + w1, x2 + w2) - xi, min=0)
    hi = jnp.clip(jnp.minimum(y1 + h1, y2 + h2) - yi, min=0)
    return wi * hi / jnp.clip(w1 * h1 + w2 * h2 - wi * hi, min=1e-5)


def boxes(n: int = 100, m: int = 1000) -> list[Any]:
    return [jnp.exp(array(n, m, seed=k)) for k in range(8)]


# ---- Jittor: fusion -----------------------------------------------------------------------------


def test_J9_J10_a_convolution_of_four_operators_is_one_kernel_its_derivatives_two_more() -> None:
    x, p = array(2, 4, 12, 12), array(8, 4, 3, 3)
    forward = explained(conv, x, p)
    assert (count(forward), stored_ranks(forward)) == (1, 4)
    both = explained(functrax.value_and_grad(lambda x, p: (conv(x, p) ** 2).sum(), (0, 1)), x, p)
    convolutions = [k for k in both.kernels if k.flops > 2 * 2 * 8 * 10 * 10 * 36]
    assert len(convolutions) == 3 and stored_ranks(both) <= 4


def test_J11_every_kind_of_convolution_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    kinds = [(s, d, g, p) for s in (1, 2, 3) for d in (1, 2, 3) for g in (1, 2) for p in (0, 2)]
    x = np.random.default_rng(0).normal(size=(2, 4, 11, 10)).astype("f4")
    for stride, dilation, groups, padding in kinds:
        w = np.random.default_rng(1).normal(size=(6, 4 // groups, 3, 2)).astype("f4")
        got = lax.conv_general_dilated(
            x, w, (stride,) * 2, [(padding,) * 2] * 2,
            rhs_dilation=(dilation,) * 2, feature_group_count=groups,
        )  # fmt: skip
        want = torch.nn.functional.conv2d(
            torch.from_numpy(x), torch.from_numpy(w), None, stride, padding, dilation, groups
        )
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-4)


def test_J14_fusion_stops_where_the_user_says() -> None:
    def f(x: Any, stop: Any) -> Any:
        return jnp.cos(stop(jnp.sin(stop(x * 2))))

    x = array(50, 50)
    assert count(explained(lambda x: f(x, lambda x: x), x)) == 1
    assert count(explained(lambda x: f(x, functrax.stop_fuse), x)) == 3


def test_J19_what_is_broadcast_is_computed_before_if_it_is_read_often() -> None:
    """Two kernels, unless the second reads it so seldom that computing it again is cheaper."""
    f = lambda a, b, c: jnp.broadcast_to(a + b, c.shape) * c
    a, b = array(1000), array(1000, seed=1)
    often = explained(f, a, b, array(64, 1000, seed=2))
    assert count(often) == 2 and often.cost == (2 * 1000 + 2 * 1000 + 2 * 64_000) * F32
    assert count(explained(f, a, b, array(2, 1000, seed=2))) == 1


def test_J20_a_reduction_ends_its_kernel_or_has_an_epilogue_of_its_row() -> None:
    e = explained(lambda a, c: a.sum(0) + c, array(300, 200), array(200, seed=1))
    assert count(e) == 1 and e.cost == (300 * 200 + 2 * 200) * F32
    shapes = [functrax.ShapeDtypeStruct((100_000, 300), "float32")] * 2  # more than a cache holds
    columns = explained(lambda a, c: a.sum(0) + c, *shapes)
    assert count(columns) == 2 and columns.edges[0].nbytes == 300 * F32


def test_J21_no_cycles_between_kernels() -> None:
    """1 -> 2 and 1 -> 3 may share a kernel with 3 alone, if 2 -> 3 is no part of it."""

    def f(x: Any) -> Any:
        one = jnp.sin(x)
        two = jnp.sort(one, axis=0)  # no kernel: nothing is fused with it
        return one * two

    e = explained(f, array(40, 30))
    assert [k.kind for k in e.kernels] == ["kernel", "call", "kernel"]
    np.testing.assert_array_equal(functrax.jit(f)(array(40, 30)), f(array(40, 30)))


def chain_of(length: int) -> Jaxpr:
    """Each equation reads the one before it and the input."""
    x = value = Var(ShapedArray((100,), dtypes.float32))
    eqns = []
    for k in range(length):
        primitive, result = registry[("mul", "add", "sin")[k % 3]], Var(x.aval)
        eqns.append(Eqn(primitive, (value,) if k % 3 == 2 else (value, x), (result,), {}))
        value = result
    return Jaxpr((), (x,), (value,), eqns)


@pytest.mark.usefixtures("no_collection")  # as when it compiles
def test_J22_partitions_take_linear_time() -> None:
    """Ten thousand equations in less than a second, and in no more than their share of it."""

    def seconds(length: int) -> float:
        program = chain_of(length)
        begin = time.process_time()
        assert 1 < len(fuse(program, Rewrites()).eqns) < length / 100
        return time.process_time() - begin

    assert min(seconds(10_000) for _ in range(3)) < 1
    few, many = (min(seconds(n) for _ in range(3)) for n in (1_000, 8_000))
    assert many < 3 * 8 * few, "the square would be eight times as much"


def conv_norm_activate(x: Any, w: Any, gain: Any, shift: Any) -> Any:
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME")
    mean = y.mean((0, 2, 3), keepdims=True)
    variance = (y * y).mean((0, 2, 3), keepdims=True) - mean * mean
    normal = (y - mean) / jnp.sqrt(variance + 1e-5)
    return jnp.maximum(normal * gain[:, None, None] + shift[:, None, None], 0)


def test_J23_convolution_normalisation_and_activation() -> None:
    args = array(4, 8, 10, 10), array(16, 8, 3, 3), array(16), array(16, seed=1)
    assert count(explained(conv_norm_activate, *args)) == 2
    loss = lambda *args: (conv_norm_activate(*args) ** 2).sum()
    assert count(explained(functrax.grad(loss, (0, 1, 2, 3)), *args)) <= 5


def test_J25_batch_norm_reads_its_image_twice() -> None:
    def norm(x: Any) -> Any:
        mean, square = (v.mean((0, 2, 3), keepdims=True) for v in (x, x * x))
        return (x - mean) / jnp.sqrt(square - mean * mean + 1e-5)

    x = array(16, 8, 32, 32)  # more than the caches hold between the two
    e = explained(norm, x)
    image = [a for k in e.kernels for a in k.reads if a.aval.shape == x.shape]
    assert (count(e) <= 2 and len(image) == 2) or count(e) == 1


@pytest.mark.parametrize("decision", can_be_left_out())
def test_J26_every_decision_of_a_schedule_can_be_left_out(decision: str) -> None:
    def f(x: Any) -> Any:
        return nn.softmax(x) + jnp.cumsum(x, 1), x.T * 2, x.sum(), jnp.concatenate([x, x * 2])

    x = array(33, 130)
    with_all = functrax.jit(f)(x)
    with Override("schedule_off", decision):
        without = functrax.jit(f)(x)
    for a, b in zip(with_all, without, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_J26_vectors_are_visible() -> None:
    with Override("schedule_off", ""):
        text = explained(lambda x: x * 2 + 1, array(1000)).llvm
    assert any(f"<{n} x float>" in text for n in (4, 8, 16))


@needs_extension
def test_J27_only_what_is_looked_at_runs() -> None:
    with functrax.eager("lazy"):
        x = array(2000)
        wanted = jnp.sin(x) * 2
        others = [jnp.exp(x + k) for k in range(5)]
        program = pending_program(wanted)
        assert program is not None
        assert {"sin", "mul"} <= {e.primitive.name for e in program.eqns}
        assert "exp" not in {e.primitive.name for e in program.eqns}
        np.asarray(wanted)
        assert pending_program(wanted) is None
        assert all(pending_program(y) is not None for y in others)


@needs_extension
def test_J28_what_is_added_later_may_run_earlier() -> None:
    with functrax.eager("lazy"):
        x = array(2000)
        early = jnp.sort(jnp.sin(x) + 1)
        late = jnp.cos(x)
        np.asarray(late)
        assert pending_program(early) is not None
        np.testing.assert_array_equal(early, np.sort(np.asarray(jnp.sin(x)) + 1))


def test_J31_forward_and_backward_share_what_both_need() -> None:
    w, x = array(64, 64), array(32, 64)
    f = lambda w: jnp.sum(jnp.tanh(x @ w) * jnp.tanh(x @ w))
    e = explained(functrax.value_and_grad(f), w)
    assert e.transcendentals == 32 * 64
    assert sum(k.flops > 32 * 64 * 64 for k in e.kernels) == 2, "the product and its transpose"


# ---- TorchScript --------------------------------------------------------------------------------


def test_T18_forks_overlap_and_raise_where_they_are_waited_for() -> None:
    met = threading.Barrier(2, timeout=120)

    def meet(x: Any) -> Any:
        met.wait()  # passes if both run at one time
        return functrax.jit(jnp.sin)(x)

    calls = [functrax.fork(meet, array(10)) for _ in range(2)]
    for call in calls:
        np.testing.assert_array_equal(call.wait(), functrax.jit(jnp.sin)(array(10)))
    with pytest.raises(ZeroDivisionError):
        functrax.fork(lambda: 1 / 0).wait()


def test_T19_programs_run_without_the_compiler() -> None:
    f = functrax.grad(lambda x: jnp.sum(jnp.cumsum(jnp.sort(x)) * x))
    wanted = functrax.jit(f)(array(30))
    with functrax.backend("interp"):
        np.testing.assert_allclose(functrax.jit(f)(array(30)), wanted, rtol=1e-5, atol=1e-5)


def test_T20_eight_threads_call_one_function() -> None:
    f = functrax.jit(lambda x: jnp.tanh(x) @ x)
    inputs = [array(40, 40, seed=k) for k in range(8)]
    wanted = [np.asarray(f(x)) for x in inputs]
    calls = [functrax.fork(lambda x=x: [np.asarray(f(x)) for _ in range(20)]) for x in inputs]
    for call, want in zip(calls, wanted, strict=True):
        assert all(np.array_equal(got, want) for got in call.wait())


def test_T21_a_chain_needs_two_buffers() -> None:
    def chain(x: Any) -> Any:
        for _ in range(100):
            x = functrax.stop_fuse(jnp.sin(x))
        return x

    e = explained(chain, array(1000))
    assert count(e) == 100 and e.peak_bytes <= 2 * 1000 * F32 + 128


def test_T21_the_gates_of_an_lstm_are_dropped_at_their_last_use() -> None:
    """Of a cell taken apart, no more is alive than the four gates and what they are made of."""

    def cell(gates: Any, c: Any) -> Any:
        stop = functrax.stop_fuse
        i, f, g, o = (stop(gates[:, k::4]) for k in range(4))
        c = stop(stop(stop(nn.sigmoid(f)) * c) + stop(stop(nn.sigmoid(i)) * stop(jnp.tanh(g))))
        return stop(nn.sigmoid(o)) * stop(jnp.tanh(c))

    e = explained(cell, array(32, 4 * 64), array(32, 64))
    values = {edge.value for edge in e.edges}
    assert len(values) >= 8 and e.peak_bytes <= 6 * 32 * 64 * F32 < len(values) * 32 * 64 * F32


def test_T22_T30_programs_are_specialised_and_guarded() -> None:
    """Sizes need no machine code; a call that fails a guard gets a right result."""
    f = functrax.jit(lambda x, n: jnp.sin(x) * 3 * n, static_argnums=1)
    f(array(100), 1)
    assert f.cache_info().compiles <= 1
    compiles = f.cache_info().compiles
    np.testing.assert_allclose(f(array(101), 1), np.sin(array(101)) * 3, rtol=1e-6)
    assert f.cache_info().compiles == compiles, "another size is the same machine code"
    np.testing.assert_allclose(f(np.arange(3), 2), np.sin(np.arange(3)) * 6, rtol=1e-6)
    assert f.cache_info().compiles == compiles + 1, "another dtype is not"
    assert f.cache_info().hits == 0 and f.cache_info().misses == 3
    f(array(100), 1)
    assert f.cache_info().hits == 1
    misses = functrax.explain_misses(f)
    assert "x is f32[100]" in misses.traces[0].guards and "n is 1" in misses.traces[0].guards
    assert f"{len(misses.traces[0].guards)} guards" in str(misses)


def test_T23_passes_have_names_and_some_are_required() -> None:
    names = [p.name for p in pipeline.PIPELINE]
    assert len(set(names)) == len(names)
    assert {p.name for p in pipeline.PIPELINE if p.required} == {"inline"}


@pytest.mark.parametrize("name", ["constant_folding", "simplify", "compose", "cse", "dce"])
def test_T25_a_pass_commutes_with_the_derivative(name: str) -> None:
    run = next(p.run for p in pipeline.PIPELINE if p.name == name)

    def f(x: Any, w: Any) -> Any:
        y = jnp.tanh(x.T.T @ w) * 1.0 + jnp.tanh(x @ w)
        return jnp.sum(y * jnp.exp(-y)) + jnp.sum(x @ w)

    args = array(6, 5), array(5, 4)
    before = functrax.make_jaxpr(f)(*args)
    after = jaxpr_as_fun(functrax.ClosedJaxpr(run(before.jaxpr, Rewrites()), ()))
    got = functrax.grad(lambda *a: after(*a)[0], (0, 1))(*args)
    for a, b in zip(got, functrax.grad(f, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_T26_products_of_an_unrolled_network_are_one() -> None:
    """The input products of ten steps, which do not wait for each other; the others do."""

    def lstm(w_ih: Any, w_hh: Any, xs: Any) -> Any:
        h = c = jnp.zeros((xs.shape[1], w_hh.shape[0]), "float32")
        for x in xs:
            i, f, g, o = jnp.split(x @ w_ih + h @ w_hh, 4, axis=1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
        return h

    w_ih, w_hh, xs = array(48, 128), array(32, 128, seed=1), array(10, 8, 48, seed=2)
    e = explained(lstm, w_ih, w_hh, xs)
    products = [k for k in e.kernels if k.flops >= 8 * 128 * 48]
    assert sum(x.aval.shape == w_ih.shape for k in products for x in k.reads) == 1
    assert sum(x.aval.shape == w_hh.shape for k in products for x in k.reads) in (9, 10)
    with functrax.backend("interp"):
        wanted = functrax.jit(lstm)(w_ih, w_hh, xs)
    np.testing.assert_allclose(functrax.jit(lstm)(w_ih, w_hh, xs), wanted, rtol=1e-4, atol=1e-5)


def test_T26_queries_keys_and_values_are_one_launch() -> None:
    """Of their products, and of the gradients; what they share is packed once."""

    def project(x: Any, *weights: Any) -> Any:
        return [x @ w for w in weights]

    def slopes(x: Any, *weights: Any) -> Any:
        loss = lambda *args: sum(jnp.sum(jnp.sin(y)) for y in project(*args))
        return functrax.grad(loss, (0, 1, 2, 3))(x, *weights)

    x, *weights = array(256, 128), *(array(128, 128, seed=k) for k in range(3))
    program = explained(project, x, *weights).program
    assert program.runs == (3,)
    assert len(explained(slopes, x, *weights).program.runs) <= 4  # of nine products
    for f in (project, slopes):
        with functrax.backend("interp"):
            wanted = functrax.jit(f)(x, *weights)
        for a, b in zip(functrax.jit(f)(x, *weights), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    large = explained(project, array(512, 768), *(array(768, 768, seed=k) for k in range(3)))
    packed = [x for k in large.program.instructions for x in k.inputs if "pack" in k.name]
    assert len(packed) == len(set(packed))


def test_T27_the_pointwise_part_of_an_lstm_is_one_kernel() -> None:
    def cell(gates: Any, c: Any) -> Any:
        i, f, g, o = jnp.split(gates, 4, axis=1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(c), c

    assert count(explained(cell, array(32, 4 * 64), array(32, 64))) == 1


def test_T28_gradients_of_jitted_gradients() -> None:
    f = lambda x: jnp.sum(jnp.sin(x) ** 3)
    slope = functrax.jit(functrax.grad(f))
    got = functrax.jit(functrax.grad(lambda x: slope(x)[0]))(array(5))[0]
    s, c = np.sin(array(5)[0]), np.cos(array(5)[0])
    np.testing.assert_allclose(got, 6 * s * c * c - 3 * s**3, rtol=1e-5)


def test_T29_functions_of_torch_are_differentiated_twice() -> None:
    torch = pytest.importorskip("torch")
    from functrax.interop import to_torch

    f = to_torch(lambda x: jnp.sum(jnp.sin(x) ** 3))
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    (slope,) = torch.autograd.grad(f(x), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    y = x.detach().numpy()
    want = 6 * np.sin(y) * np.cos(y) ** 2 - 3 * np.sin(y) ** 3
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-5)


def softmax_of_squares(x: Any) -> Any:
    return nn.softmax(jnp.sin(x.T).T * 1.0 + x * x)


def test_T32_optimisation_off_gives_the_same_values() -> None:
    x = array(20, 30)
    wanted = functrax.jit(softmax_of_squares)(x)
    with Override("opt", False):
        e = explained(softmax_of_squares, x)
        assert [p.name for p in e.passes] == ["inline"]
        np.testing.assert_allclose(functrax.jit(softmax_of_squares)(x), wanted, rtol=1e-5)


def test_T33_levels_of_the_log_nest(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for log in ("cse", "simplify", ">simplify", ">>simplify"):
        with Override("log", log):
            pipeline.run_pipeline(functrax.make_jaxpr(softmax_of_squares)(array(3, 4)).jaxpr)
        printed.append(capsys.readouterr().err)
    none, program, rewrites, details = printed
    assert none == "" and "simplify: " in program
    assert set(program.splitlines()) <= set(rewrites.splitlines()) <= set(details.splitlines())
    assert len(rewrites) > len(program)


def test_T34_a_planted_miscompile_is_bisected() -> None:
    def wrong(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:  # from its third rewrite on
        made = sum(rewrites.allow("planted", eqn) for eqn in jaxpr.eqns)
        outvars = jaxpr.outvars if made < 3 else jaxpr.invars
        return Jaxpr((), jaxpr.invars, outvars, jaxpr.eqns, jaxpr.name)

    program = functrax.make_jaxpr(lambda x: jnp.exp(jnp.sin(jnp.cos(x)) + 1))(array(4)).jaxpr
    passes = (*pipeline.PIPELINE[:3], as_pass("wrong", wrong))
    found = first_wrong_rewrite(program, lambda p: p.outvars != p.invars, passes)
    assert found is not None and (found.name, found.number) == ("wrong", 3)


def test_T38_later_calls_give_the_bits_of_the_first() -> None:
    """However often and in whatever order (N16): what is learnt from calls changes no result."""

    def f(x: Any) -> Any:
        return (nn.softmax(jnp.sin(x)) @ x.T).sum(0) / jnp.sqrt(jnp.exp(x).sum(1))

    def in_order(numbers: Sequence[int]) -> dict[int, set[bytes]]:
        jitted, found = functrax.jit(f), dict[int, set[bytes]]()
        for k in numbers:
            found.setdefault(k, set()).add(np.asarray(jitted(inputs[k])).tobytes())
        return found

    inputs = [array(5 + 3 * k, 7, seed=k) for k in range(4)]
    first = in_order(range(4))
    for seed in range(3):
        order = np.random.default_rng(seed).integers(0, 4, 60).tolist()
        functrax.clear_caches()
        assert in_order([*order, *range(4)]) == first


# ---- the PyTorch JIT blog -----------------------------------------------------------------------


def test_B5_ratio_iou_reads_eight_arrays_and_writes_one() -> None:
    e = explained(ratio_iou, *boxes())
    (kernel,) = e.kernels
    assert (len(kernel.reads), len(kernel.writes)) == (8, 1)
    assert e.cost == 9 * 100 * 1000 * F32


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax, nn.logsumexp])
def test_B6_softmax_and_its_kin_are_two_kernels_at_most(f: Callable[..., Any]) -> None:
    assert count(explained(lambda x: f(x, -1), array(64, 100))) <= 2


def dropped(params: Any, x: Any, key: Any) -> Any:
    for w, k in zip(params, random.split(key, len(params)), strict=True):
        x = jnp.where(random.bernoulli(k, 0.8, (x.shape[0], w.shape[1])), jnp.tanh(x @ w) / 0.8, 0)
    return jnp.sum(x * x)


def test_B7_masks_of_dropout_are_drawn_again_and_not_stored() -> None:
    args = [array(32, 32, seed=k) for k in range(3)], array(64, 32), random.key(3)
    e = explained(functrax.grad(dropped), *args)
    between = [edge.value for edge in e.edges]
    assert not [v for v in between if "bool" in v or "u8" in v or "u32[64" in v], between
    with functrax.backend("interp"):
        wanted = functrax.jit(dropped)(*args)
    np.testing.assert_allclose(functrax.jit(dropped)(*args), wanted, rtol=1e-5)
    draw = lambda key: random.bernoulli(key, 0.8, (64, 32))
    np.testing.assert_array_equal(functrax.jit(draw)(args[2]), draw(args[2]))


def test_B8_alternating_signatures_keep_their_plans() -> None:
    f = functrax.jit(lambda x: x * 2 + 1)
    inputs = array(5), array(5, 3), jnp.arange(4)
    for _ in range(3):
        for x in inputs:
            np.testing.assert_allclose(f(x), np.asarray(x) * 2 + 1, rtol=1e-6)
    info = f.cache_info()
    assert (info.hits, info.misses, info.currsize) == (6, 3, 3)


def test_B9_one_kernel_serves_all_sizes() -> None:
    f = functrax.jit(lambda x: nn.softmax(jnp.sin(x)))
    f(array(100, 1000))
    known = f.cache_info().compiles
    f(array(101, 1000))
    assert f.cache_info().compiles == known


def test_B10_the_gradient_of_ratio_iou_saves_nothing() -> None:
    gradient = functrax.grad(lambda *b: ratio_iou(*b).sum(), tuple(range(8)))
    e = explained(gradient, *boxes())
    assert e.edges == () and e.peak_bytes == 0
    assert e.cost == 16 * 100 * 1000 * F32


# ---- the PyTorch paper --------------------------------------------------------------------------


def test_P8_other_threads_run_while_a_program_does() -> None:
    f = functrax.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
    f(1, 1.0).block_until_ready()
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0002)

    def ticks_during(trips: int) -> int:
        begin = time.perf_counter()
        f(trips, 1.0).block_until_ready()
        end = time.perf_counter()
        return sum(begin < t < end for t in ticks)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # A busy machine may not run the other thread within milliseconds; a call that held the
        # interpreter would let it tick once at most, however long the call.
        assert any(ticks_during(3_000_000 << doubling) >= 3 for doubling in range(10))
    finally:
        done.set()
        thread.join()


@pytest.mark.usefixtures("no_collection")
def test_P10_a_steady_state_asks_the_system_for_no_memory() -> None:
    step = functrax.jit(lambda w, x: w - 0.1 * functrax.grad(lambda w: jnp.sum((x @ w) ** 2))(w))
    w, x = array(64, 64), array(256, 64)
    for _ in range(3):
        w = step(w, x)
    before = pool_stats().allocations
    for _ in range(5):
        w = step(w, x)
    assert pool_stats().allocations == before


@pytest.mark.usefixtures("no_collection")
def test_P12_memory_goes_with_the_last_reference() -> None:
    f = functrax.jit(lambda x: jnp.sin(x) * 2)
    x = array(10_000)
    f(x)
    before = pool_stats().in_use
    result = f(x)
    assert pool_stats().in_use >= before + 40_000
    del result
    assert pool_stats().in_use == before
