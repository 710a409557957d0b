"""Kernels broken on purpose: the source of amalt with one mistake edited into it, and run.

Each edit names the text that it replaces. Text that is not there, or there twice, is an error: who
changes the kernel is told to carry the mistake over to the new code.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import NamedTuple

from amalt.kernels import integrators, malt
from amalt.methods import malt as method
from amalt.run import block


class Mistake(NamedTuple):
    """What goes wrong, and the edits (text, replacement) of a module that make it.

    Of mistakes of one kind, `is_variant` leaves the less likely to the long tests.
    """

    label: str
    module: ModuleType
    edits: tuple[tuple[str, str], ...]
    is_variant: bool = False

    def module_with_it(self) -> ModuleType:
        """Return a copy of the module with the mistake in it."""
        return _run(self.module, self.edits)

    def kernel_module(self) -> ModuleType:
        """Return `amalt.kernels.malt` with the mistake in it, or calling what has it."""
        broken = self.module_with_it()
        if self.module is malt:
            return broken
        caller = _run(malt, ())
        caller.__dict__["integrate_step"] = broken.__dict__["integrate_step"]
        return caller


def _run(module: ModuleType, edits: tuple[tuple[str, str], ...]) -> ModuleType:
    source = inspect.getsource(module)
    for old, new in edits:
        count = source.count(old)
        assert count == 1, f"{old!r} is {count} times in {module.__name__}: write the edit anew"
        source = source.replace(old, new)
    copy = ModuleType(f"{module.__name__} broken on purpose")
    # Data classes look their module up while they are made.
    sys.modules[copy.__name__] = copy
    try:
        exec(compile(source, copy.__name__, "exec", dont_inherit=True), copy.__dict__)
    finally:
        del sys.modules[copy.__name__]
    for name, new in list(vars(copy).items()):
        # JAX tells tuples apart by their class: keep the old one where the fields are the same.
        old = getattr(module, name, None)
        if hasattr(old, "_fields") and old._fields == new._fields:
            setattr(copy, name, old)
    return copy


ACCEPT = "is_finite & (z >= delta)"
DELTA = "kinetic + state.logdensity - end.logdensity"
CHOICE = (
    "accepted = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposed, state)"
)
FIRST_KICK = "v = v + first * step_size * metric.apply_transpose(gradient)"
DRIFT = "x = x + drift * step_size * metric.apply(v)\n"
EVALUATION = "        logdensity, gradient = value_and_grad(x)\n"
KICK = "v = v + kick * step_size * metric.apply_transpose(gradient)"
NOISE_SCALE = "eta * momentum + jnp.sqrt(1.0 - eta**2) * xi"
REFRESH = "refresh(point.momentum, jnp.where(i == 0, 0.0, eta), noise(i))"
KINETIC = "delta + kinetic_difference(point.momentum, v)"

MISTAKES = (
    Mistake("sign of Delta", malt, ((ACCEPT, "is_finite & (z >= -delta)"),)),
    Mistake("always accepted", malt, ((ACCEPT, "is_finite"),)),
    Mistake(
        "uniform in place of exponential",
        malt,
        ((ACCEPT, "is_finite & (1.0 - jnp.exp(-z) >= delta)"),),
        is_variant=True,
    ),
    Mistake(
        "accept draw tied to the noise",
        malt,
        (("exponential(key, ACCEPT, delta.dtype)", "exponential(key, 0, delta.dtype)"),),
        is_variant=True,
    ),
    Mistake("stale potential: of the start", malt, ((DELTA, "kinetic"),)),
    Mistake(
        "stale potential: one step behind",
        integrators,
        (
            (
                DRIFT + EVALUATION,
                "logdensity, _ = value_and_grad(x)\n        "
                + DRIFT
                + "        _, gradient = value_and_grad(x)\n",
            ),
        ),
    ),
    Mistake(
        "stale potential: of the proposal after a rejection",
        malt,
        ((CHOICE, CHOICE + "._replace(logdensity=end.logdensity)"),),
        is_variant=True,
    ),
    Mistake(
        "stale gradient: of the proposal after a rejection",
        malt,
        ((CHOICE, CHOICE + "._replace(gradient=end.gradient)"),),
    ),
    Mistake(
        "stale gradient: of the start after an acceptance",
        malt,
        ((CHOICE, CHOICE + "._replace(gradient=state.gradient)"),),
        is_variant=True,
    ),
    Mistake("half kick left out: the first", integrators, ((FIRST_KICK, "pass"),)),
    Mistake("half kick left out: the last", integrators, ((KICK, "pass"),)),
    Mistake(
        "half kick of full size",
        integrators,
        ((KICK, KICK.replace("kick *", "2.0 * kick *")),),
        is_variant=True,
    ),
    Mistake(
        "wrong noise scale: sqrt(1 - eta)",
        malt,
        ((NOISE_SCALE, "eta * momentum + jnp.sqrt(1.0 - eta) * xi"),),
    ),
    Mistake(
        "wrong noise scale: 1 - eta^2",
        malt,
        ((NOISE_SCALE, "eta * momentum + (1.0 - eta**2) * xi"),),
        is_variant=True,
    ),
    Mistake(
        "same noise in all steps",
        malt,
        ((REFRESH, "refresh(point.momentum, jnp.where(i == 0, 0.0, eta), noise(0))"),),
        is_variant=True,
    ),
    Mistake(
        "momentum not refreshed: in part only",
        malt,
        ((REFRESH, "refresh(point.momentum, eta, noise(i))"),),
    ),
    Mistake(
        "momentum not refreshed: kept over transitions, not flipped",
        malt,
        (
            (
                "class MaltState(NamedTuple):",
                "class MaltState(NamedTuple):\n    momentum: jax.Array\n    kept: jax.Array",
            ),
            (
                "MaltState(position, *value_and_grad(position))",
                "MaltState(0.0 * position, 0.0 * position[0], position, *value_and_grad(position))",
            ),
            ("jnp.zeros_like(state.position), *state[1:]", "state.momentum, *state[3:]"),
            ("jnp.where(i == 0, 0.0, eta)", "jnp.where(i == 0, state.kept, eta)"),
            ("proposed = MaltState(", "proposed = MaltState(end.momentum, 1.0 + 0.0 * delta, "),
            (CHOICE, CHOICE + "._replace(momentum=end.momentum, kept=1.0 + 0.0 * delta)"),
        ),
    ),
    Mistake(
        "energy of the refreshes counted",
        malt,
        (
            (
                KINETIC,
                "delta + kinetic_difference(\n"
                "point.momentum, jnp.where(i == 0, v, carry[0].momentum))",
            ),
        ),
    ),
    Mistake(
        "kinetic energy counted twice",
        malt,
        ((KINETIC, KINETIC.replace("+ ", "+ 2.0 * ")),),
        is_variant=True,
    ),
)

WALL_MISTAKES = (
    Mistake("NaN accepted", malt, ((ACCEPT, "~(z < delta)"),)),
    Mistake(
        "infinite potential counted as none",
        malt,
        ((DELTA, "kinetic + jnp.where(jnp.isinf(end.logdensity), 0.0, " + DELTA[10:] + ")"),),
        is_variant=True,
    ),
)

BLOCK_MISTAKES = (
    Mistake(
        "same momentum in all transitions",
        method,
        (("chain_keys(key, step, states", "chain_keys(key, 0 * step, states"),),
    ),
    Mistake(
        "same momentum in all chains",
        method,
        (
            (
                "keys = chain_keys(key, step, states.logdensity.shape[0])",
                "keys = jnp.tile(chain_keys(key, step, 1), (states.logdensity.shape[0], 1))",
            ),
        ),
    ),
    Mistake(
        "same momentum in all blocks",
        block,
        (("one_step(first + i, carry)", "one_step(i, carry)"),),
    ),
    Mistake(
        "proposal kept instead of the state",
        method,
        (("position=states.position,", "position=info.proposal,"),),
    ),
)
