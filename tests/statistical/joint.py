"""Tests of exactness that hold for any number of steps: the joint-distribution and the rank test.

**Joint-distribution test** (Geweke 2004, "Getting it right"). A chain starts from an exact draw of
the prior and alternates y ~ p(y | theta), exactly, with theta ~ K(theta | y), by the kernel. If K
leaves p(theta | y) as it is, then (theta, y) has the law of the joint after any number of rounds.
We run thousands of independent chains for a few rounds and keep the last state of each: an iid
sample, whose scores (see `models`) are N(0, I). Nothing has to mix and no autocorrelation has to be
estimated, so the tests below are exact up to the central limit theorem.

**Rank test** (Gandy and Scott 2020, "Unit testing for MCMC and other Monte Carlo methods"). The
data stay fixed, theta_0 gets a random place M in a chain of n + 1 states: M states are run from it
backward in time (by K itself, which is reversible) and n - M forward. Given the chain, M is
uniform, so the rank of f(theta_0) among the n + 1 values is uniform, ties broken at random.

**Thresholds.** Every comparison is a z, or a p-value turned into the z of the same two-sided
probability, and passes below 4.5: a false alarm has probability 6.8e-6. k comparisons together
raise one with probability below 6.8e-6 k; the keys are fixed, so this is drawn once and not at
every run.

**Power.** With N chains a mean that is off by b standard deviations has an expected z of b sqrt(N),
so that b = 5.8 / sqrt(N) is found in 9 cases of 10: b = 0.064 with N = 8192.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from amalt.kernels import malt
from amalt.kernels.integrators import Integrator
from amalt.kernels.malt import MaltTuning

from .models import Model

THRESHOLD = 4.5
"""The largest |z| that passes."""

CHAINS = 2**13
ROUNDS = 7
"""Rounds of the kernel; the ranks of the rank test are 0, ..., 7."""

TRANSITIONS = 4
"""Transitions per round: more than one, so that what is cached in a state is used again."""


Kernel = Callable[[jax.Array, MaltTuning, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""``(key_words, tuning, theta, y) -> (theta, mean acceptance rate)``, for one chain."""


