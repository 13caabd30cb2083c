"""Loading object files: what they compute, which relocations are known, and what is refused.

Everything runs on the C++ loader, where there is one, and on its Python twin.
"""

from __future__ import annotations

import ctypes
import gc
import random
import struct
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.machine_code import object_loader
from functrax.backends.machine_code.code_generator import generator
from functrax.backends.targets import target
from functrax.core import native
from tests.backends.machine_code.elf_objects import (
    AARCH64,
    CONSTANTS,
    TEXT,
    UNDEFINED,
    X86_64,
    make_object,
)

PAGE = 4096
RETURN = b"\xc3" + bytes(15)  # of x86-64
KERNEL = """
@table = private constant [4 x double] [double 1.0, double 10.0, double 100.0, double 1000.0]
define void @kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr double, ptr %x, i64 %i
  %a = load double, ptr %p
  %k = and i64 %i, 3
  %q = getelementptr double, ptr @table, i64 %k
  %b = load double, ptr %q
  %c = fmul double %a, %b
  %d = fadd double %c, 0x3FE5555555555555
  store double %d, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
CALLER = """
declare double @cbrt(double)
define void @kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) {
  %x = load ptr, ptr %buffers
  %a = load double, ptr %x
  %b = call double @cbrt(double %a)
  store double %b, ptr %x
  ret void
}
"""


def link_python(data, machine=X86_64, page_size=PAGE):
    image = object_loader.link(data, machine, page_size)
    return image.data, image.code_size, image.entry, image.calls


def link_native(data, machine=X86_64, page_size=PAGE):
    return native.extension.link_object(data, machine, page_size)


LINKERS = {"python": link_python}
LOADERS = {"python": object_loader.MappedCode}
if hasattr(native.extension, "link_object"):
    LINKERS["native"] = link_native
    LOADERS["native"] = native.extension.ObjectCode
LOADED_MACHINE = target().dialect.machine


@pytest.fixture(params=sorted(LINKERS))
def link(request):
    return LINKERS[request.param]


@pytest.fixture(params=sorted(LOADERS))
def load(request):
    return LOADERS[request.param]


def kernel(address):
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return ctypes.CFUNCTYPE(None, *types)(address)


def run(address, array):
    kernel(address)((ctypes.c_void_p * 1)(array.ctypes.data), None, 0, len(array))


def result(linker, data, machine=X86_64):
    try:
        return linker(data, machine)
    except ValueError as error:
        return str(error)


# ---- what is loaded -----------------------------------------------------------------------------


def test_a_kernel_with_constants_and_a_table(load):
    code = load(generator().object_code(KERNEL))
    x = np.arange(100.0)
    run(code.address, x)
    np.testing.assert_array_equal(
        x, np.arange(100.0) * 10.0 ** (np.arange(100) % 4) + float.fromhex("0x1.5555555555555p-1")
    )
    assert code.size == 2 * PAGE or PAGE != 4096


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory's protection")
def test_memory_is_never_writable_and_executable_and_is_given_back(load):
    def protection(address):
        with open("/proc/self/maps") as maps:
            for line in maps:
                first, last = (int(x, 16) for x in line.split()[0].split("-"))
                if first <= address < last:
                    return line.split()[1][:3]
        return None

    data = make_object(bytes(100), bytes(100), machine=LOADED_MACHINE)
    code = load(data)
    address = code.address
    assert protection(address) == "r-x"
    assert protection(address // PAGE * PAGE + code.size // 2) == "r--"
    del code
    gc.collect()
    assert protection(address) != "r-x"


def test_layout(link):
    data = make_object(RETURN, b"constants", align=64)
    image, code_size, entry, _ = link(data)
    assert (len(image), code_size, entry) == (2 * PAGE, PAGE, 0)
    assert image.startswith(RETURN) and image[PAGE:].startswith(b"constants")
    assert not any(image[len(RETURN) : PAGE]) and not any(image[PAGE + 9 :])
    assert len(link(data, page_size=65536)[0]) == 2 * 65536
    no_constants = make_object(RETURN, b"")
    assert len(link(no_constants)[0]) == PAGE


# ---- relocations --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [2, 4])
def test_relative_addresses_of_x86_64(link, kind):
    image, *_ = link(make_object(RETURN, bytes(64), [(4, kind, CONSTANTS, 12)]))
    assert struct.unpack_from("<i", image, 4) == (PAGE + 12 - 4,)
    image, *_ = link(make_object(RETURN, bytes(64), [(8, kind, TEXT, -4)]))
    assert struct.unpack_from("<i", image, 8) == (-12,)


@pytest.mark.parametrize(
    ("kind", "code", "symbol", "addend", "expected"),
    [
        (275, 0x90000000, CONSTANTS, 0, 0xB0000000),  # adrp x0, one page on
        (275, 0x90000003, CONSTANTS, 3 * PAGE, 0x90000023),  # adrp x3, four pages on
        (275, 0xB0000000, TEXT, 8, 0x90000000),  # adrp x0, this page
        (275, 0x90000000, TEXT, -4, 0xF0FFFFE0),  # adrp x0, the page before
        (277, 0x91000000, CONSTANTS, 0x123, 0x91048C00),  # add x0, x0, #0x123
        (278, 0x39400000, CONSTANTS, 0x123, 0x39448C00),  # ldrb w0, [x0, #0x123]
        (284, 0x79400000, CONSTANTS, 0x122, 0x79424400),  # ldrh w0, [x0, #0x122]
        (285, 0xB9400000, CONSTANTS, 0x124, 0xB9412400),  # ldr w0, [x0, #0x124]
        (286, 0xF9400000, CONSTANTS, 0x128, 0xF9409400),  # ldr x0, [x0, #0x128]
        (299, 0x3DC00000, CONSTANTS, 0x120, 0x3DC04800),  # ldr q0, [x0, #0x120]
        (279, 0x36000000, TEXT, 16, 0x36000040),  # tbz w0, #0, 8 on
        (280, 0x54000000, TEXT, 16, 0x54000040),  # b.eq 8 on
        (282, 0x14000000, TEXT, 16, 0x14000002),  # b 8 on
        (283, 0x94000000, TEXT, 4, 0x97FFFFFF),  # bl 4 back
        (261, 0, CONSTANTS, 0, PAGE - 8),
    ],
)
def test_instructions_of_aarch64(link, kind, code, symbol, addend, expected):
    words = struct.pack("<4I", 0, 0, code, 0)
    data = make_object(words, bytes(64), [(8, kind, symbol, addend)], AARCH64)
    assert struct.unpack_from("<4I", link(data, AARCH64)[0]) == (0, 0, expected, 0)


@pytest.mark.parametrize(
    ("machine", "relocation"),
    [
        (X86_64, (0, 1, TEXT, 0)),  # an absolute address
        (X86_64, (0, 9, TEXT, 0)),  # the global offset table
        (X86_64, (0, 42, CONSTANTS, 0)),
        (X86_64, (0, 2, UNDEFINED, 0)),
        (X86_64, (0, 2, 5, 0)),  # no such symbol
        (X86_64, (13, 2, TEXT, 0)),  # across the end
        (X86_64, (1 << 40, 2, TEXT, 0)),
        (X86_64, (2**64 - 2, 2, TEXT, 0)),
        (X86_64, (0, 2, TEXT, 1 << 31)),
        (X86_64, (0, 2, TEXT, 2**63 - 1)),
        (X86_64, (0, 2, TEXT, -(2**63))),
        (AARCH64, (0, 257, TEXT, 0)),
        (AARCH64, (0, 311, TEXT, 0)),  # the global offset table
        (AARCH64, (0, 283, UNDEFINED, 0)),
        (AARCH64, (0, 283, TEXT, 2)),
        (AARCH64, (0, 283, TEXT, 1 << 27)),
        (AARCH64, (0, 280, TEXT, 1 << 20)),
        (AARCH64, (0, 279, TEXT, 1 << 15)),
        (AARCH64, (0, 286, CONSTANTS, 4)),
        (AARCH64, (0, 299, CONSTANTS, 8)),
    ],
)
def test_relocations_that_are_refused(link, machine, relocation):
    data = make_object(RETURN, bytes(64), [relocation], machine)
    with pytest.raises(ValueError, match="object code refused: a"):
        link(data, machine)


# ---- functions of libraries ---------------------------------------------------------------------


def test_functions_of_libraries_are_called(load):
    """The process lies farther away than a relative call reaches."""
    code = load(generator().object_code(CALLER))
    x = np.array([27.0, 1.0])
    kernel(code.address)((ctypes.c_void_p * 1)(x.ctypes.data), None, 0, 1)
    assert x.tolist() == [pytest.approx(3.0), 1.0]


def test_a_function_that_is_not_there_is_refused(load):
    data = generator().object_code(CALLER.replace("@cbrt", "@functrax_has_none"))
    with pytest.raises(ValueError, match="it calls functrax_has_none, which is not there"):
        load(data)


@pytest.mark.parametrize(("kind", "place"), [(4, 16), (9, PAGE), (41, PAGE), (42, PAGE)])
def test_calls_of_x86_64(link, kind, place):
    """By a stub, which jumps to an address in a table, or by the address."""
    data = make_object(RETURN, bytes(5), [(4, kind, UNDEFINED, -4)], name=b"f")
    image, code_size, _, calls = link(data)
    assert code_size == PAGE and calls == ((PAGE + 8, b"f"),)
    place += 8 if place == PAGE else 0
    assert struct.unpack_from("<i", image, 4) == (place - 4 - 4,)
    assert image[16:22] == b"\xff\x25" + struct.pack("<i", PAGE + 8 - 22)
    assert not any(image[PAGE:])


def test_calls_of_aarch64(link):
    words = struct.pack("<4I", 0x94000000, 0x14000000, 0x90000000, 0xF9400000)
    relocations = [(4 * k, t, UNDEFINED, 0) for k, t in enumerate((283, 282, 311, 312))]
    image, _, _, calls = link(make_object(words, b"", relocations, AARCH64, name=b"f"), AARCH64)
    assert calls == ((PAGE, b"f"),)
    assert struct.unpack_from("<4I", image) == (0x94000004, 0x14000003, 0xB0000000, 0xF9400000)
    assert struct.unpack_from("<3I", image, 16) == (0xB0000010, 0xF9400210, 0xD61F0200)


@pytest.mark.parametrize(
    ("triple", "machine"), [("aarch64-linux-gnu", AARCH64), ("x86_64-linux-gnu", X86_64)]
)
def test_calls_that_llvm_writes_are_linked(link, triple, machine):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    made = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    text = CALLER.replace("ret void", "tail call double @erf(double 2.0)\n  ret void")
    text = text.replace("declare", "declare double @erf(double) nonlazybind\ndeclare", 1)
    data = made.emit_object(llvm.parse_assembly(text))
    assert sorted(name for _, name in link(data, machine)[3]) == [b"cbrt", b"erf"]


# ---- objects that are refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "outside of its table"),
        (b"\x7fELF" + bytes(200), "not ELF64"),
        (make_object(RETURN, b"", machine=AARCH64), "another processor"),
        (make_object(RETURN, b"x", flags=3), "writable"),
        (make_object(RETURN, b"x", flags=0x402), "unknown kind"),  # thread-local
        (make_object(RETURN, b"x", kind=8), "unknown type"),  # zeros
        (make_object(RETURN, b"x", kind=14), "unknown type"),  # functions to call first
        (make_object(RETURN, b"x", align=8192), "unknown alignment"),
        (make_object(RETURN, b"x", align=3), "unknown alignment"),
        (make_object(b"", b"x"), "no code"),
        (make_object(RETURN, b"", functions=0), "not one function"),
        (make_object(RETURN, b"", functions=2), "not one function"),
    ],
)
def test_objects_that_are_refused(link, data, why):
    with pytest.raises(ValueError, match=why):
        link(data)


@pytest.mark.parametrize("linker", sorted(LINKERS))
def test_every_truncation_is_refused(linker):
    data = make_object(RETURN, bytes(64), [(4, 2, CONSTANTS, 12)])
    for size in range(len(data)):
        assert "object code refused" in result(LINKERS[linker], data[:size])


def damaged_objects():
    """Every byte of some objects flipped, and random damage."""
    rng = random.Random(4)
    for machine in (X86_64, AARCH64):
        kind, call = (2, 4) if machine == X86_64 else (277, 283)
        relocations = [(4, kind, CONSTANTS, 12), (8, call, UNDEFINED, -4)]
        data = make_object(RETURN, bytes(64), relocations, machine, name=b"f")
        for place in range(len(data)):
            for flip in (0xFF, 0x80, 1 << rng.randrange(8)):
                changed = bytearray(data)
                changed[place] ^= flip
                yield bytes(changed), machine
        for _ in range(500):
            changed = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                changed[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0xFF))
            yield bytes(changed), machine


@pytest.mark.skipif("native" not in LINKERS, reason="compares the twins")
def test_the_twins_agree_on_damaged_objects():
    refused = linked = 0
    for data, machine in damaged_objects():
        python = result(link_python, data, machine)
        assert result(link_native, data, machine) == python
        refused += isinstance(python, str)
        linked += not isinstance(python, str)
    assert refused > 1000 and linked > 100


@pytest.mark.skipif("native" not in LINKERS or not LOADED_MACHINE, reason="compares the twins")
def test_the_twins_agree_on_kernels():
    data = generator().object_code(KERNEL)
    assert link_native(data, LOADED_MACHINE) == link_python(data, LOADED_MACHINE)
    assert link_native(data, LOADED_MACHINE, 16384) == link_python(data, LOADED_MACHINE, 16384)


@pytest.mark.parametrize(
    ("triple", "machine"), [("aarch64-linux-gnu", AARCH64), ("x86_64-linux-gnu", X86_64)]
)
def test_kernels_of_both_processors_are_linked(link, triple, machine):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip("llvmlite was built without this target")
    made = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    data = made.emit_object(llvm.parse_assembly(KERNEL))
    image, code_size, entry, _ = link(data, machine)
    assert entry == 0 and code_size == PAGE
    assert struct.pack("<4d", 1, 10, 100, 1000) in image[PAGE:]
    assert struct.pack("<4d", 1, 10, 100, 1000) not in image[:PAGE]


def test_page_sizes_and_processors(link):
    data = make_object(RETURN, b"")
    for page_size in (0, 1, 2048, 5000, 1 << 30):
        with pytest.raises(ValueError, match="page size"):
            link(data, page_size=page_size)
    with pytest.raises(ValueError, match="processor is unknown"):
        link(data, machine=3)


def test_which_one_is_used():
    chosen = "native" if "native" in LOADERS else "python"
    assert object_loader.load is LOADERS[chosen]


def test_kernels_have_no_tables_for_unwinding():
    def f(x, y):
        return jnp.remainder(x @ y, 3.0), jnp.sin(x).sum(1)

    x = np.ones((64, 64), np.float32)
    codes = [code for kernel in functrax.explain(f)(x, x).kernels for code in kernel.codes]
    texts = {t for code in codes for t in (code.emitted.text, *dict(code.emitted.calls).values())}
    assert len(texts) > 2
    for text in texts:
        assert b".eh_frame" not in generator().object_code(text)
