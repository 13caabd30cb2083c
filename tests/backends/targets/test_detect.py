"""What is asked of the system, and which target follows from it."""

from __future__ import annotations

import os
import sys

import pytest

from functrax.backends.machine_code import code_generator
from functrax.backends.targets import detect, target
from functrax.backends.targets.detect import parse_cpuinfo, second_cache_of, target_of
from functrax.backends.targets.facts import SECOND_CACHE
from tests.backends.machines import processor

INTEL = "vendor_id\t: GenuineIntel\nmodel\t\t: 85\ncpu MHz\t: {}\nflags\t\t: {}\n\nprocessor : 1\n"


def test_facts_of_processors():
    facts = parse_cpuinfo(INTEL.format("2000.1", "fpu avx2"))
    assert facts == {"vendor_id": "GenuineIntel", "model": "85", "flags": "fpu avx2"}
    assert facts == parse_cpuinfo(INTEL.format("3000.5", "fpu avx2"))
    arm = "processor\t: 0\nBogoMIPS\t: 50\nFeatures\t: fp asimd\nCPU part\t: 0xd40\n"
    assert parse_cpuinfo(arm) == {"Features": "fp asimd", "CPU part": "0xd40"}


@pytest.mark.parametrize(
    ("machine", "flags", "width", "registers"),
    [
        ("x86_64", "sse2 avx", 16, 16),
        ("x86_64", "avx avx2", 32, 16),
        ("AMD64", "avx2 avx512f", 32, 16),
        ("x86_64", "avx2 avx512f avx512bw avx512dq avx512vl", 64, 32),
        ("aarch64", "asimd", 16, 32),
        ("arm64", "asimd avx2", 16, 32),
        ("riscv64", "", 16, 16),
    ],
)
def test_vectors(machine, flags, width, registers):
    found = processor(machine, *flags.split())
    assert (found.vector_bytes, found.registers) == (width, registers)


def test_an_unknown_machine_loads_no_code():
    assert processor("riscv64").dialect.machine == 0


@pytest.mark.parametrize(
    ("caches", "want"),
    [
        (
            [
                ("1", "Data", "48K", "1"),
                ("2", "Unified", "2048K", "1"),
                ("3", "Unified", "9M", "f"),
            ],
            2 << 20,
        ),
        ([("1", "Data", "48K", "3"), ("2", "Unified", "2048K", "0000,00000003")], 1 << 20),
        ([("2", "Instruction", "2048K", "1"), ("2", "Data", "512K", "1")], 1 << 19),
        ([("2", "Unified", "64K", "1")], 1 << 18),
        ([], SECOND_CACHE),
    ],
)
def test_the_second_cache(caches, want, tmp_path):
    for number, facts in enumerate(caches):
        (tmp_path / f"index{number}").mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_map"), facts, strict=True):
            (tmp_path / f"index{number}" / name).write_text(text + "\n")
    assert second_cache_of(str(tmp_path)) == want


def test_this_processor():
    if sys.platform == "linux":
        assert target().identity.startswith(os.uname().machine + "\n")
    if os.uname().machine == "x86_64":
        features = code_generator.generator().features.split(",")
        assert ("+avx2" in features) == ("avx2" in target().flags)
        assert ("+avx512vl" in features) == ("avx512vl" in target().flags)


def test_flags_of_the_machine_below_an_emulator_do_not_count(monkeypatch):
    facts = {"flags": "avx512f avx512bw avx512dq avx512vl fma", "Features": "asimd"}
    monkeypatch.setattr(detect, "_proc_facts", lambda: facts)
    uname = os.uname()
    for machine_name, width in (("aarch64", 16), ("x86_64", 64)):
        changed = os.uname_result((*tuple(uname)[:4], machine_name))
        monkeypatch.setattr(os, "uname", lambda changed=changed: changed)
        monkeypatch.setattr(sys, "platform", "linux")
        assert target_of(detect.this_processor()).vector_bytes == width
