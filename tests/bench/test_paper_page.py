"""The page on the paper's experiments shows the results that come with amalt."""

import importlib
from pathlib import Path

import pytest

from amalt.bench.paper import results

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


@pytest.fixture(scope="module")
def page():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FIGURES)
        yield importlib.import_module("paper")


def test_every_shipped_file_is_a_result():
    """A file that is damaged, or made by an older sampler, would be left out in silence."""
    out = results.shipped()
    names = {path.name for path in out.glob("*chains-seed*.json")}
    assert names == {
        path.name for path in out.glob("*chains-seed*.json") if results.read(path) is not None
    }
    assert names


def test_table_of_the_page_is_that_of_the_results(page):
    cells = results.cells(results.load_results(results.shipped()))
    assert page.page_with(page.ratios(cells)) == page.PAGE.read_text(encoding="utf-8")
