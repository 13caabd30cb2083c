"""Contractions of narrow numbers by the instructions for them (``gemm/packed_dtypes.py``).

Each kind of instruction is forced in turn, whatever this processor would choose, on vectors of each
width that has it; where this processor has not got it, only its text is looked at.
All layouts are slow tests, which take a minute::

    pytest -m slow tests/backends/test_word_contractions.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation import codegen
from functrax.backends.gemm.lower_contraction import contraction_kernels
from functrax.backends.kernels.ir import Kernel
from functrax.backends.llvm.emit import Emitted, emit_kernel
from functrax.backends.loops.strategies.schedule import scheduled_trees
from functrax.backends.targets import target, x86_64
from functrax.core.records import replace
from tests.backends.machines import ANY, processor, write_for
from tests.backends.test_contraction_kernels import EPS, Array, agree, draw, group, products, run

BF16 = ml_dtypes.bfloat16
#: Kinds of instructions and widths of vectors, the flag that says that a processor has them, and
#: what stands in the text.
KINDS = {
    ("i16", 16): ("sse2", "sse2.pmadd.wd"),
    ("i16", 32): ("avx2", "avx2.pmadd.wd"),
    ("i16", 64): ("avx512bw", "avx512.pmaddw.d.512"),
    ("bf16", 32): ("avx512_bf16", "dpbf16ps.256"),
    ("bf16", 64): ("avx512_bf16", "dpbf16ps.512"),
    ("tile bf16", 64): ("amx_bf16", "tdpbf16ps"),
    ("tile i8", 64): ("amx_int8", "tdpb"),
}
DTYPES = {
    "i16": (np.int8, np.uint8, np.int16),
    "bf16": (BF16,),
    "tile bf16": (BF16,),
    "tile i8": (np.int8, np.uint8),
}
#: Rows, columns and steps: whole tiles, ends of all kinds, blocks of steps, few columns.
SIZES = ((37, 50, 101), (40, 41, 4200), (100, 3, 256))
MORE_SIZES = (*SIZES, (64, 64, 128), (33, 129, 70), (16, 16, 5))
LAYOUTS = {
    "mk,kn->mn": lambda x, y: x @ y,
    "km,kn->mn": lambda x, y: x.T @ y,
    "mk,nk->mn": lambda x, y: x @ y.T,
    "km,nk->nm": lambda x, y: (x.T @ y.T).T,
}


def _id(kind: tuple[str, int]) -> str:
    return f"{kind[0]}-{kind[1]}"


def of_kinds(floats: bool) -> pytest.MarkDecorator:
    """The kinds of bfloat16 only, or those of integers."""
    kinds = [kind for kind in KINDS if kind[0].endswith("bf16") == floats]
    return pytest.mark.parametrize("kind", kinds, indirect=True, ids=_id)


@pytest.fixture(params=KINDS, ids=_id)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, width = request.param
    flag, _ = KINDS[request.param]
    if width > target().vector_bytes or flag not in target().flags:
        pytest.skip(f"this processor has no {flag}")
    wanted = replace(ANY, vector_bytes=width, registers=max(16, width // 2), dots=frozenset({name}))
    monkeypatch.setattr(codegen, "schedule_target", lambda: wanted)
    return str(name)


def summed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A product of narrow numbers in the dtype in which they are added up."""
    total = jnp.float32 if name.endswith("bf16") else jnp.int32
    return lambda *xs: function(*(lax.convert_element_type(x, total) for x in xs))


def chosen(function: Callable[..., Any], *args: Array) -> set[str]:
    """The instructions that a contraction is computed by."""
    launched = contraction_kernels(
        group(function, *args).eqns[0].params["jaxpr"], "x", codegen.schedule_target()
    )
    kernels = [x.kernel for x in launched]
    return {k.tiling.dot[0] if k.tiling.dot else "" for k in kernels if k.tiling is not None}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrix_products_in_all_layouts(kind: str, layout: str) -> None:
    products_agree(kind, layout, MORE_SIZES)


def test_matrix_products(kind: str) -> None:
    products_agree(kind, "km,kn->mn", SIZES)


def products_agree(kind: str, layout: str, shapes_of: tuple[tuple[int, int, int], ...]) -> None:
    rng = np.random.default_rng(len(kind))
    function = summed(kind, LAYOUTS[layout])
    used = set()
    for n, (rows, columns, steps) in enumerate(shapes_of):
        sizes = {"m": rows, "n": columns, "k": steps}
        shapes = [[sizes[a] for a in side] for side in layout.split("->")[0].split(",")]
        types = DTYPES[kind]
        args = [draw(rng, tuple(s), types[(n + k) % len(types)]) for k, s in enumerate(shapes)]
        got = run(function, *args)
        want, bound = products(layout, *args)
        if got.dtype == np.int32:
            np.testing.assert_array_equal(got, want.astype(np.int64).astype(np.int32))
        else:
            agree(got, want, bound, steps, EPS[np.float32])
        used |= chosen(function, *args)
    assert kind in used


