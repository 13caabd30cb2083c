"""Spatial algorithms, as in ``jax.scipy.spatial``."""

from __future__ import annotations

from functrax.scipy.spatial import transform as transform
