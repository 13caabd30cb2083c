"""Sequences: hidden states, alignments, language models."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster, floats

# ---- hidden Markov models -----------------------------------------------------------------------


def hidden_markov() -> tuple[np.ndarray, ...]:
    """Log probabilities of 32 states: transitions, and of 500 observations."""
    rng = np.random.default_rng(0)
    transitions = np.log(rng.dirichlet(np.ones(32), 32))
    return transitions.astype(np.float32), rng.standard_normal((500, 32)).astype(np.float32)


def viterbi(jax: Any) -> Any:
    """The most probable path of 500 steps through 32 states, and its score."""
    jnp = jax.numpy

    def run(transitions: Any, observed: Any) -> Any:
        def forward(score: Any, row: Any) -> Any:
            scores = score[:, None] + transitions
            return scores.max(0) + row, scores.argmax(0)

        score, back = jax.lax.scan(forward, observed[0], observed[1:])
        last = score.argmax()

        def backward(state: Any, pointers: Any) -> Any:
            before = pointers[state]
            return before, before

        _, path = jax.lax.scan(backward, last, back, reverse=True)
        return jnp.append(path, last), score.max()

    return run


def forward_backward(jax: Any) -> Any:
    """Posteriors of the states: the gradient of the log likelihood by the observations' scores."""
    logsumexp = jax.scipy.special.logsumexp

    def likelihood(observed: Any, transitions: Any) -> Any:
        def step(alpha: Any, row: Any) -> Any:
            return logsumexp(alpha[:, None] + transitions, axis=0) + row, None

        return logsumexp(jax.lax.scan(step, observed[0], observed[1:])[0])

    return lambda transitions, observed: jax.value_and_grad(likelihood, (0, 1))(
        observed, transitions
    )


# ---- connectionist temporal classification ------------------------------------------------------


def speech() -> tuple[np.ndarray, ...]:
    """Scores of 8 utterances, 100 frames, 30 symbols (0 is the blank), and 20 labels of each."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((8, 100, 30), np.float32)
    return logits, rng.integers(1, 30, (8, 20)).astype(np.int32)


def ctc(jax: Any) -> Any:
    """The loss of Graves et al. 2006 for one utterance, mapped over a batch, and its gradient."""
    jnp = jax.numpy

    def loss(logits: Any, labels: Any) -> Any:
        log_p = jax.nn.log_softmax(logits)
        extended = jnp.zeros(2 * labels.shape[0] + 1, jnp.int32).at[1::2].set(labels)
        skip = (extended != 0) & (extended != jnp.roll(extended, 2))
        skip = skip.at[:2].set(False)
        start = jnp.full(extended.shape, -1e5).at[:2].set(log_p[0, extended[:2]])

        def step(alpha: Any, row: Any) -> Any:
            one = jnp.concatenate([jnp.full(1, -1e5), alpha[:-1]])
            two = jnp.where(skip, jnp.concatenate([jnp.full(2, -1e5), alpha[:-2]]), -1e5)
            return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + row[extended], None

        alpha, _ = jax.lax.scan(step, start, log_p[1:])
        return -jnp.logaddexp(alpha[-1], alpha[-2])

    def run(logits: Any, labels: Any) -> Any:
        return jax.value_and_grad(lambda logits: jax.vmap(loss)(logits, labels).mean())(logits)

    return run


# ---- alignments and trees -----------------------------------------------------------------------


def proteins() -> tuple[np.ndarray, ...]:
    """Scores of the pairs of two proteins' residues, 96 × 96."""
    return (np.random.default_rng(0).standard_normal((96, 96), np.float32),)


def smith_waterman(jax: Any) -> Any:
    """Smooth local alignment by antidiagonals, and by its gradient which residues are paired."""
    jnp = jax.numpy

    def score(similarity: Any) -> Any:
        n, m = similarity.shape
        k, i = jnp.mgrid[: n + m - 1, :n]
        j = k - i
        inside = (j >= 0) & (j < m)
        rotated = jnp.where(inside, similarity[i, jnp.clip(j, 0, m - 1)], -1e4)

        def step(state: Any, row: Any) -> Any:
            before, last = state
            inner, mask = row
            diagonal = jnp.concatenate([jnp.zeros(1), before[:-1]]) + inner
            above = jnp.concatenate([jnp.full(1, -1e4), last[:-1]]) - 1.0
            options = jnp.stack([diagonal, last - 1.0, above, inner])
            new = jnp.where(mask, jax.scipy.special.logsumexp(options, axis=0), -1e4)
            return (last, new), new

        empty = jnp.full(n, -1e4)
        table = jax.lax.scan(step, (empty, empty), (rotated, inside))[1]
        return jax.scipy.special.logsumexp(table)

    return jax.value_and_grad(score)


