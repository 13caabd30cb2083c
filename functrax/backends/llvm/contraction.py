"""The kernel of a contraction as LLVM IR: tiles of accumulators, then the stores of each tile.

What enters is a kernel with a :class:`~functrax.backends.kernels.tiling.Tiling`, whose file shows
the loops.  The products of a tile are added up by a function that contractions share
(``llvm/tile_sums.py``), which writes the sums to scratch memory.  Loops over these do the row
stores (``llvm/epilogue.py``), which read the sum there as they read arrays.  Where there is nothing
to do but to store them, the sums of a whole tile are written to their places at once.

Start at :meth:`Contraction.units`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from functrax.backends.kernels.accesses import coefficient, is_streamed
from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.kernels.tiling import Reading, pitch_of_columns
from functrax.backends.llvm.epilogue import Epilogue, Range
from functrax.backends.llvm.instructions import llvm_type
from functrax.backends.llvm.memory import Memory
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.tile_sums import BAKED, Sums, sums_text
from functrax.backends.llvm.turned_tiles import turn_text
from functrax.backends.llvm.writer import NAME, Names, Writer
from functrax.core.index_expr import Dim, add_terms

#: Of so many tiles of rows each asks for a part of what the next tile of columns reads.
FETCHING = 4


class Contraction:
    """Writes the loops of a contraction."""

    def __init__(self, writer: Writer, kernel: Kernel, memory: Memory, stores: Stores) -> None:
        self.writer = writer
        self.kernel = kernel
        self.memory = memory
        tiling = kernel.tiling
        assert tiling is not None
        self.tiling = tiling
        (reduction,) = kernel.stages[0].reductions
        self.dtype: np.dtype[np.generic] = reduction.how.carries[0]
        self.element = llvm_type(self.dtype, 1)
        #: The rows and the columns of a tile.
        self.height = writer.number(tiling.height, ("height",))
        self.columns = writer.number(tiling.width * tiling.lanes, ("width",))
        self.result = self._result()
        self.epilogue = Epilogue(writer, kernel, memory, stores)
        #: Where the right side of the next unit begins, for functions that fetch.
        self.next_unit = ""
        #: Where the tile of columns begins, and where those of its unit end.
        self.tile_of_columns: Range = ("", "")

    # ---- loops --------------------------------------------------------------------------------

    def units(self) -> None:
        """The loop over units, and all that is in it."""
        w, t = self.writer, self.tiling
        extents = self.kernel.extents
        if t.on_unit:
            from functrax.backends.llvm.matrix_units import configured

            w.header += configured()
        w.open_loop("%begin", [])
        unit = w.loop_index()
        parts: list[tuple[int, int, tuple[str, object]]]
        parts = [(d, extents[d], ("extent", d)) for d in t.others]
        parts.append((-1, t.blocks_of_rows(extents), ("blocks", "rows")))
        parts.append((-2, t.blocks_of_columns(extents), ("blocks", "columns")))
        sizes = [w.number(size, key) for _, size, key in parts]
        names = [d for d, _, _ in parts]
        places = dict(zip(names, self._decoded(unit, sizes), strict=True))
        for d in t.others:
            w.define_dim(d, places[d])
        if self._fetches(len(self._dims_inside())):
            following = self._decoded(w.line(f"add i64 {unit}, 1"), sizes)
            self.next_unit = self._begin_of(places, dict(zip(names, following, strict=True)))
        height, width = t.height, t.width * t.lanes
        rows = self._range(places[-1], height * t.row_tiles, t.rows, "rows")
        columns = self._range(places[-2], width * t.column_tiles, t.columns, "columns")
        if t.block is None:
            with self._in_tiles(rows, columns) as tile:
                inner = self.kernel.inner
                self.epilogue.prefetch(tile)
                length = w.extent(inner[0])
                if self.result is None or t.turned is not None:
                    self._sums(inner, length, self._waiting("0"), "0", rows[0])
                    self._finish(tile, "0")
                else:
                    with self._as_results(tile, self._waiting("0")) as place:
                        self._sums(inner, length, place, "0", rows[0])
        else:
            self._blocks(rows, columns)
        w.close_loop("1", "%end", [])
        if t.on_unit:
            from functrax.backends.llvm.matrix_units import released

            w.levels[0].lines += released()

    def _begin_of(self, here: dict[int, str], there: dict[int, str]) -> str:
        """How far another unit's first columns are from the first of all, at this one's others."""
        w, t = self.writer, self.tiling
        terms = []
        for d in t.others:
            step = coefficient(t.right.address, d)
            if step:
                way = w.line(f"sub i64 {there[d]}, {here[d]}")
                terms.append(w.line(f"mul i64 {way}, {w.number(step, ('next', d))}"))
        step = coefficient(t.right.address, t.first_column) * t.width * t.lanes * t.column_tiles
        terms.append(w.line(f"mul i64 {there[-2]}, {w.number(step, ('next', 'unit'))}"))
        total = terms[0]
        for term in terms[1:]:
            total = w.line(f"add i64 {total}, {term}")
        return total

    def _decoded(self, unit: str, sizes: Names) -> Names:
        """The index along each part of the number of a unit, the last part counting fastest."""
        w = self.writer
        out = []
        for size in reversed(sizes[1:]):
            # Units are few, and a division of short integers is short.
            short = [w.line(f"trunc i64 {x} to i32") for x in (unit, size)]
            found = w.line(f"udiv i32 {', '.join(short)}")
            found = w.line(f"zext i32 {found} to i64")
            whole = w.line(f"mul i64 {found}, {size}")
            out.append(w.line(f"sub i64 {unit}, {whole}"))
            unit = found
        out.append(unit)
        return out[::-1]

    def _range(self, block: str, size: int, d: int, what: str) -> Range:
        """Where the block of a unit begins along a dim, and where it ends."""
        w = self.writer
        grain = w.number(size, ("block", what))
        low = w.line(f"mul i64 {block}, {grain}")
        high = w.line(f"add i64 {low}, {grain}")
        return low, w.smaller(high, w.extent(d))

    @contextmanager
    def _in_tiles(self, rows: Range, columns: Range) -> Iterator[tuple[Range, Range]]:
        """The loops over tiles of a unit; gives where the tile begins, and where its block ends."""
        w, t = self.writer, self.tiling
        height, width = t.height, t.width * t.lanes
        self._open_tiles(columns, width, t.columns, t.first_column, t.right)
        column = w.loop_index()
        self.tile_of_columns = column, columns[1]
        self._open_tiles(rows, height, t.rows, t.first_row, t.left)
        if t.block is not None:
            w.define_dim(t.first_column + 1, self._slot(rows[0], columns[0], column))
        yield (w.loop_index(), rows[1]), (column, columns[1])
        w.close_loop(self.height, rows[1], [])
        w.close_loop(self.columns, columns[1], [])

    def _open_tiles(self, block: Range, size: int, d: int, first: int, side: Reading) -> None:
        """Begin the loop over tiles of a block, which defines the dim where they begin."""
        w = self.writer
        extent = self.kernel.extents[d]
        w.open_loop(block[0], [])
        begin = w.loop_index()
        moves = not side.packed and extent >= size
        last = w.number(extent - size if moves else extent, ("last tile", d))
        w.define_dim(first, w.smaller(begin, last))  # moved back, so that it is inside

    def _slot(self, first_row: str, first_column: str, column: str) -> str:
        """Where the sums of a tile are in scratch memory: block of columns by block of columns."""
        w, t = self.writer, self.tiling
        across = w.line(f"sub i64 {column}, {first_column}")
        rows = w.number(t.row_tiles * t.height, ("rows of a unit",))
        across = w.line(f"mul i64 {across}, {rows}")
        down = w.line(f"sub i64 {w.loop_index()}, {first_row}")
        down = w.line(f"mul i64 {down}, {self.columns}")
        return w.line(f"add i64 {across}, {down}")

    # ---- where sums go ------------------------------------------------------------------------

    def _result(self) -> Store | None:
        """The store of the sums as they are, in whole vectors, if that is all that follows them."""
        k, t = self.kernel, self.tiling
        if len(k.rows) != 1 or (t.turned is None and (t.on_unit or t.block is not None)):
            return None
        (store,) = k.rows
        if store.offset is not None or store.guard is not None or store.combine is not None:
            return None
        if store.value.op != "load" or store.value.attr[0] != t.scratch:
            return None
        sizes = (t.left, t.rows, t.height), (t.right, t.columns, t.width * t.lanes)
        if any(k.extents[d] < size for side, d, size in sizes if not side.packed):
            return None
        alike = k.operands[store.buffer].dtype == self.dtype
        along = coefficient(store.address, t.columns if t.turned is None else t.rows) == 1
        return store if alike and along and not is_streamed(k, store) else None

    def _waiting(self, slot: str) -> tuple[str, str]:
        """A place in scratch memory."""
        t = self.tiling
        place = self.writer.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {slot}")
        return place, str(t.width * t.lanes * self.dtype.itemsize)

    def _turned(self) -> tuple[str, str]:
        """The place in scratch memory of the columns of a tile."""
        w, t = self.writer, self.tiling
        start = w.number(t.turned or 0, ("turned",))
        place = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {start}")
        pitch = pitch_of_columns(t.height, w.lanes) * self.dtype.itemsize
        return place, w.number(pitch, ("turned", "pitch"))

    @contextmanager
    def _as_results(
        self, tile: tuple[Range, Range], scratch: tuple[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Where to write the sums: where the results are, or to scratch memory.

        That is where a tile that is not whole waits, and the row stores follow.
        """
        w, t = self.writer, self.tiling
        assert self.result is not None
        starts = {t.rows: Dim(t.first_row), t.columns: Dim(t.first_column)}
        address = self.result.address.substitute(starts)
        place = self.memory.pointer(self.result.buffer, address, True)[0]
        across = t.first_row if t.turned is None else t.first_column
        pitch = coefficient(address, across) * self.dtype.itemsize
        there = place, w.number(pitch, ("result", "pitch"))
        inside = []
        sizes = (t.left, self.height), (t.right, self.columns)
        for (side, size), (begin, end) in zip(sizes, tile, strict=True):
            if side.packed:
                reached = w.line(f"add i64 {begin}, {size}")
                inside.append(w.line(f"icmp sle i64 {reached}, {end}"))
        if not inside:
            yield there
            return
        whole = inside[0] if len(inside) == 1 else w.line(f"and i1 {inside[0]}, {inside[1]}")
        chosen = [
            w.line(f"select i1 {whole}, {type_} {x}, {type_} {y}")
            for type_, x, y in zip(("ptr", "i64"), there, scratch, strict=True)
        ]
        yield chosen[0], chosen[1]
        label = f"if{w.count()}"
        level = w.levels[-1]
        level.lines += [f"  br i1 {whole}, label %{label}, label %{label}.part", f"{label}.part:"]
        level.block = f"{label}.part"
        self.epilogue.stores(tile)
        level.lines += [f"  br label %{label}", f"{label}:"]
        level.block = label

    def _finish(self, tile: tuple[Range, Range], slot: str) -> None:
        """What follows sums that wait in scratch memory."""
        if self.tiling.turned is None:
            self.epilogue.stores(tile)
        elif self.result is None:
            self._turn(slot, self._turned())
            self.epilogue.stores(tile)
        else:
            with self._as_results(tile, self._turned()) as place:
                self._turn(slot, place)

    def _turn(self, slot: str, to: tuple[str, str]) -> None:
        """Write the columns of a tile side by side."""
        w = self.writer
        masked = self.result is not None and bool(self.tiling.height % w.lanes)
        function = w.function(turn_text(self.dtype, w.lanes, masked, NAME))
        sums, pitch = self._waiting(slot)
        w.levels[-1].lines.append(
            f"  call void {function}(ptr {sums}, ptr {to[0]}, i64 {self.height}, "
            f"i64 {self.columns}, i64 {pitch}, i64 {to[1]})"
        )

    # ---- sums ---------------------------------------------------------------------------------

    def _blocks(self, rows: Range, columns: Range) -> None:
        """The sums of all tiles of a unit, some steps at a time, then the stores."""
        w, t = self.writer, self.tiling
        assert t.block is not None
        dim, size = t.block
        inner = self.kernel.inner
        outside = inner[: inner.index(dim)]
        high = w.extent(dim)
        done = []
        for d in outside:
            w.open_loop("0", [])
            w.define_dim(d, w.loop_index())
            done.append(w.loop_index())
        step = w.number(size, ("block", dim))
        w.open_loop("0", [])
        begin = w.loop_index()
        w.define_dim(dim, begin)
        end = w.smaller(w.line(f"add i64 {begin}, {step}"), high)
        length = w.line(f"sub i64 {end}, {begin}")
        more = begin
        for other in done:
            more = w.line(f"or i64 {more}, {other}")
        with self._in_tiles(rows, columns):
            slot = w.known["dim", t.first_column + 1].name
            self._sums(inner[len(outside) :], length, self._waiting(slot), more, rows[0], dim)
        w.close_loop(step, high, [])
        for d in reversed(outside):
            w.close_loop("1", w.extent(d), [])
        with self._in_tiles(rows, columns) as tile:
            self._finish(tile, w.known["dim", t.first_column + 1].name)

    def _sums(
        self,
        dims: Sequence[int],
        length: str,
        tile: tuple[str, str],
        more: str,
        first_row: str,
        begun: int | None = None,
    ) -> None:
        """Add up the products of a tile: along dims, of the first of which ``length`` points.

        Args:
          dims: the inner dims that are in the tile's loops.
          length: how many points of the first one.
          tile: where the sums go, and how many bytes there are from row to row.
          more: whether they are added to; 0 if they begin here.
          first_row: where the rows of the unit begin.
          begun: the dim of which a block has its begin defined; all others in the loops begin at 0.
        """
        w, t = self.writer, self.tiling
        inside = {d for d in dims if d != begun}
        bases = []
        for side in (t.left, t.right):
            terms = [(a, c) for a, c in side.address.terms if not _is_one(a, inside)]
            bases.append(
                self.memory.pointer(side.buffer, add_terms(side.address.const, terms), True)[0]
            )
        right = [coefficient(t.right.address, d) for d in dims]
        form = self._form(len(dims))
        panel = later = "null"
        fetched: list[int] = []
        if form.fetches:
            fetched = [self._tiles_fetching() - 1, right[0]]
            later = self._later(bases[1], right[0], length, first_row, begun)
        if t.panel is None:
            place = w.table(self._numbers(dims, right) + fetched)
            function = w.function(sums_text(form, NAME))
        else:
            # The first tile of rows copies what it reads of the right side, others read the copy.
            start = w.number(t.panel, ("panel",))
            panel = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {start}")
            steps = [t.width * t.lanes]
            for d in reversed(dims[1:]):
                steps.insert(0, steps[0] * self.kernel.extents[d])
            first = (
                bases[1],
                w.table(self._numbers(dims, right, steps) + fetched),
                w.function(sums_text(replace(form, copies=True), NAME)),
            )
            others = (
                panel,
                w.table(self._numbers(dims, steps) + fetched),
                w.function(sums_text(replace(form, masked=False), NAME)),
            )
            copies = w.line(f"icmp eq i64 {w.loop_index()}, {first_row}")
            bases[1], place, function = (
                w.line(f"select i1 {copies}, ptr {x}, ptr {y}")
                for x, y in zip(first, others, strict=True)
            )
        w.levels[-1].lines.append(
            f"  call void {function}(ptr {bases[0]}, ptr {bases[1]}, ptr {tile[0]}, ptr {place}, "
            f"i64 {length}, i64 {more}, ptr {panel}, ptr {later}, i64 {tile[1]})"
        )

    def _tiles_fetching(self) -> int:
        """How many tiles of rows share the fetching of what is read next: a power of two."""
        return 1 << (self.tiling.row_tiles.bit_length() - 1)

    def _later(self, base: str, step: int, length: str, first_row: str, begun: int | None) -> str:
        """Where the part begins of what is read next of the right side that this tile asks for.

        That is the next block of steps where a unit is one tile of columns, else the next tile,
        which may be the next unit's first.
        """
        w, t = self.writer, self.tiling
        number = w.line(f"sub i64 {w.loop_index()}, {first_row}")
        short = [w.line(f"trunc i64 {x} to i32") for x in (number, self.height)]
        number = w.line(f"udiv i32 {', '.join(short)}")
        number = w.line(f"zext i32 {number} to i64")
        parts = self._tiles_fetching()
        number = w.smaller(number, w.number(parts - 1, ("last part",)))
        part = w.line(f"udiv i64 {length}, {w.number(parts, ('parts',))}")
        row = w.line(f"mul i64 {number}, {part}")
        pitch = w.number(step, ("next", "row"))
        across = coefficient(t.right.address, t.first_column)
        begin = w.known["dim", t.first_column].name
        begin = w.line(f"mul i64 {begin}, {w.number(across, ('next', 'column'))}")
        far = w.line(f"sub i64 {self.next_unit}, {begin}")
        if t.column_tiles > 1:
            column, columns = self.tile_of_columns
            end = w.line(f"add i64 {column}, {self.columns}")
            last = w.line(f"icmp sge i64 {end}, {columns}")
            near = w.number(across * t.width * t.lanes, ("next", "tile"))
            far = w.line(f"select i1 {last}, i64 {far}, i64 {near}")
        elif begun is not None:
            done = w.known["dim", begun].name
            end = w.line(f"add i64 {done}, {length}")
            goes_on = w.line(f"icmp slt i64 {end}, {w.extent(begun)}")
            steps = w.line(f"select i1 {goes_on}, i64 {length}, i64 {w.line(f'sub i64 0, {done}')}")
            row = w.line(f"add i64 {row}, {steps}")
            far = w.line(f"select i1 {goes_on}, i64 0, i64 {far}")
        row = w.line(f"mul i64 {row}, {pitch}")
        place = w.line(f"add i64 {row}, {far}")
        return w.line(f"getelementptr {self.element}, ptr {base}, i64 {place}")

    def _numbers(self, dims: Sequence[int], *right: Sequence[int]) -> list[int]:
        """The numbers that a function of sums reads; these are the steps of what is not left."""
        t = self.tiling
        numbers = [t.left.step, self.kernel.extents[t.columns]]
        for d, *steps in zip(dims, *right, strict=True):
            numbers += [coefficient(t.left.address, d), *steps]
        return numbers + [self.kernel.extents[d] for d in dims[1:]]

    def _form(self, loops: int) -> Sums:
        """What function adds up the products of a tile."""
        t = self.tiling
        step = t.left.step if 0 <= t.left.step <= BAKED or t.height == 1 else None
        if t.on_unit:
            return Sums(self.dtype, t.height, t.width, t.lanes, loops, None, False, dot=t.dot)
        narrow = self.kernel.extents[t.columns] < t.width * t.lanes
        masked = narrow and not t.right.packed
        return Sums(
            self.dtype,
            t.height,
            t.width,
            t.lanes,
            loops,
            0 if t.height == 1 else step,
            masked,
            dot=t.dot,
            fetches=self._fetches(loops),
        )

    def _dims_inside(self) -> tuple[int, ...]:
        """The inner dims that are in the loops of a tile."""
        inner, block = self.kernel.inner, self.tiling.block
        return inner if block is None else inner[inner.index(block[0]) :]

    def _fetches(self, loops: int) -> bool:
        """Whether tiles ask for what later ones read of the right side."""
        t = self.tiling
        narrow = self.kernel.extents[t.columns] < t.width * t.lanes
        return loops == 1 and t.row_tiles >= FETCHING and not narrow and not t.on_unit


def _is_one(atom: object, dims: set[int]) -> bool:
    return isinstance(atom, Dim) and atom.number in dims
