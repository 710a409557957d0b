"""The commands, their options, and the exit codes in one table."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from amalt import gym
from amalt.cli import bench
from amalt.cli.exits import Exit
from amalt.errors import AmaltError, SettingsError
from amalt.posterior import Posterior

app = typer.Typer(
    help="Bayesian sampling with many parallel chains and nothing to tune.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run the command line; errors meant for people are shown without a traceback."""
    # The judgment is printed below the table; the logger would say it twice.
    logging.getLogger("amalt").setLevel(logging.ERROR)
    try:
        app()
    except (AmaltError, OSError) as error:
        typer.echo(f"amalt: {error}", err=True)
        sys.exit(Exit.USAGE if isinstance(error, SettingsError) else Exit.ERROR)
    except SystemExit as done:
        if done.code == Exit.INTERRUPTED:
            # XLA, interrupted while it compiles, may crash when the interpreter takes it down.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(Exit.INTERRUPTED)
        raise


@app.callback()
def about() -> None:
    """Bayesian sampling with many parallel chains and nothing to tune.

    Exit codes: 0 done and trusted, 1 error, 2 wrong usage, 3 done but the checks failed,
    130 interrupted.
    """


@app.command()
def sample(
    model: Annotated[str, typer.Argument(help="A built-in posterior; see `amalt models`.")],
    chains: Annotated[int, typer.Option(help="Chains that run side by side.")] = 128,
    draws: Annotated[int, typer.Option(help="Draws to keep, per chain.")] = 250,
    tune: Annotated[int, typer.Option(help="Iterations in which the chains learn.")] = 1000,
    seed: Annotated[int | None, typer.Option(help="Same seed, same draws.")] = None,
    method: Annotated[str, typer.Option(help="malt; or a baseline: rhmc, ghmc, nuts.")] = "malt",
    preset: Annotated[str, typer.Option(help="paper, or paper-rho for adaptive rho.")] = "paper",
    target_accept: Annotated[
        float | None, typer.Option(help="Acceptance rate to tune the step size for.")
    ] = None,
    init: Annotated[
        str, typer.Option(help="Where chains begin: uniform, jitter, or advi.")
    ] = "uniform",
    save: Annotated[
        Path | None, typer.Option(help="Write the posterior to this directory (zarr).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress.")] = True,
) -> None:
    """Sample a posterior, show its table and a judgment in one line.

    Example: amalt sample german-credit --chains 128 --seed 1
    """
    from amalt.cli import show
    from amalt.sampling import sample as run

    target = _load(model)
    if save is not None and save.exists():
        raise typer.BadParameter(f"{save} exists already; name another path.", param_hint="--save")
    fit: Posterior = run(
        target,
        chains=chains,
        draws=draws,
        tune=tune,
        random_seed=seed,
        method=method,
        preset=preset,
        target_accept=target_accept,
        init=init,
        progressbar=progress and not json,
    )
    if json:
        typer.echo(show.as_json(fit))
    else:
        show.to_terminal(fit)
    if save is not None:
        fit.save(save)
    if not fit.ok:
        raise typer.Exit(Exit.CHECKS_FAILED)


@app.command()
def models() -> None:
    """List the built-in posteriors."""
    from amalt.cli import show

    show.models()


def _load(model: str) -> Any:
    """Load a built-in posterior; a name that is none is wrong usage."""
    if model not in gym.names():
        try:
            return gym.load(model)
        except AmaltError as error:
            raise typer.BadParameter(str(error), param_hint="MODEL") from error
    return gym.load(model)