def primates() -> tuple[np.ndarray, ...]:
    """1,000 bases of 16 species, which nodes each join of the tree joins, branches' lengths."""
    rng = np.random.default_rng(0)
    order = np.arange(16).tolist()
    pairs = []
    for node in range(16, 31):  # joins two at random
        a, b = (order.pop(int(rng.integers(len(order)))) for _ in range(2))
        pairs.append((a, b))
        order.append(node)
    lengths = rng.uniform(0.05, 0.3, 30).astype(np.float32)
    return rng.integers(0, 4, (16, 1000)).astype(np.int32), np.array(pairs, np.int32), lengths


def phylogeny(jax: Any) -> Any:
    """Felsenstein's pruning: the likelihood of a tree of 16 species, its gradient by branches."""
    jnp = jax.numpy

    def run(bases: Any, pairs: Any, lengths: Any) -> Any:
        def log_likelihood(lengths: Any, rates: Any) -> Any:
            q = jnp.exp(rates) * (1 - jnp.eye(4))
            q = q - jnp.diag(q.sum(1))
            moves = jax.vmap(lambda t: jax.scipy.linalg.expm(t * q, max_squarings=4))(lengths)
            leaves = jax.nn.one_hot(bases, 4)
            partial = jnp.concatenate([leaves, jnp.zeros((15, *leaves.shape[1:]))])

            def join(partial: Any, row: Any) -> Any:
                node, pair = row
                both = jnp.einsum("cij,csj->csi", moves[pair], partial[pair])
                return partial.at[node].set(both[0] * both[1]), None

            partial, _ = jax.lax.scan(join, partial, (jnp.arange(16, 31), pairs))
            return jnp.log(partial[-1].mean(1)).sum()

        return jax.value_and_grad(log_likelihood, (0, 1))(lengths, jnp.zeros((4, 4)))

    return run


# ---- language models ----------------------------------------------------------------------------

WIDTH, HEADS, LAYERS, LENGTH, VOCABULARY = 128, 4, 2, 64, 256


