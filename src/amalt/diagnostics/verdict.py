"""A judgment in one line: whether a run can be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from amalt.diagnostics.ess import ess
from amalt.diagnostics.rhat import rhat_corrected

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
DIVERGING_SHARE = 0.001
COLUMNS_AT_ONCE = 2**25


class Verdict(NamedTuple):
    """Whether the checks passed, and one sentence that says why or why not."""

    ok: bool
    sentence: str


def judge(
    unconstrained: np.ndarray, diverging: np.ndarray, names: list[str], acceptance: float
) -> Verdict:
    """Check the draws ``[chain, draw, dim]`` for agreement, precision and divergences.

    Values and centered squares of every coordinate must have split R-hat (corrected for the length
    of chains) below 1.01 and a multi-chain ESS above 400; at most one transition in a thousand may
    diverge.
    """
    chains, draws, dim = unconstrained.shape
    if acceptance == 0.0:
        return Verdict(
            False, "Not to be trusted: no proposal was accepted, the chains never moved."
        )
    if draws < 4:
        return Verdict(False, f"Not judged: {draws} draws per chain are too few to compare chains.")
    worst_rhat, worst_ess = np.empty(dim), np.empty(dim)
    width = max(1, COLUMNS_AT_ONCE // (chains * draws))
    for begin in range(0, dim, width):
        part = slice(begin, begin + width)
        x = unconstrained[:, :, part].astype(np.float64)
        square = (x - x.mean(axis=(0, 1))) ** 2
        worst_rhat[part] = np.maximum(rhat_corrected(x), rhat_corrected(square))
        worst_ess[part] = np.minimum(ess(x), ess(square))
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
