"""Memory that several processes write to, for training without locks (Hogwild).

Arrays are immutable, so what processes change together are NumPy arrays: :class:`Shared` holds a
pytree of them in shared memory, and can be sent to other processes.  A jitted function takes them
as arguments where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.process import shared_memory
from functrax.core.pytree.operations import tree_flatten, tree_map, tree_unflatten


class Shared:
    """A pytree of arrays in memory that processes share and write to.

    It is handed to another process as the argument of a ``multiprocessing.Process``, by a queue or
    a pipe, or by forking; all of them then look at the same elements.  Nothing is locked: an
    element may be read while another process writes to it, and of two updates at the same time one
    may be lost.

    Args:
      tree: a pytree of arrays and numbers; their elements are copied into the shared memory.

    Raises:
      ArgumentError: if the system has no such memory (it is Linux's), or if it is pickled for
        anything but another process.
      DTypeError: for a leaf that is no array of numbers.

    >>> import numpy as np, functrax
    >>> weights = functrax.interop.Shared({"w": np.zeros(3)})
    >>> weights.arrays["w"][1] = 5  # all processes see it
    >>> weights.arrays["w"].tolist()
    [0.0, 5.0, 0.0]
    """

    def __init__(self, tree: Any) -> None:
        if not shared_memory.available():
            raise ArgumentError(
                "Shared: this system has no memory that processes can share",
                got="no os.memfd_create",
                fix="Linux",
            )
        self._arrays = tree_map(_writable, tree)

    @property
    def arrays(self) -> Any:
        """The pytree, of NumPy arrays that write to the shared memory."""
        return tree_map(lambda a: a, self._arrays)

    def add(self, updates: Any) -> None:
        """Add to the elements, array by array, without a lock.

        Args:
          updates: a pytree of the same structure; of each array something of its shape.
        """
        leaves, tree = tree_flatten(self._arrays)
        for array, update in zip(leaves, tree.flatten_up_to(updates)):
            array += np.asarray(update, array.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        if not shared_memory.is_sending(1):
            raise ArgumentError(
                "Shared: shared memory can be sent to a process, not stored",
                got="pickle or copy",
                fix="pickle.dumps(functrax.tree.map(numpy.array, shared.arrays))",
            )
        leaves, tree = tree_flatten(self._arrays)
        return (_attach, (tree, [shared_memory.handle(a) for a in leaves]))


def _writable(x: Any) -> np.ndarray[Any, Any]:
    value = np.asarray(x)
    if value.dtype.hasobject:
        raise DTypeError("Shared: a leaf is no array of numbers", got=repr(x), fix="arrays")
    segment = shared_memory.new_segment(value.nbytes)
    array = shared_memory.view(segment, value.shape, value.dtype, writable=True)
    array[...] = value
    return array


def _attach(tree: Any, handles: list[tuple[Any, ...]]) -> Shared:
    made = Shared.__new__(Shared)
    made._arrays = tree_unflatten(tree, [shared_memory.attached(*h) for h in handles])
    return made
