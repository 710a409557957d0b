"""Results on disk and the cells made of them."""

import json

import numpy as np
import pytest

from amalt.bench.paper import results
from amalt.bench.paper.design import ESS_PER_GRAD, Run

from . import made

RUN = Run("german-credit", "malt", seed=1)


def cells(out):
    return results.cells(results.load_results(out))


# --- files -------------------------------------------------------------------------------------


def test_a_result_is_found_again(tmp_path):
    path = made.save(tmp_path, RUN)
    assert results.read(path) == results.find(tmp_path, RUN) == made.result(RUN)
    assert [p.name for p in tmp_path.iterdir()] == [RUN.file_name]


def test_what_cannot_be_computed_is_null(tmp_path):
    path = made.save(tmp_path, RUN, ess_per_grad=float("nan"), rhat=float("inf"))
    content = json.loads(path.read_text())
    assert content["ess_per_grad"] is None
    assert content["rhat"] is None
    (cell,) = cells(tmp_path)
    assert np.isnan(cell["ess_per_grad"])
    assert cell["rhat"] == np.inf


DAMAGES = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "not json": lambda text: "a sentence",
    "a list": lambda text: "[1, 2]",
    "a number": lambda text: "3",
    "no figure": lambda text: text.replace('"ess_per_grad"', '"else"'),
    "a word for a figure": lambda text: text.replace('"rhat": 1.002', '"rhat": "small"'),
    "a negative figure": lambda text: text.replace('"rhat": 1.002', '"rhat": -1.0'),
    "no gradients": lambda text: text.replace("4000", "0"),
    "null gradients": lambda text: text.replace("4000", "null"),
    "no seconds": lambda text: text.replace('"seconds": 30.0', '"seconds": null'),
    "words for numbers": lambda text: text.replace('"seed": 1', '"seed": "1"'),
    "another seed": lambda text: text.replace('"seed": 1', '"seed": 2'),
    "a list for a model": lambda text: text.replace('"german-credit"', '["german-credit"]'),
    "an unknown column": lambda text: text.replace('"malt"', '"malt-2"'),
    "bytes": None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_no_results(tmp_path, damage):
    path = made.save(tmp_path, RUN)
    change = DAMAGES[damage]
    if change is None:
        path.write_bytes(b"\xff\xfe\x00{")
    else:
        assert change(path.read_text()) != path.read_text()
        path.write_text(change(path.read_text()))
    assert results.read(path) is None
    assert results.find(tmp_path, RUN) is None
    assert results.load_results(tmp_path) == []


def test_results_under_another_name_are_none(tmp_path):
    """A copy would count twice."""
    path = made.save(tmp_path, RUN)
    path.with_name("copy.json").write_text(path.read_text())
    assert len(results.load_results(tmp_path)) == 1


@pytest.mark.parametrize(
    ("fact", "value"),
    [("init", "elsewhere"), ("draws", 1599), ("revision", 0), ("preset", {"target_accept": 0.5})],
)
def test_results_of_another_protocol_are_neither_found_nor_shown(tmp_path, fact, value):
    made.save(tmp_path, RUN, **{fact: value})
    assert results.find(tmp_path, RUN) is None
    assert results.load_results(tmp_path) == []


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        made.save(tmp_path, RUN)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_holds_nothing(tmp_path):
    assert results.load_results(tmp_path / "none") == []


# --- cells -------------------------------------------------------------------------------------


def test_rows_stand_in_the_order_of_the_tables(tmp_path):
    made.save_all(tmp_path, seeds=2)
    rows = results.load_results(tmp_path)
    assert len(rows) == 6 * 7 * 2
    assert [row["method"] for row in rows[:14]] == [
        method
        for method in ("malt", "malt-rho", "rhmc-unif", "rhmc-exp", "ghmc", "nuts", "nuts-avg")
        for _ in range(2)
    ]
    assert [row["seed"] for row in rows[:4]] == [1, 2, 1, 2]
    assert rows[0]["model"] == "german-credit"
    assert rows[-1]["model"] == "stochastic-volatility"


