"""What a run returns: labels, cost, files that are whole or refused, and what ArviZ makes of it."""

import errno
import json
import os
import resource
import shutil

import arviz
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import amalt
from amalt.posterior import Posterior

CHAINS, DRAWS, TUNE = 8, 60, 150
SCHOOLS = ["Zürich", "St. Paul's / Ost", "東京"]
DATES = np.array(["2020-01-01", "2020-02-01"], dtype="datetime64[ns]")


def logdensity(x):
    return -0.5 * x["µ"] ** 2 - 0.5 * jnp.sum((x["school effects"] - x["µ"]) ** 2)


def constrain(x):
    return {
        "µ": x["µ"],
        "scale": jnp.exp(x["µ"]),
        "school effects": x["school effects"],
        "is_up": x["school effects"] > 0.0,
        "count": jnp.sum(x["school effects"] > 0.0),
        "by date": x["school effects"][:2, None] * jnp.ones((1, 2)),
    }


@pytest.fixture(scope="module")
def fit():
    target = amalt.Target(
        logdensity,
        {"µ": 0.0, "school effects": jnp.zeros(3)},
        constrain=constrain,
        name="schools",
        dims={"school effects": ["school"], "is_up": ["school"], "by date": ["row", "date"]},
        coords={"school": SCHOOLS, "date": DATES},
    )
    return amalt.sample(
        target, chains=CHAINS, draws=DRAWS, tune=TUNE, random_seed=2**64 - 1, keep_warmup=True
    )


@pytest.fixture(scope="module")
def saved(fit, tmp_path_factory):
    return fit.save(tmp_path_factory.mktemp("fits") / "fit.zarr")


# --- labels ------------------------------------------------------------------------------------


def test_variables_carry_names_dims_coords_and_types(fit):
    posterior = fit.posterior
    assert set(posterior.data_vars) == {"µ", "scale", "school effects", "is_up", "count", "by date"}
    assert posterior["school effects"].dims == ("chain", "draw", "school")
    assert posterior["by date"].dims == ("chain", "draw", "row", "date")
    assert posterior["school"].values.tolist() == SCHOOLS
    np.testing.assert_array_equal(posterior["date"], DATES)
    np.testing.assert_array_equal(posterior["row"], [0, 1])
    np.testing.assert_array_equal(posterior["chain"], np.arange(CHAINS))
    np.testing.assert_array_equal(posterior["draw"], np.arange(DRAWS))
    assert posterior["is_up"].dtype == bool
    assert posterior["count"].dtype.kind == "i"
    np.testing.assert_array_equal(posterior["is_up"].sum("school"), posterior["count"])
    np.testing.assert_allclose(posterior["scale"], np.exp(posterior["µ"]), rtol=1e-6)


def test_unconstrained_draws_are_labeled_by_entry(fit):
    entries = fit.to_datatree()["unconstrained_posterior"]["entry"].values.tolist()
    assert entries == ["school effects[0]", "school effects[1]", "school effects[2]", "µ"]
    assert fit.unconstrained.shape == (CHAINS, DRAWS, 4)
    np.testing.assert_array_equal(fit.unconstrained[..., 3], fit.posterior["µ"])


def test_sample_stats_fit_the_draws(fit):
    stats = fit.sample_stats
    per_draw = {"lp", "acceptance_rate", "n_steps", "diverging", "energy_error"}
    assert {name for name in stats if stats[name].dims == ("chain", "draw")} == per_draw
    position = {"µ": fit.unconstrained[..., 3], "school effects": fit.unconstrained[..., :3]}
    expected = -0.5 * position["µ"] ** 2 - 0.5 * np.sum(
        (position["school effects"] - position["µ"][..., None]) ** 2, axis=-1
    )
    np.testing.assert_allclose(stats["lp"], expected, rtol=1e-3, atol=1e-5)
    accepted = np.minimum(1.0, np.exp(-stats["energy_error"]))
    np.testing.assert_allclose(stats["acceptance_rate"], accepted, rtol=1e-5)
    assert float(stats["step_size"]) == fit.tuning.step_size
    assert stats["inv_metric"].dims == ("entry",)


def test_the_warmup_is_kept_when_asked_for(fit):
    tree = fit.to_datatree()
    assert tree["warmup_posterior"]["µ"].shape == (CHAINS, TUNE)
    assert tree["warmup_sample_stats"]["lp"].shape == (CHAINS, TUNE)
    assert fit.warmup["step_size"].shape == (TUNE,)
    np.testing.assert_array_equal(fit.warmup["step"], np.arange(1, TUNE + 1))
    assert fit.warmup["edge"].values[-1] == TUNE
    assert np.all(np.isfinite(fit.warmup["variances"]))


