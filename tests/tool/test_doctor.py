"""``python -m functrax doctor`` finds what is wrong with an installation."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import functrax
from functrax.backends import device as device_module, disk_cache
from functrax.core import native
from functrax.errors import UnavailableError
from functrax.tool import doctor
from functrax.tool.command_line import main

ROOT = Path(__file__).parents[2]


def _found(part: str) -> list[doctor.Finding]:
    return [x for x in doctor.examine() if x.part == part]


def test_a_sound_installation(capsys: Any) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "nothing is wrong" in said and "WRONG" not in said
    for part in ("Python", "functrax", "LLVM", "processor", "disk cache", "GPU", "program"):
        assert f"{part}: " in said


def test_what_is_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"numpy": "1.26.4", "llvmlite": "0.48.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    needs = ["numpy>=2.1.2", "ml_dtypes>=0.5.1", "llvmlite>=0.48", "jax>=1; extra == 'bench'"]
    monkeypatch.setattr(metadata, "requires", lambda _: needs)
    monkeypatch.setattr(metadata, "version", version)
    found = {x.part: x for x in doctor.examine()}
    assert (found["numpy"].verdict, found["ml_dtypes"].verdict) == ("wrong", "wrong")
    assert "too old" in found["numpy"].text and "0.5.1" in found["ml_dtypes"].advice
    assert found["llvmlite"].verdict == "ok" and "jax" not in found


def test_no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "extension", None)
    monkeypatch.delenv("FUNCTRAX_NATIVE", raising=False)
    (finding,) = doctor._extension("extension")
    assert finding.verdict == "note" and "--no-deps ." in finding.advice
    assert "150 µs instead of" in finding.text


def test_a_cache_that_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = disk_cache.DiskCache("/nowhere", 0)
    monkeypatch.setattr(cache, "get", lambda key: None)
    monkeypatch.setattr(cache, "put", lambda key, payload, about="": None)
    monkeypatch.setattr(disk_cache, "current", lambda: cache)
    (finding,) = _found("disk cache")
    assert finding.verdict == "wrong" and "FUNCTRAX_CACHE_DIR" in finding.advice


def test_a_variable_that_is_no_option(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FUNCTRAX_ENABLE_X46", "1")
    assert main(["doctor"]) == 1
    assert "FUNCTRAX_ENABLE_X46 is no option" in capsys.readouterr().out


def test_a_part_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(part: str) -> Any:
        raise OSError("no such library")
        yield

    monkeypatch.setitem(doctor._PARTS, "LLVM", broken)
    (finding,) = _found("LLVM")
    assert finding.verdict == "wrong" and "no such library" in finding.text
    assert [x.verdict for x in _found("program")] == ["ok"]  # others are looked at


def test_the_script_says_what_cannot_be_imported(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$2" = "" ] && exit 0\necho "No module named functrax" >&2\nexit 1\n'
    )
    python.chmod(0o755)
    run = subprocess.run(
        ["bash", str(ROOT / "scripts" / "doctor.sh")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "WRONG functrax" in run.stdout and "No module named functrax" in run.stdout


def test_notes_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    note = doctor.Finding("engine", "note", "it is slow")
    monkeypatch.setattr(doctor, "_PARTS", {"engine": lambda part: iter([note])})
    assert main(["doctor"]) == 0
    assert "1 note, where functrax works, slower or with less: engine" in capsys.readouterr().out


def test_no_driver_of_a_gpu_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(error: OSError | None, what: str) -> Any:
        class Absent:
            @property
            def device_kind(self) -> str:
                raise UnavailableError(what, got="libcuda.so.1", fix="install it") from error

        return Absent()

    for error, what, verdict, advice in (
        (OSError("no file"), "no driver of NVIDIA's", "ok", ""),
        (None, "NVIDIA's driver is too old", "note", "install it"),
    ):
        monkeypatch.setitem(device_module._devices, "cuda", device(error, what))
        (finding,) = _found("GPU")
        assert (finding.text, finding.verdict, finding.advice) == (
            f"none ({what})",
            verdict,
            advice,
        )
        with pytest.raises(UnavailableError, match="Unknown backend") as caught:
            functrax.devices("gpu")
        assert caught.value.got == f"{what}\nlibcuda.so.1" and caught.value.fix == "install it"
        assert str(caught.value).count("try") == 1
