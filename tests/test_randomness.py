"""Random numbers: JAX's hash bit for bit, the right laws, and addresses that nothing shifts."""

import functools
import itertools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from amalt import randomness
from amalt.errors import SettingsError
from amalt.randomness import (
    ACCEPT,
    Phase,
    chain_keys,
    exponential,
    fold,
    key_words,
    normal,
    phase_key,
    root_key,
    threefry,
    uniform,
)

KEY = np.array([0x13198A2E, 0x03707344], np.uint32)
every_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# The published vectors of Threefry-2x32 with 20 rounds: key, counter, hash.
PUBLISHED = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """Keep float64 possible; float32 is asked for by name."""


@functools.cache
def sample(law, dtype):
    """Draw 1000 numbers at each of 300 addresses."""
    draw = jax.jit(jax.vmap(lambda i: law(KEY, i, (1000,), dtype)))
    return np.asarray(draw(jnp.arange(300)))


def words(count):
    return np.random.default_rng(count).integers(0, 2**32, size=(4, count), dtype=np.uint32)


@pytest.mark.parametrize(("key", "counter", "wanted"), PUBLISHED)
def test_threefry_gives_the_published_vectors(key, counter, wanted):
    key, counter = (np.array(pair, np.uint32)[:, None] for pair in (key, counter))
    assert tuple(int(word[0]) for word in threefry(key, *counter)) == wanted


def test_threefry_is_that_of_jax():
    k0, k1, x0, x1 = words(500)
    on_host = threefry((k0, k1), x0, x1)
    on_device = jax.jit(threefry)((k0, k1), x0, x1)
    theirs = [
        jax.extend.random.threefry_2x32(jnp.stack([k0[i], k1[i]]), jnp.stack([x0[i], x1[i]]))
        for i in range(20)
    ]
    np.testing.assert_array_equal(np.array(on_host), np.array(on_device))
    np.testing.assert_array_equal(np.array(on_host).T[:20], np.array(theirs))


@pytest.mark.parametrize("data", [0, 1, 7, 2**31, 2**32 - 1])
def test_fold_is_jax_fold_in(data):
    theirs = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(KEY)), np.uint32(data))
    np.testing.assert_array_equal(fold(KEY, 0, np.uint32(data)), jax.random.key_data(theirs))


@pytest.mark.parametrize("phase", Phase)
def test_phase_keys_of_the_host_are_those_of_the_device(phase):
    on_host = phase_key(KEY, phase)
    assert on_host.dtype == np.uint32
    np.testing.assert_array_equal(on_host, fold(KEY, 0, int(phase)))


@every_precision
@pytest.mark.parametrize(("word", "is_largest"), [(0, False), (0xFFFFFFFF, True)])
def test_uniform_never_reaches_zero_or_one(monkeypatch, dtype, word, is_largest):
    monkeypatch.setattr(randomness, "threefry", lambda key, *x: (jnp.full_like(x[1], word),) * 2)
    half_a_cell = np.finfo(dtype).epsneg
    u = np.asarray(uniform(KEY, 0, (3,), dtype))
    assert u.dtype == dtype
    np.testing.assert_array_equal(u, 1.0 - half_a_cell if is_largest else half_a_cell)
    x = np.asarray(normal(KEY, 0, (3,), dtype))
    np.testing.assert_allclose(x, stats.norm.ppf(u.astype(np.float64)), rtol=1e-5)
    np.testing.assert_allclose(exponential(KEY, ACCEPT, dtype), -np.log(u[0]), rtol=1e-6)


@every_precision
def test_uniform_is_symmetric_about_one_half(monkeypatch, dtype):
    u = np.asarray(uniform(KEY, 0, (1000,), dtype))
    monkeypatch.setattr(randomness, "threefry", lambda *args: tuple(~w for w in threefry(*args)))
    np.testing.assert_array_equal(u + np.asarray(uniform(KEY, 0, (1000,), dtype)), 1.0)


@every_precision
@pytest.mark.parametrize(("law", "exact"), [(uniform, stats.uniform()), (normal, stats.norm())])
def test_numbers_follow_their_law(law, exact, dtype):
    x = sample(law, dtype).astype(np.float64).ravel()
    assert stats.kstest(x, exact.cdf).pvalue > 1e-3
    # The first four moments, in units of their Monte Carlo error.
    mean, sd = exact.mean(), exact.std()
    z = (x - mean) / sd
    for power in (1, 2, 3, 4):
        wanted = exact.expect(lambda t, power=power: ((t - mean) / sd) ** power)
        error = np.std(z**power) / np.sqrt(z.size)
        assert abs(np.mean(z**power) - wanted) < 4.0 * error


