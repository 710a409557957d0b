"""Draw the figures of the README and the docs: ``make figures``. Every figure is a real run."""

from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import amalt
from amalt.bench.paper.figures import STYLE

HERE = Path(__file__).parent
BLUE, ORANGE, GRAY = "#2563a8", "#c2571a", "#6b7280"


def german_credit() -> None:
    """Draw what 128 chains learn on German credit, and where they end."""
    target = amalt.gym.load("german-credit")
    fit = amalt.sample(target, chains=128, tune=1000, draws=250, random_seed=1)
    assert fit.warmup is not None
    assert target.truth is not None
    trace, step = fit.warmup, fit.warmup["step"].values
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.1))
    left.plot(step, trace["step_size"], color=BLUE, lw=1.2, label="step size h")
    left.plot(step, trace["integration_time"], color=ORANGE, lw=1.2, label="integration time τ")
    left.plot(step, 1 / trace["damping"], color=GRAY, lw=1.2, label="1 / damping γ")
    left.set(yscale="log", xlabel="warm-up iteration", title="All chains learn one tuning")
    left.legend(frameon=False, fontsize=8)
    middle.plot(step, trace["acceptance_rate"], color=BLUE, lw=0.5)
    middle.axhline(0.8, color=ORANGE, lw=1.2)
    middle.set(ylim=(0.5, 1.02), xlabel="warm-up iteration", title="Acceptance rate and its target")
    mean, sd, _ = target.truth["weights"]
    draws = fit.posterior["weights"].values.reshape(-1, target.dim)
    order = np.argsort(mean)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    rows = np.arange(target.dim)
    right.hlines(rows, low[order], high[order], color=BLUE, lw=3, alpha=0.45)
    right.plot(draws.mean(axis=0)[order], rows, "o", ms=4, color=BLUE, label="amalt, 90 % interval")
    right.plot(mean[order], rows, "|", ms=8, mew=1.5, color=ORANGE, label="truth, mean ± 1.64 sd")
    for edge in (-1.645, 1.645):
        right.plot((mean + edge * sd)[order], rows, "|", ms=5, color=ORANGE)
    right.set(yticks=[], xlabel="weight", title="25 weights against the truth")
    right.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(HERE / "german-credit.png")


def resonance() -> None:
    """Draw one chain of HMC and of MALT with the same fixed length, and what all chains find."""
    sd = jnp.array([1.0, 0.9, 0.5, 0.3])
    target = amalt.Target(lambda x: -0.5 * jnp.sum((x["x"] / sd) ** 2), {"x": jnp.zeros(4)})
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 2.9))
    truth = np.asarray(sd)
    for axis, damping, name, color in (
        (axes[0], 0.0, "HMC (γ = 0)", ORANGE),
        (axes[1], 1.0, "MALT (γ = 1)", BLUE),
    ):
        tuning = amalt.Tuning(step_size=0.1, integration_time=np.pi, damping=damping)
        fit = amalt.sample(target, chains=64, draws=1000, tuning=tuning, settle=0, random_seed=1)
        axis.plot(np.abs(fit.unconstrained[0, :150, 0]), color=color, lw=1)
        accepted = float(fit.sample_stats["acceptance_rate"].mean())
        axis.set(ylim=(0, 3.6), xlabel="draw", title=f"{name}: {accepted:.0%} accepted")
        found = fit.unconstrained.std(axis=(0, 1)) / truth
        axes[2].plot(found, "o-", color=color, label=name)
    axes[0].set_ylabel("|x₀| of one chain")
    axes[2].axhline(1.0, color=GRAY, lw=1)
    labels = [f"sd {value:g}" for value in truth]
    axes[2].set(xticks=range(4), xticklabels=labels, title="sd found / true sd, 64 chains")
    axes[2].legend(frameon=False, loc="upper center")
    figure.savefig(HERE / "resonance.png")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        german_credit()
        resonance()
