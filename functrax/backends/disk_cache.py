"""Machine code on disk, for the next process.

What enters: a key (a hash of everything that the code depends on), the code, and a line about it.
What leaves: the code, if a sound entry of that key is there.  An entry is one file, named by its
key, in ``kernels/`` below the cache's directory: a header (magic, form, lengths, key, checksum),
the line about it, the code.

The directory is used only if it belongs to this user and nobody else can write to it; it is opened
once, and all files are reached through its descriptor, so it cannot be exchanged afterwards.  Any
number of processes may use it at once without locks: entries appear by renaming, are never changed,
and may vanish at any time.  An entry that is damaged, foreign or half-written counts as missing,
and no failure of the disk is fatal: the first one is logged.

The size is bounded: ``ledger`` is a file as many bytes long as blocks of ``BLOCK`` bytes were
written; when that passes the limit, whoever notices lists the directory, removes the entries that
were not used for longest, and sets the ledger right.

Start at :meth:`DiskCache.get` and :meth:`DiskCache.put`; :func:`current` is the cache in use.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final

from functrax.core.options.config import state as options
from functrax.core.options.option_text import byte_count
from functrax.core.process.locks import new_lock
from functrax.core.records import record

try:  # hashlib loads all of OpenSSL, which takes longer than a program's first call may
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

KEY_BYTES: Final = 32
MAGIC: Final = b"functrax"
FORM: Final = 1
#: Magic, form, bytes about the payload, bytes of the payload, key; then the checksum of all else.
_HEADER: Final = struct.Struct(f"<8sIIQ{KEY_BYTES}s")
_SUM_BYTES: Final = 32
#: What the size of a file is rounded up to.
BLOCK: Final = 4096
#: Seconds after which a use is noted again, and a file that is being written was given up.
_STALE: Final = 3600.0
_LEDGER: Final = "ledger"
_TEMPORARY: Final = "tmp-"
_OPEN: Final = os.O_CLOEXEC | os.O_NOFOLLOW
#: Opening a link, a file of another user, a socket.
_NOT_A_FILE_OF_OURS: Final = (errno.ELOOP, errno.EMLINK, errno.EACCES, errno.EPERM, errno.ENXIO)


def content_key(*parts: str) -> bytes:
    """A hash of texts, which no other texts have."""
    hasher = blake2b(digest_size=KEY_BYTES)
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.digest()


@record
class CacheStats:
    """What a cache has done in this process.

    Args:
      hits: entries that were found.
      misses: entries that were not there.
      damaged: entries that were there and not sound; they count as misses, too.
      writes: entries written.
      evicted: entries removed to keep the size.
      bytes_read: of entries found.
      bytes_written: of entries written.
    """

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    writes: int = 0
    evicted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@record
class CacheEntry:
    """What a cache holds.

    Args:
      payload: the code.
      about: a line about it, for people and for checks.
    """

    payload: bytes
    about: str


def pack(key: bytes, payload: bytes, about: str) -> bytes:
    """An entry as a file."""
    line = about.encode()
    header = _HEADER.pack(MAGIC, FORM, len(line), len(payload), key)
    return b"".join((header, _checksum(header, line, payload), line, payload))


def unpack(data: bytes, key: bytes) -> CacheEntry | None:
    """The entry that a file holds, or None if it is not a sound one of that key."""
    start = _HEADER.size + _SUM_BYTES
    if len(data) < start:
        return None
    magic, form, line_size, payload_size, own_key = _HEADER.unpack_from(data)
    if magic != MAGIC or form != FORM or own_key != key:
        return None
    if len(data) != start + line_size + payload_size:
        return None
    line, payload = data[start : start + line_size], data[start + line_size :]
    if _checksum(data[: _HEADER.size], line, payload) != data[_HEADER.size : start]:
        return None
    return CacheEntry(payload, line.decode("utf-8", "replace"))


def _checksum(header: bytes, line: bytes, payload: bytes) -> bytes:
    hasher = blake2b(header, digest_size=_SUM_BYTES)
    hasher.update(line)
    hasher.update(payload)
    return hasher.digest()


class _UnsafeDirectoryError(OSError):
    """Others could put code there."""


class _Directory:
    """An open directory, which is closed when no thread uses it any more."""

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
        _check_owner(os.fstat(self.fd), path)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class DiskCache:
    """Entries in a directory.

    Args:
      root: the directory, which is made if it is not there; None for no cache at all.
      limit: the most bytes on disk, in whole blocks of files.
    """

    def __init__(self, root: str | None, limit: int) -> None:
        self.root = root
        self.limit = limit
        self.stats = CacheStats()
        self._directory: _Directory | None = None
        self._reads = self._writes = root is not None  # what the disk has not failed at
        self._warned = False
        self._lock = new_lock()  # of the statistics and of opening

    def filled(self) -> bool:
        """Whether something was ever written to it."""
        return self.root is not None and os.path.exists(os.path.join(self.root, "kernels", _LEDGER))

    def get(self, key: bytes) -> CacheEntry | None:
        """The entry of a key, or None if there is no sound one."""
        if not self._reads:
            return None
        data = None
        try:
            directory = self._opened()
            if directory is not None:
                data = _read(directory, key.hex(), self.limit)
        except OSError as error:
            self._reads = self._writes = False
            self._warn(error)
            return None
        entry = None if data is None else unpack(data, key)
        if data is None or entry is None:
            self._count(misses=1)
            if data is not None:
                self.discard(key)
            return None
        self._count(hits=1, bytes_read=len(data))
        return entry

    def put(self, key: bytes, payload: bytes, about: str = "") -> None:
        """Keep an entry, if the disk lets us."""
        data = pack(key, payload, about)
        blocks = _blocks(len(data))
        if not self._writes or blocks * BLOCK > self.limit:
            return
        try:
            try:
                directory = self._made()
                _write(directory, key.hex(), data)
            except FileNotFoundError:  # somebody removed the directory
                self._directory = None
                directory = self._made()
                _write(directory, key.hex(), data)
            self._count(writes=1, bytes_written=len(data))
            self._enter(directory, blocks)
        except OSError as error:
            self._writes = False
            self._warn(error)

    def discard(self, key: bytes) -> None:
        """Drop an entry whose content turned out to be of no use."""
        self._count(damaged=1)
        if self._directory is not None:
            _unlink(key.hex(), self._directory)

    # ---- the directory --------------------------------------------------------------------------

    def _opened(self) -> _Directory | None:
        """The directory; None if it is not there."""
        assert self.root is not None
        with self._lock:
            if self._directory is None:
                # the path that the user chose may go through links; what lies below it may not
                root = os.path.realpath(self.root)
                try:
                    _check_owner(os.stat(root), root)
                    self._directory = _Directory(os.path.join(root, "kernels"))
                except FileNotFoundError:
                    return None
            return self._directory

    def _made(self) -> _Directory:
        """The directory, which is made if it is not there."""
        assert self.root is not None
        directory = self._opened()
        if directory is None:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            os.makedirs(os.path.join(self.root, "kernels"), mode=0o700, exist_ok=True)
            directory = self._opened()
        if directory is None:
            raise FileNotFoundError(f"{self.root} was removed")
        return directory

    def _warn(self, error: OSError) -> None:
        """Say, once, that the disk is of no use."""
        with self._lock:
            if self._warned:
                return
            self._warned = True
        import logging  # which takes a while to load

        logging.getLogger("functrax").warning(
            "compiled kernels are not kept on disk: %s (directory %s; FUNCTRAX_CACHE=0 switches "
            "the cache off, FUNCTRAX_CACHE_DIR puts it elsewhere)",
            error,
            self.root,
        )

    def _count(self, **more: int) -> None:
        with self._lock:
            now = self.stats
            self.stats = replace(now, **{n: getattr(now, n) + k for n, k in more.items()})

    # ---- the size -------------------------------------------------------------------------------

    def _enter(self, directory: _Directory, blocks: int) -> None:
        """Note what was written in the ledger, and make room when it passes the limit."""
        flags = os.O_WRONLY | os.O_APPEND | _OPEN
        try:
            ledger = os.open(_LEDGER, flags, dir_fd=directory.fd)
            new = False
        except FileNotFoundError:
            ledger = os.open(_LEDGER, flags | os.O_CREAT, 0o600, dir_fd=directory.fd)
            new = True
        try:
            os.write(ledger, bytes(blocks))
            if new or os.fstat(ledger).st_size * BLOCK > self.limit:
                os.ftruncate(ledger, self._make_room(directory))
        finally:
            os.close(ledger)

    def _make_room(self, directory: _Directory) -> int:
        """Remove what was not used for longest until a quarter is free; the blocks that remain."""
        files = []
        now = time.time()
        with os.scandir(directory.fd) as entries:
            for entry in entries:
                if entry.name == _LEDGER or not entry.is_file(follow_symlinks=False):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.name.startswith(_TEMPORARY):
                    if now - status.st_mtime > _STALE:
                        _unlink(entry.name, directory)
                    continue
                files.append((status.st_mtime_ns, entry.name, _blocks(status.st_size)))
        total = sum(blocks for _, _, blocks in files)
        if total * BLOCK <= self.limit:
            return total
        for _, name, blocks in sorted(files):
            if total * BLOCK <= self.limit * 3 // 4:
                break
            _unlink(name, directory)
            self._count(evicted=1)
            total -= blocks
        return total


def _read(directory: _Directory, name: str, most: int) -> bytes | None:
    """The bytes of an entry; None if there is none, empty if it is not a file of ours."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=directory.fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NOT_A_FILE_OF_OURS:
            return b""
        raise
    with open(file, "rb", buffering=0) as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most or not _is_ours(status):
            return b""
        if abs(time.time() - status.st_mtime) > _STALE:
            _touch(file)
        try:
            return stream.read()
        except OSError:
            return b""


