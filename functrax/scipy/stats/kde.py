"""Densities estimated from points: a normal distribution around each.

Start at :class:`gaussian_kde`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import functrax.numpy as jnp
from functrax import random
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.pytree.registry import register_pytree_node_class
from functrax.core.tracing.primitive import Value
from functrax.nn.normalization import logsumexp
from functrax.scipy.linalg import cho_solve
from functrax.scipy.special import ndtr


@register_pytree_node_class
class gaussian_kde:  # noqa: N801 - the name that SciPy has
    """A density estimated from points.

    Args:
      dataset: the points, of shape (dimensions, points), or numbers.
      bw_method: the width of the normal distributions relative to the spread of the points: a
        number, "scott" (the default), "silverman", or a function of the estimate.
      weights: of the points; equal ones if None.

    Raises:
      ShapeError: if there are too few points, or weights do not fit.
      ArgumentError: for another ``bw_method``.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import gaussian_kde
    >>> gaussian_kde(jnp.array([-1.0, 1.0]))(0.0).round(3)
    Array([0.233], dtype=float32)
    """

    def __init__(
        self,
        dataset: Any,
        bw_method: str | float | Callable[[gaussian_kde], Any] | None = None,
        weights: Any = None,
    ) -> None:
        points: Value = jnp.atleast_2d(jnp.asarray(dataset))
        self.dataset = points.astype(jnp.result_type(points, float))
        self.d, self.n = self.dataset.shape
        if self.n < 2:
            raise ShapeError(
                "gaussian_kde: there are too few points",
                got=self.dataset.aval.str_short(),
                fix="at least two points, along the last axis",
            )
        given = jnp.ones(self.n) if weights is None else jnp.asarray(weights)
        if given.shape != (self.n,):
            raise ShapeError(
                "gaussian_kde: there is not one weight for each point",
                got=f"{given.aval.str_short()} for {self.n} points",
                fix="a vector of weights",
            )
        self.weights = (given / jnp.sum(given)).astype(self.dataset.dtype)
        self.neff = 1 / jnp.sum(self.weights**2)
        self.factor = self._factor(bw_method)
        spread = jnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        self.covariance = jnp.atleast_2d(spread) * self.factor**2
        self._chol = jnp.linalg.cholesky(self.covariance)

    def _factor(self, bw_method: Any) -> Value:
        if callable(bw_method):
            return jnp.asarray(bw_method(self))
        if bw_method in (None, "scott"):
            return self.neff ** (-1.0 / (self.d + 4))
        if bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        if isinstance(bw_method, str):
            raise ArgumentError(
                "gaussian_kde: unknown bw_method",
                got=repr(bw_method),
                fix="'scott', 'silverman', a number or a function",
            )
        return jnp.asarray(bw_method)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[int, int]]:
        """The arrays, and the sizes."""
        arrays = (self.dataset, self.weights, self.neff, self.factor, self.covariance, self._chol)
        return arrays, (self.d, self.n)

    @classmethod
    def tree_unflatten(cls, sizes: tuple[int, int], arrays: Any) -> gaussian_kde:
        """Undo :meth:`tree_flatten`."""
        self = object.__new__(cls)
        self.d, self.n = sizes
        self.dataset, self.weights, self.neff, self.factor, self.covariance, self._chol = arrays
        return self

    def logpdf(self, x: Any) -> Value:
        """The logarithm of the density at points of shape (dimensions, points), or at numbers."""
        points: Value = jnp.atleast_2d(jnp.asarray(x))
        if points.shape[0] != self.d:
            if self.d != 1 and points.shape != (1, self.d):
                raise ShapeError(
                    "gaussian_kde: points have another number of dimensions",
                    got=f"{points.aval.str_short()} for {self.d} dimensions",
                    fix="points along the last axis",
                )
            points = points.reshape(self.d, -1)
        away = self.dataset[:, :, None] - points[:, None, :]
        flat = away.reshape(self.d, -1)
        energy = 0.5 * jnp.sum(flat * cho_solve((self._chol, True), flat), 0)
        log_volume = jnp.sum(jnp.log(jnp.diagonal(self._chol)))
        constant = log_volume + 0.5 * self.d * math.log(2 * math.pi)
        terms = jnp.log(self.weights)[:, None] - energy.reshape(self.n, -1)
        found: Value = logsumexp(terms, axis=0)
        return found - constant

    def evaluate(self, points: Any) -> Value:
        """The density at points of shape (dimensions, points), or at numbers."""
        return jnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def integrate_box_1d(self, low: Any, high: Any) -> Value:
        """The probability between two numbers, for points of one dimension."""
        if self.d != 1:
            raise ShapeError(
                "gaussian_kde: integrate_box_1d is for numbers",
                got=f"{self.d} dimensions",
                fix="an estimate of one dimension",
            )
        width = self._chol[0, 0]
        over = ndtr((high - self.dataset[0]) / width) - ndtr((low - self.dataset[0]) / width)
        return jnp.sum(self.weights * over)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Value:
        """The integral of the density times that of a normal distribution.

        Args:
          mean: of the distribution, of as many elements as there are dimensions.
          cov: its covariance, a matrix, or a number for one dimension.

        Raises:
          ShapeError: if these are of other dimensions.
        """
        middle: Value = jnp.atleast_1d(jnp.squeeze(mean))
        spread: Value = jnp.atleast_2d(cov)
        if middle.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(
                "gaussian_kde: the distribution has another number of dimensions",
                got=f"{middle.aval.str_short()}, {spread.aval.str_short()} for {self.d} dimensions",
                fix="a mean and a covariance of as many dimensions",
            )
        away = self.dataset - middle[:, None]
        return jnp.sum(self.weights * _normal(away, self.covariance + spread))

    def integrate_kde(self, other: Any) -> Value:
        """The integral of the density times another one.

        Raises:
          ShapeError: if the other one is of other dimensions.
        """
        if other.d != self.d:
            raise ShapeError(
                "gaussian_kde: the estimates have different numbers of dimensions",
                got=f"{self.d} and {other.d}",
                fix="estimates of points of one dimension",
            )
        away = self.dataset[:, :, None] - other.dataset[:, None, :]
        found = _normal(away.reshape(self.d, -1), self.covariance + other.covariance)
        return self.weights @ found.reshape(self.n, other.n) @ other.weights

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Value:
        """Draw points; an array of shape ``(dimensions, *shape)``."""
        of_points, of_noise = random.split(key)
        which = random.choice(of_points, self.n, shape, p=self.weights)
        noise = random.normal(of_noise, (self.d, *shape), self.dataset.dtype)
        return self.dataset[:, which] + jnp.tensordot(self._chol, noise, 1)


def _normal(away: Value, covariance: Value) -> Value:
    """The density of a normal distribution at columns of differences from its mean."""
    factor = jnp.linalg.cholesky(covariance)
    energy = jnp.sum(away * cho_solve((factor, True), away), 0) / 2
    volume = jnp.sum(jnp.log(jnp.diagonal(factor))) + len(away) * math.log(2 * math.pi) / 2
    return jnp.exp(-energy - volume)
