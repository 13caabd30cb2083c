"""The cache on disk: what comes back, what is not trusted, and how it keeps its size."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import functrax
from functrax.backends import disk_cache
from functrax.backends.disk_cache import BLOCK, DiskCache, content_key, pack, unpack
from functrax.core.options.config import config

KEY = content_key("kernel")
CODE = bytes(range(256)) * 3
ROOT = str(Path(functrax.__file__).parents[1])


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def cache_at(root, limit=1 << 20):
    return DiskCache(str(root), limit)


def entry_file(root, key=KEY):
    return root / "kernels" / key.hex()


def files(root):
    return sorted(p.name for p in (root / "kernels").iterdir() if p.name != "ledger")


def filled(root):
    cache_at(root).put(KEY, CODE, "about it")
    return entry_file(root)


# ---- what comes back ----------------------------------------------------------------------------


def test_an_entry_comes_back_in_another_cache_object(root):
    first, second = cache_at(root), cache_at(root)
    assert first.get(KEY) is None
    assert not root.exists()  # looking makes nothing
    first.put(KEY, CODE, "about it")
    found = second.get(KEY)
    assert (found.payload, found.about) == (CODE, "about it")
    assert second.get(content_key("another")) is None
    size = entry_file(root).stat().st_size
    assert (first.stats.misses, first.stats.writes, first.stats.bytes_written) == (1, 1, size)
    assert (second.stats.hits, second.stats.misses, second.stats.bytes_read) == (1, 1, size)


def test_what_is_made_is_private(root):
    old = os.umask(0)
    try:
        filled(root)
    finally:
        os.umask(old)
    for path, mode in ((root, 0o700), (root / "kernels", 0o700), (entry_file(root), 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_keys_tell_texts_apart():
    assert content_key("ab", "c") != content_key("a", "bc") != content_key("abc")
    assert content_key("a") == content_key("a")
    assert len(KEY) == disk_cache.KEY_BYTES


def test_a_directory_that_was_removed_is_made_again(root):
    cache = cache_at(root)
    cache.put(KEY, CODE)
    for path in (*(root / "kernels").iterdir(), root / "kernels", root):
        path.unlink() if path.is_file() else path.rmdir()
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY).payload == CODE
    assert cache_at(root).get(KEY).payload == CODE


# ---- damage -------------------------------------------------------------------------------------


def test_every_truncation_and_every_flipped_byte_is_noticed():
    data = pack(KEY, CODE, "about it")
    assert unpack(data, KEY).payload == CODE
    for size in range(len(data)):
        assert unpack(data[:size], KEY) is None
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        assert unpack(bytes(changed), KEY) is None
    assert unpack(data + b"\0", KEY) is None


def rewrite(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def replaced(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


def link_elsewhere(path):
    target = path.parent.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


def other_version(data):
    changed = bytearray(data)
    changed[8] += 1
    return bytes(changed)


DAMAGE = {
    "empty": rewrite(lambda data: b""),
    "truncated": rewrite(lambda data: data[:-1]),
    "magic": rewrite(lambda data: b"X" + data[1:]),
    "version": rewrite(other_version),
    "payload": rewrite(lambda data: data[:-1] + b"\0"),
    "longer": rewrite(lambda data: data + b"\0"),
    "of another key": rewrite(lambda data: pack(content_key("another"), CODE, "")),
    "huge": lambda path: os.truncate(path, (1 << 20) + 1),
    "writable by others": lambda path: path.chmod(0o666),
    "a link": link_elsewhere,
    "a pipe": replaced(os.mkfifo),
}


@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_damaged_entries_are_missing_and_are_replaced(root, kind):
    path = filled(root)
    DAMAGE[kind](path)
    cache = cache_at(root)
    assert cache.get(KEY) is None
    assert (cache.stats.damaged, cache.stats.misses, cache.stats.hits) == (1, 1, 0)
    assert not os.path.lexists(path)
    cache.put(KEY, CODE)
    assert cache.get(KEY).payload == CODE


def test_entries_of_another_user_are_not_read(root, monkeypatch):
    cache = cache_at(root)
    cache.put(KEY, CODE)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.get(KEY) is None
    assert cache.stats.damaged == 1


# ---- directories that are not used --------------------------------------------------------------


def unused(cache, caplog, words):
    """The cache does nothing, and says so once."""
    cache.put(KEY, CODE)
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    (record,) = caplog.records
    assert words in record.getMessage() and record.name == "functrax"
    assert record.levelname == "WARNING"


@pytest.mark.parametrize("below", ["", "kernels"])
def test_a_directory_that_others_may_write_to(root, caplog, below):
    filled(root)
    (root / below).chmod(0o777)
    unused(cache_at(root), caplog, "others may write to it (mode 777)")
    assert entry_file(root).exists()


def test_a_directory_of_another_user(root, caplog, monkeypatch):
    filled(root)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    unused(cache_at(root), caplog, "belongs to another user")


def test_a_link_below_the_directory(root, caplog):
    filled(root)
    (root / "kernels").rename(root / "elsewhere")
    (root / "kernels").symlink_to(root / "elsewhere")
    unused(cache_at(root), caplog, str(root))


def test_a_link_to_the_directory_is_the_users_choice(root, tmp_path):
    filled(root)
    (tmp_path / "link").symlink_to(root)
    assert cache_at(tmp_path / "link").get(KEY).payload == CODE


def test_a_file_in_place_of_the_directory(root, caplog):
    root.write_text("a file")
    unused(cache_at(root), caplog, str(root))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_said_once_and_what_is_there_is_read(root, caplog, monkeypatch, code):
    filled(root)

    def full(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", full)
    cache = cache_at(root)
    for n in range(3):
        cache.put(content_key(str(n)), CODE)
    assert [r.getMessage().count(os.strerror(code)) for r in caplog.records] == [1]
    assert cache.get(KEY).payload == CODE
    assert files(root) == [KEY.hex()]  # nothing half-written


def test_a_read_only_directory_is_read(root, caplog, monkeypatch):
    path = filled(root)
    os.utime(path, (0, 0))
    really_open = os.open

    def read_only(name, flags, *args, **kwargs):
        if flags & (os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system")
        return really_open(name, flags, *args, **kwargs)

    def no_utime(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "utime", no_utime)
    cache = cache_at(root)
    cache.put(content_key("new"), CODE)
    cache.put(content_key("newer"), CODE)
    assert cache.get(KEY).payload == CODE
    assert len(caplog.records) == 1


# ---- the size -----------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes_first(root):
    cache = cache_at(root, limit=16 * BLOCK)
    keys = [content_key(str(n)) for n in range(16)]
    now = time.time()
    for n, key in enumerate(keys):
        cache.put(key, CODE)
        os.utime(entry_file(root, key), (now - 10_000 + n, now - 10_000 + n))
    assert len(files(root)) == 16 and cache.stats.evicted == 0
    assert cache.get(keys[0]) is not None  # now the last
    cache.put(KEY, CODE)
    kept = {keys[0].hex(), *(key.hex() for key in keys[-10:]), KEY.hex()}
    assert set(files(root)) == kept
    assert cache.stats.evicted == 5
    assert (root / "kernels" / "ledger").stat().st_size == 12


def test_the_size_stays_below_the_limit(root):
    limit = 20 * BLOCK
    for n in range(100):
        cache = cache_at(root, limit)  # as a process of its own
        cache.put(content_key(str(n)), bytes(n * 60))
        used = [p.stat().st_size for p in (root / "kernels").iterdir() if p.name != "ledger"]
        assert sum(-(-size // BLOCK) * BLOCK for size in used) <= limit
    assert cache.get(content_key("99")) is not None


def test_a_lost_ledger_is_made_from_what_is_there(root):
    cache = cache_at(root, limit=8 * BLOCK)
    for n in range(6):
        cache.put(content_key(str(n)), CODE)
    (root / "kernels" / "ledger").unlink()
    cache.put(KEY, CODE)
    assert (root / "kernels" / "ledger").stat().st_size == 7


def test_files_that_were_given_up_are_removed(root):
    cache = cache_at(root)
    cache.put(KEY, CODE)
    old, new = (root / "kernels" / f"tmp-{n}" for n in ("1-a", "2-b"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    (root / "kernels" / "ledger").unlink()
    cache.put(KEY, CODE)
    assert files(root) == [KEY.hex(), "tmp-2-b"]


def test_entries_larger_than_the_limit_are_not_kept(root):
    cache = cache_at(root, limit=2 * BLOCK)
    cache.put(KEY, bytes(3 * BLOCK))
    assert not root.exists()
    cache_at(root, limit=0).put(KEY, b"")
    assert not root.exists()


# ---- many processes -----------------------------------------------------------------------------

WORKER = """
import random, sys
from functrax.backends.disk_cache import DiskCache, content_key
cache = DiskCache(sys.argv[1], 40 * 4096)
rng = random.Random(int(sys.argv[2]))
for _ in range(400):
    n = rng.randrange(60)
    key, code = content_key(str(n)), bytes([n]) * (100 * n)
    found = cache.get(key)
    if found is None:
        cache.put(key, code)
    else:
        assert found.payload == code
