"""Programs for GPUs: what is written, what is refused, and what callers get wrong."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.options.config import Override
from functrax.errors import ArgumentError, UnavailableError
from tests.aot.building import STRICT, need, run
from tests.aot.gpu.fake_libcuda import HERE, FakeLibcuda
from tests.aot.gpu_check import build_command
from tests.aot.programs import PROGRAMS, loss, perceptron
from tests.backends.cuda import assembler

X = functrax.ShapeDtypeStruct((8,), jnp.float32)
ADDRESSES = ("-DCAPTURES", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def written(name: str, folder: Path, target: str = "sm_80") -> list[Path]:
    """The files of a program."""
    function, arguments = PROGRAMS[name]
    made = functrax.aot(function, *arguments(), name=name, target=target)
    return [Path(x) for x in made.write(folder)]


# ---- files --------------------------------------------------------------------------------------


def test_what_is_written(tmp_path: Path) -> None:
    made = functrax.aot(loss, *perceptron(), name="loss")
    paths = made.write(tmp_path, target="sm_90")
    assert [Path(x).name for x in paths] == ["loss.c", "loss.h", "functrax_cuda.h"]
    there = made.for_target("sm_90")
    assert Path(paths[0]).read_text() == there.source and "sm_90" in there.header
    assert ".target sm_90" in there.ptx[0] and ".visible .entry functrax_" in there.ptx[0]
    assert "programs.py:" in there.source  # the user's lines
    assert [x.name for x in there.arguments] == [x.name for x in made.arguments]
    assert there.results[0].type_text == "f32[]"


def test_the_users_lines_are_left_out() -> None:
    made = functrax.aot(loss, *perceptron(), name="loss", target="sm_80", debug=False)
    assert "programs.py" not in made.source


def test_the_same_program_is_the_same_text() -> None:
    texts = [functrax.aot(loss, *perceptron(), name="p", target="sm_80").source for _ in range(2)]
    assert texts[0] == texts[1]


def test_targets() -> None:
    for wrong in ("sm_70", "sm_81", "sm_90a", "sm_"):
        with pytest.raises(ArgumentError, match=r"sm_75, sm_80(.|\n)*sm_120"):
            functrax.aot(jnp.sin, X, name="wave", target=wrong)


def test_strict_mode_is_that_of_jit() -> None:
    found = []
    for strict in (False, True):
        with Override("strict", strict):
            (text,) = functrax.aot(jnp.exp, X, name="power", target="sm_80").ptx
        found.append("ex2.approx" in text)
    assert found == [True, False]


def test_kinds_of_files(tmp_path: Path) -> None:
    made = functrax.aot(jnp.sin, X, name="wave", target="sm_80")
    with pytest.raises(ArgumentError, match=r"C source(.|\n)*'shared'"):
        made.write(tmp_path, kind="shared")
    for ask in (lambda: made.object, lambda: made.llvm, lambda: made.wrapper):
        with pytest.raises(UnavailableError, match="C source"):
            ask()
    with pytest.raises(UnavailableError, match="sm_80"):
        made.for_target(None).source  # noqa: B018


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: jnp.linalg.inv(jnp.outer(x, x)), "linear_solve"),
        (lambda x: jnp.linalg.cholesky(jnp.outer(x, x)), "cholesky"),
        (lambda x: jnp.fft.fft(x), "fft"),
        (lambda x: functrax.pure_callback(np.sin, X, x), "pure_callback"),
    ],
)
def test_what_the_host_computes_is_refused_by_name(function: Any, name: str) -> None:
    with pytest.raises(UnavailableError, match=rf"aot: {name}\w* (.|\n)*sm_80(.|\n)*test_inter"):
        functrax.aot(function, X, name="refused", target="sm_80").source  # noqa: B018


def test_sizes_with_names_are_refused() -> None:
    (n,) = functrax.export.symbolic_shape("n")
    spec = functrax.ShapeDtypeStruct((n, 3), jnp.float32)
    with pytest.raises(UnavailableError, match="certain sizes"):
        functrax.aot(jnp.sin, spec, name="wave", target="sm_80").source  # noqa: B018


def test_sorts_are_kernels() -> None:
    assert functrax.aot(jnp.sort, X, name="ordered", target="sm_80").ptx


def test_a_kernel_of_the_users_own() -> None:
    """Is a module by itself, since its text may be of another version."""
    text = (
        ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry twice(\n"
        ".param .u64 x, .param .u64 y, .param .align 8 .b8 n[8]) { ret; }\n"
    )
    twice = functrax.code(
        text, {"y": lambda x: x}, operands="x", language="ptx", name="twice", threads=64
    )
    made = functrax.aot(lambda x: jnp.sin(twice(x)) + 1, X, name="own", target="sm_80")
    assert [".entry twice" in x for x in made.ptx] == [False, True]
    assert '{1, "twice", 64}' in made.source


# ---- C ------------------------------------------------------------------------------------------


@need("g++")
def test_the_header_is_cpp_and_programs_lie_side_by_side(tmp_path: Path) -> None:
    for name in ("loss", "lstm"):
        written(name, tmp_path)
    functrax.aot(loss, *perceptron(), name="here").write(tmp_path)  # a program for processors
    source = tmp_path / "all.cpp"
    source.write_text(
        '#include "here.h"\n#include "loss.h"\n#include "lstm.h"\n'
        "int main() { return loss_ARGUMENTS_ARE + FUNCTRAX_CUDA - 70; }\n".replace(
            "loss_ARGUMENTS_ARE", "LOSS_ARGUMENTS - LSTM_ARGUMENTS - 2"
        )
    )
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic")
    run("g++", *strict, f"-I{tmp_path}", "-o", tmp_path / "all", source)
    run(tmp_path / "all")


@need("gcc")
@pytest.mark.parametrize("names", [("program", "stream"), ("workspace", "functrax_run")])
def test_names_of_arguments(names: tuple[str, str], tmp_path: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def run({names[0]}, {names[1]}): return {names[0]} + {names[1]}", namespace)
    paths = functrax.aot(namespace["run"], X, X, name="run", target="sm_80").write(tmp_path)
    run("gcc", *STRICT, "-c", "-o", tmp_path / "run.o", paths[0])


@need("gcc")
def test_long_programs_and_large_constants(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)

    def many(x: Any) -> Any:
        for n in range(300):
            x = functrax.lax.optimization_barrier(jnp.sin(x) + n)
        return x + jnp.asarray(table)[17, :8], jnp.asarray(table)

    made = functrax.aot(many, X, name="many", target="sm_80", debug=False)
    assert "static void functrax_part_2" in made.source
    (path, *_) = made.write(tmp_path)
    for compiler in ("-O0", "-O2"):
        run("gcc", *STRICT, compiler, "-c", "-o", tmp_path / "many.o", path)


# ---- the loader ---------------------------------------------------------------------------------


def idle(folder: Path) -> Path:
    """A libcuda that does nothing."""
    made = folder / "libidle.so"
    run("gcc", *STRICT, "-shared", "-fPIC", "-o", made, HERE / "idle_libcuda.c")
    return made


def called(name: str, folder: Path, *options: str) -> None:
    """Calls of a program from eight threads by a libcuda that does nothing."""
    (data,) = [folder / f"{name}.bytes"]
    function, arguments = PROGRAMS[name]
    leaves = functrax.tree.leaves((arguments(), functrax.jit(function)(*arguments())))
    data.write_bytes(b"".join([np.asarray(x).tobytes() for x in leaves]))
    given = (f'-DFUNCTRAX_LIBCUDA="{idle(folder)}"', "-DNO_VALUES", *options)
    run(*build_command(name, folder, folder / name, "gcc", *given))
    said = run(folder / name, data, "8", "6", "0")
    assert said.startswith("48 calls")


@need("gcc")
@pytest.mark.parametrize(
    "options",
    [("-DCOUNTS",), ADDRESSES, ("-g", "-fsanitize=thread")],
    ids=["count", "asan", "tsan"],
)
def test_memory_and_threads(options: tuple[str, ...], tmp_path: Path) -> None:
    written("slopes", tmp_path)
    called("slopes", tmp_path, *options)


@pytest.mark.slow
@need("gcc")
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_and_threads_of_all(name: str, tmp_path: Path) -> None:
    written(name, tmp_path)
    for options in (("-DCOUNTS",), ADDRESSES, ("-g", "-fsanitize=thread")):
        called(name, tmp_path, *options)


class Opened:
    """A program whose functions a test calls, on a simulated GPU."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeLibcuda(folder)
        constant = jnp.asarray(np.arange(700, dtype=np.float32))

        def f(x: Any) -> Any:
            return jnp.sin(x) + constant[:8], constant * 2 + x[0]

        made = functrax.aot(f, X, name="waves", target="sm_80")
        (path, *_) = made.write(folder)
        library = folder / "waves.so"
        run("gcc", *STRICT, self.fake.option, "-shared", "-fPIC", "-o", library, path)
        self.library = ctypes.CDLL(str(library))
        self.library.waves_error_text.restype = ctypes.c_char_p
        self.library.waves_description.restype = ctypes.c_char_p
        self.program = ctypes.c_void_p(1)

    def open(self) -> int:
        return int(self.library.waves_open(0, ctypes.byref(self.program)))

    def close(self) -> None:
        self.library.waves_close(self.program)

    def text(self, code: int) -> str:
        text: bytes = self.library.waves_error_text(code)
        return text.decode()

    def call(self, *places: int | None, sizes: Any = None) -> int:
        """A call with the addresses of the argument, of the results and of the workspace."""
        given = (ctypes.c_void_p * 1)(places[0])
        made = (ctypes.c_void_p * 2)(*places[1:3])
        return int(self.library.waves_call(
            self.program, given, made, sizes, ctypes.c_void_p(places[3]), None
        ))  # fmt: skip


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