@pytest.mark.slow
@pytest.mark.parametrize("layout", [("NCHW", "OIHW"), ("NHWC", "HWIO")], ids=lambda x: x[0])
def test_convolutions_and_batches_in_all_layouts(kind: str, layout: tuple[str, str]) -> None:
    windows_agree(kind, layout, (1, 2))


def test_convolutions_and_batches(kind: str) -> None:
    windows_agree(kind, ("NCHW", "OIHW"), (1,))


def windows_agree(kind: str, layout: tuple[str, str], strides: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    dtype = DTYPES[kind][0]
    sizes = {"N": 2, "C": 48, "H": 19, "W": 33, "O": 40, "I": 48}
    image = draw(rng, tuple(sizes[a] for a in layout[0]), dtype)
    taps = draw(rng, tuple({**sizes, "H": 3, "W": 3}[a] for a in layout[1]), dtype)
    used = set()
    for stride in strides:

        def convolution(x: Any, w: Any, stride: int = stride) -> Any:
            return lax.conv_general_dilated(
                x, w, (stride, stride), "SAME", dimension_numbers=(*layout, layout[0])
            )

        function = summed(kind, convolution)
        got = run(function, image, taps)
        with functrax.backend("interp"):
            want = np.asarray(function(jnp.asarray(image), jnp.asarray(taps)))
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
        used |= chosen(function, image, taps)
    x, y = draw(rng, (3, 40, 70), dtype), draw(rng, (3, 50, 70), dtype)
    function = summed(kind, lambda x, y: jnp.einsum("bik,bjk->bij", x, y))
    want, bound = products("bik,bjk->bij", x, y)
    agree(run(function, x, y).astype(np.float64), want, bound, 70, EPS[np.float32])
    assert kind in used


@of_kinds(floats=False)
def test_integers_wrap_around(kind: str) -> None:
    """As sums of 32 bits do in any order, of the largest products too."""
    for dtype in DTYPES[kind]:
        info = np.iinfo(dtype)
        x = np.full((40, 3000), info.min, dtype)
        x[::2, ::3] = info.max
        got = run(summed(kind, lambda x, y: x @ y.T), x, x)
        want = x.astype(np.int64) @ x.T.astype(np.int64)
        np.testing.assert_array_equal(got, want.astype(np.int32))


@of_kinds(floats=True)
def test_what_bfloat16_holds(kind: str) -> None:
    """Infinities and NaNs are as in float32; what is below the normal numbers may be zero."""
    x = np.zeros((32, 64), BF16)
    x[0, 3], x[1, 4], x[2, 5], x[3, 6] = np.inf, -np.inf, np.nan, 1e-39
    y = np.ones((64, 32), BF16)
    y[7] = 3e38
    got = run(summed(kind, lambda x, y: x @ y), x, y)
    assert np.all(got[0] == np.inf) and np.all(got[1] == -np.inf) and np.all(np.isnan(got[2]))
    assert np.all(np.abs(got[3]) <= 1.0e-39) and not np.any(got[4:])


def test_prologues_and_epilogues(kind: str) -> None:
    rng = np.random.default_rng(3)
    dtype = DTYPES[kind][0]
    x, y = draw(rng, (48, 80), dtype), draw(rng, (80, 64), dtype)

    def function(x: Any, y: Any) -> Any:
        return jnp.maximum(summed(kind, lambda x, y: x @ y)(-x, y), 1)

    want, bound = products("ik,kj->ij", (-x).astype(np.float64), y)
    got = run(function, x, y).astype(np.float64)
    agree(got, np.maximum(want, 1), bound, 80, EPS[np.float32])


def emitted(kernel: Kernel) -> Emitted:
    """A kernel as LLVM IR."""
    ((_, tree),) = scheduled_trees(kernel, ANY)
    return emit_kernel(tree)


@pytest.mark.parametrize("which", KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def test_texts(which: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processors that this one is not, too."""
    name, width = which
    args = [np.zeros((64, 256), DTYPES[name][0]), np.zeros((256, 64), DTYPES[name][0])]
    outer = group(summed(name, lambda x, y: x @ y), *args)
    inner = outer.eqns[0].params["jaxpr"]
    plain = replace(ANY, vector_bytes=width, registers=max(16, width // 2))
    write_for(monkeypatch, processor("x86_64"))
    main = contraction_kernels(inner, "x", replace(plain, dots=frozenset({name})))[-1].kernel
    text = "".join(text for _, text in emitted(main).calls)
    assert KINDS[which][1] in text
    without = contraction_kernels(inner, "x", plain)[-1].kernel
    assert KINDS[which][1] not in "".join(text for _, text in emitted(without).calls)


def test_which_processor_has_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x86_64, "_unit_allowed", lambda: True)
    flags = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16")
    zen = processor("x86_64", *flags, identity="vendor_id: AuthenticAMD")
    xeon = processor("x86_64", *flags, identity="vendor_id: GenuineIntel")
    rapids = processor("x86_64", *flags, "amx_tile", "amx_bf16", identity="vendor_id: GenuineIntel")
    assert zen.dots == {"i16", "bf16"}
    assert xeon.dots == {"i16"}
    assert rapids.dots == {"i16", "tile bf16"}
    assert processor("aarch64", "bf16").dots == frozenset()
