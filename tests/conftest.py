"""Settings of every test: CPU, no progress display, strict promotion, the same random numbers.

JAX reads its environment on import, so the first block comes before it.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("CI", "1")
if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
    # The workers share the cores: one thread each for XLA (it sizes its pool by NPROC) and NumPy.
    os.environ.setdefault("NPROC", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("amalt", derandomize=True, deadline=None)
hypothesis.settings.load_profile("amalt")


@pytest.fixture
def lenient_promotion() -> Iterator[None]:
    """Run the test as a user's program runs: JAX's standard promotion (for foreign libraries)."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test in double precision."""
    with jax.enable_x64(True):
        yield
