"""Kernels in one module: which may be, and the objects that come out of it."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.machine_code import object_loader
from functrax.backends.machine_code.code_generator import generator
from functrax.backends.machine_code.joined_modules import joinable, joined, parts
from functrax.backends.targets import target
from functrax.core import native

HEAD = "define void @functrax_kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) nounwind {{"
SCALE = (
    HEAD
    + """
entry:
  %x = load ptr, ptr %buffers
  %a = load <8 x double>, ptr %x, align 8
  %b = fmul <8 x double> %a, splat (double {:.1f})
  %c = fadd <8 x double> %b, <double 0.0, double 1.0, double 2.0, double 3.0, double 4.0,
                              double 5.0, double 6.0, double {:.1f}>
  store <8 x double> %c, ptr %x, align 8{}
  ret void
}}
"""
)
#: Without constants in memory.
SUM = HEAD + "\n  %x = load ptr, ptr %buffers\n{}  ret void\n}}\n"
ADD = "  %a{0} = load i64, ptr %x\n  %b{0} = add i64 %a{0}, %begin\n  store i64 %b{0}, ptr %x\n"
CALLER = """
declare double @cbrt(double)
define void @of0.functrax_kernel(ptr %x) nounwind section ".text.0" {
  %a = load double, ptr %x
  %b = call double @cbrt(double %a)
  store double %b, ptr %x
  ret void
}
"""
LOADERS = {"python": object_loader.MappedCode}
if hasattr(native.extension, "ObjectCode"):
    LOADERS["native"] = native.extension.ObjectCode

pytestmark = pytest.mark.skipif(
    sys.platform in ("darwin", "win32"), reason="objects of another format stay as they are"
)


@pytest.fixture(params=sorted(LOADERS))
def load(request):
    if request.param == "python" and "x86-64" not in target().name:
        pytest.skip("the Python twin loads code of x86-64 only")
    return LOADERS[request.param]


def run(address):
    array = np.arange(8.0)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    ctypes.CFUNCTYPE(None, *types)(address)(
        (ctypes.c_void_p * 1)(array.ctypes.data), None, 0, len(array)
    )
    return array.tolist()


def scales(n):
    """Modules whose constants are shared, in part."""
    return [SCALE.format(k, k % 2, ", !nontemporal !0") + "!0 = !{i32 1}\n" for k in range(n)]


def scaled(k):
    return (np.arange(8.0) * k + [*range(7), k % 2]).tolist()


def split(texts):
    return parts(generator().object_code(joined(texts)), len(texts))


def test_each_part_is_an_object_of_its_own(load):
    objects = split(scales(5))
    for k in (3, 0, 4, 1, 2):
        code = load(objects[k])
        assert run(code.address) == scaled(k)


def test_code_is_what_it_is_alone():
    texts = [SUM.format("".join(ADD.format(k) for k in range(n))) for n in (1, 4, 2)]
    machine = target().dialect.machine
    for text, part in zip(texts, split(texts), strict=True):
        alone = generator().object_code(text)
        assert object_loader.link(part, machine, 4096) == object_loader.link(alone, machine, 4096)


def test_kernels_are_joined():
    def f(x, y):
        return jnp.tanh(x @ y), x.sum(1), jnp.where(x > 0, x, y.T)

    x = np.ones((64, 64), np.float32)
    codes = [code for kernel in functrax.explain(f)(x, x).kernels for code in kernel.codes]
    texts = {t for code in codes for t in (code.emitted.text, *dict(code.emitted.calls).values())}
    assert len(texts) > 3 and all(map(joinable, texts))
    assert len(split(sorted(texts))) == len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "declare double @cbrt(double)\n" + SCALE.format(1, 1, ""),
        SCALE.format(1, 1, "") + "define internal void @f() nounwind {\n  ret void\n}\n",
        "@table = constant double 1.0\n" + SCALE.format(1, 1, ""),
        SUM.format("  call void @functrax_kernel(ptr null, ptr null, i64 0, i64 0)\n"),
        SUM.format("").replace("nounwind ", ""),
        "nonsense",
    ],
)
def test_what_is_not_one_function_is_not_joined(text):
    assert not joinable(text)
    assert joinable(SUM.format(""))


def test_what_cannot_be_taken_apart_is_refused():
    with pytest.raises(ValueError, match="calls what it does not define"):
        parts(generator().object_code(CALLER), 1)
    both = generator().object_code(joined(scales(2)))
    with pytest.raises(ValueError, match="has not all functions"):
        parts(both, 3)
    for data in (b"", bytes(1000), both[:200]):
        with pytest.raises(ValueError, match="object code"):
            parts(data, 2)
