"""Shared libraries, which a linker of this machine makes.

Start at :func:`shared_object`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from functrax.backends.targets import Target, host
from functrax.core.errors.typed import UnavailableError


def shared_object(name: str, data: bytes, target: Target) -> bytes:
    """A shared library of one object file.

    Args:
      name: of the library.
      data: the object file.
      target: what it is for.

    Raises:
      UnavailableError: this machine has no linker for the target, or it failed.
    """
    machine = target.triple.partition("-")[0]
    here = target.dialect.machine == host().dialect.machine
    names = ["ld.lld", *(["ld"] if here else [f"{machine}-linux-gnu-ld"])]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise UnavailableError(
            "write: a shared library is made by a linker, and there is none",
            got=f"none of {', '.join(names)}",
            fix="install one (Debian's package binutils or lld), or write kind='static'",
        )
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "program.o"), os.path.join(folder, name)
        with open(source, "wb") as file:
            file.write(data)
        command = [found, "-shared", "-soname", name, "-z", "noexecstack", "-o", made, source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(
                "write: the linker made no shared library",
                got=f"{' '.join(command)}\n{done.stderr.strip()}",
                fix="write kind='object', and link it with the program that calls it",
            )
        with open(made, "rb") as file:
            return file.read()
