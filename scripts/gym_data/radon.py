"""Radon in houses: the survey joined with the uranium of the counties, one state at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable

import numpy as np

from gym_data.sources import Arrays, Recipe, Source, SourceError

HOUSES = Source(
    "pymc3",
    "3.11.6",
    "pymc3/tests/data/srrs2.dat",
    "241219ed05d4bf7dc171ca279c69db7f8d87ae666feae86161c973483a054877",
)
COUNTIES = Source(
    "pymc3",
    "3.11.6",
    "pymc3/tests/data/cty.dat",
    "5aa648547b9b565d77b9f55defd2f292520441cc6df7a27206802006dade7b63",
)


def radon_recipe(state: str, num_houses: int, num_counties: int) -> Recipe:
    """Return the recipe of one state, given what must be left of it."""
    return Recipe((HOUSES, COUNTIES), radon_arrays(state, num_houses, num_counties))


def radon_arrays(state: str, num_houses: int, num_counties: int) -> Callable[..., Arrays]:
    """Return the parser of the two tables that keeps the houses of one state.

    Houses whose floor is 0 (basement) or 1 are kept, in the order of the survey; counties are
    numbered in the order of their names.
    """

    def parse(houses: bytes, counties: bytes) -> Arrays:
        # Some counties are listed twice, with the same number; a plain join would double houses.
        uranium = {_fips(row, "ctfips"): row["Uppm"] for row in _rows(counties)}
        of_state = [row for row in _rows(houses) if row["state"] == state]
        kept = [row for row in of_state if row["floor"] in ("0", "1")]
        fips = {row["county"]: _fips(row, "cntyfips") for row in kept}
        names = sorted(fips)
        if (len(kept), len(names)) != (num_houses, num_counties):
            raise SourceError(
                f"expected {num_houses} houses in {num_counties} counties of {state}, found "
                f"{len(kept)} in {len(names)}."
            )
        number = {name: i for i, name in enumerate(names)}
        return {
            "activity": np.array([row["activity"] for row in kept]).astype(np.float32),
            "floor": np.array([row["floor"] for row in kept]).astype(np.uint8),
            "county": np.array([number[row["county"]] for row in kept], np.uint8),
            "county_name": np.array(names, "S"),
            "uranium": np.array([uranium[fips[name]] for name in names]).astype(np.float32),
        }

    return parse


def _rows(content: bytes) -> list[dict[str, str]]:
    """Read a table with a header, without the blanks that pad its columns."""
    table = csv.reader(content.decode("ascii").splitlines(), skipinitialspace=True)
    header, *rows = ([cell.strip() for cell in row] for row in table)
    return [dict(zip(header, row, strict=True)) for row in rows]


def _fips(row: dict[str, str], county: str) -> int:
    return 1000 * int(row["stfips"]) + int(row[county])