@need("gcc")
def test_arguments_that_are_wrong(opened: Opened) -> None:
    assert opened.open() == 0
    good = [opened.fake.driver.memory.allocate(4096) for _ in range(4)]
    for place, kind, index, text in (
        (0, 1, 0, "an argument is a null pointer"),
        (1, 3, 0, "the place of a result is a null pointer"),
        (2, 3, 1, "the place of a result is a null pointer"),
    ):
        wrong: list[int | None] = [*good]
        wrong[place] = None
        code = opened.call(*wrong)
        assert (code & 0xFF, code >> 8) == (kind, index) and opened.text(code) == text
        wrong[place] = good[place] + 2
        assert opened.call(*wrong) == code + 1
    assert "has none that the caller" in opened.text(opened.call(*good, sizes=ctypes.c_void_p(8)))
    opened.close()
    assert opened.fake.launches == []
    opened.program = ctypes.c_void_p(None)
    assert opened.text(opened.call(*good)) == "the program is a null pointer"
    opened.close()  # nothing
    assert opened.library.waves_open_in(None, ctypes.byref(opened.program)) == 65
    description = json.loads(opened.library.waves_description())
    assert description["arguments"][0]["shape"] == [8]


@need("gcc")
def test_every_function_may_fail_when_a_program_is_opened(opened: Opened) -> None:
    fake = opened.fake
    assert opened.open() == 0
    opened.close()
    functions = sorted(fake.calls)
    for name in [x for x in functions if not x.endswith(("PopCurrent_v2", "Free_v2", "Unload"))]:
        if name in ("cuDevicePrimaryCtxRelease_v2", "cuCtxSynchronize"):
            continue  # they also close
        fake.alter = {name: lambda before, *given: 500}
        fake.calls.clear()
        code = opened.open()
        assert (code & 0xFF, code >> 8) == (70, 500), name
        assert opened.text(code) == "simulated not found"
        assert not opened.program and not fake.stack and fake.driver.memory.used == 0, name
        counts = [fake.calls.get(f"cuDevicePrimaryCtx{x}", 0) for x in ("Retain", "Release_v2")]
        assert counts[1] == (0 if name == "cuDevicePrimaryCtxRetain" else counts[0]), name
    fake.alter = {}
    assert opened.open() == 0
    opened.close()


