"""A judgment in one line: whether a run can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from amalt.diagnostics.columns import column_blocks
from amalt.diagnostics.ess import autocovariance, ess, split
from amalt.diagnostics.rhat import rhat_corrected

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
DIVERGING_SHARE = 0.001
PRECISION_LIMIT = 0.2
"""Log densities rounded to more than this accept and reject by rounding."""


class Verdict(NamedTuple):
    """Whether the checks passed, and one sentence that says why or why not."""

    ok: bool
    sentence: str


def judge(
    unconstrained: np.ndarray,
    diverging: np.ndarray,
    names: list[str],
    acceptance: float,
    logdensity: np.ndarray | None = None,
) -> Verdict:
    """Check the draws ``[chain, draw, dim]`` for agreement, precision and divergences.

    Values and centered squares of every coordinate must have split R-hat (corrected for the length
    of chains) below 1.01 and a multi-chain ESS above 400; at most one transition in a thousand may
    diverge. Every number must be finite, every coordinate must move, and the log density must be
    small enough for its precision to tell proposals apart.
    """
    draws, dim = unconstrained.shape[1:]
    fatal = _fatal(unconstrained, names, acceptance, logdensity)
    if fatal:
        return Verdict(False, f"Not to be trusted: {fatal}")
    if draws < 4:
        return Verdict(False, f"Not judged: {draws} draws per chain are too few to compare chains.")
    worst_rhat, worst_ess = np.empty(dim), np.empty(dim)
    for part, x in column_blocks(unconstrained):
        square = (x - x.mean(axis=(0, 1))) ** 2
        cov_x, cov_square = autocovariance(split(x)), autocovariance(split(square))
        worst_rhat[part] = np.maximum(rhat_corrected(x, cov_x), rhat_corrected(square, cov_square))
        worst_ess[part] = np.minimum(ess(x, cov_x), ess(square, cov_square))
    # What cannot be computed is no good news.
    worst_rhat = np.nan_to_num(worst_rhat, nan=np.inf, posinf=np.inf)
    worst_ess = np.nan_to_num(worst_ess, nan=0.0, posinf=np.inf)
    at_rhat, at_ess = int(np.argmax(worst_rhat)), int(np.argmin(worst_ess))
    share = float(np.mean(diverging))
    facts = (
        f"worst R-hat {worst_rhat[at_rhat]:.3f} ({names[at_rhat]}), "
        f"least ESS {worst_ess[at_ess]:.0f} ({names[at_ess]}), "
        f"{int(np.sum(diverging))} of {diverging.size} transitions diverged"
    )
    if not worst_rhat[at_rhat] < RHAT_LIMIT:
        return Verdict(
            False, f"Not to be trusted: the chains disagree; {facts}. Raise tune and draws."
        )
    if worst_ess[at_ess] < ESS_LIMIT:
        return Verdict(False, f"Too few effective samples: {facts}. Raise draws.")
    if share > DIVERGING_SHARE:
        return Verdict(
            False, f"Suspect: too many divergences; {facts}. Raise target_accept or reparameterize."
        )
    return Verdict(True, f"Good: {facts}.")


def judge_shown(variables: Mapping[str, np.ndarray]) -> Verdict | None:
    """Refuse variables, as they are shown to the reader, that are not finite; None if all are."""
    for name, values in variables.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            share = 1.0 - np.isfinite(values).mean()
            return Verdict(
                False,
                f"Not to be trusted: {share:.2g} of the numbers in {name} are not finite, although "
                "the chains are where the log density is. Mend constrain.",
            )
    return None


def _frozen(unconstrained: np.ndarray, acceptance: float) -> np.ndarray:
    """Return the chains that accepted nothing, if that cannot be by chance."""
    chains, draws = unconstrained.shape[:2]
    by_chance = chains * (1.0 - acceptance) ** (draws - 1)
    is_frozen = (unconstrained == unconstrained[:, :1]).all(axis=(1, 2))
    return np.flatnonzero(is_frozen) if by_chance < 1e-3 else np.empty(0, int)


def _fatal(
    unconstrained: np.ndarray, names: list[str], acceptance: float, logdensity: np.ndarray | None
) -> str:
    """Say what makes statistics of the draws meaningless, with what to do; empty if nothing."""
    bad = np.flatnonzero(~np.isfinite(unconstrained).all(axis=(0, 1)))
    if bad.size:
        return f"{_some(names, bad)} holds numbers that are not finite. Sample anew."
    if not acceptance > 0.0:
        return (
            "no proposal was accepted, the chains never moved. Raise tune, start nearer to the "
            "bulk with init=, or rescale the variables."
        )
    if unconstrained.shape[1] == 1:
        return ""
    stuck = np.flatnonzero(np.ptp(unconstrained, axis=1).max(axis=0) == 0.0)
    if stuck.size:
        return f"{_some(names, stuck)} never moved. Rescale it, or raise tune."
    frozen = _frozen(unconstrained, acceptance)
    if frozen.size:
        chains = [f"chain {i}" for i in range(len(unconstrained))]
        return (
            f"{_some(chains, frozen)} never moved. Start elsewhere with init=, or raise "
            "target_accept."
        )
    if logdensity is not None:
        typical = np.median(np.abs(logdensity))
        if np.spacing(typical) > PRECISION_LIMIT:
            return (
                f"the log density is about {typical:.3g}, which {logdensity.dtype} rounds to "
                f"multiples of {np.spacing(typical):.2g}. Subtract a constant from it, or compute "
                'in double precision: jax.config.update("jax_enable_x64", True).'
            )
    return ""


def _some(names: list[str], which: np.ndarray) -> str:
    more = f" (and {len(which) - 1} more)" if len(which) > 1 else ""
    return f"{names[which[0]]}{more}"
