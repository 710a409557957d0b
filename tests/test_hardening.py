"""Ways in which a run, its judgment or its file once went wrong without a word."""

import json
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import amalt
from amalt.cli.app import app
from amalt.diagnostics.rhat import rhat, rhat_corrected
from amalt.diagnostics.verdict import judge
from amalt.errors import AmaltError, SettingsError, StartError, TargetError
from amalt.kernels.integrators import Integrator
from amalt.storage import archive

TUNING = amalt.Tuning(step_size=0.5, integration_time=1.5, damping=1.0)


def standard(dim=2):
    return amalt.Target(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(dim), name="standard")


def run(target=None, **options):
    options = {"chains": 8, "draws": 20, "random_seed": 1, "progressbar": False} | options
    if "tuning" not in options:
        options.setdefault("tune", 60)
    return amalt.sample(target or standard(), **options)


# --- a given tuning ------------------------------------------------------------------------------


def test_chains_with_a_given_tuning_find_the_bulk_before_they_are_kept():
    """From U(-2, 2), with the answer at 100: kept at once, the means would be many errors off."""
    target = amalt.Target(lambda x: -0.5 * jnp.sum(((x - 100.0) / 10.0) ** 2), jnp.zeros(3))
    first = run(target, chains=64, tune=1000, draws=100)
    fit = run(target, chains=64, draws=250, tuning=first.tuning, random_seed=2)
    of_chains = fit.unconstrained.astype(float).mean(1)
    error = of_chains.std(0, ddof=1) / 8.0
    assert np.all(np.abs(of_chains.mean(0) - 100.0) < 4.0 * error)
    assert fit.cost.gradients_settle == 100 * fit.tuning.num_steps


def test_positions_are_taken_for_draws():
    fit = run(tuning=TUNING, init=np.zeros((8, 2)))
    assert fit.cost.gradients_settle == 0
    assert run(tuning=TUNING, settle=3).cost.gradients_settle == 3 * 3


@pytest.mark.parametrize("steps", [3, 250_000, 999_999])
def test_long_times_lose_no_steps(steps):
    assert amalt.Tuning(0.1, steps * 0.1, 1.0).num_steps == steps


# --- what is judged ------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [8, 20, 40, 250])
def test_corrected_rhat_of_independent_draws_is_one(draws):
    """Each half underestimates how effective it is by a fifth at most: 0.2 / N of R-hat squared."""
    x = np.random.default_rng(draws).normal(size=(256, draws, 40))
    corrected = rhat_corrected(x)
    assert corrected.mean() == pytest.approx(1.0, abs=0.1 / (draws / 2))
    assert np.all(corrected <= rhat(x))


