"""``checkpoint_name``: values under names that the policies of ``checkpoint`` can speak of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from functrax.core.pytree.operations import tree_map
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import BadSample, Elementwise, Sample, Value


class Name(Elementwise):
    """The operand itself, under a name that checkpoint policies can speak of."""

    name = "name"
    is_marker = True
    takes_stored = True

    def reference(self, x: Any, *, tag: str) -> Any:
        return x

    def lower(self, b: Builder, x: Scalar, *, tag: str) -> Scalar:
        return x

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None], *, tag: str
    ) -> tuple[Any, Any]:
        return self.bind(primals[0], tag=tag), tangents[0]

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"tag": "activations"})

    def bad_samples(self) -> Iterable[BadSample]:
        return ()


name_p = Name()


def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value, so that a policy of ``functrax.checkpoint`` can choose to store it.

    Args:
      x: a pytree of arrays.
      name: the name.

    Returns:
      The pytree.

    Raises:
      DTypeError: if a leaf is no array or number.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.ad_checkpoint import checkpoint_name
    >>> f = lambda x: jnp.sin(checkpoint_name(jnp.cos(x), "cosine"))
    >>> policy = functrax.checkpoint_policies.save_only_these_names("cosine")
    >>> functrax.grad(functrax.checkpoint(f, policy=policy))(0.0)
    Array(-0., dtype=float32, weak_type=True)
    """
    return tree_map(lambda leaf: name_p.bind(as_value(leaf), tag=name), x)
