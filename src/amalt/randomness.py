"""Randomness by address: every number is a hash of where it is used, whatever else runs.

    key of a transition  = fold(fold(root, 0, phase), step, chain)
    noise of step i      = threefry(key of the transition, (i, 0..dim))

Chain 7 gets the same numbers whether 8 or 800 chains run, and in blocks of any length. The hash is
Threefry-2x32 (Salmon and others, 2011), bit for bit that of JAX. It is written out here because
JAX's own, in a rolled loop, takes three times as long to compile and to run on a CPU
(docs/decisions/randomness.md).
"""

from __future__ import annotations

import enum
import math
import secrets
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amalt.errors import SettingsError

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
ACCEPT = np.uint32(0xFFFFFFFF)
"""The address of the accept decision: no trajectory has that many steps."""


class Phase(enum.IntEnum):
    """Parts of a run, each with its own stream of keys."""

    START = 0
    LEARNING = 1
    WARMUP = 2
    SETTLE = 3
    SAMPLING = 4


def threefry(key: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Hash counters (x0, x1) under a key ``[2]``, in 20 rounds; uint32 arrays of NumPy or JAX."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for r in range(5):
        for rotation in ROTATIONS[r % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(r + 1) % 3]
        x1 = x1 + schedule[(r + 2) % 3] + np.uint32(r + 1)
    return x0, x1


def fold(key: jax.Array, a: Any, b: Any) -> jax.Array:
    """Return the key at address (a, b) below a key."""
    words = (jnp.asarray(word).astype(jnp.uint32) for word in (a, b))
    return jnp.stack(threefry(key, *words))


def uniform(key: jax.Array, i: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return numbers of the open interval (0, 1) at address i: (k + 1/2) / 2^m, k below 2^m.

    m is one less than the digits of the precision, so that no number rounds to 0 or 1.
    """
    size, is_double = math.prod(shape), jnp.dtype(dtype) == jnp.float64
    blocks = size if is_double else (size + 1) // 2
    first = jnp.broadcast_to(jnp.asarray(i).astype(jnp.uint32), (blocks,))
    high, low = threefry(key, first, jnp.arange(blocks, dtype=jnp.uint32))
    if is_double:
        k = (high >> np.uint32(6)).astype(dtype) * 2.0**26 + (low >> np.uint32(6)).astype(dtype)
        return ((k + 0.5) * 2.0**-52).reshape(shape)
    k = jnp.concatenate([high, low])[:size] >> np.uint32(9)
    return ((k.astype(dtype) + 0.5) * 2.0**-23).reshape(shape)


def normal(key: jax.Array, i: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return N(0, 1) numbers at address i: sqrt(2) erfinv(2 u - 1)."""
    return math.sqrt(2.0) * jax.lax.erf_inv(2.0 * uniform(key, i, shape, dtype) - 1.0)


def exponential(key: jax.Array, i: Any, dtype: Any) -> jax.Array:
    """Return one Exp(1) number at address i: -log u."""
    return -jnp.log(uniform(key, i, (), dtype))


def chain_keys(key: jax.Array, step: Any, chains: int) -> jax.Array:
    """Return the keys ``[chain, 2]`` of one step of a phase."""
    return jax.vmap(lambda chain: fold(key, step, chain))(jnp.arange(chains))


def phase_key(root: np.ndarray, phase: Phase) -> np.ndarray:
    """Return the key below which all keys of a phase lie; on the host, so nothing is compiled."""
    zero, words = np.zeros(1, np.uint32), np.full(1, int(phase), np.uint32)
    return np.concatenate(threefry(root[:, None], zero, words))


def key_words(key: jax.Array) -> jax.Array:
    """Return the two words of a JAX key, old style or new, of any implementation."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key if key.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)
    if jax.random.key_impl(key) == "threefry2x32":
        return jax.random.key_data(key)
    return jax.random.bits(key, (2,), jnp.uint32)


def root_key(random_seed: Any) -> tuple[np.ndarray, int | str]:
    """Return the root key of a run and what reproduces it: the seed, or a key in words.

    A seed is an integer, None (drawn from the operating system) or a JAX key.
    """
    if isinstance(random_seed, jax.Array) and jnp.issubdtype(
        random_seed.dtype, jax.dtypes.prng_key
    ):
        if random_seed.shape != ():
            raise SettingsError(f"random_seed has shape {random_seed.shape}: pass one key.")
        words = np.asarray(key_words(random_seed))
        return words, "key " + " ".join(str(int(word)) for word in words)
    if random_seed is None:
        random_seed = secrets.randbits(32)
    if isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        raise SettingsError(
            f"random_seed={random_seed!r} is a {type(random_seed).__name__}: pass an integer, "
            "a key from jax.random.key, or None."
        )
    seed = int(random_seed)
    if not 0 <= seed < 2**64:
        raise SettingsError(f"random_seed={seed}: it must be between 0 and 2**64 - 1.")
    return np.array([seed >> 32, seed & 0xFFFFFFFF], dtype=np.uint32), seed
