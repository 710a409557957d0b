"""Chains that start from exact draws stay exact: `amalt.sample` on the built-in posteriors.

Start of each chain: an exact draw. If the program is right, the last draw of each chain is another,
independent of those of other chains, however badly a single chain mixes; necks are no excuse. The
four posteriors make 190 comparisons: a false alarm has probability below 0.0013 (drawn once).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt.methods import METHODS
from amalt.run import block, loop, session

from . import broken
from .exact import BANANA, EIGHT_SCHOOLS, FUNNEL, GAUSSIAN, Exact
from .joint import THRESHOLD, Finding, normal_comparisons

CHAINS = 2**12
DRAWS = 8

EIGHT_SCHOOLS_VARIANCES = np.array([30.0, 0.26, 117, 61, 110, 69, 56, 71, 67, 119])

# Acceptance between 0.55 and 0.9, so that the accept decision matters.
CASES = (
    (GAUSSIAN, "leapfrog", amalt.Tuning(0.016, 0.1, 3.0, np.ones(10))),
    (BANANA, "two-stage", amalt.Tuning(3.0, 12.0, 0.1, np.array([100.0, 19.0]))),
    (FUNNEL, "leapfrog", amalt.Tuning(0.4, 1.6, 0.5, np.ones(5))),
    (EIGHT_SCHOOLS, "three-stage", amalt.Tuning(14.0, 42.0, 0.02, EIGHT_SCHOOLS_VARIANCES)),
)


def run_from_exact_starts(case: Exact, integrator: str, tuning: amalt.Tuning) -> Finding:
    eps = np.random.default_rng(20).standard_normal((CHAINS, case.dim))
    starts = case.forward(eps)
    np.testing.assert_allclose(case.inverse(starts), eps, atol=1e-4)
    target = amalt.gym.load(case.name, **case.options)
    fit = amalt.sample(
        target,
        init=jax.vmap(target.unravel)(jnp.asarray(starts, jnp.float32)),
        tuning=tuning,
        integrator=integrator,
        chains=CHAINS,
        draws=DRAWS,
        random_seed=21,
    )
    last = fit.unconstrained[:, -1].astype(np.float64)
    acceptance = float(fit.sample_stats["acceptance_rate"].mean())
    return Finding(*normal_comparisons(case.inverse(last)), acceptance)


@pytest.mark.parametrize(("case", "integrator", "tuning"), CASES, ids=[c[0].name for c in CASES])
def test_exact_starts_stay_exact(case, integrator, tuning):
    found = run_from_exact_starts(case, integrator, tuning)
    assert found.worst < THRESHOLD, found
    assert 0.55 < found.acceptance < 0.9, found


@pytest.mark.parametrize("mistake", broken.BLOCK_MISTAKES, ids=lambda mistake: mistake.label)
def test_broken_block_fails(mistake, monkeypatch):
    module = mistake.module_with_it()
    if mistake.module is block:
        monkeypatch.setattr(session, "sampling_block", module.sampling_block)
    else:
        monkeypatch.setitem(METHODS, "malt", module.Malt)
    monkeypatch.setattr(loop, "BLOCK_STEPS", 2)
    found = run_from_exact_starts(*CASES[0])
    assert found.worst > 2.0 * THRESHOLD, found
