"""Files that were damaged, or made to do harm, load as they were or raise; nothing else happens."""

from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, export, nn
from functrax.export.archive import pack, unpack
from functrax.export.tensors import read_tensors, write_tensors


def _program() -> bytes:
    w = np.sin(np.arange(12, dtype=np.float32)).reshape(4, 3)
    (b,) = export.symbolic_shape("b")
    spec = functrax.ShapeDtypeStruct((b, 4), np.dtype("float32"))
    made = export.export(functrax.jit(lambda x: nn.relu(x @ w).sum(0)))(spec)
    return bytes(made.serialize())


X = np.cos(np.arange(8, dtype=np.float32)).reshape(2, 4)


def _bits(data: bytes) -> list[bytes]:
    found = export.deserialize(data)
    return [np.asarray(x).tobytes() for x in functrax.tree.leaves(found.call(X))]


def _mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with one kind of damage."""
    kind = chance.randrange(8)
    changed = bytearray(data)
    if kind == 0:  # bits
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del changed[chance.randrange(len(changed)) :]
    elif kind == 2:
        at = chance.randrange(len(changed))
        del changed[at : at + chance.randrange(1, 64)]
    elif kind == 3:
        at = chance.randrange(len(changed))
        changed[at:at] = chance.randbytes(chance.randrange(1, 64))
    elif kind == 4:  # sizes and offsets of the zip's directory
        at = data.rfind(b"PK\x05\x06") - chance.randrange(0, 200)
        changed[at : at + 4] = struct.pack("<I", chance.choice((0, 1, 2**31, 2**32 - 1)))
    elif kind == 5:
        return _rewritten(data, chance)
    elif kind == 6:
        changed += chance.randbytes(chance.randrange(1, 100))
    else:
        at = chance.randrange(len(changed))
        changed[at : at + 16] = chance.randbytes(16)
    return bytes(changed)


#: What is put in the place of a number or a word in a text whose hash is right again.
_WORDS = (
    *(
        "0",
        "-1",
        "2",
        "9999999999",
        "99999999999999999999999",
        "1e400",
        "nan",
        "${b}",
        "${c}",
        "[]",
    ),
    *("null", "true", '"x"', "((((", "}", "{", "@relu#9", "custom_jvp_call", "while", "f64", ""),
    *("../../etc/passwd", "${b*b*b*b*b*b*b*b}", "${b**16}", "${9999999999*9999999999}", "iota"),
)


def _rewritten(data: bytes, chance: random.Random) -> bytes:
    """A file whose text is another one, and whose hashes and sums fit that."""
    manifest, members = unpack(data)
    rest = {k: v for k, v in manifest.items() if k not in ("format", "version", "sha256")}
    name = chance.choice(["manifest", *members])
    if name == "manifest":
        text = json.dumps(rest)
    elif name.endswith(".safetensors"):
        raw = bytearray(members[name])
        raw[chance.randrange(len(raw) // 2)] = chance.randrange(256)
        members[name] = bytes(raw)
        return pack(rest, members)
    else:
        text = members[name].decode()
    words = text.split(" ")
    at = chance.randrange(len(words))
    words[at] = chance.choice((*_WORDS, words[chance.randrange(len(words))]))
    text = " ".join(words)
    if name != "manifest":
        members[name] = text.encode()
        return pack(rest, members)
    try:
        return pack(json.loads(text), members)
    except (ValueError, AttributeError, TypeError):
        return data


def _check(seeds: range) -> tuple[int, int]:
    """How many mutated files loaded, and how many raised."""
    data = _program()
    want = _bits(data)
    loaded = 0
    for seed in seeds:
        changed = _mutated(data, random.Random(seed))
        try:
            found = _bits(changed)
        except errors.FunctraxError:
            continue
        loaded += 1
        if _mutated_kind(seed) != 5:
            assert found == want, seed
    return loaded, len(seeds) - loaded


def _mutated_kind(seed: int) -> int:
    return random.Random(seed).randrange(8)


def test_mutated_files() -> None:
    loaded, raised = _check(range(300))
    assert raised > 150 and loaded > 0


@pytest.mark.slow
def test_ten_thousand_mutated_files() -> None:
    loaded, raised = _check(range(300, 10_300))
    assert loaded + raised == 10_000 and raised > 5_000


@pytest.mark.parametrize("read", [export.deserialize, read_tensors], ids=["program", "tensors"])
def test_what_is_no_file_of_ours(read: Callable[[bytes], Any]) -> None:
    for data in (b"", b"PK", b"\x00" * 100, b"\xff" * 100, b"PK\x05\x06" + b"\x00" * 18, b"{}" * 9):
        with pytest.raises(errors.FileFormatError):
            read(data)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", b" " * 50_000_000)
    tracemalloc.start()
    with pytest.raises(errors.FileFormatError, match="larger than the file"):
        export.deserialize(made.getvalue())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_names_that_would_leave_the_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    manifest, members = unpack(_program())
    rest = {k: v for k, v in manifest.items() if k not in ("format", "version", "sha256")}
    for name in ("../evil", "/etc/evil", "rules/../../evil.jvp.txt", "a" * 1000, "\x00"):
        with pytest.raises(errors.FileFormatError):
            export.deserialize(pack(rest, {**members, name: b"x"}))
    assert list(tmp_path.iterdir()) == []


def test_newer_files_are_refused_with_what_is_missing() -> None:
    manifest, members = unpack(_program())
    rest = {k: v for k, v in manifest.items() if k not in ("format", "sha256")}
    newer = pack({**rest, "version": 7, "functrax": "9.1"}, members)
    with pytest.raises(errors.FileFormatError, match=r"format 7(.|\n)*functrax 9\.1 or newer"):
        export.deserialize(newer)
    text = members["program.txt"].replace(b"reduce_sum", b"reduce_wonder")
    unknown = pack(
        {k: v for k, v in rest.items() if k != "version"}, {**members, "program.txt": text}
    )
    with pytest.raises(errors.FileFormatError, match=r"no such primitive(.|\n)*reduce_wonder"):
        export.deserialize(unknown).call(X)


@pytest.mark.parametrize(
    "header",
    [
        {"x": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**63]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"x": {"dtype": "O", "shape": [1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}},
        {"x": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}},
        {"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "y": 3},
        {"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}},
        {
            "x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "y": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
        },
        {"__metadata__": {"a": 1}},
        {"__metadata__": []},
    ],
)
def test_headers_that_claim_what_is_not_there(header: Any) -> None:
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + b"\x07" * 4
    with pytest.raises(errors.FileFormatError):
        read_tensors(data)


def test_mutated_trees(tmp_path: Path) -> None:
    path = tmp_path / "tree"
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "n": [1, jnp.ones(2, "bfloat16")]}
    functrax.save_tree(path, tree)
    data = path.read_bytes()
    raised = 0
    for seed in range(300):
        chance = random.Random(seed)
        changed = bytearray(data)
        for _ in range(chance.choice((1, 3))):
            changed[chance.randrange(len(changed) - 40)] = chance.randrange(256)
        if chance.randrange(4) == 0:
            del changed[chance.randrange(len(changed)) :]
        path.write_bytes(bytes(changed))
        try:
            functrax.load_tree(path)
        except errors.FunctraxError:
            raised += 1
    assert raised > 150


def test_arrays_that_were_read_are_not_written_to() -> None:
    arrays, _ = read_tensors(write_tensors({"x": np.ones(3, np.float32)}))
    with pytest.raises(ValueError, match="read-only"):
        arrays["x"][0] = 2