def test_chains_that_differ_for_good_are_seen_in_short_runs():
    """Their means vary by 0.3 sd: R-hat is sqrt(1 + 0.09) = 1.044, however short the run."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(256, 40, 2)) + 0.3 * rng.normal(size=(256, 1, 2))
    verdict = judge(x, np.zeros((256, 40), bool), ["a", "b"], 0.8)
    assert not verdict.ok
    assert "the chains disagree" in verdict.sentence


def test_chains_that_never_move_are_named():
    x = np.random.default_rng(4).normal(size=(128, 250, 2))
    x[[5, 9]] = x[[5, 9], :1]
    verdict = judge(x, np.zeros((128, 250), bool), ["a", "b"], 0.8)
    assert not verdict.ok
    assert "chain 5 (and 1 more) never moved" in verdict.sentence


def test_chains_may_stand_still_for_a_few_draws():
    x = np.random.default_rng(5).normal(size=(512, 4, 2))
    x[7] = x[7, :1]
    assert "never moved" not in judge(x, np.zeros((512, 4), bool), ["a", "b"], 0.3).sentence


def test_variables_that_are_not_finite_are_named():
    target = amalt.Target(
        lambda x: -0.5 * x**2, jnp.zeros(()), constrain=lambda x: {"x": x, "y": jnp.log(x)}
    )
    fit = run(target, chains=64, draws=100)
    assert not fit.ok
    assert "of the numbers in y are not finite" in fit.verdict.sentence
    assert "Mend constrain" in fit.verdict.sentence


# --- what is given -------------------------------------------------------------------------------


def test_settings_take_numbers_of_other_libraries():
    settings = amalt.MaltSettings(
        target_accept=np.float32(0.75),
        max_steps=np.int64(20),
        adaptive_rho=np.bool_(True),
        learning_rate=jnp.float32(0.05),
    )
    assert type(settings.max_steps) is int
    assert settings.adaptive_rho is True
    fit = run(preset=settings)
    assert json.loads(fit.attrs["settings"])["target_accept"] == 0.75


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "a"),
        ("mala_steps", None),
        ("initial_step_size", np.array([1.0, 2.0])),
        ("adaptive_rho", "no"),
        ("harmonic_acceptance", 3),
        ("max_steps", 2.5),
        ("max_steps", True),
    ],
)
def test_settings_of_another_type_are_refused(name, value):
    with pytest.raises(SettingsError, match=f"{name}="):
        amalt.MaltSettings(**{name: value})


@pytest.mark.parametrize(
    "scheme",
    [
        Integrator("mine", (0.3, 0.7), (1.0,)),
        Integrator("mine", (0.5,), (1.0,)),
        Integrator("mine", (1.0,), ()),
        Integrator("mine", (0.5, 0.5), (0.9,)),
        Integrator("mine", (0.5, float("nan")), (1.0,)),
        Integrator("mine", "ab", (1.0,)),
        Integrator("", (0.5, 0.5), (1.0,)),
    ],
)
def test_integrators_that_are_not_reversible_are_refused(scheme):
    with pytest.raises(SettingsError, match="integrator="):
        run(integrator=scheme)


def test_an_integrator_of_ones_own_is_taken():
    assert run(integrator=Integrator("mine", (0.25, 0.5, 0.25), (0.5, 0.5))).tuning is not None


def test_names_of_init_are_compared():
    target = amalt.Target(lambda p: -0.5 * jnp.sum(p["a"] ** 2), {"a": jnp.zeros(3)})
    with pytest.raises(SettingsError, match="init has the structure"):
        run(target, init={"WRONG": np.ones(3)})


def test_points_of_a_scalar_are_exact_for_one_chain():
    target = amalt.Target(lambda p: -0.5 * p["mu"] ** 2, {"mu": 0.0})
    fit = run(target, chains=1, draws=1, tuning=TUNING, init={"mu": np.array([5.0])}, settle=0)
    still = amalt.Tuning(step_size=1e-6, integration_time=1e-6, damping=0.0)
    fit = run(target, chains=1, draws=1, tuning=still, init={"mu": np.array([5.0])})
    assert float(fit.posterior["mu"][0, 0]) == pytest.approx(5.0, abs=1e-4)


def test_one_position_that_is_a_row_serves_all_chains():
    target = amalt.Target(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros((1, 3)))
    assert run(target, chains=4, init=np.ones((1, 3))).unconstrained.shape == (4, 20, 3)


def test_a_log_density_of_integers_is_no_integer():
    target = amalt.gym.load("german-credit")
    value = target.logdensity(jnp.zeros(25, int))
    assert value.dtype == jnp.float32
    assert value == target.logdensity(jnp.zeros(25))
    with pytest.raises(TargetError, match="takes one flat vector of 25 numbers"):
        target.logdensity(jnp.zeros((2, 25)))


def test_bad_starts_of_a_position_with_an_empty_part_are_explained():
    position = {"a": jnp.zeros((0, 3)), "b": jnp.zeros(2)}
    with pytest.raises(StartError, match=r"'b'|b ="):
        run(amalt.Target(lambda p: jnp.nan * jnp.sum(p["b"]), position))


def test_labels_must_differ():
    with pytest.raises(TargetError, match=r"coords\['k'\] has a label twice"):
        amalt.Target(
            lambda p: -jnp.sum(p["x"] ** 2),
            {"x": jnp.zeros(2)},
            dims={"x": ("k",)},
            coords={"k": ["a", "a"]},
        )


def test_more_than_the_machine_holds_is_refused_before_anything_runs():
    with pytest.raises(SettingsError, match="lower draws or chains"):
        run(standard(1), chains=1, draws=2**31 - 1)
    wide = amalt.Target(
        lambda x: -0.5 * jnp.sum(x**2),
        jnp.zeros(1),
        constrain=lambda x: {"y": jnp.zeros((10_000, 1000)) + x[0]},
    )
    with pytest.raises(SettingsError, match="lower draws or chains"):
        run(wide, chains=128, draws=1000)


# --- what is kept --------------------------------------------------------------------------------


def test_an_interrupt_while_replacing_keeps_what_was_there(tmp_path, monkeypatch):
    old, new = run(), run(random_seed=2)
    path = old.save(tmp_path / "fit")
    rename, calls = archive.Path.rename, []

    def interrupted(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(archive.Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            new.save(path, overwrite=True)
    np.testing.assert_array_equal(amalt.load(path).unconstrained, old.unconstrained)
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit"]


def test_archives_without_what_a_judgment_needs_are_damaged(tmp_path):
    path = run().save(tmp_path / "fit")
    metadata = json.loads((path / ".zmetadata").read_text())
    kept = {k: v for k, v in metadata["metadata"].items() if "sample_stats/lp" not in k}
    (path / ".zmetadata").write_text(json.dumps({**metadata, "metadata": kept}))
    with pytest.raises(AmaltError, match="is damaged"):
        amalt.load(path)


def test_a_datatree_is_a_copy():
    fit = run()
    fit.to_datatree()["unconstrained_posterior"]["z"].values[:] = 99.0
    assert fit.unconstrained.max() < 99.0


# --- the command line ----------------------------------------------------------------------------


def test_a_path_that_is_taken_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("amalt.sampling.sample", None)
    result = CliRunner().invoke(app, ["sample", "banana", "--save", str(tmp_path)])
    assert result.exit_code == 2


def command(*words):
    # A shell that runs the tests in the background has told them to ignore Ctrl-C.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    return [sys.executable, "-c", f"{listen}from amalt.cli import main; main()", *words]


@pytest.mark.parametrize("words", [["--chains", "0"], ["--preset", "nope"], ["--init", "nope"]])
def test_wrong_values_are_wrong_usage(words):
    done = subprocess.run(
        command("sample", "banana", *words), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2
    assert done.stderr.startswith("amalt: ")


def test_an_interrupted_command_says_so_by_its_exit_code():
    process = subprocess.Popen(
        command("sample", "german-credit", "--draws", "1000000", "--chains", "16"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        time.sleep(8.0)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