@need("gcc")
def test_every_function_may_fail_in_a_call(opened: Opened) -> None:
    assert opened.open() == 0
    places = [opened.fake.driver.memory.allocate(4096) for _ in range(4)]
    opened.fake.driver.memory.write(places[0], np.zeros(8, np.float32))
    for name in ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel"):
        kept = list(opened.fake.stack)
        opened.fake.alter = {name: lambda before, *given: 719}
        code = opened.call(*places)
        assert (code & 0xFF, code >> 8) == (70, 719), name
        opened.fake.stack[:] = kept
    opened.fake.alter = {}
    assert opened.call(*places) == 0
    opened.close()


@need("gcc")
def test_other_gpus_and_drivers(opened: Opened, tmp_path: Path) -> None:
    def lesser(before: Any, out: int, which: int, device: int) -> int:
        ctypes.c_int.from_address(out).value = 5 if which == 76 else 7
        return 0

    opened.fake.alter = {"cuDeviceGetAttribute": lesser}
    code = opened.open()
    assert (code & 0xFF, code >> 8) == (69, 75)
    assert opened.text(code) == "the code is for GPUs of a higher compute capability"
    for path, kind in (("/nowhere/libcuda.so", 67), ("libm.so.6", 68)):
        made = tmp_path / f"waves{kind}.so"
        option = f'-DFUNCTRAX_LIBCUDA="{path}"'
        run("gcc", *STRICT, option, "-shared", "-fPIC", "-o", made, tmp_path / "waves.c")
        program = ctypes.c_void_p(1)
        assert ctypes.CDLL(str(made)).waves_open(0, ctypes.byref(program)) == kind
        assert not program


@need("gcc")
def test_a_kernel_that_fails(opened: Opened) -> None:
    """Is an error of what waits for it."""
    assert opened.open() == 0
    places = [opened.fake.driver.memory.allocate(4096) for _ in range(4)]
    opened.call(*places)  # nobody wrote the argument
    assert opened.fake._cuStreamSynchronize(0) != 0
    code = opened.call(*places)
    assert (code & 0xFF, code >> 8) == (70, 719)


# ---- NVIDIA's assembler -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(assembler.find() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_assembled(target: str, tmp_path: Path) -> None:
    for name, (function, arguments) in PROGRAMS.items():
        made = functrax.aot(function, *arguments(), name=name, target=target)
        for n, text in enumerate(made.ptx):
            path = tmp_path / f"{name}.{n}.ptx"
            path.write_text(text)
            assert assembler.assembled(path, target), name
