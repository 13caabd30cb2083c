"""The rows of ``benchmarks.gpu``: a text for functrax and JAX, one for PyTorch, and the targets.

Arrays are larger than a GPU's second cache, so that rows that move data show the memory.  Start at
:data:`ROWS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models import ratio_iou

#: Of the copy bandwidth, what rows that only move data should reach; ratios that they should have.
SHARE = 0.85
BOTH = (("jax", 1.0), ("torch", 1.0), ("torch.compile", 1.0))


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    ``shapes`` are those of its float32 inputs, ``quick`` small ones; ``index`` is, if not 0, the
    number of rows that a last input of row numbers picks from; ``moved`` is the bytes that a call
    must read and write; ``share``, ``ratios`` and ``limit`` (seconds) are the targets; ``compared``
    says whether PyTorch gives the same values, ``waits`` whether each call is waited for.
    """

    name: str
    text: Callable[[Any], Callable[..., Any]]
    torch: Callable[[Any], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    quick: tuple[tuple[int, ...], ...]
    moved: int = 0
    share: float = 0.0
    ratios: tuple[tuple[str, float], ...] = BOTH
    limit: float = 0.0
    index: bool = False
    compared: bool = True
    waits: bool = False

    def inputs(self, quick: bool) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        shapes = self.quick if quick else self.shapes
        if not self.index:
            return [np.asarray(random.random(shape, np.float32)) for shape in shapes]
        (count, _), (picked,) = shapes
        return [
            random.random(shapes[0], np.float32),
            random.integers(0, count, picked, dtype=np.int32),
        ]


def _layer_norm(lib: Any) -> Any:
    def normed(x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean(1, keepdims=True)
        variance = ((x - mean) ** 2).mean(1, keepdims=True)
        return (x - mean) / lib.numpy.sqrt(variance + 1e-5) * scale + shift

    return normed


def _torch_layer_norm(torch: Any) -> Any:
    return lambda x, scale, shift: torch.nn.functional.layer_norm(x, x.shape[1:], scale, shift)


def _moves(
    name: str,
    text: Callable[[Any], Any],
    torch: Callable[[Any], Any],
    shape: tuple[int, ...],
    written: int,
    quick: tuple[int, ...] = (6, 70),
    arrays: int = 1,
) -> Row:
    """A row that reads arrays of a shape once, and writes so many elements."""
    moved = 4 * (arrays * int(np.prod(shape)) + written)
    return Row(name, text, torch, (shape,) * arrays, (quick,) * arrays, moved, SHARE)


def _drawn(lib: Any, x: Any) -> tuple[Any, tuple[int, ...]]:
    """A key that is known when the program runs, and the shape that is drawn."""
    return lib.random.key(x[0].astype("int32")), x.shape


_N, _SIDE, _ROWS, _LONG = 1 << 26, 8192, 65_536, 1 << 24
_PICKED, _WIDTH = 1 << 20, 64
_BOXES = 1 << 22


ROWS = (
    _moves(
        "x + y", lambda lib: lambda x, y: x + y, lambda t: lambda x, y: x + y, (_N,), _N, (999,), 2
    ),
    _moves(
        "tanh(x) + exp(-x²)",
        lambda lib: lambda x: lib.numpy.tanh(x) + lib.numpy.exp(-x * x),
        lambda t: lambda x: t.tanh(x) + t.exp(-x * x),
        (_N,),
        _N,
        (999,),
    ),
    _moves(
        "sum of all", lambda lib: lambda x: x.sum(), lambda t: lambda x: x.sum(), (_N,), 1, (9999,)
    ),
    _moves(
        "sums of rows",
        lambda lib: lambda x: x.sum(1),
        lambda t: lambda x: x.sum(1),
        (_SIDE, _SIDE),
        _SIDE,
    ),
    _moves(
        "sums of columns",
        lambda lib: lambda x: x.sum(0),
        lambda t: lambda x: x.sum(0),
        (_SIDE, _SIDE),
        _SIDE,
    ),
    _moves(
        "softmax, rows of 256",
        lambda lib: lambda x: lib.nn.softmax(x),
        lambda t: lambda x: t.softmax(x, 1),
        (_ROWS, 256),
        _ROWS * 256,
    ),
    _moves(
        "softmax, rows of 8,192",
        lambda lib: lambda x: lib.nn.softmax(x),
        lambda t: lambda x: t.softmax(x, 1),
        (_SIDE, _SIDE),
        _SIDE * _SIDE,
        (2, 3000),
    ),
    Row(
        "layer norm, rows of 1,024",
        _layer_norm,
        _torch_layer_norm,
        ((_ROWS, 1024), (1024,), (1024,)),
        ((6, 70), (70,), (70,)),
        8 * _ROWS * 1024,
        SHARE,
    ),
    _moves(
        "transpose",
        lambda lib: lambda x: x.T * 2,
        lambda t: lambda x: (x.T * 2).contiguous(),
        (_SIDE, _SIDE),
        _SIDE * _SIDE,
    ),
    Row(
        "gather of rows",
        lambda lib: lambda x, i: x[i],
        lambda t: lambda x, i: x[i],
        ((_PICKED, _WIDTH), (_PICKED,)),
        ((20, 5), (30,)),
        4 * _PICKED * (2 * _WIDTH + 1),
        SHARE,
        index=True,
    ),
    Row(
        "sort, rows of 1,024",
        lambda lib: lambda x: lib.numpy.sort(x),
        lambda t: lambda x: t.sort(x, 1)[0],
        ((_ROWS, 1024),),
        ((6, 70),),
        8 * _ROWS * 1024,
        ratios=(),
    ),
    Row(
        "argsort of 2²⁴",
        lambda lib: lambda x: lib.numpy.argsort(x),
        lambda t: lambda x: t.argsort(x, stable=True),
        ((_LONG,),),
        ((2100,),),
        8 * _LONG,
        ratios=(),
    ),
    Row(
        "top 50 of rows of 50,257",
        lambda lib: lambda x: lib.lax.top_k(x, 50)[0],
        lambda t: lambda x: t.topk(x, 50)[0],
        ((512, 50_257),),
        ((2, 2100),),
        4 * 512 * 50_307,
        ratios=(),
    ),
    Row(
        "random bits",
        lambda lib: lambda x: lib.random.bits(*_drawn(lib, x)),
        lambda t: lambda x: t.randint(-(1 << 31), 1 << 31, x.shape, dtype=t.int32, device=x.device),
        ((_N,),),
        ((99,),),
        4 * _N,
        ratios=(("jax", 1.0),),
        compared=False,
    ),
    Row(
        "normal numbers",
        lambda lib: lambda x: lib.random.normal(*_drawn(lib, x)),
        lambda t: lambda x: t.randn_like(x),
        ((_N,),),
        ((99,),),
        4 * _N,
        ratios=(("jax", 1.0),),
        compared=False,
    ),
    Row(
        "gradient of ratio_iou",
        ratio_iou.gradient,
        lambda t: ratio_iou.torch_gradient(t, lambda f: f),
        ((_BOXES,),) * 8,
        ((33,),) * 8,
        4 * _BOXES * 16,
        ratios=(("torch", 3.0),),
    ),
    Row(
        "scalar step",
        lambda lib: lambda x: x - 0.1 * (2 * x + 1),
        lambda t: lambda x: x - 0.1 * (2 * x + 1),
        ((),),
        ((),),
        ratios=(),
        limit=8e-6,
        waits=True,
    ),
)
