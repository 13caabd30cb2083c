"""Rotations in space, as in ``jax.scipy.spatial.transform``.

A rotation is a unit quaternion ``(x, y, z, w)``, and stands for one rotation or, with a leading
axis, for several; :class:`Rotation` is a pytree, so rotations go through ``jit``, ``vmap`` and
``grad``.  Formulas: Diebel, "Representing attitude" (2006); Euler angles: Bernardes and Viollet,
"Quaternion to Euler angles conversion" (PLoS ONE 17, 2022); the mean: Markley, Cheng, Crassidis and
Oshman, "Averaging quaternions" (Journal of Guidance, Control, and Dynamics 30, 2007).

Start at :class:`Rotation`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.random import normal

__all__ = ["Rotation", "Slerp"]

_SMALL = 1e-3  # below this angle, series: a quotient of zeros has no derivative


class Rotation(NamedTuple):
    """Rotations, held as unit quaternions.

    Args:
      quat: ``(x, y, z, w)``, an array ``[4]`` or ``[n, 4]``; not normalized, as
        :meth:`from_quat` does.

    >>> from functrax.scipy.spatial.transform import Rotation
    >>> quarter = Rotation.from_euler("z", 90, degrees=True)
    >>> quarter.as_rotvec(degrees=True).round(3)
    Array([ 0.,  0., 90.], dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several of several rotations, one after the other."""
        return cls(jnp.concatenate([r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations about one to three axes, one after the other.

        Args:
          seq: letters of axes: ``"xyz"`` of axes that stay, ``"XYZ"`` of axes that turn along.
          angles: of each axis, ``[..., number of axes]``; a number, or ``[n]``, for one axis.
          degrees: whether angles are in degrees, and not in radians.

        Raises:
          ArgumentError: for other letters, and for an axis that follows itself.
        """
        axes, turning = _axes(seq, (1, 2, 3))
        given = _floats(angles)
        if given.ndim == 0 or (len(axes) == 1 and given.ndim == 1 and given.shape[-1] != 1):
            given = given[..., None]
        if given.shape[-1] != len(axes):
            raise ShapeError(
                "Rotation.from_euler: needs an angle for each axis",
                got=f"angles {given.aval.str_short()} for {seq!r}",
                fix=f"a last axis of size {len(axes)}",
            )
        half = (jnp.deg2rad(given) if degrees else given) / 2
        sine, cosine = jnp.sin(half), jnp.cos(half)
        zero = jnp.zeros_like(sine[..., 0])
        turns = []
        for n, axis in enumerate(axes):
            parts = [sine[..., n] if k == axis else zero for k in range(3)]
            turns.append(jnp.stack([*parts, cosine[..., n]], axis=-1))
        then = _product if turning else lambda first, second: _product(second, first)
        return cls(functools.reduce(then, turns))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Of rotation matrices ``[..., 3, 3]``, by the largest of four quotients."""
        m = _floats(matrix)
        if m.shape[-2:] != (3, 3):
            raise ShapeError("Rotation.from_matrix: takes matrices of size 3",
                             got=m.aval.str_short(), fix="[3, 3] or [n, 3, 3]")  # fmt: skip
        d = [m[..., k, k] for k in range(3)]
        trace = d[0] + d[1] + d[2]
        candidates = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            parts: list[Any] = [None] * 4
            parts[i] = 1 - trace + 2 * d[i]
            parts[j] = m[..., j, i] + m[..., i, j]
            parts[k] = m[..., k, i] + m[..., i, k]
            parts[3] = m[..., k, j] - m[..., j, k]
            candidates.append(jnp.stack(parts, axis=-1))
        turns = [
            m[..., 2, 1] - m[..., 1, 2],
            m[..., 0, 2] - m[..., 2, 0],
            m[..., 1, 0] - m[..., 0, 1],
        ]
        candidates.append(jnp.stack([*turns, 1 + trace], axis=-1))
        which = jnp.argmax(jnp.stack([*d, trace], axis=-1), axis=-1)[..., None]
        found = candidates[3]
        for k in range(3):
            found = jnp.where(which == k, candidates[k], found)
        return cls(_normalized(found))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Of modified Rodrigues parameters ``[..., 3]``: the axis times ``tan(angle / 4)``."""
        p = _vectors("from_mrp", mrp, 3)
        square = jnp.sum(p * p, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * p, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """Of quaternions ``(x, y, z, w)``, ``[..., 4]``, which are normalized."""
        return cls(_normalized(_vectors("from_quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of rotation vectors ``[..., 3]``: the axis times the angle."""
        v = _vectors("from_rotvec", rotvec, 3)
        v = jnp.deg2rad(v) if degrees else v
        square = jnp.sum(v * v, axis=-1, keepdims=True)
        near = square <= _SMALL**2
        angle = jnp.sqrt(jnp.where(near, 1.0, square))
        series = 0.5 - square / 48 + square * square / 3840
        scale = jnp.where(near, series, jnp.sin(angle / 2) / angle)
        cosine = jnp.where(near, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
        return cls(jnp.concatenate([scale * v, cosine], axis=-1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or ``num`` of it."""
        one = jnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation, or ``num`` of them, all as likely; from a random key."""
        shape = (4,) if num is None else (num, 4)
        return cls(_normalized(normal(random_key, shape)))

    @property
    def single(self) -> bool:
        """Whether it is one rotation, and not several."""
        return bool(self.quat.ndim == 1)

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise DTypeError("Single rotation is not subscriptable.", got="one rotation",
                             fix="Rotation(r.quat[None]), which is a sequence of it")  # fmt: skip
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise DTypeError("Single rotation has no len().", got="one rotation",
                             fix="r.single says whether it is one")  # fmt: skip
        return int(self.quat.shape[0])

    def __mul__(self, other: Any) -> Rotation:
        """First ``other``, then this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_normalized(_product(self.quat, other.quat)))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Rotated vectors ``[..., 3]``; back, if ``inverse``."""
        v = _vectors("apply", vectors, 3)
        matrix = self.as_matrix()
        if inverse:
            matrix = jnp.swapaxes(matrix, -1, -2)
        return jnp.squeeze(jnp.matmul(matrix, v[..., None]), axis=-1)

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes, ``[..., 3]``; ``seq`` and ``degrees`` as in :meth:`from_euler`.

        The middle one is in [-90°, 90°], or in [0°, 180°] if the first axis is the last one too.
        Where it is at an end the others are not determined, and one of them is 0.
        """
        (i, j, k), turning = _axes(seq, (3,))
        if turning:
            i, k = k, i
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self.quat[..., n] for n in range(4)]
        if symmetric:
            a, b, c, d = q[3], q[i], q[j], q[k] * sign
        else:
            a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        total, difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        at_start, at_end = jnp.abs(middle) <= 1e-7, jnp.abs(middle - math.pi) <= 1e-7
        alone = jnp.where(at_start, 2 * total, 2 * difference * (1 if turning else -1))
        degenerate = at_start | at_end
        first, third = total - difference, total + difference
        # For axes that turn along the undetermined angle is the last one.
        at_first, at_third = (0.0, alone) if turning else (alone, 0.0)
        first = jnp.where(degenerate, at_first, first)
        third = jnp.where(degenerate, at_third, third)
        if not symmetric:
            third, middle = third * sign, middle - math.pi / 2
        parts = (third, middle, first) if turning else (first, middle, third)
        angles = jnp.stack(parts, axis=-1)
        angles = jnp.mod(angles + math.pi, 2 * math.pi) - math.pi
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Any:
        """Rotation matrices, ``[..., 3, 3]``."""
        x, y, z, w = (self.quat[..., n] for n in range(4))
        rows = (
            (x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
            (2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)),
            (2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w),
        )
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters ``[..., 3]``, of the turn of at most 180°."""
        sign = jnp.where(self.quat[..., 3:] < 0, -1.0, 1.0)
        return sign * self.quat[..., :3] / (1 + sign * self.quat[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Rotation vectors ``[..., 3]``, of angles from 0 to 180°."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        v, w = quat[..., :3], quat[..., 3:]
        square = jnp.sum(v * v, axis=-1, keepdims=True)
        near = square <= (_SMALL / 2) ** 2
        sine = jnp.sqrt(jnp.where(near, 1.0, square))
        # 2 atan(s / w) / s for a small sine, of which w = sqrt(1 - s^2).
        scale = jnp.where(
            near, 2 + square / 3 + 3 * square * square / 20, 2 * jnp.arctan2(sine, w) / sine
        )
        return v * (jnp.rad2deg(scale) if degrees else scale)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """The quaternions ``[..., 4]``.

        Args:
          canonical: of the two of each rotation the one whose w, or else whose first part that is
            not 0, is positive.
          scalar_first: ``(w, x, y, z)``, and not ``(x, y, z, w)``.
        """
        quat = self.quat
        if canonical:
            x, y, z, w = (quat[..., n] for n in range(4))
            negative = z < 0
            for part in (y, x, w):
                negative = jnp.where(part == 0, negative, part < 0)
            quat = jnp.where(negative[..., None], -quat, quat)
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1))

    def magnitude(self) -> Any:
        """The angles, in radians, from 0 to pi."""
        size = jnp.linalg.norm(self.quat[..., :3], axis=-1)
        return 2 * jnp.arctan2(size, jnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation from which these are the least far, in squares of chords.

        Args:
          weights: how much each counts, ``[n]``; 1 if None.
        """
        count = len(self)
        w = (
            jnp.ones(count, self.quat.dtype)
            if weights is None
            else jnp.asarray(weights, self.quat.dtype)
        )
        if w.shape != (count,):
            raise ShapeError(
                "Rotation.mean: Expected `weights` to be 1 dimensional, with a weight for each",
                got=f"weights of shape {w.shape} for {count} rotations",
                fix=f"a vector of {count}",
            )
        products = jnp.matmul(self.quat.T * w[None, :], self.quat)
        return Rotation(jnp.linalg.eigh(products)[1][:, -1])


class Slerp(NamedTuple):
    """Rotations between rotations, at a constant speed from each to the next.

    :meth:`init` makes one.  Before the first time and after the last, the motion goes on.

    >>> from functrax.scipy.spatial.transform import Rotation, Slerp
    >>> keys = Rotation.from_euler("z", [0, 90], degrees=True)
    >>> Slerp.init(jnp.array([0.0, 1.0]), keys)(0.5).as_euler("xyz", degrees=True).round(2)
    Array([ 0.,  0., 45.], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From rotations and when they are.

        Args:
          times: a vector that increases, one for each rotation.
          rotations: at least two.
        """
        if not isinstance(rotations, Rotation):
            raise DTypeError(
                "Slerp: `rotations` must be a `Rotation` instance",
                got=type(rotations).__name__,
                fix="Rotation.from_quat(...)",
            )
        if rotations.single or len(rotations) == 1:
            raise ArgumentError("Slerp: `rotations` must be a sequence of at least 2 rotations",
                                got="one rotation", fix="Rotation.concatenate")  # fmt: skip
        when = jnp.asarray(times, rotations.quat.dtype)
        if when.shape != (len(rotations),):
            raise ShapeError(
                "Slerp: Expected times to be a 1 dimensional array, with one for each rotation",
                got=f"times of shape {when.shape} for {len(rotations)} rotations",
                fix=f"a vector of {len(rotations)}",
            )
        first, last = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(when, jnp.diff(when), first, (first.inv() * last).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at some times, a number or a vector."""
        when = jnp.asarray(times, self.times.dtype)
        if when.ndim > 1:
            raise ShapeError("Slerp: `times` must be at most 1-dimensional",
                             got=when.aval.str_short(), fix="a number or a vector")  # fmt: skip
        place = jnp.searchsorted(self.times, when) - 1
        place = jnp.clip(place, 0, self.timedelta.shape[0] - 1)
        share = (when - self.times[place]) / self.timedelta[place]
        turn = Rotation.from_rotvec(self.rotvecs[place] * share[..., None])
        return Rotation(self.rotations.quat[place]) * turn


def _floats(x: Any) -> Any:
    found = jnp.asarray(x)
    return found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(float)


def _vectors(name: str, x: Any, size: int) -> Any:
    found = _floats(x)
    if found.shape[-1:] != (size,):
        raise ShapeError(f"Rotation.{name}: takes vectors of size {size}",
                         got=found.aval.str_short(), fix=f"[{size}] or [n, {size}]")  # fmt: skip
    return found


def _axes(seq: str, numbers: tuple[int, ...]) -> tuple[list[int], bool]:
    """The numbers of axes, and whether they turn along."""
    turning = seq.isupper()
    axes = ["xyz".find(c) for c in seq.lower()]
    known = len(axes) in numbers and -1 not in axes and (turning or seq.islower())
    if not known or any(a == b for a, b in pairwise(axes)):
        counts = " or ".join(map(str, numbers))
        raise ArgumentError(
            f"Rotation: Expected axes from `seq` to be {counts} of ['x', 'y', 'z'] or "
            "['X', 'Y', 'Z'], consecutive axes different",
            got=repr(seq),
            fix="'xyz' of axes that stay, 'ZYX' of axes that turn along",
        )
    return axes, turning


def _normalized(quat: Any) -> Any:
    return quat / jnp.linalg.norm(quat, axis=-1, keepdims=True)


def _product(p: Any, q: Any) -> Any:
    """The product of quaternions: first ``q``, then ``p``."""
    a, b, c, d = (p[..., n] for n in range(4))
    x, y, z, w = (q[..., n] for n in range(4))
    parts = (
        d * x + a * w + b * z - c * y,
        d * y + b * w + c * x - a * z,
        d * z + c * w + a * y - b * x,
        d * w - a * x - b * y - c * z,
    )
    return jnp.stack(parts, axis=-1)
