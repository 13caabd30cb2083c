"""From LLVM IR to machine code in this process.

A text is looked for in memory, then on disk (:mod:`functrax.backends.disk_cache`), and only then
given to LLVM (:mod:`functrax.backends.machine_code.code_generator`).  Object code is loaded by
functrax itself (:mod:`functrax.backends.machine_code.object_loader`), so a process that finds all
of its kernels on disk does not load LLVM.

A kernel is asked for with :func:`request`, and waited for when its address is needed.  In a block
:func:`side_by_side`, other threads compile what has been asked for meanwhile.  In a block
:func:`texts_kept` nothing is compiled: programs that leave the process keep the texts.

Start at :func:`request`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Literal, Protocol, TypeAlias
from weakref import WeakValueDictionary

from functrax.backends import disk_cache
from functrax.backends.compile_log import found, step
from functrax.backends.machine_code import object_loader as object_code
from functrax.backends.machine_code.code_generator import (
    LEFT_OUT,
    OPTIMIZATION,
    generator,
    left_out,
    library,
)
from functrax.backends.machine_code.compile_workers import Workers
from functrax.backends.targets import target
from functrax.backends.threads import default_num_threads
from functrax.core.errors.kept import KeptError
from functrax.core.errors.typed import MachineCodeError
from functrax.core.options.config import state as options
from functrax.core.process.locks import new_lock, new_rlock
from functrax.core.records import record

#: Kernels that stay in memory although nobody uses them, for programs made again and again.
KEPT: Final = 256


@record
class CompiledCode:
    """Machine code of a kernel.

    Args:
      address: of the function; valid as long as this object lives.
      library: keeps the code alive.
      origin: whether LLVM made it now, or it was on disk.
      key: of its text and the machine.
    """

    address: int
    library: Any
    origin: Literal["llvm", "disk"]
    key: bytes

    @property
    def compiled(self) -> CompiledCode:
        """Itself: a request that is answered already."""
        return self


class LoadedFunction(Protocol):
    """Machine code at an address."""

    @property
    def address(self) -> int:
        """Where it begins."""
        ...


@record
class LaunchCode:
    """The machine code behind a launch, which keeps it alive.

    Args:
      kernel: what is launched.
      calls: the places among its parameters where the addresses of functions that it calls stand,
        with these functions.
    """

    kernel: LoadedFunction
    calls: tuple[tuple[int, LoadedFunction], ...] = ()


class NewRequest:
    """Machine code that LLVM makes: in the thread that first gets to it, once.

    Args:
      machine: remembers it.
      key: of the text.
      text: a module.
      name: for the log.
      cache: where it is written.
    """

    def __init__(
        self, machine: Machine, key: bytes, text: str, name: str, cache: disk_cache.DiskCache
    ) -> None:
        self.key, self.text, self.cache = key, text, cache
        self.machine, self.name = machine, name
        self._lock = new_lock()
        #: What LLVM made, and in how many milliseconds; taken by `compiled`.
        self._made: tuple[bytes, float] | KeptError | None = None
        self._done: CompiledCode | None = None

    @property
    def waits(self) -> bool:
        """Whether LLVM has not done its work yet."""
        return self._made is None and self._done is None

    def make(self) -> None:
        """Let LLVM do its work; what goes wrong is raised by :attr:`compiled`."""
        with self._lock:  # whoever comes second waits
            if not self.waits:
                return
            with step("llvm", self.name):
                begin = time.perf_counter()
                try:
                    self._made = generator().object_code(self.text), _since(begin)
                except Exception as error:
                    self._made = KeptError(error)

    @property
    def compiled(self) -> CompiledCode:
        """The machine code, made now if it was not.

        Raises:
          RuntimeError: if LLVM does not take the text.
          ImportError: if there is no LLVM.
          MachineCodeError: if what LLVM made cannot be loaded.
        """
        if self._done is None:
            self.make()
            with self._lock:
                if isinstance(self._made, KeptError):
                    raise self._made.again()
                if self._made is not None:
                    self._done = self.machine.finish(self, *self._made)
                    self._made, self.text = None, ""
        assert self._done is not None, "it was made"
        return self._done


@record(eq=False)
class KernelText:
    """A kernel of a program that leaves the process: its text, which is not compiled here.

    Args:
      text: a module with one function, which others may call.
      name: for people.
    """

    text: str
    name: str

    @property
    def compiled(self) -> KernelText:
        """Itself: nothing is made of it here."""
        return self

    @property
    def address(self) -> int:
        """A number that no other text has that is alive; nothing is there."""
        return id(self)


class KernelTexts:
    """The texts of a program that leaves the process, each once."""

    def __init__(self) -> None:
        self._known: dict[str, KernelText] = {}

    def kept(self, text: str, name: str) -> KernelText:
        """A text among them."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = KernelText(text, name)
        return found


#: A kernel's machine code, there or still to be made, or its text alone.
Request: TypeAlias = CompiledCode | NewRequest | KernelText


def make_all(requests: Sequence[NewRequest]) -> None:
    """Let LLVM do its work for several requests, in one module as far as they can share one."""
    if len(requests) > 1:
        held = [x for x in requests if x._lock.acquire(blocking=False)]
        try:
            _make_together([x for x in held if x.waits])
        finally:
            for x in held:
                x._lock.release()
    for x in requests:
        x.make()  # what is not made yet


