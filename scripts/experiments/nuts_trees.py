"""Compare trees that end where BlackJAX ends them with trees of the paper's baseline.

``python scripts/experiments/nuts_trees.py [MODEL ...]`` runs NUTS twice on each posterior, with the
same random numbers: once with the ends of a tree counted by half in the test for a U-turn, as
BlackJAX and NumPyro do, and once whole, as the authors' baseline and `method="nuts"` do.
"""

from __future__ import annotations

import contextlib
import sys
from unittest import mock

import amalt
from amalt.bench.paper.design import ESS_PER_GRAD, ESS_PER_ITER, INIT
from amalt.bench.paper.measure import measure
from amalt.methods import nuts

CHAINS, TUNE, DRAWS, SEED = 128, 1000, 300, 1


def main() -> None:
    """Print two lines for each posterior, and what the paper's tables imply."""
    for model in sys.argv[1:] or ("german-credit", "brownian-bridge"):
        for title, patch in (
            ("ends by half", mock.patch.object(nuts, "_metric", lambda inverse_mass: inverse_mass)),
            ("ends whole", contextlib.nullcontext()),
        ):
            with patch:
                fit = amalt.sample(
                    model,
                    chains=CHAINS,
                    tune=TUNE,
                    draws=DRAWS,
                    method="nuts",
                    init=INIT,
                    random_seed=SEED,
                    progressbar=False,
                )
            figures, steps = measure(fit, amalt.gym.load(model)), fit.sample_stats["n_steps"]
            longest = float(steps.max("chain").mean())
            print(
                f"{model:22}{title:14}steps {float(steps.mean()):6.1f}, of the longest chain "
                f"{longest:6.1f}; ESS/grad {figures['ess_per_grad']:.5f}, ESS/iter "
                f"{figures['ess_per_iter']:.4f}",
                flush=True,
            )
        per_iter, per_grad = ESS_PER_ITER[model]["nuts"], ESS_PER_GRAD[model]
        print(
            f"{model:22}{'the paper':14}steps {per_iter / per_grad['nuts-avg']:6.1f}, of the "
            f"longest chain {per_iter / per_grad['nuts']:6.1f}; ESS/grad {per_grad['nuts']:.5f}, "
            f"ESS/iter {per_iter:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
