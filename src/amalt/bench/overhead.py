"""What the sampler adds to the gradients: ``python -m amalt.bench.overhead``.

For each target, seconds per integrator step of all chains are set against seconds per bare
``vmap(value_and_grad)`` of the same batch plus one normal draw of the same shape, which no
Langevin sampler can do without. Both run as loops inside one compiled program, take turns, and the
fastest of several rounds counts, since whatever else the machine does only adds time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from amalt import gym
from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation.settings import MaltSettings
from amalt.kernels.integrators import LEAPFROG
from amalt.methods.malt import Malt
from amalt.randomness import Phase, phase_key, root_key
from amalt.run.block import sampling_block, warmup_block
from amalt.start import find
from amalt.targets import Target
from amalt.tuning import Tuning
from amalt.typed import fori_loop

STEPS_PER_TRAJECTORY = 8
TRAJECTORIES = 50
ROUNDS = 7

TARGETS: dict[str, Callable[[], Target]] = {
    "german-credit": lambda: gym.load("german-credit"),
    "gaussian, d = 1000, rotated": lambda: gym.load("gaussian", dim=1000, condition=100.0),
    "gaussian, d = 1000, diagonal": lambda: gym.load(
        "gaussian", dim=1000, condition=100.0, rotate=False
    ),
}


def bare_loop(target: Target, *, with_noise: bool) -> Callable[..., Any]:
    """Return ``(key, positions, steps)``: gradients of all chains in a loop, and nothing else."""
    evaluate = jax.vmap(target.value_and_grad)

    def loop(key: jax.Array, positions: jax.Array, steps: jax.Array) -> jax.Array:
        def body(i: jax.Array, x: jax.Array) -> jax.Array:
            value, gradient = evaluate(x)
            if with_noise:
                noise = jax.random.normal(jax.random.fold_in(key, i), x.shape, x.dtype)
                gradient = gradient + noise
            # Every number is used, or the compiler would leave it out.
            return x + 1e-12 * gradient + 1e-30 * value[:, None]

        return fori_loop(0, steps, body, positions)

    return loop


def measure(target: Target, chains: int) -> dict[str, float]:
    """Compile and time the loops and the two blocks of the sampler for one target."""
    root, _ = root_key(1)
    states = find(target, "uniform", phase_key(root, Phase.START), chains).states
    # Nothing is learned, so that every trajectory has the same length.
    settings = MaltSettings(mala_steps=0, learning_rate=1e-9)
    adaptation = adaptive_malt.init(root, states.position, settings)
    # h so small that every proposal is accepted: what is timed does not depend on the target.
    tuning = Tuning(1e-4, STEPS_PER_TRAJECTORY * 1e-4, damping=1.0)
    method = Malt(target, LEAPFROG, settings)
    kernel_tuning = method.prepare(tuning)
    fixed = _fixed_length(adaptation, STEPS_PER_TRAJECTORY)
    key, first, count = jax.random.key(1), np.int32(0), np.int32(TRAJECTORIES)
    steps = np.int32(TRAJECTORIES * STEPS_PER_TRAJECTORY)
    words = phase_key(root, Phase.SAMPLING)
    sampling = sampling_block(method, TRAJECTORIES)
    warmup = warmup_block(method, TRAJECTORIES, keep_draws=False)
    programs = {
        "gradient": (bare_loop(target, with_noise=False), (key, states.position, steps)),
        "gradient_and_normal": (bare_loop(target, with_noise=True), (key, states.position, steps)),
        "sampling": (sampling, (words, states, kernel_tuning, first, count)),
        "warmup": (warmup, (words, states, fixed, first, count)),
    }
    result: dict[str, float] = {}
    compiled: dict[str, tuple[Any, Any]] = {}
    for name, (program, arguments) in programs.items():
        began = time.perf_counter()
        compiled[name] = (jax.jit(program).lower(*arguments).compile(), arguments)
        result[f"{name}_compile_seconds"] = time.perf_counter() - began
    best = dict.fromkeys(programs, float("inf"))
    taken = float(STEPS_PER_TRAJECTORY * TRAJECTORIES)
    for _ in range(ROUNDS):
        for name, (program, arguments) in compiled.items():
            began = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            best[name] = min(best[name], time.perf_counter() - began)
    for name, seconds in best.items():
        result[f"{name}_us_per_step"] = seconds / taken * 1e6
    for name in ("sampling", "warmup"):
        result[f"{name}_overhead"] = best[name] / best["gradient_and_normal"]
    return result


def _fixed_length(
    adaptation: adaptive_malt.MaltAdaptation, num_steps: int
) -> adaptive_malt.MaltAdaptation:
    """Return an adaptation whose tau is ``num_steps`` tiny steps."""
    log_h = jnp.full_like(adaptation.step_size.log_value, np.log(1e-4))
    return adaptation._replace(
        step_size=adaptation.step_size._replace(log_value=log_h),
        time=adaptation.time._replace(log_value=log_h + float(np.log(num_steps))),
    )


def main() -> None:
    """Print the table; with ``--save FILE`` also write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=128)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    table = Table(title=f"{options.chains} chains; microseconds per step of all chains", box=None)
    table.add_column("target")
    columns = ("gradient", "+ normal", "sampling", "overhead", "warm-up", "overhead", "compile s")
    for column in columns:
        table.add_column(column, justify="right")
    figures: dict[str, dict[str, float]] = {}
    for name, build in TARGETS.items():
        figures[name] = f = measure(build(), options.chains)
        table.add_row(
            name,
            f"{f['gradient_us_per_step']:.0f}",
            f"{f['gradient_and_normal_us_per_step']:.0f}",
            f"{f['sampling_us_per_step']:.0f}",
            f"{f['sampling_overhead']:.2f}",
            f"{f['warmup_us_per_step']:.0f}",
            f"{f['warmup_overhead']:.2f}",
            f"{f['warmup_compile_seconds']:.1f} + {f['sampling_compile_seconds']:.1f}",
        )
    Console(width=110).print(table)
    if options.save is not None:
        content = {"chains": options.chains, "jax": jax.__version__, "figures": figures}
        options.save.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
