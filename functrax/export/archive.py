"""A file with a program: a zip whose members are not compressed, so that its size is what it takes.

What is read may come from anybody.  Members are never written to disk; their bytes are those of the
file, and all that a directory of a zip can claim is compared with what is there.

Start at :func:`pack` and :func:`unpack`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from typing import Any, Final

from functrax.core.boundaries.tracebacks import deliberate
from functrax.core.errors.typed import FileFormatError

MANIFEST: Final = "manifest.json"
FORMAT: Final = "functrax program"
#: Of what is written; a larger one is refused, smaller ones are read.
VERSION: Final = 1
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same bytes for the same program


def pack(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The bytes of a file.

    Args:
      manifest: what there is to know, as JSON has it.
      members: the other members, by name; their hashes become part of the manifest.
    """
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    head = {"format": FORMAT, "version": VERSION, **manifest, "sha256": hashes}
    text = json.dumps(head, indent=1, ensure_ascii=False).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as file:
        for name, data in {MANIFEST: text, **members}.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            file.writestr(info, data)
    return made.getvalue()


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the other members of a file.

    Raises:
      FileFormatError: if it is no such file, damaged, or of a newer format.
    """
    members = _members(data)
    try:
        manifest = json.loads(members.pop(MANIFEST, b"").decode())
    except (ValueError, RecursionError) as error:
        raise damaged(f"{MANIFEST}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise damaged(f"{MANIFEST} does not say that this is a {FORMAT}")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise damaged(f"version {version!r}")
    if version > VERSION:
        raise FileFormatError(
            f"the file is of format {version}, and this functrax reads formats up to {VERSION}",
            got=f"a file of functrax {manifest.get('functrax')}",
            fix=f"functrax {manifest.get('functrax')} or newer",
        )
    hashes = manifest.get("sha256")
    if not isinstance(hashes, dict) or hashes.keys() != members.keys():
        raise damaged(f"members {sorted(members)}, where {MANIFEST} lists others")
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != hashes[name]:
            raise damaged(f"{name} has another hash than {MANIFEST} says")
    return manifest, members


def is_archive(data: bytes) -> bool:
    """Whether bytes are a file with a program, as far as its first and last ones say."""
    return zipfile.is_zipfile(io.BytesIO(data)) and data.startswith(b"PK")


def _members(data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            infos = file.infolist()
            names = [info.filename for info in infos]
            if len(set(names)) != len(names):
                raise damaged("a member that is there twice")
            if sum(info.file_size for info in infos) > len(data):
                raise damaged(f"members that are larger than the file's {len(data)} bytes")
            for info in infos:
                stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
                if not stored or info.compress_size != info.file_size:
                    raise damaged(f"{info.filename!r} is compressed or encrypted")
            return {info.filename: file.read(info) for info in infos}
    except FileFormatError:
        raise
    except Exception as error:  # whatever the module raises for bytes that are no zip
        raise damaged(f"{type(error).__name__}: {error}") from None


def damaged(got: str) -> FileFormatError:
    """The error that a file cannot be read."""
    return FileFormatError(
        "the file cannot be read: it is damaged, or no file that functrax wrote",
        got=got if len(got) < 300 else got[:300] + "...",
        fix="a file of functrax.save, Exported.serialize or functrax.save_tree, unchanged",
    )


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all: others see the old one or the new one.

    Args:
      path: of the file; its folder must be there.
      data: its bytes.

    Raises:
      OSError: with the path, if it cannot be written.
    """
    try:
        _write_beside(os.path.realpath(os.fspath(path)), data)
    except OSError as error:  # of a temporary file, which nobody asked for
        told = OSError(error.errno, error.strerror, os.fspath(path))
        raise deliberate(told) from None


def _write_beside(target: str, data: bytes) -> None:
    name = f"{target}.{secrets.token_hex(8)}"
    handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file."""
    with open(path, "rb") as file:
        return file.read()
