"""PTX ISA 9.7.14, Warp Level Matrix Multiply-Accumulate Instructions: ldmatrix, stmatrix, mma.

``mma`` multiplies tiles whose elements lie in the registers of a warp: lane 4·g + t holds the
elements that ``_A``, ``_B`` and ``_C`` list.  Sums are made in f64 and rounded once; the manual
leaves their order and precision open.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.decode import Control, Decoder, opcode
from functrax.backends.cuda.simulator.errors import DivergentWarp
from functrax.backends.cuda.simulator.group import ThreadGroup
from functrax.backends.cuda.simulator.instructions.accesses import address_of, space_of
from functrax.backends.cuda.simulator.instructions.rounding import F16, F32, F64, widen_bf16
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Instruction, Type

_B32: Final = TYPES["b32"]
_SHAPES: Final = {"m16n8k16": 16, "m16n8k8": 8, "m16n8k4": 4}
_LANE: Final = np.arange(32)
_G, _T = _LANE >> 2, _LANE & 3


def _a(depth: int, wide: bool) -> tuple[Array, Array]:
    """Rows and columns of A that a lane holds: wide elements have a register each."""
    rows, columns = [], []
    if wide:
        for k in range(depth // 4):
            for half in (0, 8):
                rows.append(_G + half)
                columns.append(_T + 4 * k)
    else:
        for k in range(depth // 8):
            for half in (0, 8):
                for pair in (0, 1):
                    rows.append(_G + half)
                    columns.append(2 * _T + pair + 8 * k)
    return np.array(rows), np.array(columns)


def _b(depth: int, wide: bool) -> tuple[Array, Array]:
    """Rows and columns of B that a lane holds."""
    rows = []
    if wide:
        rows = [_T + 4 * k for k in range(depth // 4)]
    else:
        rows = [2 * _T + pair + 8 * k for k in range(depth // 8) for pair in (0, 1)]
    return np.array(rows), np.array([_G] * len(rows))


#: Rows and columns of C and D that a lane holds.
_C: Final = (np.array([_G, _G, _G + 8, _G + 8]), np.array([2 * _T, 2 * _T + 1] * 2))


def _whole_warps(g: ThreadGroup) -> int:
    """How many warps run; all their lanes must."""
    if g.count % 32 or (np.bincount(g.warps) % 32).any():
        g.fault(DivergentWarp, "not all threads of a warp take part", True)
    return g.count // 32


def _numbers(registers: list[Array], kind: Type, count: int) -> Array:
    """What registers hold, as f64 of shape (elements, warps, lanes)."""
    found = []
    for register in registers:
        x = np.ascontiguousarray(np.broadcast_to(register, (count,)))
        if kind.name in ("f16", "bf16"):
            halves = x.view(np.uint16).reshape(-1, 2)
            for k in (0, 1):
                half = np.ascontiguousarray(halves[:, k])
                found.append(half.view(F16) if kind.name == "f16" else widen_bf16(half))
        elif kind.name == "tf32":
            found.append((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(F32))
        else:
            found.append(x.view(F32))
    return np.array([x.astype(F64) for x in found]).reshape(len(found), -1, 32)


def _tile(numbers: Array, places: tuple[Array, Array], shape: tuple[int, int]) -> Array:
    tile = np.zeros((numbers.shape[1], *shape))
    for k, (row, column) in enumerate(zip(*places)):
        tile[:, row, column] = numbers[k]
    return tile


@opcode("mma")
def _mma(d: Decoder, i: Instruction) -> Control:
    """mma.sync: D = A · B + C of tiles 16×k, k×8 and 16×8."""
    shape = next((p for p in i.parts if p in _SHAPES), "")
    types = [TYPES.get(p) for p in i.parts[-4:]]
    if not shape or not i.has("row") or not i.has("col") or None in types:
        raise d.error("this form of mma is not supported")
    to, left, right, of = (x for x in types if x is not None)
    depth, wide = _SHAPES[shape], left.name == "tf32"
    if (
        left != right
        or left.name not in ("f16", "bf16", "tf32")
        or to.name not in ("f32", "f16")
        or of != to
        or (to.name == "f16" and left.name != "f16")
        or depth not in ((4, 8) if wide else (8, 16))
    ):
        raise d.error("these types of mma are not supported")
    target, a, b, c = d.operands(4)
    held = _B32 if to.name == "f16" else TYPES["f32"]
    read = [[d.source(x, _B32) for x in v.elements] for v in (a, b)]
    read.append([d.source(x, held) for x in c.elements])
    targets = [d.target(x, held) for x in target.elements]
    places = (_a(depth, wide), _b(depth, wide), _C)
    per_register = (1 if wide else 2, 1 if wide else 2, 2 if to.name == "f16" else 1)
    for slots, place, per in zip(read, places, per_register):
        if len(slots) * per != len(place[0]):
            raise d.error("a wrong number of registers")
    if len(targets) != len(read[2]):
        raise d.error("a wrong number of registers")
    kinds = (left, right, to)
    shapes = ((16, depth), (depth, 8), (16, 8))

    def run(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        _whole_warps(g)
        tiles = [
            _tile(_numbers([r[s] for s in slots], kind, g.count), place, size)
            for slots, kind, place, size in zip(read, kinds, places, shapes)
        ]
        product = (tiles[0] @ tiles[1] + tiles[2]).astype(to.dtype)
        found = [product[:, row, column].reshape(-1) for row, column in zip(*_C)]
        if to.name == "f32":
            for slot, value in zip(targets, found):
                r[slot] = value
        else:
            for k, slot in enumerate(targets):
                pair = np.stack(found[2 * k : 2 * k + 2], axis=1)
                r[slot] = np.ascontiguousarray(pair).view(np.uint32)[:, 0]

    d.run(run)
    return Control("warp")


@opcode("ldmatrix", "stmatrix")
def _ldmatrix(d: Decoder, i: Instruction) -> Control:
    """ldmatrix: 1, 2 or 4 tiles of 8×8 halves, whose rows' addresses lanes give in order.

    Lane 4·g + t gets elements 2t and 2t + 1 of row g; with .trans of column g.  stmatrix stores.
    """
    modifiers = d.only(
        "sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"
    )
    loads = i.parts[0] == "ldmatrix"
    count = next((int(p[1:]) for p in ("x1", "x2", "x4") if p in modifiers), 0)
    operands = d.operands(2)
    registers, place = operands if loads else operands[::-1]
    elements = registers.elements
    if count != len(elements) or d.type().name != "b16":
        raise d.error("this form of ldmatrix is not supported")
    address, space = address_of(d, place, space_of(d, i))
    slots = [d.target(x, _B32) if loads else d.source(x, _B32) for x in elements]
    word, trans = np.dtype("u4"), "trans" in modifiers

    def run(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        warps = _whole_warps(g)
        places = np.broadcast_to(r[address], (g.count,)).reshape(warps, 32)
        for k, slot in enumerate(slots):
            rows = places[:, 8 * k : 8 * k + 8].reshape(-1)
            who = np.arange(g.count).reshape(warps, 32)[:, 8 * k : 8 * k + 8].reshape(-1)
            owners = g.part(who)
            if loads:
                values = np.stack(owners.load(space, rows, word, 4), axis=1)
                halves = np.ascontiguousarray(values).view(np.uint16).reshape(warps, 8, 8)
                halves = halves.transpose(0, 2, 1) if trans else halves
                r[slot] = np.ascontiguousarray(halves).view(word).reshape(-1)
            else:
                value = np.ascontiguousarray(np.broadcast_to(r[slot], (g.count,)))
                halves = value.view(np.uint16).reshape(warps, 8, 8)
                halves = halves.transpose(0, 2, 1) if trans else halves
                words = np.ascontiguousarray(halves).view(word).reshape(-1, 4)
                owners.store(
                    space, rows, [np.ascontiguousarray(words[:, j]) for j in range(4)], word
                )

    d.run(run)
    return Control("warp")
