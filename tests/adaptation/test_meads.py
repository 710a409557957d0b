"""MEADS: its eigenvalue against NumPy, how chains are dealt, and who learns from whom."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amalt.adaptation import meads
from amalt.kernels.ghmc import GhmcState

KEY = np.array([7, 5], np.uint32)
CHAINS, DIM = 64, 5
IN_FOLD = CHAINS // meads.FOLDS
tunings = jax.jit(meads.tunings)

# --- the eigenvalue ----------------------------------------------------------------------------


def rows_of(spectrum, count, seed=0):
    """Make rows whose second moments A'A/N have exactly this spectrum, along random axes."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(count, len(spectrum))))[0]
    axes = np.linalg.qr(rng.normal(size=(len(spectrum), len(spectrum))))[0]
    return np.sqrt(count) * basis * np.sqrt(spectrum) @ axes.T


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "spectrum",
    [[3.0], [2.0, 2.0, 2.0], [9.0, 1.0, 0.5, 0.1], np.geomspace(1e4, 1.0, 12), [1.0, 0.0, 0.0]],
)
def test_eigenvalue_of_a_known_spectrum(spectrum):
    """lam = tr(S^2) / tr(S) for the second moments S: an average of eigenvalues, the large ones."""
    rows, spectrum = rows_of(spectrum, 40), np.asarray(spectrum)
    found = float(meads.largest_eigenvalue(jnp.asarray(rows)))
    np.testing.assert_allclose(found, np.sum(spectrum**2) / np.sum(spectrum), rtol=1e-10)
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    np.testing.assert_allclose(found, np.sum(eigenvalues**2) / np.sum(eigenvalues), rtol=1e-10)
    assert found <= eigenvalues[-1] * (1.0 + 1e-10)
    if np.count_nonzero(spectrum) == 1 or np.ptp(spectrum) == 0.0:
        np.testing.assert_allclose(found, eigenvalues[-1], rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_eigenvalue_does_not_overflow(unit):
    rows = rows_of([4.0, 1.0], 10)
    found = float(meads.largest_eigenvalue(jnp.asarray(rows * unit, jnp.float32)))
    np.testing.assert_allclose(found / unit**2, 17.0 / 5.0, rtol=1e-5)


def test_eigenvalue_of_zeros_is_zero():
    assert float(meads.largest_eigenvalue(jnp.zeros((4, 2), jnp.float32))) == 0.0


# --- the folds ---------------------------------------------------------------------------------


@functools.cache
def orders(steps=200):
    deal = jax.jit(jax.vmap(lambda n: meads.deal(jnp.asarray(KEY), n, CHAINS)))
    return tuple(map(np.asarray, deal(jnp.arange(steps))))


def folds_of(order):
    return [frozenset(fold) for fold in order.reshape(meads.FOLDS, -1).tolist()]


def test_an_order_is_a_permutation_with_its_inverse():
    for order, back in zip(*orders(), strict=True):
        np.testing.assert_array_equal(np.sort(order), np.arange(CHAINS))
        np.testing.assert_array_equal(order[back], np.arange(CHAINS))
        np.testing.assert_array_equal(back[order], np.arange(CHAINS))


def test_folds_stay_together_for_a_round_and_rest_in_turn():
    order, _ = orders()
    for round_of_orders in order.reshape(-1, meads.FOLDS, CHAINS):
        folds = folds_of(round_of_orders[0])
        for step, here in enumerate(round_of_orders):
            # The same folds in the same cycle, so that each has the same neighbor before it.
            assert folds_of(here) == folds[step:] + folds[:step]
        assert {folds_of(here)[0] for here in round_of_orders} == set(folds)


def test_every_round_deals_anew():
    order, _ = orders()
    firsts = {tuple(one) for one in order[:: meads.FOLDS]}
    assert len(firsts) == len(order) // meads.FOLDS
    # Chains 0 and 1 sit in one fold in 15 of 63 rounds: 50 rounds, 4.5 standard deviations.
    together = [any({0, 1} <= fold for fold in folds_of(one)) for one in order[:: meads.FOLDS]]
    share = (IN_FOLD - 1) / (CHAINS - 1)
    assert abs(np.mean(together) - share) < 4.5 * np.sqrt(share * (1 - share) / len(together))


# --- what a fold is tuned by -------------------------------------------------------------------


def some_states(seed=1, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shape = (meads.FOLDS, IN_FOLD, DIM)
    position = rng.normal(size=shape) * rng.uniform(0.5, 2.0, (meads.FOLDS, 1, DIM)) + 3.0
    gradient = rng.normal(size=shape) * rng.uniform(2.0, 4.0, (meads.FOLDS, 1, DIM)) + 1.0
    numbers = (position, np.zeros(shape[:2]), gradient, np.zeros(shape), np.zeros(shape[:2]))
    return GhmcState(*(jnp.asarray(x, dtype) for x in numbers))


def numpy_lam(rows):
    """Sum over all pairs of rows, as the formula is printed."""
    count = len(rows)
    pairs = sum(float(a @ b) ** 2 for a in rows for b in rows) / count**2
    return pairs / (sum(float(a @ a) for a in rows) / count)


@pytest.mark.usefixtures("x64")
def test_tuning_is_what_the_formulas_say():
    states = some_states()
    for floor in (0.0, 0.07):
        found = tunings(states, jnp.asarray(floor))
        for fold in range(meads.FOLDS):
            before = fold - 1  # the fold before the first is the last
            x, g = np.asarray(states.position[before]), np.asarray(states.gradient[before])
            sd = np.sqrt(np.mean((x - x.mean(axis=0)) ** 2, axis=0))
            h = min(1.0, 0.5 / np.sqrt(numpy_lam(g * sd)))
            x = np.asarray(states.position[fold])
            a = (x - x.mean(axis=0)) / x.std(axis=0)
            gamma = numpy_lam(a) ** -0.5
            np.testing.assert_allclose(found.step_size[fold], h, rtol=1e-10)
            np.testing.assert_allclose(found.metric.scale[fold], sd, rtol=1e-10)
            np.testing.assert_allclose(
                found.damping_per_step[fold], max(floor, h * gamma), rtol=1e-10
            )
    assert np.any(found.damping_per_step == 0.07)
    assert np.any(found.damping_per_step > 0.07)


@pytest.mark.parametrize("fold", range(meads.FOLDS))
def test_no_chain_decides_on_its_own_step(fold):
    """Another state of one fold changes h and scales of the next one only, and its own damping."""
    states, other = some_states(dtype=np.float32), some_states(seed=2, dtype=np.float32)
    mixed = jax.tree.map(lambda a, b: a.at[fold].set(b[fold]), states, other)
    zero = jnp.float32(0.0)
    was, now = tunings(states, zero), tunings(mixed, zero)
    following = (fold + 1) % meads.FOLDS

    def changed(leaf):
        return set(np.flatnonzero(np.any(np.reshape(leaf, (meads.FOLDS, -1)), axis=1)))

    assert changed(was.step_size != now.step_size) == {following}
    assert changed(was.metric.scale != now.metric.scale) == {following}
    assert changed(was.damping_per_step != now.damping_per_step) == {fold, following}


def test_chains_that_do_not_move_are_no_division_by_zero():
    states = some_states(dtype=np.float32)
    stuck = states._replace(position=states.position.at[..., 0].set(2.0))
    for position in (stuck.position, jnp.ones_like(stuck.position)):
        found = tunings(states._replace(position=position), jnp.float32(0.0))
        assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(found))
        assert bool(jnp.all(found.metric.scale > 0.0))


def test_positions_that_overflow_stand_still():
    states = some_states(dtype=np.float32)
    found = tunings(states._replace(position=states.position * 1e37), jnp.float32(0.0))
    np.testing.assert_allclose(found.step_size, meads.STANDSTILL)
    np.testing.assert_allclose(found.metric.scale, meads.STANDSTILL)
    assert bool(jnp.all(jnp.isfinite(found.damping_per_step)))
