"""LSTM layers, against the equations of their gates written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.experimental import rnn

SIZES = (3, 4, 2)


def by_numpy(x, h, c, parts, lengths, bidirectional):
    directions = 2 if bidirectional else 1
    h_n, c_n = h.copy(), c.copy()
    for layer in range(SIZES[2]):
        y = np.zeros((*x.shape[:2], SIZES[1] * directions), "float32")
        for d in range(directions):
            n = layer * directions + d
            w_ih, w_hh, b_ih, b_hh = (np.asarray(p[n]) for p in parts)
            for b, length in enumerate(lengths):
                state, cell = h[n, b], c[n, b]
                for t in reversed(range(length)) if d else range(length):
                    gates = w_ih @ x[b, t] + b_ih + w_hh @ state + b_hh
                    i, f, g, o = np.split(gates, 4)
                    i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
                    cell = f * cell + i * np.tanh(g)
                    state = o * np.tanh(cell)
                    y[b, t, d * SIZES[1] : (d + 1) * SIZES[1]] = state
                h_n[n, b], c_n[n, b] = state, cell
        x = y
    return x, h_n, c_n


@pytest.mark.parametrize("bidirectional", [False, True])
def test_against_the_equations(bidirectional):
    layers = SIZES[2] * (2 if bidirectional else 1)
    weights = rnn.init_lstm_weight(functrax.random.key(0), *SIZES, bidirectional)
    assert weights.shape == (rnn.get_num_params_in_lstm(*SIZES, bidirectional),)
    x = np.cos(np.arange(30)).reshape(2, 5, 3).astype("float32")
    h = np.sin(np.arange(layers * 8)).reshape(layers, 2, 4).astype("float32")
    lengths = jnp.array([5, 3], "int32")
    run = functrax.jit(lambda w: rnn.lstm(x, h, h / 2, w, lengths, *SIZES, 0.0, bidirectional))
    parts = rnn.unpack_lstm_weights(weights, *SIZES, bidirectional)
    expected = by_numpy(x, h, h / 2, parts, [5, 3], bidirectional)
    for found, wanted in zip(run(weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    gradient = functrax.grad(lambda w: run(w)[0].sum())(weights)
    assert bool(jnp.isfinite(gradient).all())
    assert float(abs(gradient).max()) > 0


def test_exchanged_gates():
    weights = rnn.init_lstm_weight(functrax.random.key(0), *SIZES, True)
    swapped = rnn.swap_lstm_gates(weights, *SIZES, True)
    np.testing.assert_array_equal(rnn.swap_lstm_gates(swapped, *SIZES, True), weights)
    first = weights[:48].reshape(4, 4, 3)
    np.testing.assert_array_equal(swapped[:48].reshape(4, 4, 3), first[jnp.array([0, 1, 3, 2])])


@pytest.mark.parametrize(
    "change", [{"dropout": 0.5}, {"lengths": jnp.array([5.0])}, {"x": jnp.ones((1, 5, 4))}]
)
def test_mistakes(change):
    given = {"dropout": 0.0, "lengths": jnp.array([5]), "x": jnp.ones((1, 5, 3)), **change}
    weights = jnp.zeros(rnn.get_num_params_in_lstm(*SIZES, False))
    state = jnp.zeros((2, 1, 4))
    with pytest.raises(TypeError):
        rnn.lstm(
            given["x"], state, state, weights, given["lengths"], *SIZES, given["dropout"], False
        )


def test_weights_of_another_size():
    with pytest.raises(ValueError, match="size of the network"):
        rnn.unpack_lstm_weights(jnp.zeros(7), *SIZES, False)
