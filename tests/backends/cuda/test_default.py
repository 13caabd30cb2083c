"""Which device is the default where the file is that NVIDIA's driver makes."""

from __future__ import annotations

import os
import subprocess
import sys

#: A machine that seems to have a GPU.
BEGIN = """
import os, sys
exists = os.path.exists
os.path.exists = lambda path: path == "/dev/nvidiactl" or exists(path)
import functrax, functrax.numpy as jnp, numpy as np
"""
#: What is opened: nothing by the import, the driver by the first array.
PROGRAM = """
assert "functrax.backends.cuda" not in sys.modules
x = jnp.asarray(np.ones(3))
assert "functrax.backends.cuda.choice" in sys.modules
print(functrax.default_backend(), x.device, (x + 1).device, functrax.jit(lambda x: x * 2)(x).device)
print(functrax.config.backend, functrax.devices()[0], functrax.random.key(0).devices())
"""


def run(program: str, **variables: str) -> tuple[list[str], str]:
    """The lines that a program prints, and its warnings."""
    environment = {k: x for k, x in os.environ.items() if k != "FUNCTRAX_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=environment | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_a_gpu_is_the_default() -> None:
    lines, warned = run(PROGRAM, FUNCTRAX_CUDA_DRIVER="simulated")
    assert lines[0] == "gpu cuda:0 cuda:0 cuda:0"
    assert lines[1].startswith("auto cuda:0")
    assert not warned


def test_the_cpu_can_be_chosen() -> None:
    program = "x = jnp.asarray(np.ones(3))\nprint(functrax.default_backend(), (x + 1).device)"
    lines, warned = run(program, FUNCTRAX_CUDA_DRIVER="simulated", FUNCTRAX_BACKEND="llvm")
    assert lines == ["cpu cpu:0"] and not warned
    chosen = 'functrax.config.update("jax_platforms", "cpu")\n'
    for backend in ("auto", "cuda"):
        given = {"FUNCTRAX_CUDA_DRIVER": "simulated", "FUNCTRAX_BACKEND": backend}
        lines, warned = run(chosen + program, **given)
        assert lines == ["cpu cpu:0"] and not warned
    lines, _ = run(chosen.replace("cpu", "cuda") + program, FUNCTRAX_CUDA_DRIVER="simulated")
    assert lines == ["gpu cuda:0"]


def test_a_gpu_that_cannot_be_used_is_told_of_once() -> None:
    program = "x = jnp.ones(3)\ny = jnp.asarray(np.ones(3)) + x\nprint(y.device, x.device)"
    driver = "no driver of that name"  # as where libcuda cannot be opened
    lines, warned = run(program, FUNCTRAX_CUDA_DRIVER=driver)
    assert lines == ["cpu:0 cpu:0"]
    assert warned.count("UserWarning") == 1 and "run on the CPU" in warned and driver in warned
    lines, warned = run(program, FUNCTRAX_CUDA_DRIVER=driver, CUDA_VISIBLE_DEVICES="")
    assert lines == ["cpu:0 cpu:0"] and not warned
