"""The data files and the script that rebuilds them."""

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from amalt.gym import data

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "rebuild_gym_data.py"


@pytest.fixture(scope="module")
def rebuild():
    if not SCRIPT.is_file():
        pytest.skip("the source distribution comes without scripts")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module(SCRIPT.stem)


def test_shipped_files_are_what_the_script_packs(rebuild):
    assert {path.name for path in rebuild.DATA.glob("*.npz")} == set(rebuild.FILES)
    for name in rebuild.FILES:
        packed = rebuild.npz_bytes(data.read(name.removesuffix(".npz")))
        assert packed == (rebuild.DATA / name).read_bytes()


def test_provenance_names_every_source(rebuild):
    text = (rebuild.DATA / "PROVENANCE.md").read_text(encoding="utf-8")
    for name, recipe in rebuild.FILES.items():
        rows = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
        assert len(rows) == len(recipe.sources)
        for row, source in zip(rows, recipe.sources, strict=True):
            assert f"`{source.package}` {source.version}" in row
            assert f"`{source.member}`" in row
            assert f"`{source.sha256}`" in row


def test_constants_are_read_without_running_code(rebuild):
    sources = importlib.import_module("gym_data.sources")
    code = (
        "import numpy as np\n"
        "raise SystemExit\n"
        "A = np.array([\n    1.5,\n    -2e-3,\n]).reshape((2,))\n"
        "B = np.array([4]).reshape(())\n"
        "C = open('x')\n"
    )
    found = sources.array_constants(code)
    assert set(found) == {"A", "B"}
    np.testing.assert_array_equal(found["A"], [1.5, -0.002])
    assert found["B"].shape == ()
    with pytest.raises(ValueError, match="malformed"):
        sources.array_constants("A = np.array([exit()]).reshape((1,))")


def test_radon_tables_are_joined_without_doubling_houses(rebuild):
    radon = importlib.import_module("gym_data.radon")
    houses = (
        b"idnum,state,stfips, floor,activity,cntyfips,county\n"
        b"1,MN,27,1,     2.5,  3,LAKE     \n"
        b"2,IN,18,0,     7.0,  3,LAKE     \n"
        b"3,MN,27,9,     1.0,  3,LAKE     \n"
        b"4,MN,27,0,     0.0, 11,BIG STONE\n"
    )
    counties = (
        b"stfips,ctfips,st,cty,Uppm\n"
        b"27,003,MN,LAKE, 1.5\n"
        b"27,003,MN,LAKE, 1.5\n"
        b"18,003,IN,LAKE, 2.5\n"
        b"27,011,MN,BIGSTONE, 0.5\n"
    )
    found = radon.radon_arrays("MN", 2, 2)(houses, counties)
    assert {name: array.tolist() for name, array in found.items()} == {
        "activity": [2.5, 0.0],
        "floor": [1, 0],
        "county": [1, 0],
        "county_name": [b"BIG STONE", b"LAKE"],
        "uranium": [0.5, 1.5],
    }
    sources = importlib.import_module("gym_data.sources")
    with pytest.raises(sources.SourceError, match="3 houses in 2 counties of MN, found 2 in 2"):
        radon.radon_arrays("MN", 3, 2)(houses, counties)


def test_brownian_observations_are_read_without_running_code(rebuild):
    bridge = importlib.import_module("gym_data.brownian_bridge")
    sources = importlib.import_module("gym_data.sources")
    code = "raise SystemExit\nOBSERVED_LOC = np.array([{}]).astype(dtype=np.float32)\n"
    entries = ["-0.5"] * 20 + ["np.nan"] * 10
    found = bridge.brownian_bridge_arrays(code.format(", ".join(entries)).encode())["observed"]
    np.testing.assert_array_equal(found, [-0.5] * 20 + [np.nan] * 10)
    with pytest.raises(sources.SourceError, match="20 of 30"):
        bridge.brownian_bridge_arrays(code.format("1.0, np.nan").encode())
    with pytest.raises(sources.SourceError, match="no OBSERVED_LOC"):
        bridge.brownian_bridge_arrays(b"OTHER = 1")
    with pytest.raises(ValueError, match="malformed"):
        bridge.brownian_bridge_arrays(code.format("exit()").encode())


def test_changed_source_is_refused(rebuild, tmp_path, capsys):
    (source,) = rebuild.FILES["german_credit.npz"].sources
    assert rebuild.main(["--check", "--wheel-dir", str(tmp_path)]) == rebuild.DIFFERENT
    assert "does not exist" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / source.wheel, "w") as wheel:
        wheel.writestr(source.member, "1 2 3\n")
    assert rebuild.main(["--check", "--wheel-dir", str(tmp_path)]) == rebuild.DIFFERENT
    assert "expected 2752b044" in capsys.readouterr().err


def test_check_reports_a_changed_file_and_writes_nothing(rebuild, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rebuild, "DATA", tmp_path)
    files = {"a.npz": rebuild.npz_bytes({"x": np.arange(3)})}
    assert rebuild.write_or_check(files, check=True) == rebuild.DIFFERENT
    assert not list(tmp_path.iterdir())
    assert rebuild.write_or_check(files, check=False) == rebuild.OK
    assert rebuild.write_or_check(files, check=True) == rebuild.OK
    (tmp_path / "a.npz").write_bytes(b"other")
    assert rebuild.write_or_check(files, check=True) == rebuild.DIFFERENT
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["DIFFERENT", "written", "unchanged", "DIFFERENT"]


@pytest.mark.long
def test_files_equal_a_rebuild_from_the_packages():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    if done.returncode == 3:
        pytest.skip("the packages cannot be downloaded here")
    assert done.returncode == 0, done.stdout + done.stderr
