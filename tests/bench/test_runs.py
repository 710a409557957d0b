"""The driver: real processes that fail, are killed, are interrupted or were done before."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from amalt.bench.paper import results, runs
from amalt.bench.paper.design import Run
from amalt.bench.paper.progress import Pace

from . import made

# A shell that runs the tests in the background has told them to ignore Ctrl-C.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
CLI = f"{LISTEN}from amalt.cli import main; main()"
COMMAND = [sys.executable, "-m", "amalt.bench.paper.one", "--end-with-stdin"]


def tiny(column, chains=16):
    return Run("german-credit", column, seed=1, chains=chains, scale=0.004)


def refuse(*_):
    raise AssertionError("a process was started")


def wait_until(happens, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- what goes wrong -----------------------------------------------------------------------------


def test_runs_that_fail_are_reported_and_the_others_go_on(tmp_path, monkeypatch):
    """GHMC refuses 8 chains, one process is killed from outside, and the third does its work."""
    refused, killed, good = tiny("ghmc", chains=8), tiny("malt"), tiny("rhmc-unif")
    start, started = runs.start, []

    def start_and_kill(run, out, jobs):
        child = start(run, out, jobs)
        started.append(child)
        if run is killed:
            child.process.kill()
        return child

    monkeypatch.setattr(runs, "start", start_and_kill)
    failures = {f.run: f.message for f in runs.drive([refused, killed, good], tmp_path, jobs=2)}
    assert set(failures) == {refused, killed}
    log = tmp_path / refused.file_name.replace(".json", f".{os.getpid()}.log")
    assert "chains=8: method='ghmc' deals its chains into 4 folds" in failures[refused]
    assert failures[refused].endswith(f"(more in {log})")
    assert "chains=8" in log.read_text()
    assert failures[killed].startswith("killed by signal 9 (Killed); is the memory large enough?")
    result = results.find(tmp_path, good)
    assert result is not None
    assert (result["chains"], result["tune"], result["draws"]) == (16, 20, 6)
    assert [p.name for p in tmp_path.glob("*.json")] == [good.file_name]
    assert list(tmp_path.glob("*.part")) == []
    assert all(child.process.poll() is not None for child in started)


def test_a_process_that_leaves_no_result_has_failed(tmp_path, monkeypatch):
    run = tiny("malt")

    def pretend(run, out, jobs):
        log = out / "said.log"
        log.write_text("first words\nlast words\n\n")
        process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
        return runs.Child(run, out / run.file_name, log, process, time.monotonic())

    monkeypatch.setattr(runs, "start", pretend)
    ((failed, message),) = runs.drive([run], tmp_path, jobs=1)
    assert failed == run
    assert message == f"last words (more in {tmp_path / 'said.log'})"


def test_an_interrupt_ends_the_processes(tmp_path, monkeypatch):
    start, started = runs.start, []

    def remember(run, out, jobs):
        started.append(start(run, out, jobs))
        return started[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "start", remember)
    monkeypatch.setattr(runs.Progress, "show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.drive([tiny("malt"), tiny("nuts"), tiny("ghmc")], tmp_path, jobs=2)
    assert [child.process.returncode for child in started] == [-signal.SIGTERM] * 2
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_command_says_how_to_go_on(tmp_path):
    options = ["--models", "german-credit", "--methods", "malt", "--out", str(tmp_path)]
    command = [sys.executable, "-c", CLI, "bench", "paper", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: list(tmp_path.glob("*.log")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"what is finished is kept in {tmp_path}: repeat the command to go on" in said
    assert list(tmp_path.iterdir()) == []


def test_no_run_outlives_the_command_that_started_it(tmp_path):
    """Its standard input ends when the command does, even if that was killed."""
    file = tmp_path / "result.json"
    run = json.dumps({"model": "german-credit", "column": "malt", "seed": 1})
    process = subprocess.Popen([*COMMAND, run, str(file)], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=60) == 1
    assert not file.exists()


# --- what was done before ------------------------------------------------------------------------


def test_finished_runs_are_left_alone(tmp_path, monkeypatch):
    wanted = [Run("german-credit", "malt", seed) for seed in (1, 2, 3)]
    paths = [made.save(tmp_path, run) for run in wanted]
    before = [path.stat().st_mtime_ns for path in paths]
    monkeypatch.setattr(runs, "start", refuse)
    assert runs.drive(wanted, tmp_path, jobs=1) == []
    assert [path.stat().st_mtime_ns for path in paths] == before


@pytest.mark.parametrize("content", ["", '{"model": "german-credit"}', None])
def test_damaged_and_missing_ones_are_run(tmp_path, monkeypatch, content):
    run = Run("german-credit", "malt", 1)
    if content is not None:
        made.save(tmp_path, run).write_text(content)
    monkeypatch.setattr(runs, "start", refuse)
    with pytest.raises(AssertionError, match="a process was started"):
        runs.drive([run], tmp_path, jobs=1)


# --- processes side by side ----------------------------------------------------------------------


@pytest.mark.parametrize(("jobs", "cores", "threads"), [(1, 8, None), (2, 8, "4"), (4, 2, "1")])
def test_processes_side_by_side_share_the_cores(tmp_path, monkeypatch, jobs, cores, threads):
    seen = []
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: seen.append(env))
    runs.start(tiny("malt"), tmp_path, jobs)
    assert seen[0].get("NPROC") == threads


# --- how long it takes ---------------------------------------------------------------------------


def test_guesses_are_corrected_by_what_is_most_alike():
    estimate = runs.Estimate()
    malt, nuts = Run("german-credit", "malt", 1), Run("german-credit", "nuts", 1)
    other = Run("item-response", "malt", 1)
    assert estimate.seconds(malt) == malt.guessed_seconds
    estimate.add(malt, 2.0 * malt.guessed_seconds)
    assert estimate.seconds(other) == pytest.approx(2.0 * other.guessed_seconds)
    estimate.add(other, 10.0 * other.guessed_seconds)
    # The same model's runs, not those of another one; the same column's, where there are some.
    assert estimate.seconds(nuts) == pytest.approx(2.0 * nuts.guessed_seconds)
    estimate.add(nuts, 6.0 * nuts.guessed_seconds)
    assert estimate.seconds(nuts) == pytest.approx(6.0 * nuts.guessed_seconds)
    assert estimate.seconds(malt) == pytest.approx(2.0 * malt.guessed_seconds)


def test_time_left_counts_what_waits_and_what_runs(monkeypatch):
    estimate, run = runs.Estimate(), Run("german-credit", "malt", 1)
    estimate.add(run, 100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    child = runs.Child(run, None, None, None, began=970.0)
    assert estimate.left([], [], 1) == 0.0
    assert estimate.left([run] * 3, [child], 1) == pytest.approx(370.0)
    assert estimate.left([run] * 3, [child, child], 2) == pytest.approx(220.0)
    assert estimate.left([], [child], 4) == pytest.approx(70.0)


def test_pace_is_that_of_the_parts_done(monkeypatch):
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    pace = Pace()
    assert pace.left(5.0) != pace.left(5.0)  # not a number: nothing is done yet
    pace.done(3.0)
    assert pace.left(5.0) == pytest.approx(50.0)
