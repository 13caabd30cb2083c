"""Eight schools: numpyro's NUTS, unchanged, on functrax.

    pip install "functrax[examples,libraries]"
    python -m functrax.compat examples/eight_schools.py [--samples 2000] [--seed 0]

Eight schools tried the same coaching; each measured its effect on test scores, with an error of its
own (Rubin 1981).  How much do the schools differ?  A hierarchical model lets the data say: effects
are drawn from a normal distribution whose mean and width are drawn too.  The width is small with
fair probability, so all estimates are drawn towards the mean.

This is a numpyro program for JAX.  ``python -m functrax.compat`` has ``import jax`` give functrax,
so it runs there as it is, and so does numpyro.  Prints what the parameters are and how well the
chain mixed, and writes ``eight_schools.png``
(to ``examples/output``, or where ``--out`` says).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from matplotlib.figure import Figure
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

SCHOOLS = "ABCDEFGH"
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def model(errors, effects=None):
    """Effects of the schools, ``theta``, around ``mu`` with width ``tau``."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(errors)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, errors), obs=effects)


def sampled(samples, seed):
    """Samples by name, each ``(chains, samples, ...)``, and how many transitions diverged."""
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=samples,
        num_samples=samples,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed), ERRORS, EFFECTS)
    found = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    return found, int(jnp.sum(mcmc.get_extra_fields()["diverging"]))


def summary(found):
    """Rows of name, mean, standard deviation, effective number of samples and split R-hat."""
    rows = []
    for name in ("mu", "tau"):
        rows.append((name, found[name]))
    rows += [(f"school {s}", found["theta"][..., k]) for k, s in enumerate(SCHOOLS)]
    return [
        (name, x.mean(), x.std(), effective_sample_size(x), split_gelman_rubin(x))
        for name, x in rows
    ]


def draw(found, path):
    """What each school measured, and what the model makes of it."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    places = np.arange(len(SCHOOLS))
    theta = found["theta"].reshape(-1, len(SCHOOLS))
    low, middle, high = np.quantile(theta, [0.05, 0.5, 0.95], axis=0)
    left.errorbar(
        EFFECTS, places - 0.15, xerr=1.645 * ERRORS, fmt="o", color="0.6", label="measured"
    )
    bars = [middle - low, high - middle]
    left.errorbar(middle, places + 0.15, xerr=bars, fmt="o", color="C0", label="estimated")
    left.axvline(found["mu"].mean(), color="C0", linewidth=0.8, linestyle=":")
    left.set_yticks(places, list(SCHOOLS))
    left.invert_yaxis()
    left.set_xlabel("effect, points (90 % intervals)")
    left.set_ylabel("school")
    figure.legend(frameon=False, loc="outside upper left", ncols=2)
    right.hist(np.minimum(found["tau"].ravel(), 30), bins=60, density=True, color="C0")
    right.set_xlabel("tau, how much schools differ")
    right.set_ylabel("density")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000, help="of each of two chains")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    begin = time.perf_counter()
    found, diverged = sampled(options.samples, options.seed)
    seconds = time.perf_counter() - begin
    count = 2 * options.samples
    print(f"{count} samples in {seconds:.1f} s, compiling included; {diverged} diverged")
    print(f"{'':10} {'mean':>7} {'sd':>7} {'n_eff':>7} {'R-hat':>7}")
    for name, mean, deviation, number, ratio in summary(found):
        print(f"{name:10} {mean:7.2f} {deviation:7.2f} {number:7.0f} {ratio:7.3f}")
    draw(found, options.out / "eight_schools.png")


if __name__ == "__main__":
    main()