s = cache.stats
assert s.damaged == 0 and s.hits and s.writes, s
print(s.evicted)
"""


def test_four_processes_at_once(root):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(root), str(seed)],
            env={**os.environ, "PYTHONPATH": ROOT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    results = [worker.communicate(timeout=300) for worker in workers]
    assert [err for _, err in results] == [""] * 4
    assert sum(int(out) for out, _ in results) > 0  # they made room for each other
    cache = cache_at(root)
    names = files(root)
    assert len(names) <= 44  # what four processes may write before one has made room
    for name in names:
        assert cache.get(bytes.fromhex(name)) is not None


# ---- options ------------------------------------------------------------------------------------


@pytest.fixture
def restored():
    names = ("cache", "compilation_cache_dir", "cache_limit")
    before = {name: config.read(name) for name in names}
    yield
    for name, value in before.items():
        config.update(name, value)


def test_the_options_choose_the_cache(root, restored, monkeypatch):
    config.update("compilation_cache_dir", root)
    config.update("cache_limit", "1MB")
    cache = disk_cache.current()
    assert (cache.root, cache.limit) == (str(root), 1 << 20)
    assert disk_cache.current() is cache
    config.update("cache", False)
    off = disk_cache.current()
    off.put(KEY, CODE)
    assert off.get(KEY) is None and off.root is None
    assert not root.exists()
    config.update("cache", True)
    config.update("compilation_cache_dir", None)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert disk_cache.current().root == "/caches/functrax"


def test_the_platforms_directories(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert disk_cache.default_directory() == "/home/me/Library/Caches/functrax"
    monkeypatch.setattr(sys, "platform", "linux")
    for relative in ("", "caches"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert disk_cache.default_directory() == "/home/me/.cache/functrax"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user without a home
    assert disk_cache.default_directory() is None