def _make_together(requests: Sequence[NewRequest]) -> None:
    """Make the machine code of requests in one module; if LLVM refuses one, that of none."""
    from functrax.backends.machine_code import joined_modules  # which few programs need

    requests = [x for x in requests if joined_modules.joinable(x.text)]
    if len(requests) < 2:
        return
    begin = time.perf_counter()
    with step("llvm", " + ".join([x.name for x in requests])):
        try:
            text = joined_modules.joined([x.text for x in requests])
            codes = joined_modules.parts(generator().object_code(text), len(requests))
        except Exception:  # each by itself says what is wrong
            return
    took = _since(begin) / sum([len(x.text) for x in requests])
    for x, code in zip(requests, codes, strict=True):
        x._made = code, took * len(x.text)


class _Open(threading.local):
    """The threads that help this one, and what keeps its texts."""

    workers: Workers[NewRequest] | None = None
    texts: KernelTexts | None = None


_open: Final = _Open()


@contextmanager
def side_by_side() -> Iterator[None]:
    """Let other threads compile what is asked for in this block; at its end all of it is made."""
    threads = default_num_threads() if options.compile_threads else 1
    if threads == 1 or _open.workers is not None or _open.texts is not None:
        yield
        return
    workers = _open.workers = Workers(threads, make_all)
    with left_out:
        try:
            yield
            workers.finish()
        finally:
            _open.workers = None
            workers.cancel()


@contextmanager
def texts_kept() -> Iterator[None]:
    """A block in which this thread keeps the texts of kernels instead of compiling them."""
    before, _open.texts = _open.texts, KernelTexts()
    try:
        yield
    finally:
        _open.texts = before


def kept_texts() -> KernelTexts | None:
    """What keeps the texts of this thread; None where kernels are compiled."""
    return _open.texts


class Machine:
    """What compiles and remembers the kernels of a process.

    Attributes:
      count: how many kernels LLVM has compiled.
    """

    def __init__(self) -> None:
        self.count = 0
        self._known: WeakValueDictionary[bytes, CompiledCode] = WeakValueDictionary()
        self._recent: dict[bytes, CompiledCode] = {}  # the last to be used is the last
        self._asked: WeakValueDictionary[bytes, NewRequest] = WeakValueDictionary()
        self._lock = new_rlock()  # of all the above

    def request(self, text: str, name: str = "") -> Request:
        """The machine code of a module with one function, which may be made later.

        Args:
          text: the module.
          name: for the log.
        """
        cache = disk_cache.current()
        key = disk_cache.content_key(circumstances(), text)
        with self._lock:
            asked = self._asked.get(key)
            if asked is not None and asked.cache is cache:
                found("memory")
                return asked
            before = key in self._known
            known = self.known(key, cache)
            if known is not None:
                found("memory" if before else "disk")
                return known
            found("llvm")
            asked = self._asked[key] = NewRequest(self, key, text, name, cache)
        workers = _open.workers
        if workers is not None:
            workers.add(asked)
        return asked

    def known(self, key: bytes, cache: disk_cache.DiskCache) -> CompiledCode | None:
        """The machine code of a key, if it is in memory or on disk."""
        with self._lock:
            known = self._known.get(key)
            if known is None:
                entry = cache.get(key)
                if entry is None:
                    return None
                try:
                    known = _loaded(key, entry.payload, "disk")
                except ValueError:  # sound, and yet of no use
                    cache.discard(key)
                    return None
            self._keep(known)
        return known

    def finish(self, request: NewRequest, code: bytes, took: float) -> CompiledCode:
        """The machine code of a request, which is remembered and written to disk."""
        try:
            known = _loaded(request.key, code, "llvm")
        except ValueError as error:
            raise _load_error(error) from error
        with self._lock:
            self.count += 1
            self._keep(known)
            self._asked.pop(known.key, None)
        llvm = generator()
        about = f"{took:.1f} ms by LLVM {llvm.version} for {llvm.cpu} {llvm.features}"
        request.cache.put(known.key, code, about)
        return known

    def _keep(self, known: CompiledCode) -> None:
        self._known[known.key] = known
        self._recent.pop(known.key, None)
        self._recent[known.key] = known
        if len(self._recent) > KEPT:
            del self._recent[next(iter(self._recent))]


def _loaded(key: bytes, code: bytes, origin: Literal["llvm", "disk"]) -> CompiledCode:
    """Object code in memory; ValueError if it cannot be loaded."""
    try:
        loaded = object_code.load(code)
    except OSError as error:
        raise _load_error(error) from error
    return CompiledCode(loaded.address, loaded, origin, key)


def _load_error(error: Exception) -> MachineCodeError:
    """What is raised for object code that is not loaded."""
    if isinstance(error, OSError):
        fix = "free memory, or raise the limits on it and on the number of its areas"
    else:
        fix = "report this: LLVM made code that functrax does not load"
    return MachineCodeError("a kernel's machine code cannot be loaded", got=str(error), fix=fix)


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3


@cache
def circumstances() -> str:
    """Everything but its text that decides what a kernel's machine code is."""
    version = sys.modules["functrax"].__version__
    processor = target().identity or f"{generator().cpu} {generator().features}"
    return "\n".join((version, library(), processor, f"O{OPTIMIZATION} {LEFT_OUT}"))


@cache
def machine() -> Machine:
    """The one of this process."""
    return Machine()


def request(text: str, name: str = "") -> Request:
    """The machine code of a kernel's text, compiled the first time, now or later."""
    texts = _open.texts
    return machine().request(text, name) if texts is None else texts.kept(text, name)
