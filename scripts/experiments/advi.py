"""Measure what the memory of Adam and the average at the end do to an ADVI start.

``python scripts/experiments/advi.py [MODEL ...]`` fits with b2 = 0.999 (Adam's default) and 0.99,
and prints the ELBO, higher is better, of the last iterate and of the average: means over 5 seeds.
"""

from __future__ import annotations

import sys
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

import amalt
from amalt.start import advi

MODELS = ("german-credit", "brownian-bridge", "sparse-german-credit", "radon-indiana")
SEEDS, DRAWS = 5, 2048


def main() -> None:
    """Print one line for each posterior and setting."""
    warnings.simplefilter("ignore")  # one step is too few to tell whether a mean has arrived
    for model in sys.argv[1:] or MODELS:
        target = amalt.gym.load(model)
        for b2 in (0.999, 0.99):
            for share in (1, 4):
                adam = optax.scale_by_adam(b1=0.9, b2=b2, eps=1e-8)
                with (
                    mock.patch("amalt.start.advi.ADAM", adam),
                    mock.patch("amalt.start.advi.AVERAGED_SHARE", 1 / 4 if share == 4 else 5e-4),
                ):
                    elbos = [elbo(target, advi(target, random_seed=s)) for s in range(SEEDS)]
                print(
                    f"{model:22}b2 {b2}  {'last quarter' if share == 4 else 'last iterate':14}"
                    f"ELBO {np.mean(elbos):12.2f}, worst of {SEEDS} {np.min(elbos):12.2f}",
                    flush=True,
                )


def elbo(target: amalt.Target, q: amalt.start.MeanField) -> float:
    """Return E_q[log p - log q]."""
    e = jax.random.normal(jax.random.key(1), (DRAWS, target.dim))
    log_p = jax.vmap(target.logdensity)(q.mean[None] + q.scale[None] * e)
    entropy = jnp.sum(jnp.log(q.scale)) + 0.5 * target.dim * np.log(2 * np.pi * np.e)
    return float(jnp.mean(log_p) + entropy)


if __name__ == "__main__":
    main()
