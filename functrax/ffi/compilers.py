"""The machine's compilers: text of C or C++ becomes a function in this process.

What was compiled is kept in the disk cache, by all that it depends on: the text, the flags, the
compiler, the processor; and with the content of the headers of the user's own that it includes,
which is compared before it is used.

Start at :func:`compiled`.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Final

from functrax.backends import disk_cache
from functrax.backends.machine_code.kernel_jit import circumstances
from functrax.core.errors.typed import CompilerError, UnavailableError
from functrax.ffi.registration import include_dir

#: Of a language: the variable that names its compiler, names to look for, its standard, a suffix.
_LANGUAGES: Final = {
    "c": ("CC", ("cc", "gcc", "clang"), "-std=gnu11", ".c"),
    "c++": ("CXX", ("c++", "g++", "clang++"), "-std=c++17", ".cc"),
}
_FLAGS: Final = ("-O3", "-shared", "-fPIC")
_SHOWN: Final = 3000  # characters of what a compiler says


def compiled(name: str, text: str, language: str, flags: Sequence[str]) -> ctypes.CDLL:
    """A shared object made of text.

    Args:
      name: what it is, for people.
      text: of the language.
      language: ``"c"`` or ``"c++"``.
      flags: for the compiler, behind its own.

    Raises:
      UnavailableError: there is no compiler.
      CompilerError: the compiler does not take the text.
    """
    command = [*_compiler(language), _LANGUAGES[language][2], *_FLAGS, f"-I{include_dir()}", *flags]
    key = disk_cache.content_key("code", text, *command, _identity(command[0]), circumstances())
    cache = disk_cache.current()
    entry = cache.get(key)
    if entry is not None:
        headers, machine_code = marshal.loads(entry.payload)
        if all(_content(path) == content for path, content in headers):
            return _loaded(name, machine_code)
    with tempfile.TemporaryDirectory(prefix="functrax-") as folder:
        headers, machine_code = _compile(name, text, language, command, folder)
    cache.put(key, marshal.dumps((headers, machine_code)), f"code {name}")
    return _loaded(name, machine_code)


def _compiler(language: str) -> list[str]:
    variable, names, _, _ = _LANGUAGES[language]
    chosen = shlex.split(os.environ.get(variable, ""))
    for name in [chosen[0]] if chosen else names:
        found = shutil.which(name)
        if found is not None:
            return [found, *chosen[1:]]
    raise UnavailableError(
        f"code: there is no compiler of {language.upper()} on this machine",
        got=f"{variable}={shlex.join(chosen)}" if chosen else f"no {', '.join(names)} on the PATH",
        fix=f"install one (apt install gcc g++), or name one by the variable {variable}",
    )


def _identity(compiler: str) -> str:
    """What tells a compiler from another one of its name."""
    path = os.path.realpath(compiler)
    status = os.stat(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _compile(
    name: str, text: str, language: str, command: Sequence[str], folder: str
) -> tuple[list[tuple[str, bytes | None]], bytes]:
    """Run the compiler: the contents of the user's headers, and the shared object."""
    paths = [os.path.join(folder, file) for file in ("code" + _LANGUAGES[language][3], "code.so")]
    source, target = paths
    made_of = os.path.join(folder, "code.d")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    whole = [*command, "-MMD", "-MF", made_of, source, "-o", target]
    said = subprocess.run(whole, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise CompilerError(
            f"code: {os.path.basename(command[0])} does not take {name}",
            got=said.stderr.replace(source, name).strip()[:_SHOWN],
            fix=f"the text is compiled by: {shlex.join(whole)}",
        )
    with open(made_of, encoding="utf-8") as file:
        _, _, listed = file.read().replace("\\\n", " ").partition(":")
    headers = [os.path.abspath(path) for path in shlex.split(listed)]
    with open(target, "rb") as binary:
        machine_code = binary.read()
    kept = [path for path in headers if path != source]
    return [(path, _content(path)) for path in kept], machine_code


def _content(path: str) -> bytes | None:
    """A hash of a file; None where there is none."""
    try:
        with open(path, "rb") as file:
            return disk_cache.content_key(file.read().hex())
    except OSError:
        return None


def _loaded(name: str, machine_code: bytes) -> ctypes.CDLL:
    """A shared object in this process, which needs no file from then on."""
    with tempfile.NamedTemporaryFile(prefix=f"functrax-{name}-", suffix=".so") as file:
        file.write(machine_code)
        file.flush()
        try:
            return ctypes.CDLL(file.name)
        except OSError as error:
            raise CompilerError(
                f"code: {name} was compiled, and cannot be loaded",
                got=str(error),
                fix="flags=('-l...',) for libraries that it needs",
            ) from None
