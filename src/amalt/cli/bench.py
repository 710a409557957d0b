"""``amalt bench``: measurements that anyone can repeat."""

from __future__ import annotations

import enum
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from amalt import plainjson
from amalt.bench.paper import results, studies, table
from amalt.bench.paper.design import CHAINS, COLUMNS, MODELS, plan
from amalt.bench.paper.figures import check_matplotlib, draw
from amalt.bench.paper.runs import Failure, drive
from amalt.cli.exits import Exit
from amalt.errors import AmaltError, nearest
from amalt.methods import ghmc

app = typer.Typer(help="Measurements that anyone can repeat.", no_args_is_help=True)

OUT = Path("results") / "paper"


class Study(enum.StrEnum):
    """The two figures that need runs of their own."""

    EVOLUTION = "evolution"
    VARIANCE = "variance"


@app.callback()
def about() -> None:
    """Measurements that anyone can repeat."""


@app.command()
def paper(
    models: Annotated[
        str | None, typer.Option(help=f"Some of {', '.join(MODELS)}; commas between.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help=f"Some of {', '.join(COLUMNS)}; commas between.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each; the paper has 20.")] = 3,
    chains: Annotated[
        int | None, typer.Option(min=1, help=f"Chains of each run; {CHAINS} if not given.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(min=0.001, max=10.0, help="Of all lengths of runs; 1.0.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Where results are kept; {OUT} if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    study: Annotated[
        Study | None, typer.Option(help="Make the data of a figure instead of the tables.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Run nothing; show the results that come with amalt.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Draw the figures into this directory, too.")
    ] = None,
) -> None:
    """Repeat the experiments of the paper, and set them beside its tables.

    Each run is kept as it ends, and a command that was stopped goes on when it is repeated.
    Nothing runs with --show: the results in --out are shown, or else those that come with amalt.

    Example: amalt bench paper --models german-credit --seeds 1 --chains 32 --scale 0.2
    """
    rows, columns = _pick("--models", models, MODELS), _pick("--methods", methods, COLUMNS)
    if figures is not None:
        check_matplotlib()
    directory = out or (results.shipped() if show else OUT)
    if not show:
        chains, scale = chains or CHAINS, scale or 1.0
    failures: list[Failure] = []
    try:
        if study is not None:
            of = rows if models is not None else (studies.MODEL,)
            found = _studies(study, of, directory, chains, scale, None if show else seeds)
            for data in found:
                typer.echo(plainjson.dumps(data) if json else studies.sentence(data))
        else:
            if not show:
                _check_can_run(columns, chains or CHAINS)
                runs = plan(rows, columns, seeds, chains or CHAINS, scale or 1.0)
                failures = drive(runs, directory, jobs)
            _tables(_cells(rows, columns, directory, chains, scale), directory, json=json)
        if figures is not None:
            for path in draw(_cells(rows, columns, directory, chains, scale), directory, figures):
                typer.echo(f"drew {path}", err=True)
    except KeyboardInterrupt:
        hint = f"what is finished is kept in {directory}: repeat the command to go on"
        typer.echo(f"amalt: interrupted; {hint}", err=True)
        raise typer.Exit(Exit.INTERRUPTED) from None
    except AmaltError as error:
        if not failures:
            raise
        typer.echo(f"amalt: {error}", err=True)
    for failure in failures:
        typer.echo(f"amalt: {failure.run.title} failed: {failure.message}", err=True)
    if failures:
        raise typer.Exit(Exit.ERROR)


def _pick(option: str, words: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Return what was asked for, in the order of the tables; all if nothing was."""
    given = ",".join(known) if words is None else words
    wanted = [word.strip() for word in given.split(",") if word.strip()]
    for word in wanted:
        if word not in known:
            raise typer.BadParameter(
                f"{word!r} is not known; choose from {', '.join(known)}.{nearest(word, known)}",
                param_hint=option,
            )
    if not wanted:
        raise typer.BadParameter(f"name some of {', '.join(known)}.", param_hint=option)
    return tuple(word for word in known if word in wanted)


def _check_can_run(columns: Collection[str], chains: int) -> None:
    """Say before hours of work, not after, that NUTS or GHMC cannot run."""
    if any(COLUMNS[c].method == "ghmc" for c in columns):
        ghmc.check_chains(chains)
    if any(COLUMNS[c].method == "nuts" for c in columns) and not find_spec("blackjax"):
        raise AmaltError(
            "the columns of NUTS run on BlackJAX's kernel: pip install 'amalt[bench]', or leave "
            "them out with --methods."
        )


def _studies(
    study: Study,
    models: Collection[str],
    directory: Path,
    chains: int | None,
    scale: float | None,
    seeds: int | None,
) -> list[dict[str, Any]]:
    """Make the data of a study, or find them if no number of seeds is given."""
    if study is Study.EVOLUTION:
        for model in models:
            studies.check_grid(model)
    if seeds is not None:
        directory.mkdir(parents=True, exist_ok=True)
        lengths = (chains or CHAINS, scale or 1.0)
        for model in models:
            if study is Study.EVOLUTION:
                studies.evolution(model, directory, *lengths)
            else:
                studies.variance(model, directory, *lengths, seeds)
    found = {model: studies.load_study(directory, study, model, chains, scale) for model in models}
    missing = [model for model, data in found.items() if data is None]
    if missing:
        raise AmaltError(f"{directory} has no study of {study} on {missing[0]} to show.")
    return [data for data in found.values() if data is not None]


def _tables(found: list[dict[str, Any]], directory: Path, *, json: bool) -> None:
    if not found:
        raise AmaltError(
            f"{directory} holds no such results: make them with amalt bench paper --out DIR."
        )
    if json:
        typer.echo(plainjson.dumps(found, indent=1))
    else:
        table.console().print(table.tables(found, str(directory)))


def _cells(
    models: Collection[str],
    methods: Collection[str],
    directory: Path,
    chains: int | None,
    scale: float | None,
) -> list[dict[str, Any]]:
    return results.cells(
        row
        for row in results.load_results(directory)
        if row["model"] in models
        and row["method"] in methods
        and chains in (None, row["chains"])
        and scale in (None, row["scale"])
    )
