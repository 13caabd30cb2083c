"""Pieces of C and C++ in programs."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.core.options.config import Override
from functrax.ffi import compilers

X = np.arange(6, dtype=np.float32)


def same(x, *_, **__):
    return x


def both(f, *args):
    eager, compiled = f(*args), functrax.jit(f)(*args)
    for a, b in zip(functrax.tree.leaves(eager), functrax.tree.leaves(compiled), strict=True):
        np.testing.assert_array_equal(a, b)
    return compiled


@pytest.fixture
def compilations(monkeypatch):
    """The texts that a compiler is run for."""
    seen = []
    run = compilers._compile

    def counted(name, text, *rest):
        seen.append(text)
        return run(name, text, *rest)

    monkeypatch.setattr(compilers, "_compile", counted)
    return seen


@pytest.mark.parametrize("language", ["c", "c++"])
def test_sizes_and_attributes_do_not_compile_again(language, compilations, tmp_path):
    with Override("compilation_cache_dir", str(tmp_path)):
        scaled = functrax.code(
            "for (int64_t i = 0; i < x_size; ++i) y[i] = a * x[i] + n;  // of " + language,
            {"y": same},
            operands="x",
            attributes={"a": float, "n": int},
            language=language,
        )
        for a in (2.0, 3.0):
            for size in (2, 5):
                f, x = functools.partial(scaled, a=a, n=1), X[:size]
                np.testing.assert_array_equal(both(f, x), a * x + 1)
        assert len(compilations) == 1
        assert both(lambda x: scaled(x, a=2, n=1), np.float64(0.5)) == 2  # float32 without x64
        with functrax.enable_x64():
            np.testing.assert_array_equal(scaled(X.astype(np.float64), a=2, n=0), 2.0 * X)
        assert len(compilations) == 3  # of rank 0, and of double


def test_indices_several_operands_and_results():
    f = functrax.code(
        """
        for (int64_t i = 0; i < a_shape[0]; ++i) {
          for (int64_t j = 0; j < b_shape[1]; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < a_shape[1]; ++k) sum += a_at(i, k) * b_at(k, j);
            c_at(i, j) = (float)sum;
          }
        }
        rank_at() = (int32_t)(a_ndim + b_ndim);
        """,
        {
            "c": lambda a, b: functrax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype),
            "rank": functrax.ShapeDtypeStruct((), np.int32),
        },
        operands="a b",
    )
    a, b = (
        np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32),
        np.ones((4, 5), np.float32),
    )
    c, rank = both(f, a[0], b)
    np.testing.assert_allclose(c, a[0] @ b, rtol=1e-6)
    assert rank == 4
    c, ranks = both(functrax.vmap(f, (0, None)), a, b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-6)
    np.testing.assert_array_equal(ranks, [4, 4])


def test_all_kinds_of_attributes():
    f = functrax.code(
        """
        double sum = flag + i + f + x + w_size;
        for (int64_t k = 0; k < w_size; ++k) sum += w[k];
        out_at() = (float)(sum + text_size + (text[0] == 'a') + (text[text_size] == 0));
        """,
        {"out": functrax.ShapeDtypeStruct((), np.float32)},
        attributes={
            "flag": bool,
            "i": int,
            "f": np.float32,
            "x": float,
            "w": [np.int16],
            "text": str,
        },
    )
    given = {"flag": True, "i": 10, "f": 0.5, "x": 0.25, "w": [100, 200], "text": "abc"}
    assert both(lambda: f(**given)) == 1 + 10 + 0.75 + 302 + 3 + 2
    with pytest.raises(errors.ArgumentError, match="takes other attributes"):
        f(**{**given, "y": 1})
    for key, value in (("i", 1.5), ("text", 3), ("x", "y"), ("w", "z")):
        with pytest.raises(
            errors.ArgumentError, match=f"attribute {key} of code is of another type"
        ):
            f(**{**given, key: value})


def test_fewer_rows_than_the_bound():
    positive = functrax.code(
        """
        int64_t n = 0;
        for (int64_t i = 0; i < x_size; ++i) if (x[i] > 0) y[n++] = x[i];
        *y_count = n;
        """,
        {"y": lambda x: functrax.Bounded(x.shape, x.dtype)},
        operands="x",
        name="positive",
    )
    y, count = both(positive, np.array([3.0, -1, 4, -1, 5], np.float32))
    np.testing.assert_array_equal(y, [3, 4, 5, 0, 0])
    assert count == 3
    ys, counts = both(functrax.vmap(positive), np.array([[1.0, 2], [-1, -2], [-1, 3]], np.float32))
    np.testing.assert_array_equal(ys, [[1, 2], [0, 0], [3, 0]])
    np.testing.assert_array_equal(counts, [2, 0, 1])
    wrong = functrax.code("*y_count = 9;", {"y": functrax.Bounded((3,), np.float32)})
    with pytest.raises(errors.ForeignCallError, match="y_count is not between 0 and the bound"):
        functrax.jit(wrong)()


def test_errors_and_exceptions():
    fails = functrax.code('if (x[0] < 0) FAIL("a negative number"); y[0] = x[0];',
                          {"y": same}, operands="x", name="fails")  # fmt: skip
    throws = functrax.code('throw std::runtime_error("thrown");', {"y": same}, operands="x",
                           language="c++", headers="#include <stdexcept>")  # fmt: skip
    for transform in (functrax.jit, lambda f: f):
        with pytest.raises(
            errors.ForeignCallError, match=r"fails_\w+.*INTERNAL: a negative number"
        ) as caught:
            transform(lambda x: fails(x) + 1)(-np.ones(1, np.float32))
        assert "test_code.py" in str(caught.value.where)
        with pytest.raises(errors.ForeignCallError, match="thrown"):
            transform(throws)(X)


def test_what_the_compiler_says_names_the_users_line():
    f = functrax.code("y[0] = 1;\ny[0] = nothing;", {"y": same}, operands="x", name="broken")
    with pytest.raises(errors.CompilerError, match="does not take broken") as caught:
        functrax.jit(f)(X)
    assert "broken:2:" in str(caught.value) and "nothing" in str(caught.value)
    missing = functrax.code("y[0] = 1;", {"y": same}, operands="x", flags=["-lnone_of_this_name"])
    with pytest.raises(errors.CompilerError):
        functrax.jit(missing)(X)


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    f = functrax.code("y[0] = 123456;", {"y": same}, operands="x")
    with pytest.raises(errors.UnavailableError, match="no compiler of C on this machine") as caught:
        f(X)
    assert "CC=no-such-compiler" in str(caught.value)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(errors.UnavailableError, match="no compiler of C"):
        f(X)


def test_wrong_arguments():
    wrong = [
        ({"language": "fortran"}, "unknown language"),
        ({"results": {}}, "there is no result"),
        ({"operands": "x x"}, "one thing"),
        ({"operands": "x-y"}, "a name is one of C"),
        ({"attributes": {"a": list}}, "the type of an attribute"),
        ({"vmap": "any"}, "unknown vmap method"),
    ]
    for keywords, message in wrong:
        with pytest.raises(errors.ArgumentError, match=message):
            functrax.code("", **{"results": {"y": same}, **keywords})
    with pytest.raises(errors.ArgumentError, match="another number of operands"):
        functrax.code("", {"y": same}, operands="x")(X, X)


def test_flags_headers_and_macros():
    f = functrax.code(
        "y[0] = third(FACTOR * x[0]);",
        {"y": same},
        operands="x",
        flags=["-DFACTOR=6"],
        headers="static float third(float x) { return x / 3; }",
    )
    assert both(f, np.ones(1, np.float32)) == 2


def test_kept_by_content_for_other_processes(tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 1\n")
    script = textwrap.dedent(
        """
        import sys, functrax, numpy as np
        from functrax.ffi import compilers
        run, seen = compilers._compile, []
        compilers._compile = lambda *args: (seen.append(1), run(*args))[1]
        f = functrax.code('y[0] = VALUE;', {"y": functrax.ShapeDtypeStruct((1,), np.float32)},
                          headers='#include "mine.h"', flags=["-I" + sys.argv[1]])
        print(int(functrax.jit(f)()[0]), len(seen))
        """
    )

    def run():
        cache = {"FUNCTRAX_CACHE": "1", "FUNCTRAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-c", script, str(tmp_path)]
        said = subprocess.run(
            command, env={**os.environ, **cache}, capture_output=True, text=True, check=True
        )
        return said.stdout.strip()

    assert [run(), run()] == ["1 1", "1 0"]
    (tmp_path / "mine.h").write_text("#define VALUE 2\n")
    assert [run(), run()] == ["2 1", "2 0"]


def sine_and_cosine():
    """Two functions in C, each with the other one for its derivative."""
    body = "for (int64_t i = 0; i < x_size; ++i) y[i] = {}(x[i]);"
    keywords = {"results": {"y": same}, "operands": "x", "vmap": "broadcast_all"}
    sine = functrax.code(body.format("sin"), name="sine", **keywords,
                         jvp=lambda xs, ts: (sine(*xs), cosine(*xs) * ts[0]))  # fmt: skip
    cosine = functrax.code(body.format("cos"), name="cosine", **keywords,
                           jvp=lambda xs, ts: (cosine(*xs), -sine(*xs) * ts[0]))  # fmt: skip
    return sine


def test_derivatives_to_third_order_in_loops_and_lanes():
    with functrax.enable_x64():
        sine = sine_and_cosine()
        x = np.linspace(-1, 1, 5)

        def with_c(x):
            return functrax.lax.scan(lambda c, _: (sine(c * 1.5), None), x, None, length=3)[0].sum()

        def without(x):
            return functrax.lax.scan(lambda c, _: (jnp.sin(c * 1.5), None), x, None, length=3)[
                0
            ].sum()

        def third(f):
            return lambda x: functrax.grad(
                lambda x: functrax.grad(lambda x: functrax.grad(f)(x).sum())(x).sum()
            )(x)

        for order in (functrax.grad, functrax.hessian, third):
            np.testing.assert_allclose(functrax.jit(order(with_c))(x), order(without)(x), rtol=1e-9)
        xs = np.stack([x, 2 * x])
        np.testing.assert_allclose(
            functrax.jit(functrax.vmap(functrax.grad(with_c)))(xs),
            functrax.vmap(functrax.grad(without))(xs),
        )


def test_custom_vjp_around_it():
    square = functrax.code(
        "for (int64_t i = 0; i < x_size; ++i) y[i] = x[i] * x[i];", {"y": same}, operands="x"
    )

    @functrax.custom_vjp
    def f(x):
        return square(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * x * ct,))
    np.testing.assert_allclose(functrax.grad(lambda x: f(x).sum())(X), 2 * X)
    np.testing.assert_allclose(
        functrax.grad(lambda x: functrax.grad(lambda x: f(x).sum())(x).sum())(X), 2
    )


def test_types_of_elements():
    copy = functrax.code("memcpy(y, x, x_size * sizeof *x);", {"y": same}, operands="x")
    copy_cpp = functrax.code(
        "std::copy(x, x + x_size, y);", {"y": same}, operands="x", language="c++"
    )
    for dtype in (
        "bool",
        "int8",
        "uint16",
        "int32",
        "float16",
        "bfloat16",
        "float32",
        "complex64",
        "float8_e4m3fn",
    ):
        x = jnp.asarray([0, 1, 1]).astype(dtype)
        for f in (copy, copy_cpp):
            np.testing.assert_array_equal(both(f, x).astype(np.float32), x.astype(np.float32))


def test_empty_arrays():
    f = functrax.code(
        "for (int64_t i = 0; i < x_size; ++i) y[i] = x[i];", {"y": same}, operands="x"
    )
    assert both(f, np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert functrax.vmap(f)(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_its_target_is_named_by_content():
    names = []
    for text in ("y[0] = 1;", "y[0] = 1;", "y[0] = 2;"):
        jaxpr = functrax.make_jaxpr(functrax.code(text, {"y": same}, operands="x", name="named"))(X)
        names.append(jaxpr.eqns[-1].params["target"])
    assert names[0] == names[1] != names[2] and names[0].startswith("named_")