def _write(directory: _Directory, name: str, data: bytes) -> None:
    """Make a file appear, whole, in place of one that may be there."""
    temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
    file = os.open(temporary, flags, 0o600, dir_fd=directory.fd)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError:
        _unlink(temporary, directory)
        raise


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _check_owner(status: os.stat_result, path: str) -> None:
    if not _is_ours(status):
        raise _UnsafeDirectoryError(
            f"{path} belongs to another user, or others may write to it (mode "
            f"{stat.S_IMODE(status.st_mode):o})"
        )


def _touch(file: int) -> None:
    with suppress(OSError):  # a disk that is read only; the entry may be evicted earlier
        os.utime(file)


def _unlink(name: str, directory: _Directory) -> None:
    with suppress(OSError):  # somebody else did, or it stays
        os.unlink(name, dir_fd=directory.fd)


def default_directory() -> str | None:
    """The platform's directory for caches, or None if this user has none."""
    if sys.platform == "darwin":
        root = os.path.expanduser("~/Library/Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(root):
            root = os.path.expanduser("~/.cache")
    return os.path.join(root, "functrax") if os.path.isabs(root) else None


@lru_cache(maxsize=8)
def _cache(root: str | None, limit: str) -> DiskCache:
    return DiskCache(root, byte_count(limit))


def current() -> DiskCache:
    """The cache that the options ask for."""
    if not options.cache:
        return _cache(None, options.cache_limit)
    chosen = options.compilation_cache_dir
    return _cache(default_directory() if chosen is None else chosen, options.cache_limit)
