"""The paper's protocol on German credit, as `make bench-german-credit` runs it."""

import pytest

from amalt.bench.paper.design import Run
from amalt.bench.paper.one import execute


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_papers_protocol(seed: int) -> None:
    """The paper's tenth percentiles of 20 runs are 0.110 and 0.478."""
    figures = execute(Run("german-credit", "malt", seed))
    assert figures["ess_per_grad"] >= 0.10
    assert figures["multi_chain_ess_per_grad"] >= 0.10
    assert figures["ess_per_iter"] >= 0.45
    assert figures["rhat"] < 1.01
    assert figures["max_z"] < 4.0  # 25 means, in Monte Carlo errors of both sides
