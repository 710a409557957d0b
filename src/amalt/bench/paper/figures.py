"""The paper's figures, drawn from results: bars and runs of both tables, evolution, variance."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from amalt.bench.paper import studies
from amalt.bench.paper.design import COLUMNS, ESS_PER_GRAD, ESS_PER_ITER, MODELS, Figures
from amalt.errors import AmaltError

COLORS = {
    "malt": "#1d4f91",
    "malt-rho": "#7fa8d9",
    "rhmc-unif": "#b8520f",
    "rhmc-exp": "#eda65f",
    "ghmc": "#3d8b63",
    "nuts": "#4b5563",
    "nuts-avg": "#a9b0bb",
}
BLACK = "#111827"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
}
PANELS = (
    ("ess_per_grad", "ESS per gradient", ESS_PER_GRAD),
    ("ess_per_iter", "ESS per iteration", ESS_PER_ITER),
)
REFERENCE = "malt"
"""The column that everything is divided by."""

BAR = 0.12

Cells = dict[tuple[str, str], dict[str, Any]]


def check_matplotlib() -> None:
    """Say what to install if figures cannot be drawn."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise AmaltError("figures are drawn by Matplotlib: pip install 'amalt[bench]'.") from error


def draw(cells: Iterable[dict[str, Any]], out: Path, to: Path) -> list[Path]:
    """Draw all figures that there are results for, and return their files.

    Parameters
    ----------
    cells
        From `amalt.bench.paper.results.cells`.
    out
        Where the data of the studies are.
    to
        The directory of the figures, made if need be.
    """
    check_matplotlib()
    to.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    found = {(cell["model"], cell["method"]): cell for cell in cells}
    if any(method == REFERENCE for _, method in found):
        drawn += [ess_bars(found, to / "ess.png"), ess_runs(found, to / "ess-runs.png")]
    for study, paint in (("evolution", evolution), ("variance", variance)):
        for model in MODELS:
            data = studies.load_study(out, study, model)
            if data is not None:
                drawn.append(paint(data, to / f"{study}-{model}.png"))
    if not drawn:
        raise AmaltError(
            f"{out} holds nothing to draw: bars need runs of the method {REFERENCE!r}, by which "
            "all are divided; the others are drawn from --study."
        )
    return drawn


def ess_bars(found: Cells, path: Path) -> Path:
    """Draw both tables as bars, divided by MALT with rho = 1; the paper's figures as marks."""
    with _subplots(path, (10.0, 5.2), rows=2) as axes:
        for axis, (name, title, paper) in zip(axes, PANELS, strict=True):
            for x, method, cell, unit in _places(found, name, paper):
                error = cell[f"{name}_error"]
                axis.bar(x, cell[name] / unit, BAR, color=COLORS[method])
                if error is not None:
                    height, half = cell[name] / unit, error / unit
                    axis.errorbar(x, height, half, color=BLACK, lw=0.8, capsize=1.5)
                height = paper[cell["model"]][method] / paper[cell["model"]][REFERENCE]
                axis.plot(x, height, "D", ms=3.5, mfc="white", mec=BLACK, mew=0.8)
            _finish(axis, found, title)
        _legend(axes[0], found, paper=True)
    return path


def ess_runs(found: Cells, path: Path) -> Path:
    """Draw each run as a point, divided as the bars are, jittered sideways."""
    rng = np.random.default_rng(0)
    with _subplots(path, (10.0, 5.2), rows=2) as axes:
        for axis, (name, title, paper) in zip(axes, PANELS, strict=True):
            for x, method, cell, unit in _places(found, name, paper):
                heights = [run[name] / unit for run in cell["each_run"] if run[name] is not None]
                places = x + rng.uniform(-0.35, 0.35, len(heights)) * BAR
                axis.plot(places, heights, ".", ms=5, color=COLORS[method], alpha=0.8)
            _finish(axis, found, f"{title}, every run")
        _legend(axes[0], found, paper=False)
    return path


