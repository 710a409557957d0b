"""Correct kernels pass the joint-distribution and the rank test; kernels with a mistake fail both.

Correct kernels make 3 integrators x 4 motions x (186 + 16) = 2424 comparisons, which together raise
a false alarm with probability below 0.017 (drawn once: the keys are fixed).
"""

import jax.numpy as jnp
import pytest

from amalt.kernels import LEAPFROG, THREE_STAGE, TWO_STAGE, DiagonalMetric, MaltTuning
from amalt.kernels.integrators import Integrator

from . import broken
from .joint import CHAINS, THRESHOLD, joint_test, malt_kernel, rank_test
from .models import CURVE, HIERARCHY, WALL

SCALES = {
    "curve": [1.0, 0.9, 0.8, 0.4],
    "hierarchy": [0.9, 0.6, 1.0, 0.9, 0.8, 0.7],
    "wall": [0.7, 1.0, 0.5],
}

# The steps that accept about 0.7, so that the accept decision matters. At the walls that is a
# matter of the length L h; elsewhere of the stability of the integrator.
STEP_SIZES = {
    "curve": {"leapfrog": 0.29, "two-stage": 0.46, "three-stage": 0.72},
    "hierarchy": {"leapfrog": 0.40, "two-stage": 0.65, "three-stage": 0.92},
}
WALL_STEP_SIZES = {1: 0.4, 3: 0.15, 5: 0.11, 8: 0.13}

# (gamma, L): MALA, HMC, MALT, and damping so large that nothing is left of the last momentum.
MOTIONS = ((0.0, 1), (0.0, 3), (1.0, 5), (20.0, 8))


def make_tuning(model, step_size, num_steps, damping):
    scale = jnp.array(SCALES[model.name], jnp.float32)
    return MaltTuning(
        jnp.float32(step_size),
        jnp.int32(num_steps),
        jnp.float32(damping),
        DiagonalMetric(scale, jnp.float32(1.0)),
    )


@pytest.mark.parametrize(
    "chains", [CHAINS, pytest.param(2**17, marks=pytest.mark.long)], ids=["", "many-chains"]
)
@pytest.mark.parametrize("integrator", [LEAPFROG, TWO_STAGE, THREE_STAGE], ids=lambda i: i.name)
@pytest.mark.parametrize("model", [CURVE, HIERARCHY, WALL], ids=lambda m: m.name)
def test_correct_kernel_passes(model, integrator, chains):
    kernel = malt_kernel(model, integrator)
    for seed, (damping, num_steps) in enumerate(MOTIONS, start=100):
        steps = STEP_SIZES.get(model.name, {}).get(integrator.name, WALL_STEP_SIZES[num_steps])
        tuning = make_tuning(model, steps, num_steps, damping)
        for test in (joint_test, rank_test):
            found = test(model, kernel, tuning, seed, chains)
            assert found.worst < THRESHOLD, (damping, num_steps, found)
            assert 0.5 < found.acceptance < 0.9, (damping, num_steps, found)


def params(mistakes):
    """Label mistakes, and leave the variants to the long tests."""
    return [
        pytest.param(one, id=one.label, marks=[pytest.mark.long] if one.is_variant else [])
        for one in mistakes
    ]


def assert_fails(model, kernel, step_size):
    """Check that both tests find the kernel broken, one of them by a wide margin."""
    tuning = make_tuning(model, step_size, 3, 1.0)
    found = [test(model, kernel, tuning, 200) for test in (joint_test, rank_test)]
    assert min(one.worst for one in found) > THRESHOLD, found
    assert max(one.worst for one in found) > 2.0 * THRESHOLD, found


@pytest.mark.parametrize("mistake", params(broken.MISTAKES))
def test_broken_kernel_fails(mistake):
    assert_fails(HIERARCHY, malt_kernel(HIERARCHY, LEAPFROG, mistake.kernel_module()), 0.5)


@pytest.mark.parametrize("mistake", params(broken.WALL_MISTAKES))
def test_broken_kernel_fails_at_a_wall(mistake):
    assert_fails(WALL, malt_kernel(WALL, LEAPFROG, mistake.kernel_module()), 0.15)


def test_integrator_that_is_no_palindrome_fails():
    lopsided = Integrator("lopsided", kicks=(0.3, 0.7), drifts=(1.0,))
    assert_fails(HIERARCHY, malt_kernel(HIERARCHY, lopsided), 0.5)


def test_palindrome_with_other_coefficients_passes():
    """Accuracy is not exactness: coefficients that do not even sum to one only cost acceptance."""
    sloppy = Integrator("sloppy", kicks=(0.6, 0.6), drifts=(1.0,))
    kernel = malt_kernel(HIERARCHY, sloppy)
    for test in (joint_test, rank_test):
        found = test(HIERARCHY, kernel, make_tuning(HIERARCHY, 0.35, 3, 1.0), 201)
        assert found.worst < THRESHOLD, found
