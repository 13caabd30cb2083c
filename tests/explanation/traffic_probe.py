"""Runs kernels under callgrind, each with cold caches, and tells what it had predicted of them.

The program of ``test_measured_traffic.py``, which starts it as::

    valgrind --tool=callgrind --cache-sim=yes --instr-atstart=no ... python -m \
        tests.explanation.traffic_probe NAME...

A kernel runs between two *client requests*, instructions that valgrind understands and processors
pass over: one that begins the simulation, with empty caches, and one that ends it.  A third writes
the counts to a file, under the kernel's name.  Nothing here is measured by functrax.

It prints a line of JSON for each kernel.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from benchmarks.models import ratio_iou, wgan_gp
from functrax import lax, nn
from functrax.backends.executables.program import Instruction, Launch
from functrax.backends.runtime.executor import Executable
from functrax.explanation.facts import explanation_of
from functrax.explanation.inputs import raw_inputs
from functrax.explanation.record import KernelFacts
from tests.test_features import conv

# ---- what is run --------------------------------------------------------------------------------


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def layer_norm(x: Any, scale: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale


def batch_norm(x: Any) -> Any:
    mean, square = (v.mean((0, 2, 3), keepdims=True) for v in (x, x * x))
    return nn.relu((x - mean) / jnp.sqrt(square - mean * mean + 1e-5))


def embedding(table: Any, ids: Any) -> Any:
    return jnp.sum(jnp.tanh(table[ids]))


def convolution(x: Any, w: Any) -> Any:
    return nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME"))


def gelu_mlp(x: Any, w1: Any, b: Any, w2: Any) -> Any:
    return nn.gelu(x @ w1 + b) @ w2


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(jnp.where(seen, scores, -1e9)), v)


def squares(f: Callable[..., Any], *places: int) -> Callable[..., Any]:
    """The gradient of the sum of the squares."""
    return functrax.grad(lambda *args: (f(*args) ** 2).sum(), places)


def boxes() -> tuple[Any, ...]:
    return ratio_iou.inputs()


#: Each once: of places that are looked up, explain knows their number, not which are the same.
IDS = np.random.default_rng(1).permutation(8192)[:4096].astype(np.int32)

#: What is compiled, and for which arguments.
CASES: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "tanh": lambda: (lambda x: jnp.tanh(x) * 2 + 1, (array(1 << 19),)),
    "sums": lambda: (lambda x: (x.sum(0), x.sum(1), x.max()), (array(700, 900),)),
    "softmax": lambda: (lambda x: nn.softmax(x, 1), (array(600, 1000),)),
    "layer norm": lambda: (layer_norm, (array(512, 768), array(768))),
    "layer norm, gradient": lambda: (squares(layer_norm, 0, 1), (array(512, 768), array(768))),
    "batch norm": lambda: (batch_norm, (array(8, 16, 64, 64),)),
    "batch norm, gradient": lambda: (squares(batch_norm, 0), (array(8, 16, 64, 64),)),
    "ratio_iou": lambda: (ratio_iou.forward(functrax), boxes()),
    "ratio_iou, gradient": lambda: (ratio_iou.gradient(functrax), boxes()),
    "transpose": lambda: (lambda x: x.T * 2, (array(700, 900),)),
    "pad, concatenate": lambda: (
        lambda x, y: jnp.concatenate([jnp.pad(x, 2), y[8:24]]),
        (array(400, 636), array(64, 640)),
    ),
    "rows of a slice": lambda: (lambda x: x[:256] + x[100:356], (array(1000, 512),)),
    "cumsum": lambda: (lambda x: jnp.cumsum(x, 0), (array(700, 900),)),
    "embedding": lambda: (embedding, (array(8192, 64), IDS)),
    "embedding, gradient": lambda: (functrax.grad(embedding), (array(8192, 64), IDS)),
    "product": lambda: (lambda a, b: a @ b, (array(300, 400), array(400, 500))),
    "products with gelu": lambda: (
        gelu_mlp,
        (array(128, 384), array(384, 768), array(768), array(768, 384)),
    ),
    "convolution": lambda: (convolution, (array(2, 16, 24, 24), array(32, 16, 3, 3))),
    "convolution, gradient": lambda: (
        squares(convolution, 0, 1),
        (array(2, 16, 24, 24), array(32, 16, 3, 3)),
    ),
    "four meta-operators": lambda: (conv, (array(2, 8, 24, 24), array(16, 8, 3, 3))),
    "attention": lambda: (attention, tuple(array(2, 128, 4, 32, seed=k) for k in range(3))),
    "attention, gradient": lambda: (
        squares(attention, 0, 1, 2),
        tuple(array(2, 128, 4, 32, seed=k) for k in range(3)),
    ),
    "WGAN-GP": lambda: (wgan_gp.step(functrax), wgan_gp.inputs()),
}


# ---- valgrind -----------------------------------------------------------------------------------

_ASK = (
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi, 3; 13; 61; 51: as it was
    "4887db"  # xchg rbx, rbx: valgrind reads the words at rax
)
#: A request: its argument is the address of six words.
_REQUEST = bytes.fromhex(f"4889f8 31d2 {_ASK} c3")  # mov rax, rdi; xor edx, edx; ...; ret
#: One request, calls of kernels, another request, without anything between that has to do with
#: Python.  Its argument is the address of: the first request, the second, the number of calls, and
#: for each function, buffers, params, begin and end.
_BRACKET = bytes.fromhex(
    "53 4154 4155"  # push rbx; push r12; push r13
    "4889fb"  # mov rbx, rdi
    "4c8d6718"  # lea r12, [rdi + 24]
    "4c8b6f10"  # mov r13, [rdi + 16]
    f"488b03 {_ASK}"  # mov rax, [rbx]; ...
    "498b7c2408"  # again: mov rdi, [r12 + 8]
    "498b742410"  # mov rsi, [r12 + 16]
    "498b542418"  # mov rdx, [r12 + 24]
    "498b4c2420"  # mov rcx, [r12 + 32]
    "41ff1424"  # call [r12]
    "4983c428"  # add r12, 40
    "49ffcd"  # dec r13
    "75df"  # jnz again
    f"488b4308 {_ASK}"  # mov rax, [rbx + 8]; ...
    "415d 415c 5b c3"  # pop r13; pop r12; pop rbx; ret
)
_CALLGRIND = 0x43540000  # 'C', 'T'
_DUMP, _START, _STOP = _CALLGRIND + 3, _CALLGRIND + 4, _CALLGRIND + 5


def words(*values: int) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


class Valgrind:
    """The requests that callgrind understands."""

    def __init__(self) -> None:
        access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=access)
        self._code.write(_REQUEST + _BRACKET)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._request, self._bracket = function(address), function(address + len(_REQUEST))

    def measured(self, label: str, calls: Sequence[KernelCall]) -> None:
        """Run kernels one after the other, beginning with cold caches, and dump the counts."""
        start, stop = words(_START, 0, 0, 0, 0, 0), words(_STOP, 0, 0, 0, 0, 0)
        flat = [x for call in calls for x in call.words]
        block = words(ctypes.addressof(start), ctypes.addressof(stop), len(calls), *flat)
        self._bracket(ctypes.addressof(block))
        text = ctypes.create_string_buffer(label.encode())
        dump = words(_DUMP, ctypes.addressof(text), 0, 0, 0, 0)
        self._request(ctypes.addressof(dump))


# ---- kernels ------------------------------------------------------------------------------------


class KernelCall:
    """A launch, for arrays at certain places."""

    def __init__(self, x: Launch, arrays: Sequence[Any]) -> None:
        self._buffers = words(*[a.ctypes.data for a in arrays])
        self._params = (ctypes.c_int64 * max(len(x.params), 1))(*x.params)
        places = ctypes.addressof(self._buffers), ctypes.addressof(self._params)
        self.words = (x.function, *places, 0, x.units)


class Probe:
    """Lets callgrind look at each kernel, the first time that all of it has run.

    Then it is launched again, all its parts in a row; the values that it works on are no matter.
    """

    def __init__(self, valgrind: Valgrind, case: str, kernels: Sequence[KernelFacts]) -> None:
        self._valgrind, self._case = valgrind, case
        self._kernel = {id(x): k for k in kernels if k.kind == "kernel" for x in k.instructions}
        self._calls: dict[int, dict[int, KernelCall]] = {}
        self._shared: dict[int, int] = {}

    def __call__(
        self,
        x: Instruction,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        run: Callable[[], None],
    ) -> None:
        run()
        kernel = self._kernel.get(id(x))
        if kernel is None or not isinstance(x, Launch) or self._calls.get(kernel.number) == {}:
            return
        calls = self._calls.setdefault(kernel.number, {})
        calls[id(x)] = KernelCall(x, [*inputs, *outputs])
        shared = sum(o.nbytes for o in outputs if any(np.may_share_memory(o, i) for i in inputs))
        self._shared[kernel.number] = self._shared.get(kernel.number, 0) + shared
        launches = [y for y in kernel.instructions if isinstance(y, Launch)]
        if x is launches[-1] and len(calls) == len(launches):
            self._look(kernel, calls)
            self._calls[kernel.number] = {}

    def _look(self, kernel: KernelFacts, calls: Mapping[int, KernelCall]) -> None:
        label = f"{self._case}/{kernel.number}"
        self._valgrind.measured(label, list(calls.values()))
        facts = {
            "label": label,
            "kernel": kernel.name,
            "read": kernel.bytes_read,
            "written": kernel.bytes_written,
            "staged": kernel.bytes_staged,
            "in_place": self._shared[kernel.number],
            "arrays": len(kernel.reads) + len(kernel.writes),
        }
        print(json.dumps(facts), flush=True)


def aligned(x: Any) -> Any:
    """A copy that begins with a line; NumPy's own memory begins within one."""
    memory = np.empty(x.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    copy = memory[begin : begin + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def main(names: Sequence[str]) -> None:
    valgrind = Valgrind()
    for name in names:
        function, args = CASES[name]()
        jitted = functrax.jit(function)
        compiled = jitted.lower(*args).compile()
        facts = explanation_of(name, compiled.compiled, 0.0)
        values = [aligned(x) for x in raw_inputs(jitted, compiled.lowered, args, {})]
        Executable(facts.program, Probe(valgrind, name, facts.kernels))(values)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
