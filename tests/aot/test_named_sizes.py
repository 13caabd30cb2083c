"""Programs for all values of named sizes: bits, workspaces, errors, what headers say."""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct
from functrax.ahead_of_time import AheadOfTime
from functrax.ahead_of_time.sizes import regions
from functrax.ahead_of_time.sizes.regions import satisfied
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.options.config import Override
from functrax.core.types import size_polynomials as sp
from functrax.export import SymbolicScope, symbolic_shape
from tests.aot.building import HERE, STRICT, need, run
from tests.aot.loading import aligned, need_linker
from tests.aot.sized_programs import PROGRAMS, arrays_of, cases_of, specs_of
from tests.export.test_symbolic import FUNCTIONS

#: Calls of libraries; a loop of b steps; a concatenation with nothing where b is 1.
REFUSED = {"sort", "topk", "fft", "solve", "fori2", "roll"}
ADDRESSES = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def made_of(name: str, program: str | None = None) -> AheadOfTime:
    function, _, _ = PROGRAMS[name]
    return functrax.aot(function, *specs_of(name)[1], name=program or f"p_{name}")


class Sized:
    """A program in this process."""

    def __init__(self, made: AheadOfTime, folder: Path) -> None:
        self.made = made
        self.library = ctypes.CDLL(made.write(folder, kind="shared")[0])
        self.run = getattr(self.library, made.name)
        self.workspace_bytes = getattr(self.library, f"{made.name}_workspace_bytes")
        self.workspace_bytes.restype = ctypes.c_size_t
        self.error_text = getattr(self.library, f"{made.name}_error_text")
        self.error_text.restype = ctypes.c_char_p

    def shape(self, number: int, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The shape of an argument or a result, as the program says."""
        found = (ctypes.c_int64 * 8)()
        given = (ctypes.c_int64 * len(sizes))(*sizes)
        rank = getattr(self.library, f"{self.made.name}_shape")(given, number, found)
        return None if rank < 0 else tuple(found[:rank])

    def __call__(
        self, sizes: Mapping[str, int], arrays: Sequence[np.ndarray[Any, Any]]
    ) -> list[np.ndarray[Any, Any]]:
        values = [sizes[name] for name in self.made.sizes]
        given = list(map(ctypes.c_int64, values))
        nbytes = self.workspace_bytes(*given)
        assert nbytes == self.made.workspace_bytes(**sizes)
        memory = aligned(nbytes + 64)
        count = len(self.made.arguments)
        assert [self.shape(n, values) for n in range(count)] == [x.shape for x in arrays]
        results = []
        for n, x in enumerate(self.made.results, count):
            shape = self.shape(n, values)
            assert shape is not None
            size = int(np.prod(shape, dtype=np.int64)) * x.dtype.itemsize
            results.append(aligned(size).view(x.dtype).reshape(shape))
        places = [ctypes.c_void_p(x.ctypes.data) for x in (*arrays, *results)]
        code = self.run(*given, *places, ctypes.c_void_p(memory.ctypes.data), None)
        assert code == 0, self.error_text(code)
        assert (memory[nbytes:] == 0xA5).all()
        return results


def jitted(name: str, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    return list(map(np.asarray, functrax.tree.leaves(functrax.jit(PROGRAMS[name][0])(*arrays))))


@need_linker
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_jit_in_strict_mode(name: str, tmp_path: Path) -> None:
    with Override("strict", True):
        program = Sized(made_of(name), tmp_path)
        for sizes in cases_of(program.made.sizes, name):
            arrays = arrays_of(name, sizes)
            found, wanted = program(sizes, arrays), jitted(name, arrays)
            for x, y in zip(found, wanted, strict=True):
                assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), sizes


@need_linker
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_jit(name: str, tmp_path: Path) -> None:
    program = Sized(made_of(name), tmp_path)
    for sizes in cases_of(program.made.sizes, name):
        arrays = arrays_of(name, sizes)
        for x, y in zip(program(sizes, arrays), jitted(name, arrays), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * (1 + np.abs(y).max()))


@pytest.mark.slow
@need_linker
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("strict", [False, True])
def test_all_short_sizes(name: str, strict: bool, tmp_path: Path) -> None:
    with Override("strict", strict):
        program = Sized(made_of(name), tmp_path)
        names = program.made.sizes
        most = range(1, 70 if len(names) == 1 else 20)
        for values in itertools.product(most, repeat=len(names)):
            sizes = dict(zip(names, values))
            if name == "even" and (values[0] % 2 or values[0] < 4):
                continue
            arrays = arrays_of(name, sizes)
            for x, y in zip(program(sizes, arrays), jitted(name, arrays), strict=True):
                if strict:
                    assert x.tobytes() == y.tobytes(), sizes
                np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * (1 + np.abs(y).max()))


@pytest.mark.slow
@need_linker
@pytest.mark.parametrize("usual", [3, 1000, 30_000])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - REFUSED))
def test_code_is_right_whatever_sizes_are_usual(
    name: str, usual: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "_USUAL", (usual,))
    function, shapes = FUNCTIONS[name]
    scope = SymbolicScope()
    specs = [ShapeDtypeStruct(symbolic_shape(x, scope=scope), np.float32) for x in shapes]
    with Override("strict", True):
        program = Sized(functrax.aot(function, *specs, name="program"), tmp_path)
        sized = program.made._module.sized
        assert sized is not None
        for b in (1, 2, 3, 8, 17, 33, 100):
            sizes = {"b": b}
            if not all(regions.satisfied(x.parts, sizes) for x in sized.constraints):
                continue
            random = np.random.default_rng(b)
            arrays = []
            for spec in specs:
                shape = [sp.evaluated(scope.polynomial(n), sizes) for n in spec.shape]
                arrays.append(np.asarray(random.normal(size=shape), np.float32))
            wanted = functrax.tree.leaves(functrax.jit(function)(*arrays))
            for x, y in zip(program(sizes, arrays), map(np.asarray, wanted), strict=True):
                assert x.tobytes() == y.tobytes(), b


def test_regions_are_all_sizes_and_none_twice() -> None:
    for name in ("slopes", "attention", "outer"):
        sized = made_of(name)._module.sized
        assert sized is not None
        tried = (*range(1, 300), 1023, 1024, 1025, 4096, 32768, 32769, 10**6, 2**20 + 1, 2**31 - 1)
        for values in itertools.product(tried, repeat=len(sized.names)):
            sizes = dict(zip(sized.names, values))
            if all(satisfied(x.parts, sizes) for x in sized.constraints):
                assert sum(satisfied(x.region, sizes) for x in sized.variants) == 1, sizes
            if len(sized.names) > 1 and values[0] > 300:
                break


def test_values_of_regions() -> None:
    def facts(*texts: str) -> list[Any]:
        scope = SymbolicScope()
        return [scope.polynomial(scope.expression(text)) for text in ("b - 1", *texts)]

    for texts, ends in (
        (("b - 7", "20 - 3*b"), (7, 6)),
        (("floordiv(b + 5, 6) - 2", "50 - b^2"), (7, 7)),
        (("floordiv(b, 64)*b - 640",), (214, 2**31 - 1)),
        (("2*b - b^2 - 1",), (1, 2**31 - 1)),  # neither rises nor falls
    ):
        assert regions._interval("b", facts(*texts)) == ends
    assert regions._is_empty(facts("b - 7", "20 - 3*b"))
    assert not regions._is_empty(facts("b - 7"))


@need_linker
def test_errors(tmp_path: Path) -> None:
    program = Sized(made_of("even"), tmp_path)
    text, memory = program.error_text, aligned(4096)
    x, out = np.zeros(8, np.float32), np.zeros(4, np.float32)

    def call(size: int, workspace: Any = memory.ctypes.data) -> int:
        places = [ctypes.c_void_p(a.ctypes.data) for a in (x, out)]
        return int(program.run(ctypes.c_int64(size), *places, ctypes.c_void_p(workspace), None))

    assert call(8) == 0
    for size, said in ((2, "b >= 4"), (5, "mod(b, 2) == 0"), (0, "b >= 1"), (-4, "b >= 1")):
        assert text(call(size)).decode() == f"the sizes do not satisfy {said}"
        assert program.workspace_bytes(ctypes.c_int64(size)) == 2**64 - 1
        assert program.shape(0, [size]) is None
    assert text(call(2**31)).decode() == "the sizes do not satisfy b <= 2147483647"
    assert call(8, memory.ctypes.data + 4) == 6
    assert program.shape(2, [8]) is None
    places = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, out)]
    function = getattr(program.library, f"{program.made.name}_call")
    assert function(*places, None, ctypes.c_void_p(memory.ctypes.data), None) == 8
    with pytest.raises(ArgumentError, match=r"(?s)do not satisfy.*b >= 4"):
        program.made.workspace_bytes(b=2)
    with pytest.raises(ArgumentError, match="other names"):
        program.made.workspace_bytes(n=8)
    with pytest.raises(UnavailableError, match=r"workspace_bytes\(\*\*sizes\)"):
        _ = program.made.workspace


@need_linker
def test_sizes_whose_arrays_no_memory_holds(tmp_path: Path) -> None:
    scope = SymbolicScope()
    specs = [ShapeDtypeStruct(symbolic_shape(n, scope=scope), np.float32) for n in ("a, b, c", "c")]
    program = Sized(functrax.aot(lambda x, y: x * y, *specs, name="large"), tmp_path)
    sizes = [ctypes.c_int64(n) for n in (2**31 - 1, 2**31 - 1, 2**20)]
    code = program.run(*sizes, *[None] * 5)
    assert code & 255 == 9 or b"more bytes than memory" in program.error_text(code)
    assert program.workspace_bytes(*sizes) == 2**64 - 1


@need_linker
def test_description(tmp_path: Path) -> None:
    program = Sized(made_of("expressions"), tmp_path)
    function = getattr(program.library, f"{program.made.name}_description")
    function.restype = ctypes.c_char_p
    found = json.loads(function())
    assert found["sizes"] == ["b"]
    assert found["constraints"] == ["b >= 1", "b <= 2147483647"]
    assert [x["shape"] for x in found["arguments"]] == [["2*b + 1"], ["b"]]
    assert found["results"][0]["bytes"] is None
    assert program.made.arguments[0].type_text == "f32[2*b + 1]"
    assert "int64_t b,\n    const float *x,\n    const float *y,\n    float *out" in (
        program.made.header
    )


def test_refused() -> None:
    scope = SymbolicScope()
    (b,) = symbolic_shape("b", scope=scope)
    vector = ShapeDtypeStruct((b,), np.float32)
    with pytest.raises(
        UnavailableError, match=r"(?s)sort is not compiled.*test_named_sizes\.py:\d"
    ):
        _ = functrax.aot(lambda x: jnp.sort(x), vector, name="f").llvm
    with pytest.raises(UnavailableError, match=r"(?s)all values of its sizes.*a loop of b steps"):
        _ = functrax.aot(
            lambda x, w: functrax.lax.scan(lambda c, t: (jnp.tanh(c @ w) * t, c[0]), w[0], x),
            vector,
            ShapeDtypeStruct((64, 64), np.float32),
            name="f",
        ).llvm
    (long,) = symbolic_shape("long", scope=scope)
    with pytest.raises(ArgumentError, match=r"(?s)name of a parameter of C.*'long'"):
        functrax.aot(lambda x: x, ShapeDtypeStruct((long,), np.float32), name="f")


@need_linker
def test_sizes_are_those_of_arguments_and_constraints(tmp_path: Path) -> None:
    scope = SymbolicScope(["n <= most"])
    symbolic_shape("other, 2*b", scope=scope)
    (n,) = symbolic_shape("n", scope=scope)
    made = functrax.aot(lambda x: x + 1, ShapeDtypeStruct((n,), np.float32), name="f")
    assert made.sizes == ("n", "most")
    program = Sized(made, tmp_path)
    x = np.zeros(3, np.float32)
    assert (program({"n": 3, "most": 3}, [x])[0] == 1).all()
    with pytest.raises(ArgumentError, match=r"(?s)do not satisfy.*n <= most"):
        made.workspace_bytes(n=4, most=3)


def test_gpus_need_sizes_with_values() -> None:
    made = made_of("softmax").for_target("sm_80")
    with pytest.raises(UnavailableError, match=r"(?s)code for GPUs is made for certain.*got   b"):
        _ = made.ptx


def test_one_variant_where_constraints_say_so() -> None:
    scope = SymbolicScope(["b == 16"])
    (b,) = symbolic_shape("b", scope=scope)
    made = functrax.aot(lambda x: jnp.tanh(x), ShapeDtypeStruct((b,), np.float32), name="f")
    assert made._module.sized is not None
    assert len(made._module.sized.variants) == 1


@need("gcc")
@pytest.mark.parametrize("name", ["slopes", "recurrent"])
def test_calls_from_c(name: str, tmp_path: Path) -> None:
    check_c(name, tmp_path, "gcc", "-O1", "-DCOUNTS")


@need("gcc")
def test_addresses(tmp_path: Path) -> None:
    check_c("layer_norm", tmp_path, "gcc", *ADDRESSES)


@pytest.mark.slow
@need("gcc")
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"places"}))
def test_all_programs(name: str, tmp_path: Path) -> None:
    for options in (("-O2", "-DCOUNTS"), ADDRESSES):
        check_c(name, tmp_path, "gcc", *options)


def check_c(name: str, path: Path, compiler: str, *options: str) -> None:
    """Build sized.c, and let it call a program for all cases."""
    with Override("strict", True):
        made = made_of(name, "program")
        code = made.write(path)[0]
        data, cases = path / "cases", 0
        with open(data, "wb") as file:
            for sizes in cases_of(made.sizes, name):
                arrays = arrays_of(name, sizes)
                file.write(np.int64([sizes[x] for x in made.sizes]).tobytes())
                for x in (*arrays, *jitted(name, arrays)):
                    file.write(x.tobytes())
                cases += 1
    places = ", ".join(f"sizes[{n}]" for n in range(len(made.sizes)))
    given = ['-DHEADER="program.h"', "-DNAME=program", f"-DCOUNT_OF_SIZES={len(made.sizes)}"]
    given += [f"-DWORKSPACE_BYTES=program_workspace_bytes({places})", f"-I{path}"]
    built = path / "sized"
    run(compiler, *STRICT, *options, *given, "-o", built, HERE / "sized.c", code, "-lpthread")
    assert run(built, data, str(cases)) == f"{cases} cases\n"


@need("g++")
def test_wrapper(tmp_path: Path) -> None:
    code = made_of("expressions", "program").write(tmp_path)[0]
    source = tmp_path / "main.cpp"
    source.write_text(
        """
#include <cstdio>
#include <vector>
#include "program.hpp"
int main() {
  functrax::program::program f;
  for (std::size_t b : {1, 300, 7}) {
    std::vector<float> x(2 * b + 1, 2.0f), y(b, 3.0f), out(b);
    f(static_cast<std::int64_t>(b), x, y, out);
    for (float value : out) if (value != 6.0f) return 1;
  }
  std::vector<float> x(5), y(3), out(3);
  try {
    f(3, x, y, out);
  } catch (const std::invalid_argument& error) {
    std::printf("%s\\n", error.what());
  }
  try {
    f(0, x, y, out);
  } catch (const std::invalid_argument& error) {
    std::printf("%s\\n", error.what());
  }
}
"""
    )
    options = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", *ADDRESSES)
    run("g++", *options, f"-I{tmp_path}", "-o", tmp_path / "main", source, code)
    assert run(tmp_path / "main").splitlines() == [
        "x: an array of shape [7] is needed, and it has 5 elements",
        "the sizes do not satisfy b >= 1",
    ]
