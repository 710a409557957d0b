"""The tables as they are printed."""

import io
import re

import pytest
from rich.console import Console

from amalt.bench.paper import results, table
from amalt.bench.paper.design import Run

from . import made


def printed(out, width=table.WIDTH):
    text = io.StringIO()
    shown = table.tables(results.cells(results.load_results(out)), "somewhere")
    Console(file=text, width=width).print(shown)
    return text.getvalue()


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    made.save_all(out)
    return printed(out)


def test_all_columns_of_all_posteriors_fit_a_terminal(everything):
    lines = everything.split("\n")
    assert max(map(len, lines)) <= table.WIDTH
    assert "…" not in everything
    for word in ("paper", "amalt", "ratio", "multi-chain"):
        rows = [line for line in lines if re.search(rf"\b{word}  ", line)]
        assert len(rows) == 2 * 6
        if word != "ratio":  # the paper has no averaged NUTS per iteration
            assert all(len(re.findall(r"\d\.\d+", row)) == 7 for row in rows[:6])
    for word in ("runs  ", "chains  ", "length", "R-hat", "largest error  "):
        assert sum(f"  {word}" in line for line in lines) == 6
    for title in ("MALT ρ=1", "MALT ρ*", "RHMC Unif", "RHMC Exp", "GHMC", "NUTS", "NUTS avg"):
        assert title in everything


def test_the_reader_is_told_which_estimator_to_believe(everything):
    sentence = " ".join(everything.split())
    assert "because some chains sit in necks" in sentence
    assert (
        "On the Brownian bridge and sparse logistic regression the paper's overstates" in sentence
    )
    assert sentence.endswith("Results: somewhere")


def test_full_results_are_not_marked(everything):
    tables, _, notes = everything.partition("Both estimators")
    assert "*" not in tables.replace("ρ*", "")
    assert "less than the paper's protocol" not in notes


def test_figures_stand_beside_the_papers(tmp_path):
    made.save(
        tmp_path,
        Run("german-credit", "malt", seed=1),
        ess_per_grad=0.1234,
        ess_per_iter=0.5678,
        multi_chain_ess_per_grad=0.0321,
        multi_chain_ess_per_iter=0.4321,
        rhat=1.0034,
        max_z=3.21,
    )
    rows = re.findall(r"  ([a-zR±-]+(?: error)?) +([-\d.]+) *\n", printed(tmp_path))
    assert rows == [
        *[("paper", "0.110"), ("amalt", "0.123"), ("±", "-")],
        *[("ratio", "1.12"), ("multi-chain", "0.0321")],
        *[("paper", "0.478"), ("amalt", "0.568"), ("±", "-")],
        *[("ratio", "1.19"), ("multi-chain", "0.432")],
        *[("runs", "1"), ("chains", "128"), ("length", "1")],
        *[("R-hat", "1.003"), ("largest error", "3.2")],
    ]


@pytest.mark.parametrize(("chains", "scale"), [(32, 1.0), (128, 0.5)])
def test_less_than_the_protocol_is_marked(tmp_path, chains, scale):
    made.save(tmp_path, Run("german-credit", "malt", 1, chains, scale))
    text = printed(tmp_path)
    assert "0.110*" in text
    assert "0.0550*" in text
    assert ("32*" in text) == (chains == 32)
    assert ("0.5*" in text) == (scale == 0.5)
    assert "* not the paper's protocol" in text


def test_what_could_not_be_computed_is_a_dash(tmp_path):
    made.save(tmp_path, Run("german-credit", "malt", 1), ess_per_grad=None, max_z=None, rhat=None)
    text = printed(tmp_path)
    assert re.search(r"amalt +-", text)
    assert re.search(r"ratio +-", text)
    assert re.search(r"largest error +-", text)
    assert re.search(r"R-hat +inf", text)


def test_cells_without_runs_are_dashes(tmp_path):
    made.save(tmp_path, Run("german-credit", "malt", 1))
    made.save(tmp_path, Run("brownian-bridge", "ghmc", 1))
    lines = printed(tmp_path).split("\n")
    (first, second) = (line for line in lines[:16] if "amalt" in line)
    assert re.search(r"amalt +0\.110 +-$", first.rstrip())
    assert re.search(r"amalt +- +0\.00714$", second.rstrip())