def test_attributes_make_the_run_reproducible(fit):
    attrs = fit.attrs
    settings = json.loads(attrs["settings"])
    assert attrs["random_seed"] == 2**64 - 1
    assert attrs["target"] == "schools"
    assert attrs["precision"] == "float32"
    assert attrs["inference_library"] == "amalt"
    assert attrs["inference_library_version"] == amalt.__version__
    assert (settings["chains"], settings["draws"], settings["tune"]) == (CHAINS, DRAWS, TUNE)
    assert settings["target_accept"] == 0.8


# --- ArviZ -------------------------------------------------------------------------------------


def test_summary_has_a_row_for_each_scalar(fit):
    table = fit.summary(["µ", "school effects"])
    assert list(table.index) == ["µ", *(f"school effects[{name}]" for name in SCHOOLS)]
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(table.columns)
    assert len(fit.summary()) == 1 + 1 + 3 + 3 + 1 + 4


def test_summary_of_variables_that_are_constant_is_quiet():
    target = amalt.Target(
        lambda x: -0.5 * x**2, 0.0, constrain=lambda x: {"one": x * 0.0 + 1.0, "is_high": x > 9.0}
    )
    tuning = amalt.Tuning(step_size=1.0, integration_time=1.0, damping=0.5)
    table = amalt.sample(target, chains=4, draws=8, tuning=tuning, random_seed=1).summary()
    assert table["mean"].tolist() == [0.0, 1.0]


def test_inferencedata_holds_every_group(fit):
    data = fit.to_inferencedata()
    groups = {"posterior", "sample_stats", "unconstrained_posterior", "warmup"}
    assert groups | {"warmup_posterior", "warmup_sample_stats"} == set(data.groups())
    assert data.attrs["random_seed"] == 2**64 - 1
    xr.testing.assert_identical(data.posterior, fit.posterior)
    assert float(arviz.ess(data, var_names="µ")["µ"]) > 0.0


def test_a_datatree_is_a_copy(fit):
    tree = fit.to_datatree()
    tree.attrs["target"] = "mine"
    del tree["posterior"]
    assert fit.attrs["target"] == "schools"
    assert "µ" in fit.posterior


def test_repr_says_how_many_and_how_good(fit):
    assert repr(fit).startswith(f"Posterior of 'schools': {CHAINS} chains x {DRAWS} draws. ")
    assert fit.verdict.sentence in repr(fit)


# --- save and load -----------------------------------------------------------------------------


def test_a_saved_posterior_comes_back_whole(fit, saved):
    again = amalt.load(saved)
    xr.testing.assert_identical(again.to_datatree(), fit.to_datatree())
    assert again.cost == fit.cost
    assert again.verdict == fit.verdict
    assert again.tuning.num_steps == fit.tuning.num_steps
    np.testing.assert_array_equal(again.tuning.variances, fit.tuning.variances)
    for name, variable in fit.posterior.variables.items():
        assert again.posterior[name].dtype == variable.dtype
    assert repr(again) == repr(fit)
    # Nothing but xarray is needed to open it.
    with xr.open_datatree(saved, engine="zarr") as tree:
        assert tree["posterior"]["µ"].shape == (CHAINS, DRAWS)


def test_saving_again_needs_overwrite_and_leaves_no_scraps(fit, saved, tmp_path):
    path = tmp_path / "deep" / "down" / "fit"
    assert fit.save(path) == path
    with pytest.raises(amalt.AmaltError, match="exists already: pass overwrite=True"):
        fit.save(str(path))
    (path / "mark").touch()
    fit.save(path, overwrite=True)
    assert not (path / "mark").exists()
    assert os.listdir(path.parent) == ["fit"]
    amalt.load(str(path))
    # As readable for others as any new directory.
    (tmp_path / "usual").mkdir()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_overwrite_replaces_nothing_but_a_posterior(fit, tmp_path, monkeypatch):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("years of work")
    (tmp_path / "file").write_text("work")
    (tmp_path / "empty").mkdir()
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(tmp_path / "foreign", zarr_format=2)
    monkeypatch.chdir(tmp_path)
    for path in ("thesis", "file", "empty", "foreign", "."):
        with pytest.raises(amalt.AmaltError, match="is not a saved posterior, so overwrite=True"):
            fit.save(path, overwrite=True)
    assert (tmp_path / "thesis" / "chapter").read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "foreign", "thesis"]