def evolution(data: dict[str, Any], path: Path) -> Path:
    """Draw the trace of tau and gamma, a dot each 5 steps, over the surface of ESS per gradient."""
    tau, gamma = np.array(data["integration_times"]), np.array(data["dampings"])
    points = {(p["integration_time"], p["damping"]): p["ess_per_grad"] for p in data["points"]}
    surface = np.array([[points.get((t, g)) or np.nan for t in tau] for g in gamma])
    with _subplots(path, (6.4, 4.2)) as (axis,):
        mesh = axis.pcolormesh(tau, gamma, surface, shading="nearest", cmap="Blues")
        axis.figure.colorbar(mesh, ax=axis, label="least ESS per gradient")
        trace = data["trace"]
        steps = np.arange(len(trace["damping"])) * studies.EVERY
        dots = axis.scatter(
            trace["integration_time"], trace["damping"], c=steps, s=5, cmap="autumn", lw=0
        )
        axis.figure.colorbar(dots, ax=axis, label="iteration of the warm-up")
        learned = data["learned"]
        axis.plot(
            learned["integration_time"],
            learned["damping"],
            "o",
            ms=8,
            mfc="none",
            mec=BLACK,
            mew=1.5,
        )
        half = 0.5 * (tau[1] - tau[0]), 0.5 * (gamma[1] - gamma[0])
        axis.set(
            xlim=(0.0, tau[-1] + half[0]),
            ylim=(0.0, gamma[-1] + half[1]),
            xlabel="integration time τ",
            ylabel="damping γ",
            title=f"{MODELS[data['model']].title}: one warm-up of Adaptive MALT",
        )
    return path


def variance(data: dict[str, Any], path: Path) -> Path:
    """Draw tau near convergence with gradients from one and from two directions, and variances."""
    means = studies.mean_variances(data)
    names = ("one direction", "two directions")
    with _subplots(path, (10.0, 2.6), columns=2) as axes:
        for two, (axis, name, mean) in enumerate(zip(axes, names, means, strict=True)):
            runs = [run for run in data["runs"] if run["two_directional"] == bool(two)]
            for run in runs[:1]:
                first = data["tune"] - len(run["trace"]) * studies.EVERY
                steps = first + np.arange(len(run["trace"])) * studies.EVERY
                axis.plot(steps, run["trace"], lw=0.7, color=COLORS["malt" if two else "rhmc-unif"])
            known = f"; the paper {studies.PAPER_VARIANCES[two]}" * (data["model"] == studies.MODEL)
            axis.set_title(f"{name}: variance {mean:.2g} ({len(runs)} runs{known})")
            axis.set(xlabel="iteration of the warm-up", ylabel="integration time τ")
        axes[1].sharey(axes[0])
        axes[1].autoscale()
    return path


@contextlib.contextmanager
def _subplots(
    path: Path, size: tuple[float, float], rows: int = 1, columns: int = 1
) -> Generator[list[Any]]:
    """Yield the axes of a figure, and save it when they are filled."""
    matplotlib: Any = importlib.import_module("matplotlib")
    # A figure of its own, not one of pyplot: nothing stays behind, and no display is needed.
    make: Any = importlib.import_module("matplotlib.figure").Figure
    with matplotlib.rc_context(STYLE):
        figure = make(figsize=size)
        yield list(figure.subplots(rows, columns, squeeze=False).flat)
        figure.savefig(path)


def _places(
    found: Cells, name: str, paper: Figures
) -> Iterator[tuple[float, str, dict[str, Any], float]]:
    """Yield place, method, cell and unit of what the paper has in a panel, by posterior."""
    methods = _methods(found)
    for place, model in enumerate(_models(found)):
        unit = found[model, REFERENCE][name]
        for i, method in enumerate(methods):
            if (model, method) in found and method in paper[model] and unit:
                x = place + (i - 0.5 * (len(methods) - 1)) * BAR
                yield x, method, found[model, method], unit


def _models(found: Cells) -> list[str]:
    return [model for model in MODELS if (model, REFERENCE) in found]


def _methods(found: Cells) -> list[str]:
    return [method for method in COLUMNS if any(m == method for _, m in found)]


def _finish(axis: Any, found: Cells, title: str) -> None:
    axis.axhline(1.0, color=BLACK, lw=0.6, ls=":", zorder=0)
    labels = [MODELS[model].title.replace(" ", "\n", 1) for model in _models(found)]
    axis.set_xticks(range(len(labels)), labels)
    axis.set(xlim=(-0.6, len(labels) - 0.4), ylim=(0.0, None))
    axis.set_title(f"{title} (that of {COLUMNS[REFERENCE].title} is 1)")


def _legend(axis: Any, found: Cells, *, paper: bool) -> None:
    for method in _methods(found):
        axis.plot([], [], "s", color=COLORS[method], label=COLUMNS[method].title)
    if paper:
        axis.plot([], [], "D", ms=3.5, mfc="white", mec=BLACK, label="the paper")
    axis.figure.legend(ncols=8, fontsize=8, loc="outside upper center")
