"""Long short-term memory, in plain operations: a scan over time for each layer and direction.

Weights are one vector, as cuDNN has them: for each layer and direction the matrices ``W_ih`` and
``W_hh``, and after all of these the biases ``b_ih`` and ``b_hh``.  Each is made of four parts for
the gates: input, forget, cell, output.

Start at :func:`lstm`.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from functrax import lax, nn, numpy as jnp, random
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError

_Parts: TypeAlias = dict[int, Any]


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[tuple[int, ...]]:
    """The shapes of the weights, in their order."""
    directions = 2 if bidirectional else 1
    matrices: list[tuple[int, ...]] = []
    for layer in range(num_layers):
        size = input_size if layer == 0 else hidden_size * directions
        matrices += [(4 * hidden_size, size), (4 * hidden_size, hidden_size)] * directions
    return [*matrices, *[(4 * hidden_size,)] * len(matrices)]


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """How many weights there are."""
    return sum(map(math.prod, _shapes(input_size, hidden_size, num_layers, bidirectional)))


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Random weights, uniform between ``-k`` and ``k`` with ``k = 1 / sqrt(hidden_size)``."""
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = 1 / math.sqrt(hidden_size)
    return random.uniform(rng, (count,), "float32", -k, k)


def _split(weights: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """The weights as the arrays of these shapes."""
    flat, parts, at = jnp.asarray(weights), [], 0
    if flat.shape != (sum(map(math.prod, shapes)),):
        raise ShapeError(
            "lstm: the weights do not have the size of the network",
            got=f"{flat.shape} for {sum(map(math.prod, shapes))} weights",
            fix="functrax.experimental.rnn.init_lstm_weight, with the same sizes",
        )
    for shape in shapes:
        parts.append(flat[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    return parts


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[_Parts, _Parts, _Parts, _Parts]:
    """``W_ih, W_hh, b_ih, b_hh``, each by the number of layer and direction.

    Raises:
      ShapeError: if the vector has another size.
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    parts = _split(weights, shapes)
    half = len(parts) // 2
    groups = (parts[0:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2])
    return tuple(dict(enumerate(group)) for group in groups)  # type: ignore[return-value]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """The weights with the last two gates exchanged, as some other libraries order them."""
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    swapped = []
    for part in _split(weights, shapes):
        a, b, c, d = jnp.split(part, 4)
        swapped.append(jnp.concatenate([a, b, d, c]).ravel())
    return jnp.concatenate(swapped)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """A network of LSTM layers.

    Args:
      x: the inputs ``[batch, time, input_size]``.
      h_0, c_0: what the cells hold first, ``[layers * directions, batch, hidden_size]``.
      weights: as :func:`init_lstm_weight` makes them.
      seq_lengths: int32 ``[batch]``, how much of the time counts; outputs after it are zeros.
      input_size, hidden_size, num_layers, bidirectional: the network.
      dropout: must be 0.
      precision: of the products, as for ``lax.dot_general``.

    Returns:
      ``(y, h_n, c_n)``: the outputs ``[batch, time, directions * hidden_size]``, and what the cells
      hold last.

    Raises:
      ArgumentError, ShapeError, DTypeError: if the arguments do not go together.
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return lstm_ref(
        x, h_0, c_0, *parts, seq_lengths, input_size, hidden_size, num_layers, dropout,
        bidirectional, precision,
    )  # fmt: skip


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: _Parts,
    W_hh: _Parts,
    b_ih: _Parts,
    b_hh: _Parts,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """As :func:`lstm`, with the weights apart, as :func:`unpack_lstm_weights` gives them."""
    lengths = jnp.asarray(seq_lengths)
    if dropout != 0.0:
        raise ArgumentError("lstm: there is no dropout", got=f"dropout={dropout}", fix="0.0")
    if lengths.dtype != "int32":
        raise DTypeError(
            "lstm: seq_lengths is not int32", got=str(lengths.dtype), fix=".astype('int32')"
        )
    first, inputs = (jnp.asarray(h_0), jnp.asarray(c_0)), jnp.swapaxes(jnp.asarray(x), 0, 1)
    if inputs.ndim != 3 or inputs.shape[2] != input_size:
        raise ShapeError(
            "lstm: the inputs are not [batch, time, input_size]",
            got=f"{jnp.shape(x)} for input_size={input_size}",
            fix="three axes",
        )
    directions = 2 if bidirectional else 1
    time = jnp.arange(inputs.shape[0], dtype="int32")[:, None]
    counts = time < lengths[None]
    back = jnp.where(counts, lengths[None] - 1 - time, time)[:, :, None]
    held: list[tuple[Any, Any]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            n = layer * directions + direction
            ordered = jnp.take_along_axis(inputs, back, 0) if direction else inputs
            part = (W_ih[n], W_hh[n], b_ih[n] + b_hh[n])
            last, made = _layer(ordered, counts, first[0][n], first[1][n], part, precision)
            held.append(last)
            outputs.append(jnp.take_along_axis(made, back, 0) if direction else made)
        inputs = jnp.concatenate(outputs, axis=-1)
    return (
        jnp.swapaxes(inputs, 0, 1),
        jnp.stack([h for h, _ in held]),
        jnp.stack([c for _, c in held]),
    )


def _layer(
    inputs: Any, counts: Any, h: Any, c: Any, weights: tuple[Any, Any, Any], precision: Any
) -> tuple[tuple[Any, Any], Any]:
    """What a layer holds last, and its outputs, zeros where the time does not count."""
    of_input, of_state, bias = weights
    given = jnp.matmul(inputs, of_input.T, precision=precision) + bias[None, None]

    def step(state: tuple[Any, Any], now: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
        h, c = state
        from_input, on = now
        gates = from_input + jnp.matmul(h, of_state.T, precision=precision)
        enter, keep, cell, leave = jnp.split(gates, 4, axis=-1)
        new_c = nn.sigmoid(keep) * c + nn.sigmoid(enter) * jnp.tanh(cell)
        new_h = nn.sigmoid(leave) * jnp.tanh(new_c)
        kept = jnp.where(on, new_h, h), jnp.where(on, new_c, c)
        return kept, jnp.where(on, new_h, jnp.zeros((), new_h.dtype))

    found: tuple[tuple[Any, Any], Any] = lax.scan(step, (h, c), (given, counts[..., None]))
    return found
