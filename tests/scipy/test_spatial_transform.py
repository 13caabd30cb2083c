"""Rotations, against SciPy's."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.errors import ArgumentError, DTypeError, ShapeError
from functrax.scipy.spatial.transform import Rotation, Slerp

scipy = pytest.importorskip("scipy.spatial.transform")
RNG = np.random.default_rng(0)
QUATS = RNG.normal(size=(6, 4)).astype(np.float32)
QUATS /= np.linalg.norm(QUATS, axis=1, keepdims=True)
SEQUENCES = ["".join(s) for s in product("xyz", repeat=3) if s[0] != s[1] and s[1] != s[2]]


def same(ours: Rotation, theirs: Any) -> None:
    """One rotation has two quaternions."""
    got, want = np.asarray(ours.as_matrix()), theirs.as_matrix()
    np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize("seq", [*SEQUENCES, *map(str.upper, SEQUENCES)])
def test_euler_angles(seq: str) -> None:
    angles = RNG.uniform(-3, 3, (5, 3)).astype(np.float32)
    ours, theirs = Rotation.from_euler(seq, angles), scipy.Rotation.from_euler(seq, angles)
    same(ours, theirs)
    np.testing.assert_allclose(ours.as_euler(seq), theirs.as_euler(seq), atol=3e-5)
    degrees = ours.as_euler(seq, degrees=True)
    same(Rotation.from_euler(seq, degrees, degrees=True), theirs)


@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZYZ"])
def test_angles_at_which_two_axes_are_one(seq: str) -> None:
    middle = 0 if seq[0] == seq[2] else np.pi / 2
    for sign in (1, -1):
        angles = np.array([0.3, sign * middle, 0.4])
        with functrax.enable_x64():
            ours = Rotation.from_euler(seq, angles)
            same(
                Rotation.from_euler(seq, ours.as_euler(seq)), scipy.Rotation.from_euler(seq, angles)
            )


def test_representations() -> None:
    ours, theirs = Rotation.from_quat(3 * QUATS), scipy.Rotation.from_quat(QUATS)
    same(ours, theirs)
    for name in ("as_matrix", "as_rotvec", "as_mrp", "as_quat", "magnitude"):
        np.testing.assert_allclose(getattr(ours, name)(), getattr(theirs, name)(), atol=3e-6)
    np.testing.assert_allclose(
        ours.as_rotvec(degrees=True), theirs.as_rotvec(degrees=True), atol=2e-4
    )
    canonical = ours.as_quat(canonical=True, scalar_first=True)
    np.testing.assert_allclose(
        canonical, np.roll(theirs.as_quat(canonical=True), 1, axis=1), atol=1e-6
    )
    same(Rotation.from_matrix(theirs.as_matrix().astype(np.float32)), theirs)
    same(Rotation.from_rotvec(theirs.as_rotvec().astype(np.float32)), theirs)
    same(Rotation.from_mrp(theirs.as_mrp().astype(np.float32)), theirs)
    for one in range(6):
        same(ours[one], theirs[one])
        np.testing.assert_allclose(ours[one].as_rotvec(), theirs[one].as_rotvec(), atol=3e-6)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_matrices_of_every_kind(order: tuple[int, ...]) -> None:
    """The largest quotient is each of the four in turn."""
    for signs in product((1.0, -1.0), repeat=3):
        matrix = np.zeros((3, 3), np.float32)
        matrix[np.arange(3), order] = signs
        if np.linalg.det(matrix) > 0:
            np.testing.assert_allclose(Rotation.from_matrix(matrix).as_matrix(), matrix, atol=1e-6)


def test_composition() -> None:
    a, b = Rotation.from_quat(QUATS[:3]), Rotation.from_quat(QUATS[3:])
    c, d = scipy.Rotation.from_quat(QUATS[:3]), scipy.Rotation.from_quat(QUATS[3:])
    same(a * b, c * d)
    same(a.inv(), c.inv())
    same(a * b[0], c * d[0])
    v = RNG.normal(size=(3, 3)).astype(np.float32)
    for inverse in (False, True):
        np.testing.assert_allclose(a.apply(v, inverse), c.apply(v, inverse), atol=1e-5)
        np.testing.assert_allclose(a[0].apply(v, inverse), c[0].apply(v, inverse), atol=1e-5)
        np.testing.assert_allclose(a.apply(v[0], inverse), c.apply(v[0], inverse), atol=1e-5)
    same(Rotation.concatenate([a, b]), scipy.Rotation.concatenate([c, d]))
    weights = np.array([1.0, 2.0, 0.5])
    same(a.mean(), c.mean())
    same(a.mean(weights), c.mean(weights))
    assert len(a) == 3 and not a.single and a[0].single


def test_interpolation() -> None:
    times = np.array([0.0, 1.0, 3.0, 4.0], np.float32)
    ours = Slerp.init(times, Rotation.from_quat(QUATS[:4]))
    theirs = scipy.Slerp(times, scipy.Rotation.from_quat(QUATS[:4]))
    at = np.array([0, 0.2, 1, 2.5, 3.9, 4], np.float32)
    same(ours(at), theirs(at))
    same(ours(0.7), theirs(0.7))
    assert ours(0.7).single


def test_derivatives_are_finite_at_no_rotation() -> None:
    for function in (
        lambda v: Rotation.from_rotvec(v).as_rotvec(),
        lambda v: Rotation.from_mrp(v).as_mrp(),
    ):
        np.testing.assert_allclose(functrax.jacobian(function)(jnp.zeros(3)), np.eye(3), atol=1e-6)
    small = functrax.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(jnp.full(3, 2e-3))
    np.testing.assert_allclose(small, np.eye(3), atol=1e-3)


def test_transformations() -> None:
    r = Rotation.from_quat(QUATS)
    turned = functrax.jit(lambda r, v: (r * r).apply(v))(r, jnp.ones(3))
    np.testing.assert_allclose(turned, (r * r).apply(jnp.ones(3)), atol=1e-6)
    each = functrax.vmap(lambda r: r.inv().as_euler("zyx"))(r)
    np.testing.assert_allclose(each, r.inv().as_euler("zyx"), atol=1e-6)


def test_random_rotations_have_no_direction() -> None:
    drawn = Rotation.random(random.key(0), 20_000)
    np.testing.assert_allclose(
        np.asarray(drawn.apply(jnp.array([1.0, 0, 0]))).mean(0), 0, atol=0.02
    )
    assert Rotation.random(random.key(1)).single
    same(Rotation.identity(), scipy.Rotation.identity())
    assert Rotation.identity(3).quat.shape == (3, 4)


def test_errors() -> None:
    one, many = Rotation.identity(), Rotation.identity(3)
    for call, error in (
        (lambda: Rotation.from_euler("xxy", [1, 2, 3]), ArgumentError),
        (lambda: Rotation.from_euler("xY", [1, 2]), ArgumentError),
        (lambda: Rotation.from_euler("abc", [1, 2, 3]), ArgumentError),
        (lambda: Rotation.from_euler("xyz", [1, 2]), ShapeError),
        (lambda: one.as_euler("xy"), ArgumentError),
        (lambda: one[0], DTypeError),
        (lambda: len(one), DTypeError),
        (lambda: Rotation.from_quat([1.0, 2.0, 3.0]), ShapeError),
        (lambda: Rotation.from_matrix(np.eye(2)), ShapeError),
        (lambda: many.mean([1.0]), ShapeError),
        (lambda: Slerp.init([0, 1], one), ArgumentError),
        (lambda: Slerp.init([0, 1], many), ShapeError),
        (lambda: Slerp.init([0, 1, 2], "no"), DTypeError),
        (lambda: Slerp.init([0, 1, 2], many)(np.zeros((2, 2))), ShapeError),
    ):
        with pytest.raises(error):
            call()
