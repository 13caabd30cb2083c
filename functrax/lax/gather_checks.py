"""What dimension numbers of gathers and scatters must satisfy, one rule after the other.

The rules are XLA's, and each says which one is broken, in XLA's words for the parts.  Start at
:func:`check_windows`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from functrax.core.errors.typed import ShapeError
from functrax.lax.operands import Shape

if TYPE_CHECKING:
    from functrax.lax.gather_maps import GatherWindows


class _Words(NamedTuple):
    """What a gather and a scatter call the parts of their dimension numbers."""

    op: str
    window_dims: str
    dropped: str
    index_dims: str
    operand_batch: str
    indices_batch: str


_GATHER = _Words(
    "gather",
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = _Words(
    "scatter",
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


@functools.lru_cache(maxsize=1024)
def check_windows(name: str, w: GatherWindows) -> None:
    """Refuse dimension numbers that do not fit the arrays.

    Args:
      name: of the function.
      w: what they say; sizes of windows are not among it for a scatter, whose updates have them.

    Raises:
      ShapeError: for the first rule that is broken.
    """
    words = _GATHER if name == "gather" else _SCATTER
    checks = _Checks(name, words, w)
    rank = len(w.operand)
    checks.check_moved_rank()
    checks.check_axes(words.window_dims, w.window_dims, len(w.moved))
    if words is _GATHER:
        checks.check_numbers()
    checks.check_axes(words.dropped, w.dropped, rank)
    checks.check_axes(words.operand_batch, w.operand_batch, rank)
    checks.check_disjoint(words.dropped, w.dropped)
    checks.check_disjoint(words.index_dims, w.index_dims)
    checks.check_batch()
    checks.check_ranks()
    if words is _SCATTER:
        checks.check_numbers()
    checks.check_sizes()


class _Checks(NamedTuple):
    name: str
    words: _Words
    w: GatherWindows

    def fail(self, what: str, got: str = "") -> NoReturn:
        w = self.w
        moved = "result" if self.words is _GATHER else "updates"
        shapes = f"operand {w.operand}, indices {w.indices}, {moved} {w.moved}"
        if self.words is _GATHER:
            shapes += f", slice_sizes {w.window}"
        raise ShapeError(
            f"{self.name}: {what}",
            got=f"{got}, {shapes}" if got else shapes,
            fix="dimension numbers in which the last axis of the indices has one number for each "
            f"axis in {self.words.index_dims}, and each axis of the operand is a window axis, in "
            f"{self.words.dropped} (with window size 1), or a batch axis",
        )

    def check_axes(self, part: str, axes: Shape, rank: int) -> None:
        """One list of axes: sorted, each once, and in range."""
        op, got = self.words.op, f"{part} {axes}"
        if list(axes) != sorted(axes):
            self.fail(f"{part} in {op} op must be sorted", got)
        if len(set(axes)) != len(axes):
            self.fail(f"{part} in {op} op must not repeat", got)
        for place, axis in enumerate(axes):
            if not 0 <= axis < rank:
                within = f"[0, {rank}); got: {axis}"
                if part == "offset_dims":
                    what = f"Offset dimension {place} in gather op is out of bounds, {within}"
                else:
                    what = f"Invalid {part} set in {op} op; valid range is {within}"
                self.fail(what, got)

    def check_disjoint(self, part: str, axes: Shape) -> None:
        batch, words = self.w.operand_batch, self.words
        if not set(axes).isdisjoint(batch):
            self.fail(
                f"{part} and {words.operand_batch} in {words.op} op must be disjoint",
                f"{part} {axes}, {words.operand_batch} {batch}",
            )

    def check_moved_rank(self) -> None:
        w = self.w
        rank = len(w.indices) - 1 + len(w.window_dims)
        if not w.indices:
            self.fail("the indices have no last axis, which would hold one index")
        if len(w.moved) != rank:
            self.fail(f"Updates tensor must be of rank {rank}; got {len(w.moved)}.")

    def check_numbers(self) -> None:
        """For which axes the numbers of an index are."""
        w, words = self.w, self.words
        count, last = len(w.index_dims), len(w.indices) - 1
        if count != w.indices[-1]:
            self.fail(
                f"{words.op.capitalize()} op has {count} elements in {words.index_dims} and the "
                f"bound of dimension index_vector_dim={last} of indices is {w.indices[-1]}. These "
                "two numbers must be equal.",
            )
        got = f"{words.index_dims} {w.index_dims}"
        if any(not 0 <= a < len(w.operand) for a in w.index_dims):
            suffix = "" if words is _GATHER else " mapping"
            self.fail(f"Invalid {words.index_dims}{suffix}; domain is [0, {len(w.operand)})", got)
        if len(set(w.index_dims)) != count:
            self.fail(f"{words.index_dims} in {words.op} op must not repeat", got)

    def check_batch(self) -> None:
        """The batch axes of operand and indices."""
        w, words = self.w, self.words
        op = words.op.capitalize()
        got = f"{words.operand_batch} {w.operand_batch}, {words.indices_batch} {w.indices_batch}"
        if len(set(w.indices_batch)) != len(w.indices_batch):
            self.fail(f"{words.indices_batch} in {words.op} op must not repeat", got)
        rank = len(w.indices)
        if any(not 0 <= a < rank for a in w.indices_batch):
            self.fail(
                f"Invalid {words.indices_batch} set in {words.op} op; valid range is [0, {rank})",
                got,
            )
        if rank - 1 in w.indices_batch:
            self.fail(
                f"{op} op cannot have the index vector dimension as a batching dimension", got
            )
        if len(w.operand_batch) != len(w.indices_batch):
            self.fail(
                f"{op} op requires equal numbers of {words.operand_batch} and "
                f"{words.indices_batch}",
                got,
            )
        sizes = _sizes(w.operand, w.operand_batch)
        if sizes != _sizes(w.indices, w.indices_batch):
            self.fail(
                f"{op} op requires operand batching dimensions and indices batching dimensions to "
                "have the same shape",
                got,
            )

    def check_ranks(self) -> None:
        """How many axes the windows have."""
        w = self.w
        rank, size = len(w.operand), len(w.window_dims) + len(w.dropped) + len(w.operand_batch)
        if self.words is _SCATTER:
            if rank != size:
                self.fail(
                    f"Scatter op has window of size {size}; doesn't match operand of rank {rank}."
                )
            return
        if len(w.window) != rank:
            self.fail("Gather op must have one slice size for every input dimension")
        if rank != size:
            self.fail(
                "All components of the offset index in a gather op must either be a offset "
                "dimension or explicitly collapsed/batching",
                f"{w.window_dims} and {w.dropped} and {w.operand_batch} for rank {rank}",
            )

    def check_sizes(self) -> None:
        """The windows' sizes, and how many there are."""
        w = self.w
        if self.words is _SCATTER:
            self._check_updates()
            return
        for axis, (size, limit) in enumerate(zip(w.window, w.operand, strict=True)):
            if not 0 <= size <= limit:
                self.fail(
                    f"Slice size at index {axis} in gather op is out of range, must be within "
                    f"[0, {limit} + 1), got {size}"
                )
        for place, axis in enumerate(w.dropped):
            if w.window[axis] != 1:
                self.fail(
                    "Gather op can only collapse slice dims with bound 1, but bound is "
                    f"{w.window[axis]} for index {axis} at position {place}."
                )
        for place, axis in enumerate(w.operand_batch):
            if w.window[axis] > 1:
                self.fail(
                    "Gather op can only have operand batching dims with bound 0/1, but bound is "
                    f"{w.window[axis]} for index {axis} at position {place}."
                )

    def _check_updates(self) -> None:
        w = self.w
        kept = [a for a in range(len(w.operand)) if a not in w.absent]
        for axis, through in zip(kept, w.window_dims, strict=True):
            if w.moved[through] > w.operand[axis]:
                self.fail(
                    "Bounds of the window dimensions of updates must not exceed the bounds of the "
                    f"corresponding dimensions of operand, {w.operand[axis]} for axis {axis}; got "
                    f"{w.moved[through]}"
                )
        counts = tuple(n for k, n in enumerate(w.moved) if k not in w.window_dims)
        if counts != w.indices[:-1]:
            self.fail(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
                f"corresponding dimensions of scatter indices, {w.indices[:-1]}; got {counts}"
            )


def _sizes(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(shape[a] for a in axes)
