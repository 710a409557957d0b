"""sample(): check the arguments, wire the parts, return a Posterior."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
from typing import Any

import numpy as np

from amalt.adaptation.settings import MaltSettings
from amalt.arguments import (
    check_count,
    check_flag,
    check_memory,
    check_precision,
    pick_integrator,
    pick_method,
    pick_settings,
    refuse_unknown,
    resolve_settle,
    resolve_tune,
)
from amalt.assemble import assemble
from amalt.kernels.integrators import Integrator
from amalt.methods import build
from amalt.posterior import Cost, Posterior
from amalt.randomness import Phase, phase_key, root_key
from amalt.run.loop import longest_steps
from amalt.run.progress import reporter
from amalt.run.session import Session
from amalt.start import find
from amalt.targets import as_target
from amalt.tuning import Tuning

logger = logging.getLogger("amalt")


def sample(
    model: Any,
    *,
    draws: int = 250,
    tune: int | None = None,
    chains: int = 128,
    random_seed: Any = None,
    method: str = "malt",
    preset: str | MaltSettings = "paper",
    target_accept: float | None = None,
    integrator: str | Integrator = "leapfrog",
    init: Any = "uniform",
    tuning: Tuning | None = None,
    settle: int | None = None,
    keep_warmup: bool = False,
    progressbar: bool = True,
    **unknown: Any,
) -> Posterior:
    """Sample a target with many chains that learn their tuning together.

    Parameters
    ----------
    model
        An `amalt.Target`, or the name of a built-in posterior.
    draws
        Draws to keep, per chain.
    tune
        Iterations in which the chains learn; 1000 if not given. With ``tuning`` it is 0.
    chains
        Chains that run side by side, as one program.
    random_seed
        An integer, a JAX key, or None for a fresh one. Same seed, same draws.
    method
        The sampler: ``"malt"``; or a baseline: ``"rhmc"`` (HMC of random length, SNAPER),
        ``"ghmc"`` (generalized HMC, MEADS), ``"nuts"`` (on BlackJAX's kernel).
    preset
        ``"paper"``, or `amalt.MaltSettings`. For ``"malt"`` also ``"paper-rho"`` (adaptive rho),
        for ``"rhmc"`` also ``"paper-exponential"`` (exponential lengths, not uniform ones).
    target_accept
        Acceptance rate to tune the step size for, instead of the preset's.
    integrator
        ``"leapfrog"``, ``"two-stage"`` or ``"three-stage"``.
    init
        Starting points: ``"uniform"`` in (-2, 2), ``"jitter"`` around the example position,
        ``"advi"`` for draws of a fitted normal law (see `amalt.start.advi`), one position to start
        around, or positions with a leading axis over chains.
    tuning
        What an earlier run learned (``fit.tuning``), instead of a warm-up.
    settle
        Iterations with the final tuning before the draws. If not given: 8 % of ``tune``; with
        ``tuning`` 100, or none if ``init`` holds positions, which are taken for draws.
    keep_warmup
        Also keep the draws of the warm-up.
    progressbar
        Show progress on the terminal.

    Examples
    --------
    >>> import amalt, jax.numpy as jnp
    >>> target = amalt.Target(lambda x: -0.5 * jnp.sum((x["a"] - 3.0) ** 2), {"a": jnp.zeros(2)})
    >>> fit = amalt.sample(target, chains=16, tune=300, draws=100, random_seed=1, progressbar=False)
    >>> dict(fit.posterior.sizes)
    {'chain': 16, 'draw': 100, 'a_dim_0': 2}
    >>> bool(abs(fit.posterior["a"].mean() - 3.0) < 0.2)
    True
    """
    refuse_unknown(unknown, inspect.signature(sample).parameters)
    method = pick_method(method)
    chains, draws = check_count("chains", chains, 1), check_count("draws", draws, 1)
    tune = resolve_tune(tune, tuning)
    settle = resolve_settle(settle, tune, init)
    settings = pick_settings(method, preset, target_accept, tune)
    scheme = pick_integrator(integrator)
    keep_warmup = check_flag("keep_warmup", keep_warmup)
    progressbar = check_flag("progressbar", progressbar)
    root, seed = root_key(random_seed)
    target = as_target(model)
    check_precision(target)
    check_memory(target, chains, draws + (tune if keep_warmup else 0))
    sampler = build(method, target, scheme, settings)
    sampler.check_chains(chains)
    if tuning is not None:
        sampler.prepare(tuning)  # to refuse it before anything is compiled

    traces = target.traces
    starts = find(target, init, phase_key(root, Phase.START), chains)
    with reporter(progressbar) as progress:
        session = Session(sampler, root, progress)
        states, record = session.begin(starts.states), None
        if tuning is None:
            states, tuning, record = session.warm_up(states, tune, keep_warmup)
        kept, settle_steps = session.draw(states, tuning, settle, draws)

    warmup_steps = 0 if record is None else int(np.sum(record.trace.num_steps, dtype=np.int64))
    per_step = sampler.gradients_per_step
    cost = Cost(
        gradients_start=starts.attempts,
        gradients_warmup=warmup_steps * per_step,
        gradients_settle=settle_steps * per_step,
        gradients_sampling=longest_steps(kept.num_steps.T) * per_step,
        compile_seconds=starts.seconds + session.compile_seconds,
        warmup_seconds=session.warmup_seconds,
        sampling_seconds=session.sampling_seconds,
        traces=target.traces - traces,
        gradients_shared=starts.gradients_shared,
    )
    run_settings = {
        "method": method,
        "integrator": scheme.name,
        "init": init if isinstance(init, str) else "positions",
        "chains": chains,
        "draws": draws,
        "tune": tune,
        "settle": settle,
        **dataclasses.asdict(settings),
    }
    attrs = {"random_seed": seed, "tuning_steps": tune, "settings": json.dumps(run_settings)}
    fit = assemble(target, kept, record, tuning, cost, attrs)
    logger.log(logging.INFO if fit.ok else logging.WARNING, fit.verdict.sentence)
    return fit
