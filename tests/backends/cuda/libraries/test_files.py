"""Where the files of NVIDIA's libraries are looked for."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from functrax.backends.cuda import choice
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.libraries import files
from functrax.backends.cuda.libraries.opened import libraries_of
from functrax.backends.cuda.libraries.table import LibraryTable
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.core.options.config import Override


class Loader:
    """Opens files of which some have a library's functions, others none, as ``ctypes.CDLL``."""

    def __init__(self, whole: set[str], empty: set[str]) -> None:
        self.whole, self.empty = whole, empty
        self.asked: list[str] = []
        simulated = libraries_of(SimulatedDriver().table).library("cufft")
        assert isinstance(simulated, LibraryTable)
        self.functions = simulated._kept

    def __call__(self, name: str) -> Any:
        self.asked.append(name)
        if name in self.empty:
            return object()
        if name not in self.whole:
            raise OSError(f"{name}: no such file")
        return type("Library", (), dict(self.functions))


def test_packages_are_looked_through_after_what_the_loader_knows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = files.NAMES["cufft"]
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    place = folder / names[0]
    place.touch()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "none"), str(tmp_path), str(tmp_path)])
    loader = Loader({str(place)}, {names[0]})
    monkeypatch.setattr(ctypes, "CDLL", loader)
    found = files.open_library("cufft")
    assert isinstance(found, LibraryTable) and found.title == f"cuFFT ({names[0]})"
    assert loader.asked == [*names, str(place)]
    loader.whole.clear()
    why = files.open_library("cufft")
    assert why == f"cuFFT cannot be opened: {names[0]} has no cufftCreate, " + ", ".join(
        [x for x in loader.functions if x != "cufftCreate"]
    )
    loader.empty.clear()
    assert files.open_library("cufft") == f"cuFFT cannot be opened: {names[0]}: no such file"


def test_a_driver_without_libraries_has_none() -> None:
    driver = SimulatedDriver()  # which lives as long as its functions
    table = Table(driver.table.addresses)
    assert libraries_of(table).library("cufft") == "there is no cuFFT beside this driver"


def test_libraries_are_asked_by_default_on_a_simulated_gpu_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated = SimulatedDriver().table
    for driver in (Table(simulated.addresses, object()), simulated):
        wanted = {"off": False, "simulated": driver is simulated, "on": True}
        monkeypatch.setattr(choice, "table", lambda driver=driver: driver)
        for value, used in wanted.items():
            with Override("cuda_libraries", value):
                assert choice.uses_libraries() is used
                with Override("strict", True):
                    assert not choice.uses_libraries()


def test_nothing_is_opened_before_a_program_needs_it() -> None:
    code = """
import os, sys
os.environ["FUNCTRAX_CUDA_DRIVER"] = "simulated"
import functrax, functrax.numpy as jnp
with functrax.backend("cuda"):
    x = functrax.jit(lambda x: x + 1)(jnp.ones(3))
    assert "functrax.backends.cuda.libraries.simulated" not in sys.modules
    functrax.jit(jnp.fft.fft)(x)
    assert "functrax.backends.cuda.libraries.simulated" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