def malt_kernel(model: Model, integrator: Integrator, module: ModuleType = malt) -> Kernel:
    """Return K: a few transitions of MALT with the same data, the state carried along."""

    def kernel(
        keys: jax.Array, tuning: MaltTuning, theta: jax.Array, y: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        value_and_grad = jax.value_and_grad(lambda x: model.logdensity(x, y))

        def body(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, info = module.step(key, state, tuning, value_and_grad, integrator)
            return state, info.acceptance_rate

        state, acceptance = jax.lax.scan(body, module.init(theta, value_and_grad), keys)
        return state.position, jnp.mean(acceptance)

    return kernel


class Numbers(NamedTuple):
    """All random numbers of a test, made by NumPy: the generator of amalt is itself under test."""

    start: np.ndarray
    noise: np.ndarray
    keys: np.ndarray

    @classmethod
    def draw(cls, model: Model, rng: np.random.Generator, chains: int) -> Numbers:
        """Draw starts, noise for the data of every round, and keys for its transitions."""
        return cls(
            model.draw_prior(rng, chains),
            rng.standard_normal((ROUNDS, chains, model.data), np.float32),
            rng.integers(2**32, size=(ROUNDS, chains, TRANSITIONS, 2), dtype=np.uint32),
        )


class Run(NamedTuple):
    """States ``[round + 1, chain, dim]``, the start first, with what is known of them."""

    theta: np.ndarray
    y: np.ndarray
    logdensity: np.ndarray
    acceptance: np.ndarray


@functools.cache
def simulator(model: Model, kernel: Kernel) -> Callable[..., Run]:
    """Return the compiled program of both tests: ``(numbers, fresh, place, tuning) -> Run``.

    New data are drawn in the rounds where ``fresh`` ``[round]`` is true; ``place`` ``[chain]`` is
    the round in which a chain goes back to its start.
    """

    def run(numbers: Numbers, fresh: jax.Array, place: jax.Array, tuning: MaltTuning) -> Run:
        def one_round(carry: Any, now: Any) -> Any:
            theta, y = carry
            i, is_fresh, noise, keys = now
            theta = jnp.where((i == place)[:, None], numbers.start, theta)
            y = jnp.where(is_fresh, jax.vmap(model.simulate)(noise, theta), y)
            theta, acceptance = jax.vmap(kernel, (0, None, 0, 0))(keys, tuning, theta, y)
            return (theta, y), (theta, jnp.mean(acceptance))

        carry = (numbers.start, jnp.zeros_like(numbers.noise[0]))
        rounds = (jnp.arange(ROUNDS), fresh, numbers.noise, numbers.keys)
        (_, y), (theta, acceptance) = jax.lax.scan(one_round, carry, rounds)
        theta = jnp.concatenate([numbers.start[None], theta])
        logdensity = jax.vmap(jax.vmap(model.logdensity), (0, None))(theta, y)
        return Run(theta, y, logdensity, jnp.mean(acceptance))

    program = jax.jit(run)
    return lambda *given: Run(*map(np.asarray, program(*given)))


class Finding(NamedTuple):
    """What a test found: all |z| with the names of the comparisons, and the acceptance rate."""

    z: np.ndarray
    names: list[str]
    acceptance: float

    @property
    def worst(self) -> float:
        """Return the largest |z|."""
        return float(np.max(self.z))

    def __repr__(self) -> str:
        top = np.argsort(-self.z)[:3]
        worst = ", ".join(f"{self.names[i]}: {self.z[i]:.1f}" for i in top)
        return f"{len(self.z)} comparisons, acceptance {self.acceptance:.2f}, worst {worst}"


def joint_test(
    model: Model, kernel: Kernel, tuning: MaltTuning, seed: int, chains: int = CHAINS
) -> Finding:
    """Run the joint-distribution test: new data in every round, and the scores of the last one."""
    numbers = Numbers.draw(model, np.random.default_rng(seed), chains)
    never = np.full(chains, -1, np.int32)
    run = simulator(model, kernel)(numbers, np.ones(ROUNDS, bool), never, tuning)
    scores = model.scores(run.theta[-1], run.y)
    return Finding(*normal_comparisons(scores), float(run.acceptance))


def rank_test(
    model: Model, kernel: Kernel, tuning: MaltTuning, seed: int, chains: int = CHAINS
) -> Finding:
    """Run the rank test: data of the start, which has a random place in the chain."""
    rng = np.random.default_rng(seed)
    numbers = Numbers.draw(model, rng, chains)
    place = rng.integers(ROUNDS + 1, size=chains, dtype=np.int32)
    run = simulator(model, kernel)(numbers, np.arange(ROUNDS) == 0, place, tuning)
    f = np.concatenate([run.theta, run.logdensity[..., None]], axis=-1)
    # A rejection repeats the position; its log density may be off by rounding, and is a tie too.
    tied = (f == f[0]) | np.all(run.theta == run.theta[0], axis=-1)[..., None]
    below = np.sum((f < f[0]) & ~tied, axis=0)
    names = [f"rank of theta_{i}" for i in range(model.dim)] + ["rank of the log density"]
    z = uniform_comparisons(below + rng.integers(np.sum(tied, axis=0)), ROUNDS + 1)
    return Finding(z, names, float(run.acceptance))


def normal_comparisons(w: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Compare iid rows ``[size, k]`` with N(0, I_k): k (k + 5) / 2 + 2 comparisons.

    Means, mean squares and mean products are sums of terms whose mean and variance are known; the
    whole law of every column, and of |w|^2 (chi-square), is compared by Kolmogorov and Smirnov.
    """
    size, k = w.shape
    bad = int(np.sum(~np.isfinite(w).all(axis=1)))
    if bad:
        return np.array([np.inf]), [f"{bad} of {size} chains have left the space"]
    root, energy = np.sqrt(size), np.sum(w**2, axis=1)
    z: dict[str, float] = {}
    for i in range(k):
        z[f"mean of {i}"] = w[:, i].sum() / root
        z[f"mean square of {i}"] = (w[:, i] ** 2 - 1.0).sum() / (np.sqrt(2.0) * root)
        z[f"law of {i}"] = z_of(stats.kstest(w[:, i], "norm").pvalue)
    for i, j in itertools.combinations(range(k), 2):
        z[f"mean product of {i} and {j}"] = (w[:, i] * w[:, j]).sum() / root
    z["mean energy"] = (energy - k).sum() / (np.sqrt(2.0 * k) * root)
    z["law of the energy"] = z_of(stats.kstest(energy, stats.chi2(k).cdf).pvalue)
    return np.abs(list(z.values())), list(z)


def uniform_comparisons(ranks: np.ndarray, bins: int) -> np.ndarray:
    """Compare ranks ``[size, k]`` with the uniform law on 0, ..., bins - 1, by chi-square."""
    counts = np.stack([np.bincount(column, minlength=bins) for column in ranks.T])
    return np.array([z_of(stats.chisquare(row).pvalue) for row in counts])


def z_of(p: Any) -> float:
    """Return the z with two-sided probability p; a p that underflows becomes z = 37."""
    return float(-special.ndtri(0.5 * max(float(p), 1e-300)))