def test_nuts_counts_twice_by_the_longest_chain_and_by_the_mean(tmp_path):
    made.save(tmp_path, Run("german-credit", "nuts", seed=1))
    longest, mean = cells(tmp_path)
    assert (longest["method"], mean["method"]) == ("nuts", "nuts-avg")
    for name in ("ess_per_grad", "multi_chain_ess_per_grad"):
        assert mean[name] == pytest.approx(4.0 * longest[name])  # 4000 gradients against 1000
    for name in ("ess_per_iter", "multi_chain_ess_per_iter"):
        assert mean[name] == longest[name]
    assert mean["paper_ess_per_grad"] == ESS_PER_GRAD["german-credit"]["nuts-avg"]
    assert mean["paper_ess_per_iter"] is None
    assert mean["ess_per_iter_ratio"] is None


def test_a_cell_is_the_tenth_percentile_and_the_worst_of_its_runs(tmp_path):
    figures = [0.10, 0.14, 0.11, 0.13, 0.12]
    for seed, figure in enumerate(figures, start=1):
        run = Run("german-credit", "malt", seed=seed)
        made.save(tmp_path, run, ess_per_grad=figure, rhat=1.0 + figure, max_z=10 * figure)
    (cell,) = cells(tmp_path)
    # Sorted, the tenth percentile lies 0.4 of the way from the first to the second of five.
    assert cell["ess_per_grad"] == pytest.approx(0.104)
    assert cell["ess_per_grad_ratio"] == pytest.approx(0.104 / 0.110)
    assert (cell["runs"], cell["chains"], cell["scale"]) == (5, 128, 1.0)
    assert cell["rhat"] == pytest.approx(1.14)
    assert cell["max_z"] == pytest.approx(1.4)
    assert [run["ess_per_grad"] for run in cell["each_run"]] == figures
    assert [run["seed"] for run in cell["each_run"]] == [1, 2, 3, 4, 5]


def test_unknown_errors_of_means_stay_unknown(tmp_path):
    made.save(tmp_path, RUN, max_z=None)
    made.save(tmp_path, Run("german-credit", "malt", seed=2), max_z=1.0)
    (cell,) = cells(tmp_path)
    assert cell["max_z"] is None


def test_the_fullest_protocol_counts(tmp_path):
    for chains, scale, seeds in ((32, 0.2, 3), (128, 0.2, 2), (32, 1.0, 1)):
        for seed in range(1, seeds + 1):
            made.save(tmp_path, Run("german-credit", "malt", seed, chains, scale))
    (cell,) = cells(tmp_path)
    assert (cell["runs"], cell["chains"], cell["scale"]) == (1, 32, 1.0)


# --- errors ------------------------------------------------------------------------------------


def test_the_bootstrap_agrees_with_its_exact_law():
    """Of two runs, 0 and 1, the resamples are 00, 01, 10 and 11: tenth percentiles 0, 0.1, 0.1, 1.

    Their standard deviation is estimated from n = 2000 resamples with a relative error of
    sqrt((kurtosis - 1) / 4 n).
    """
    law = np.array([0.0, 0.1, 0.1, 1.0])
    sd = law.std()
    kurtosis = np.mean((law - law.mean()) ** 4) / sd**4
    standard_error = sd * np.sqrt((kurtosis - 1.0) / 4.0 / results.RESAMPLES)
    found = results.three_standard_errors([5.0, 6.0])
    assert found is not None
    assert abs(found / 3.0 - sd) < 4.0 * standard_error


def test_one_run_has_no_error_and_equal_runs_have_none_to_speak_of():
    assert results.three_standard_errors([1.0]) is None
    assert results.three_standard_errors([1.0, 1.0, 1.0]) == 0.0