def decoder() -> tuple[Any, ...]:
    """Weights of a decoder of two layers, and prompts of four tokens."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) / np.float32(shape[-2] ** 0.5)

    layers = [
        {
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 4 * WIDTH),
            "down": matrix(4 * WIDTH, WIDTH),
            "scale": np.ones((2, WIDTH), np.float32),
        }
        for _ in range(LAYERS)
    ]
    weights = {
        "embed": matrix(VOCABULARY, WIDTH),
        "place": 0.1 * matrix(LENGTH, WIDTH),
        "layers": layers,
    }
    return weights, rng.integers(0, VOCABULARY, (4, 4)).astype(np.int32)


def one_token(jax: Any) -> Any:
    """A function of weights, caches, tokens (batch,) and their place: logits and new caches."""
    jnp = jax.numpy

    def norm(x: Any, scale: Any) -> Any:
        return scale * x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)

    def attend(layer: Any, cache: Any, x: Any, place: Any) -> Any:
        q, k, v = jnp.split(x @ layer["qkv"], 3, axis=-1)
        q, k, v = (a.reshape(-1, 1, HEADS, WIDTH // HEADS) for a in (q, k, v))
        keys = jax.lax.dynamic_update_slice(cache[0], k, (0, place, 0, 0))
        values = jax.lax.dynamic_update_slice(cache[1], v, (0, place, 0, 0))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys) / (WIDTH // HEADS) ** 0.5
        scores = jnp.where(jnp.arange(LENGTH) <= place, scores, -jnp.inf)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), values)
        return mixed.reshape(-1, WIDTH) @ layer["out"], (keys, values)

    def step(weights: Any, caches: Any, token: Any, place: Any) -> Any:
        x = weights["embed"][token] + weights["place"][place]
        new = []
        for layer, cache in zip(weights["layers"], caches):
            mixed, cache = attend(layer, cache, norm(x, layer["scale"][0]), place)
            x = x + mixed
            x = x + jax.nn.gelu(norm(x, layer["scale"][1]) @ layer["up"]) @ layer["down"]
            new.append(cache)
        return x @ weights["embed"].T, new

    return step


def empty_caches(jax: Any, batch: int) -> Any:
    shape = (batch, LENGTH, HEADS, WIDTH // HEADS)
    return [(jax.numpy.zeros(shape), jax.numpy.zeros(shape)) for _ in range(LAYERS)]


def decoding(jax: Any) -> Any:
    """60 tokens for each of four prompts, greedily, with a cache of keys and values."""
    jnp = jax.numpy
    step = one_token(jax)

    def run(weights: Any, prompts: Any) -> Any:
        tokens = jnp.zeros((4, LENGTH), jnp.int32).at[:, :4].set(prompts)

        def write(place: Any, state: Any) -> Any:
            tokens, caches, _ = state
            logits, caches = step(weights, caches, tokens[:, place], place)
            chosen = jnp.where(place < 3, tokens[:, place + 1], logits.argmax(-1))
            return tokens.at[:, place + 1].set(chosen), caches, logits

        start = tokens, empty_caches(jax, 4), jnp.zeros((4, VOCABULARY))
        tokens, _, logits = jax.lax.fori_loop(0, LENGTH - 1, write, start)
        return tokens, logits

    return run


def beam_search(jax: Any) -> Any:
    """The best of eight beams after 30 tokens from one prompt; caches are reordered at each."""
    jnp = jax.numpy
    step = one_token(jax)

    def run(weights: Any, prompts: Any) -> Any:
        tokens = jnp.zeros((8, LENGTH), jnp.int32).at[:, 0].set(prompts[0, 0])
        scores = jnp.full(8, -1e9).at[0].set(0.0)

        def extend(state: Any, place: Any) -> Any:
            tokens, scores, caches = state
            logits, caches = step(weights, caches, tokens[:, place], place)
            total = scores[:, None] + jax.nn.log_softmax(logits / 4)
            scores, flat = jax.lax.top_k(total.reshape(-1), 8)
            beam, token = flat // VOCABULARY, flat % VOCABULARY
            caches = jax.tree_util.tree_map(lambda c: c[beam], caches)
            return (tokens[beam].at[:, place + 1].set(token), scores, caches), scores[0]

        start = tokens, scores, empty_caches(jax, 8)
        (tokens, scores, _), path = jax.lax.scan(extend, start, jnp.arange(30))
        return tokens[0], scores, path

    return run


def state_space(jax: Any) -> Any:
    """A diagonal state-space layer by associative_scan, 8 × 512 × 64, and its gradient."""
    jnp = jax.numpy

    def run(x: Any, decay: Any, b: Any, c: Any) -> Any:
        def loss(decay: Any, b: Any, c: Any) -> Any:
            a = jnp.exp(-jax.nn.softplus(decay))
            steps = jnp.broadcast_to(a, (8, 512, 64)), b * x

            def combine(left: Any, right: Any) -> Any:
                return left[0] * right[0], right[0] * left[1] + right[1]

            _, h = jax.lax.associative_scan(combine, steps, axis=1)
            return jnp.mean(jax.nn.silu(h * c) ** 2)

        return jax.value_and_grad(loss, (0, 1, 2))(decay, b, c)

    return run


ROWS = (
    Workload("Viterbi", hidden_markov, viterbi, (faster(1),)),
    Workload("forward-backward", hidden_markov, forward_backward, (faster(1),)),
    Workload("CTC", speech, ctc, (faster(1),)),
    Workload("Smith-Waterman", proteins, smith_waterman, (faster(1),)),
    Workload("phylogeny", primates, phylogeny, (faster(1),)),
    Workload("decoding with a cache", decoder, decoding, (faster(1),)),
    Workload("beam search", decoder, beam_search, (faster(1),)),
    Workload(
        "state-space layer", floats((8, 512, 64), (64,), (64,), (64,)), state_space, (faster(1),)
    ),
)