@every_precision
def test_exponential_follows_its_law(dtype):
    keys = chain_keys(KEY, 1, 100_000)
    x = np.asarray(jax.jit(jax.vmap(lambda key: exponential(key, ACCEPT, dtype)))(keys))
    assert x.dtype == dtype
    assert stats.kstest(x.astype(np.float64), stats.expon.cdf).pvalue > 1e-3


@every_precision
def test_numbers_of_neighboring_addresses_are_uncorrelated(dtype):
    """Along the vector, between its halves (the two words of a hash), and from step to step."""
    x = sample(normal, dtype).astype(np.float64)
    pairs = {
        "entries": (x[:, :-1], x[:, 1:]),
        "words": (x[:, :500], x[:, 500:]),
        "steps": (x[:-1], x[1:]),
    }
    for a, b in pairs.values():
        for f in (lambda t: t, lambda t: t**2 - 1.0):
            products = f(a) * f(b)
            assert abs(products.mean()) < 4.0 * products.std() / np.sqrt(products.size)


def test_numbers_of_neighboring_chains_are_uncorrelated():
    keys = chain_keys(KEY, 0, 2000)
    x = np.asarray(jax.jit(jax.vmap(lambda key: normal(key, 0, (100,), jnp.float32)))(keys))
    for a, b in ((x[:-1], x[1:]), (x[:, :-1], x[:, 1:])):
        assert abs(np.mean(a * b)) < 4.0 * np.std(a * b) / np.sqrt(a.size)


def test_chain_keys_do_not_depend_on_how_many_chains_run():
    few, many = np.asarray(chain_keys(KEY, 5, 8)), np.asarray(chain_keys(KEY, 5, 800))
    np.testing.assert_array_equal(few, many[:8])
    np.testing.assert_array_equal(few[7], fold(KEY, 5, 7))
    draw = jax.jit(jax.vmap(lambda key: normal(key, 3, (5,), jnp.float32)))
    np.testing.assert_array_equal(draw(few), draw(many)[:8])


def test_keys_and_accept_numbers_have_addresses_of_their_own():
    keys = [
        tuple(np.asarray(fold(phase_key(KEY, phase), step, chain)))
        for phase, step, chain in itertools.product(Phase, range(6), range(6))
    ]
    assert len(set(keys)) == len(Phase) * 36
    # A trajectory counts its steps in int32, so none reaches the address of the accept decision.
    assert np.iinfo(np.int32).max < int(ACCEPT)


@every_precision
@pytest.mark.parametrize("shape", [(), (1,), (2,), (5,), (2, 3), (0,)])
def test_any_shape_is_drawn(shape, dtype):
    u = uniform(KEY, 2, shape, dtype)
    assert u.shape == shape
    assert u.dtype == dtype
    assert len(np.unique(u)) == u.size


def test_compiled_numbers_are_the_eager_ones():
    for dtype in (jnp.float32, jnp.float64):
        compiled = jax.jit(lambda i, dtype=dtype: uniform(KEY, i, (7,), dtype))(9)
        np.testing.assert_array_equal(compiled, uniform(KEY, 9, (7,), dtype))


def test_key_words_reads_old_and_new_keys():
    np.testing.assert_array_equal(key_words(jax.random.key(3)), [0, 3])
    np.testing.assert_array_equal(key_words(jax.random.PRNGKey(3)), [0, 3])
    np.testing.assert_array_equal(jax.jit(key_words)(jax.random.key(3)), [0, 3])


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_key_words_hashes_keys_of_other_implementations(impl):
    first, second = (key_words(jax.random.key(seed, impl=impl)) for seed in (3, 4))
    assert first.shape == (2,)
    assert first.dtype == jnp.uint32
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("seed", "wanted", "recorded"),
    [
        (0, [0, 0], 0),
        (2**40 + 5, [256, 5], 2**40 + 5),
        (2**64 - 1, [0xFFFFFFFF] * 2, 2**64 - 1),
        (np.int64(7), [0, 7], 7),
    ],
)
def test_root_key_holds_the_seed(seed, wanted, recorded):
    key, remembered = root_key(seed)
    assert key.dtype == np.uint32
    np.testing.assert_array_equal(key, wanted)
    assert remembered == recorded


def test_root_key_takes_a_jax_key_and_says_which():
    key, recorded = root_key(jax.random.key(2**35 + 1))
    np.testing.assert_array_equal(key, [8, 1])
    assert recorded == "key 8 1"


def test_root_key_is_fresh_without_a_seed():
    (first, seed), (second, _) = root_key(None), root_key(None)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(root_key(seed)[0], first)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "1", True, np.zeros(2)])
def test_root_key_refuses_what_is_no_seed(seed):
    with pytest.raises(SettingsError, match="random_seed"):
        root_key(seed)


def test_root_key_refuses_many_keys():
    with pytest.raises(SettingsError, match="one key"):
        root_key(jax.random.split(jax.random.key(0), 3))