def test_a_link_is_followed(fit, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fit.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    amalt.load(tmp_path / "link")


@pytest.fixture
def small_disk():
    """Let no file grow beyond 100 bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_nothing_half_written(fit, tmp_path, small_disk):
    with pytest.raises(amalt.AmaltError, match=r"cannot write .*new/fit.*File too large"):
        fit.save(tmp_path / "new" / "fit")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_posterior_as_it_was(fit, saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "fit")

    def to_zarr(self, store, **options):
        store.mkdir()
        (store / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(xr.DataTree, "to_zarr", to_zarr)
    with pytest.raises(amalt.AmaltError, match="No space left on device"):
        fit.save(tmp_path / "fit", overwrite=True)
    assert os.listdir(tmp_path) == ["fit"]
    xr.testing.assert_identical(amalt.load(tmp_path / "fit").to_datatree(), fit.to_datatree())


def test_a_failed_swap_puts_the_old_posterior_back(fit, saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "fit")
    rename = type(tmp_path).rename

    def failing(self, target):
        if self.name == "new":
            raise PermissionError(errno.EACCES, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", failing)
    with pytest.raises(amalt.AmaltError, match="Permission denied"):
        fit.save(tmp_path / "fit", overwrite=True)
    assert os.listdir(tmp_path) == ["fit"]
    xr.testing.assert_identical(amalt.load(tmp_path / "fit").to_datatree(), fit.to_datatree())


def test_a_place_that_cannot_be_written_is_named(fit, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(amalt.AmaltError, match=r"cannot write .*file/fit"):
        fit.save(tmp_path / "file" / "fit")
    with pytest.raises(amalt.AmaltError, match="File name too long"):
        fit.save(tmp_path / ("n" * 300))


def test_what_is_no_directory_is_not_loaded(tmp_path):
    (tmp_path / "file").write_text("text")
    for name in ("missing", "file"):
        with pytest.raises(amalt.AmaltError, match=f"{name} is not a directory: pass the path"):
            amalt.load(tmp_path / name)


def test_directories_of_others_are_not_loaded(tmp_path):
    (tmp_path / "empty").mkdir()
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(tmp_path / "foreign", zarr_format=2)
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(
        tmp_path / "foreign3", zarr_format=3, consolidated=False
    )
    for name in ("empty", "foreign", "foreign3"):
        with pytest.raises(
            amalt.AmaltError, match=r"does not hold a posterior.*amalt_format.*None"
        ):
            amalt.load(tmp_path / name)


def remove(name):
    def damage(path):
        (path / name).unlink()

    return damage


def overwrite(name, content):
    def damage(path):
        (path / name).write_bytes(content)

    return damage


def replace(old, new):
    def damage(path):
        for name in (".zattrs", ".zmetadata"):
            text = (path / name).read_text()
            assert old in text
            (path / name).write_text(text.replace(old, new))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        remove(".zattrs"),
        remove(".zmetadata"),
        overwrite(".zattrs", b"{"),
        overwrite(".zattrs", b"[]"),
        overwrite(".zattrs", b"\xff\xfe\x00"),
        overwrite(".zmetadata", b"{"),
        overwrite(".zmetadata", b"[]"),
        overwrite(".zmetadata", b"{}"),
        remove("posterior/scale/0.0"),
        remove("sample_stats/diverging/0.0"),
        overwrite("posterior/scale/0.0", b""),
        overwrite("posterior/scale/0.0", b"garbage"),
        lambda path: shutil.rmtree(path / "posterior"),
        replace('"amalt_format": 1', '"amalt_format": 2'),
        replace('"amalt_format": 1', '"amalt_format": "1"'),
        replace('"target": "schools"', '"tarket": "schools"'),
        replace("gradients_start", "gradients"),
        replace('"cost": "{', '"cost": "'),
    ],
)
def test_a_damaged_directory_is_refused(saved, tmp_path, damage):
    path = tmp_path / "fit"
    shutil.copytree(saved, path)
    damage(path)
    with pytest.raises(amalt.AmaltError, match=f"^{path} (is damaged|does not hold)"):
        amalt.load(path)


def test_a_tree_without_its_groups_is_refused(fit, tmp_path):
    tree = fit.to_datatree()
    del tree["sample_stats"]
    Posterior(tree).save(tmp_path / "fit")
    with pytest.raises(amalt.AmaltError, match="parts of sample_stats are missing"):
        amalt.load(tmp_path / "fit")
