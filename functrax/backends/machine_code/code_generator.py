"""LLVM, in the library that llvmlite brings: from text to object code or assembly for a target.

It is loaded when the first new kernel is compiled: a process that finds all of its kernels on disk
never does.  :func:`library` identifies the LLVM that there is without loading it, for the keys of
the disk cache.  Its functions are called directly
(:mod:`functrax.backends.machine_code.llvm_bindings`), without llvmlite's package.

Several threads may compile at the same time: each call has a target machine of its own.

Start at :func:`generator`.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Final

from functrax.backends import targets
from functrax.backends.machine_code.llvm_bindings import Library, folder, library_file
from functrax.backends.targets import Target
from functrax.core.process.locks import around_fork, new_lock

#: How well instructions are selected and scheduled; no passes run before that.
OPTIMIZATION: Final = 2
#: A part of it takes a third of the time and does nothing for kernels: rewriting the addresses in
#: loops, which are short sums as they are written.
LEFT_OUT: Final = "disable-lsr"

#: The most seconds that a fork waits for other threads that are in LLVM.
_MOST_WAIT: Final = 10.0
#: A loop over vectors, as most kernels have one.
_SOME_CODE: Final = """
define void @warm_up(ptr %p, i64 %n) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %place = getelementptr float, ptr %p, i64 %i
  %x = load <16 x float>, ptr %place, align 4
  %z = fmul <16 x float> %x, %x
  store <16 x float> %z, ptr %place, align 4
  %next = add i64 %i, 16
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


class _LeftOut:
    """A block in which LLVM does without ``LEFT_OUT``, if it is needed.

    Other users of LLVM in this process may want it.  Switching takes 0.2 ms: who compiles several
    kernels puts one block around them all; blocks nest, and several threads may be in one.
    What threads do in LLVM they do in such blocks, so a fork waits for their ends.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()  # in how many blocks each thread is
        self._switch: Callable[[], None] | None = None  # switches it on again
        around_fork(self._wait, self._changed.release, self._alone)

    def __enter__(self) -> None:
        with self._changed:
            self._inside[threading.get_ident()] += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._inside -= Counter((threading.get_ident(),))  # which keeps none that is 0
            if not self._inside and self._switch is not None:
                self._switch()
                self._switch = None
            self._changed.notify_all()

    def _wait(self) -> None:
        """Wait until no other thread is in LLVM, for its locks are not opened by a fork."""
        self._changed.acquire()
        self._changed.wait_for(lambda: self._inside.keys() <= {threading.get_ident()}, _MOST_WAIT)

    def _alone(self) -> None:
        own = self._inside[threading.get_ident()]
        self._inside = +Counter({threading.get_ident(): own})
        self._changed.release()

    def need(self, llvm: Library) -> None:
        """Switch it off, inside a block."""
        with self._changed:
            if self._switch is None:
                llvm.set_option(f"-{LEFT_OUT}=true")
                self._switch = partial(llvm.set_option, f"-{LEFT_OUT}=false")


left_out: Final = _LeftOut()


class CodeGenerator:
    """Target machines that are all alike.

    Args:
      wanted: what they make code for.

    Attributes:
      cpu: the name of the processor, as LLVM knows it.
      features: its instruction sets, as LLVM sees them.
      version: of LLVM.
    """

    def __init__(self, wanted: Target) -> None:
        self._llvm = Library(library_file())
        self._system = wanted.triple
        self._llvm.initialize(all_kinds=bool(self._system))
        cpu, features = self._llvm.host()
        self.cpu = wanted.cpu or cpu
        self.features = "" if wanted.cpu else features
        self.version = self._llvm.version()
        self._free = [self._new_machine()]  # machines that no thread uses now

    def _new_machine(self) -> int:
        return self._llvm.new_machine(self.cpu, self.features, OPTIMIZATION, self._system)

    def warm_up(self) -> None:
        """Make code that nobody needs: the first code that LLVM makes takes twice as long."""
        self.object_code(_SOME_CODE)

    def object_code(self, text: str) -> bytes:
        """A module as an object file; several threads may ask for some at the same time.

        Raises:
          RuntimeError: if LLVM does not take the text.
        """
        return self._compiled(text, True)

    def assembly(self, text: str) -> str:
        """A module as assembly, for people."""
        return self._compiled(text, False).decode()

    def _compiled(self, text: str, as_object: bool) -> bytes:
        """What LLVM makes of a module, without what is left out."""
        with left_out:
            try:
                machine = self._free.pop()
            except IndexError:
                machine = self._new_machine()
            try:
                left_out.need(self._llvm)
                return self._llvm.compiled(machine, text, as_object)
            finally:
                self._free.append(machine)


_only_one: Final = new_lock()


def generator() -> CodeGenerator:
    """The one of this process.

    Raises:
      ImportError: if llvmlite is not installed.
    """
    with left_out, _only_one:
        return _generator()


@cache
def _generator() -> CodeGenerator:
    return CodeGenerator(targets.host())


_others: Final[dict[tuple[str, str], CodeGenerator]] = {}


def generator_for(wanted: Target) -> CodeGenerator:
    """The one for a target, which may be of another architecture.

    Raises:
      ImportError: if llvmlite is not installed.
    """
    if not wanted.cpu or wanted is targets.host():
        return generator()
    key = wanted.cpu, wanted.triple
    with left_out, _only_one:
        if key not in _others:
            _others[key] = CodeGenerator(wanted)
        return _others[key]


@cache
def library() -> str:
    """What tells the LLVM that would be loaded from others: its version, and the library's size.

    Asking the package's metadata would take as long as a program's first call.
    """
    found = folder()
    if found is None:
        return "none"
    try:
        with open(os.path.join(found, "_version.py"), encoding="utf-8") as file:
            version = file.read()
        path = library_file()
        size = os.stat(path).st_size
    except OSError:  # installed in an unusual way: as a zip file, say
        return f"LLVM {generator().version}"
    return f"{version}\n{os.path.basename(path)} {size}"
