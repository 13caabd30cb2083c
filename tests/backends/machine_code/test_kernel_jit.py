"""Compiling texts: in memory, from disk without LLVM, and after damage."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import functrax
from functrax.backends import disk_cache
from functrax.backends.disk_cache import content_key
from functrax.backends.machine_code import code_generator, joined_modules, kernel_jit
from functrax.backends.machine_code.kernel_jit import Machine, machine
from functrax.backends.targets import target
from functrax.core.errors.typed import MachineCodeError
from functrax.core.options.config import config
from tests.backends.machines import with_facts

ROOT = str(Path(functrax.__file__).parents[1])
SCALE = """
define void @functrax_kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) nounwind {{
entry:
  %x = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr double, ptr %x, i64 %i
  %a = load double, ptr %p
  %b = fmul double %a, {:.1f}
  store double %b, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
CALLER = """
declare double @cbrt(double)
define void @functrax_kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) {
  %x = load ptr, ptr %buffers
  %a = load double, ptr %x
  %b = call double @cbrt(double %a)
  store double %b, ptr %x
  ret void
}
"""


@pytest.fixture
def cache(tmp_path):
    """A cache of its own for this test."""
    before = config.compilation_cache_dir
    config.update("compilation_cache_dir", tmp_path / "cache")
    yield disk_cache.current()
    config.update("compilation_cache_dir", before)


def compile_all(own, texts):
    return [own.request(text).compiled for text in texts]


def run(compiled, values):
    array = np.array(values, np.float64)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kernel = ctypes.CFUNCTYPE(None, *types)(compiled.address)
    kernel((ctypes.c_void_p * 1)(array.ctypes.data), None, 0, len(array))
    return array.tolist()


def entry_files(cache):
    return [p for p in Path(cache.root, "kernels").iterdir() if p.name != "ledger"]


# ---- in one process -----------------------------------------------------------------------------


def test_texts_are_compiled_once_and_then_found(cache):
    first = Machine()
    texts = [SCALE.format(k) for k in (2, 3, 2)]
    compiled = compile_all(first, texts)
    assert [run(c, [1, 5]) for c in compiled] == [[2, 10], [3, 15], [2, 10]]
    assert compiled[0] is compiled[2] is compile_all(first, texts[:1])[0]
    assert first.count == 2 and len(entry_files(cache)) == 2
    assert {c.origin for c in compiled} == {"llvm"}
    second = Machine()
    again = compile_all(second, texts)
    assert [run(c, [1, 5]) for c in again] == [[2, 10], [3, 15], [2, 10]]
    assert second.count == 0 and {c.origin for c in again} == {"disk"}
    assert [c.key for c in again] == [c.key for c in compiled]
    assert cache.stats.hits == 2 and cache.stats.writes == 2


def test_an_entry_says_what_it_is_for(cache):
    text = SCALE.format(7)
    compile_all(Machine(), [text])
    (path,) = entry_files(cache)
    about = disk_cache.unpack(path.read_bytes(), bytes.fromhex(path.name)).about
    llvm = code_generator.generator()
    assert about.endswith(f"by LLVM {llvm.version} for {llvm.cpu} {llvm.features}")


@pytest.mark.parametrize("place", [0, 20, 60, 100, -1])
def test_damaged_entries_are_compiled_again(cache, place):
    text = SCALE.format(4)
    compile_all(Machine(), [text])
    (path,) = entry_files(cache)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)
    fresh = Machine()
    (compiled,) = compile_all(fresh, [text])
    assert run(compiled, [2]) == [8] and fresh.count == 1
    assert cache.stats.damaged == 1
    assert compile_all(Machine(), [text])[0].origin == "disk"


def test_sound_entries_of_no_use_are_compiled_again(cache):
    text = SCALE.format(5)
    compile_all(Machine(), [text])
    (path,) = entry_files(cache)
    cache.put(bytes.fromhex(path.name), b"\x7fELF of another world")
    fresh = Machine()
    (compiled,) = compile_all(fresh, [text])
    assert run(compiled, [2]) == [10] and fresh.count == 1 and cache.stats.damaged == 1


def test_code_that_calls_a_library(cache):
    for origin in ("llvm", "disk"):
        (compiled,) = compile_all(Machine(), [CALLER])
        assert compiled.origin == origin
        assert run(compiled, [27.0]) == pytest.approx([3.0])


def test_code_that_cannot_be_loaded_is_an_error(cache):
    text = CALLER.replace("@cbrt", "@functrax_has_no_such_function")
    asked = Machine().request(text)
    for _ in range(2):
        with pytest.raises(MachineCodeError) as caught:
            asked.compiled  # noqa: B018
        for part in ("cannot be loaded", "it calls functrax_has_no_such_function", "try   report"):
            assert part in str(caught.value)


def test_no_memory_for_code_is_an_error(cache, monkeypatch):
    compile_all(Machine(), [SCALE.format(11)])

    def load(data):
        raise OSError(errno.ENOMEM, "mmap")

    monkeypatch.setattr(kernel_jit.object_code, "load", load)
    for n in (11, 12):  # on disk, and new
        with pytest.raises(MachineCodeError, match="cannot be loaded") as caught:
            compile_all(Machine(), [SCALE.format(n)])
        assert "free memory" in str(caught.value)
    monkeypatch.undo()
    assert compile_all(Machine(), [SCALE.format(11)])[0].origin == "disk"


def test_code_is_given_back_when_nobody_uses_it(cache, monkeypatch):
    monkeypatch.setattr(kernel_jit, "KEPT", 1)
    own = Machine()
    (compiled,) = compile_all(own, [SCALE.format(6)])
    gone = weakref.ref(compiled)
    compile_all(own, [SCALE.format(8)])
    assert compile_all(own, [SCALE.format(6)])[0] is compiled  # for it is in use
    compile_all(own, [SCALE.format(8)])
    del compiled
    gc.collect()
    assert gone() is None
    assert run(compile_all(own, [SCALE.format(6)])[0], [1]) == [6]


def test_the_machine_of_the_process():
    assert machine() is machine()
    assert run(kernel_jit.request(SCALE.format(9)).compiled, [1]) == [9]
    assert "functrax_kernel" in code_generator.generator().assembly(SCALE.format(9))


def test_what_kernels_do_without_others_still_get():
    import llvmlite.binding as llvm

    ours = code_generator.generator()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    module = llvm.parse_assembly(SCALE.format(3))
    before = machine.emit_object(module)
    code = ours.object_code(SCALE.format(3))
    assert machine.emit_object(llvm.parse_assembly(SCALE.format(3))) == before
    assert ours.object_code(SCALE.format(3)) == code


# ---- keys ---------------------------------------------------------------------------------------


def test_keys_depend_on_everything_that_decides_the_code(monkeypatch):
    def key():
        kernel_jit.circumstances.cache_clear()
        return content_key(kernel_jit.circumstances(), "text")

    keys = [key()]
    monkeypatch.setattr(functrax, "__version__", "0.0.other")
    keys.append(key())
    monkeypatch.setattr(kernel_jit, "library", lambda: "another LLVM")
    keys.append(key())
    with_facts(monkeypatch, identity="another processor")
    keys.append(key())
    monkeypatch.setattr(kernel_jit, "OPTIMIZATION", 0)
    keys.append(key())
    assert len(set(keys)) == len(keys)
    monkeypatch.undo()
    kernel_jit.circumstances.cache_clear()
    assert key() == keys[0]


def test_the_library_is_known_without_loading_it():
    import llvmlite

    assert llvmlite.__version__ in code_generator.library()
    assert "llvmlite." in code_generator.library().splitlines()[-1]


# ---- in fresh processes -------------------------------------------------------------------------

PROGRAM = f"""
import ctypes, sys
from functrax.backends import disk_cache
from functrax.backends.machine_code import code_generator, kernel_jit as jit
from functrax.backends.targets import target
text = {SCALE!r}
texts = [text.format(k) for k in map(int, sys.argv[1].split(","))]
width = target().vector_bytes
assert not code_generator._generator.cache_info().currsize
out = []
for asked in [jit.machine().request(text) for text in texts]:
    c = asked.compiled
    x = ctypes.c_double(2.0)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kernel = ctypes.CFUNCTYPE(None, *types)(c.address)
    kernel((ctypes.c_void_p * 1)(ctypes.addressof(x)), None, 0, 1)
    out.append(x.value)
s = disk_cache.current().stats
loaded = code_generator._generator.cache_info().currsize > 0
print(out, jit.machine().count, s.hits, s.writes, loaded)
"""


def start(numbers, root, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTRAX_")}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, numbers],
        env={
            **clean,
            "PYTHONPATH": ROOT,
            "FUNCTRAX_CACHE_DIR": str(root),
            "FUNCTRAX_NUM_THREADS": "1",  # LLVM is not loaded in advance
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert err == ""
    return out.strip()


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_warm_cache_needs_no_llvm(tmp_path, native):
    if native == "0" and "x86-64" not in target().name:
        pytest.skip("the Python twin loads code of x86-64 only")
    cold = finish(start("2,3", tmp_path, FUNCTRAX_NATIVE=native))
    assert cold == "[4.0, 6.0] 2 0 2 True"
    warm = finish(start("2,3", tmp_path, FUNCTRAX_NATIVE=native))
    assert warm == "[4.0, 6.0] 0 2 0 False"
    assert finish(start("2,3", tmp_path, FUNCTRAX_CACHE="0")) == "[4.0, 6.0] 2 0 0 True"


def test_four_processes_compile_the_same_and_different_kernels(tmp_path):
    lists = ["2,3,4,5", "5,4,3,2", "2,6,7,3", "8,9,2,5"]
    workers = [start(numbers, tmp_path) for numbers in lists]
    for numbers, worker in zip(lists, workers):
        expected = [2.0 * int(n) for n in numbers.split(",")]
        assert finish(worker).startswith(str(expected))
    assert len(list((tmp_path / "kernels").iterdir())) == 8 + 1  # and the ledger
    warm = finish(start("2,3,4,5,6,7,8,9", tmp_path))
    assert warm == f"{[2.0 * n for n in range(2, 10)]} 0 8 0 False"


@pytest.mark.parametrize("statement", ["import functrax", "import functrax; functrax.jit(abs)(2)"])
def test_functrax_does_without_the_package_llvmlite(statement, tmp_path):
    code = f"{statement}; import sys; print('llvmlite' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": ROOT, "FUNCTRAX_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# ---- in several threads -------------------------------------------------------------------------


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setenv("FUNCTRAX_NUM_THREADS", "3")


def test_threads_make_what_one_makes(cache, three_threads, monkeypatch):
    monkeypatch.setattr(joined_modules, "joinable", lambda text: False)
    texts = [SCALE.format(k) for k in range(2, 14)]
    alone = [code_generator.generator().object_code(text) for text in texts]
    own = Machine()
    with kernel_jit.side_by_side():
        asked = [own.request(text) for text in texts]
        again = own.request(texts[3])
    assert again is asked[3]
    assert [r.compiled.origin for r in asked] == ["llvm"] * len(texts)
    assert own.count == len(texts) == cache.stats.writes
    for text, code in zip(texts, alone):
        assert cache.get(disk_cache.content_key(kernel_jit.circumstances(), text)).payload == code
    assert [run(r.compiled, [1]) for r in asked] == [[k] for k in range(2, 14)]
    assert not [t for t in threading.enumerate() if t.name == "functrax-compile"]


@pytest.fixture
def modules(monkeypatch):
    """The modules that LLVM is given."""
    given = []
    make = code_generator.CodeGenerator.object_code
    monkeypatch.setattr(
        code_generator.CodeGenerator, "object_code", lambda *args: given.append(1) or make(*args)
    )
    return given


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="objects of another format")
def test_what_waits_is_made_in_one_module(cache, modules):
    own = Machine()
    numbers = range(80, 86)
    asked = [own.request(SCALE.format(k)) for k in numbers]
    assert asked[2].compiled  # is made already
    made = own.request(SCALE.format(79))
    made.make()
    modules.clear()
    kernel_jit.make_all([made, *asked])
    assert len(modules) == 1
    assert [run(r.compiled, [1]) for r in asked] == [[k] for k in numbers]
    assert len(modules) == 1 and own.count == 6 == cache.stats.writes
    again = compile_all(Machine(), [SCALE.format(k) for k in numbers])
    assert {c.origin for c in again} == {"disk"}
    assert [run(c, [1]) for c in again] == [[k] for k in numbers]


def test_what_cannot_be_made_together_is_made_alone(cache, modules):
    own = Machine()
    bad = SCALE.format(87).replace("fmul", "nonsense")
    asked = [own.request(text) for text in (SCALE.format(88), bad, CALLER, SCALE.format(89))]
    kernel_jit.make_all(asked)
    assert len(modules) == 5  # three in one, which is refused, and four
    assert run(asked[0].compiled, [1]) == [88] and run(asked[3].compiled, [1]) == [89]
    assert run(asked[2].compiled, [27.0]) == pytest.approx([3.0])
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        _ = asked[1].compiled


def test_what_another_thread_makes_is_waited_for(cache):
    own = Machine()
    asked = [own.request(SCALE.format(k)) for k in (90, 91, 92)]
    asked[1]._lock.acquire()
    makes = threading.Thread(target=kernel_jit.make_all, args=(asked,))
    makes.start()
    assert asked[0].compiled and asked[2].compiled  # without waiting for it
    makes.join(0.05)
    assert makes.is_alive()
    asked[1]._lock.release()
    makes.join(120)
    assert [run(r.compiled, [1]) for r in asked] == [[90], [91], [92]]


def test_an_error_in_a_thread_is_raised_where_the_code_is_asked_for(cache, three_threads):
    own = Machine()
    bad = "define void @functrax_kernel() { nonsense }"
    with kernel_jit.side_by_side():
        asked = [own.request(text) for text in (SCALE.format(20), bad, SCALE.format(21))]
    assert run(asked[0].compiled, [1]) == [20] and run(asked[2].compiled, [1]) == [21]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
            _ = asked[1].compiled


def test_what_a_failing_block_asked_for_can_be_made_later(cache, three_threads):
    own = Machine()
    with pytest.raises(KeyError), kernel_jit.side_by_side():
        asked = [own.request(SCALE.format(k)) for k in range(30, 36)]
        raise KeyError
    assert not [t for t in threading.enumerate() if t.name == "functrax-compile"]
    assert [run(r.compiled, [1]) for r in asked] == [[k] for k in range(30, 36)]


def test_users_in_many_threads_get_one_code(cache):
    own, text = Machine(), SCALE.format(40)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(own.request(text).compiled)) for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8 and len({id(c) for c in found}) == 1 and own.count == 1


@pytest.mark.parametrize("threads", [False, True])
def test_one_thread_is_enough(cache, threads, monkeypatch):
    monkeypatch.setenv("FUNCTRAX_NUM_THREADS", "1" if threads else "3")
    config.update("compile_threads", threads)
    try:
        own = Machine()
        with kernel_jit.side_by_side():
            asked = [own.request(SCALE.format(k)) for k in (50, 51, 52)]
            assert own.count == 0 and kernel_jit._open.workers is None
        assert [run(r.compiled, [1]) for r in asked] == [[50], [51], [52]]
    finally:
        config.update("compile_threads", True)


def test_threads_wait_little_for_pythons_lock_while_they_compile(cache, three_threads):
    before = sys.getswitchinterval()
    with kernel_jit.side_by_side():
        own = Machine()
        asked = [own.request(SCALE.format(70))]
        assert sys.getswitchinterval() == before  # no thread yet
        asked += [own.request(SCALE.format(k)) for k in (71, 72)]
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
    with pytest.raises(KeyError), kernel_jit.side_by_side():
        asked += [own.request(SCALE.format(k)) for k in (73, 74, 75)]
        sys.setswitchinterval(0.002)  # somebody else's wish stays
        raise KeyError
    assert sys.getswitchinterval() == 0.002
    sys.setswitchinterval(before)
    assert [run(r.compiled, [1]) for r in asked] == [[k] for k in range(70, 76)]


def test_the_option_of_llvm_is_off_again_after_a_block(cache, three_threads):
    left_out = code_generator.left_out
    with kernel_jit.side_by_side():
        own = Machine()
        asked = [own.request(SCALE.format(k)) for k in (60, 61, 62)]
        assert asked[0].compiled and left_out._switch is not None
    assert left_out._switch is None and not left_out._inside
