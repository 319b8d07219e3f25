"""Ends of a trial, through the real command line with a scripted measuring process."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from ended import wait_for
from scripted_trials import records, start

from xla_sweeps.system.files import SCRATCH_PREFIX

REQUEST = ("model=mobilenet_v2", "resolution=32", "modes=[graph,xla]", "device=cpu", "ui=plain")


def said(results: Path, text: str) -> bool:
    """True if a measuring process has printed this."""
    return any(text in path.read_text() for path in results.glob("logs/*/*.log"))


@pytest.mark.parametrize(
    "names",
    [
        ("SIGHUP", "SIGTERM"),
        pytest.param(("SIGUSR1", "SIGALRM", "SIGXCPU", "SIGQUIT"), marks=pytest.mark.exhaustive),
    ],
)
def test_every_deadly_signal_that_can_be_caught_saves_what_was_measured(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    numbers = [signal.Signals[name] for name in names]
    running = {}
    for number in numbers:  # each with leases of its own, so that none waits for another
        running[number] = start(
            tmp_path / number.name,
            *REQUEST,
            "tracker=none",
            script="wait-at:4",
            XLA_SWEEPS_LEASES=str(tmp_path / f"leases-{number.name}"),
        )
    for number, trial in running.items():
        try:
            wait_for(lambda number=number: said(tmp_path / number.name, "waits for ever"))  # type: ignore[misc]
            trial.send_signal(number)
            output, _ = trial.communicate(timeout=300)
        finally:
            trial.kill()
        assert trial.returncode == 128 + number, output
        assert "what was measured is saved. Resume with:" in output
        (record,) = records(tmp_path / number.name)
        assert record.status == "interrupted"
        assert len(record.rounds) >= 4


def test_nothing_is_left_outside_the_results_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = {"TMPDIR": str(elsewhere), "HOME": str(elsewhere)}
    tracked = (*REQUEST, "tracker=wandb_offline")
    killed = start(tmp_path / "r", *tracked, script="wait-at:0", **own)
    try:
        wait_for(lambda: said(tmp_path / "r", "waits for ever"))
    finally:
        killed.kill()
        killed.communicate()
    wait_for(lambda: not list((tmp_path / "r" / "wandb").glob("tmp-*")))
    assert [path.name.startswith(SCRATCH_PREFIX) for path in elsewhere.iterdir()] == [True]
    trial = start(tmp_path / "r", *tracked, script="die-at:0", **own)
    output, _ = trial.communicate(timeout=300)
    assert "W&B" in output
    assert list(elsewhere.iterdir()) == []


def test_two_trials_on_one_cpu_take_turns_and_the_same_one_twice_is_refused(tmp_path: Path) -> None:
    first = start(tmp_path / "r", *REQUEST, "tracker=none", script="wait-at:0")
    try:
        wait_for(lambda: said(tmp_path / "r", "output of a library"))
        same = start(tmp_path / "r", *REQUEST, "tracker=none")
        output, _ = same.communicate(timeout=300)
        assert (same.returncode, output.count("\n")) == (75, 1)
        assert f"by another process (pid {first.pid} on " in output
        second = start(tmp_path / "r", *REQUEST, "tracker=none", "batch_size=3")
        assert second.stdout is not None
        line = next(line for line in second.stdout if "waiting for" in line)
        assert f"(pid {first.pid}) is measured on it" in line
        first.send_signal(signal.SIGTERM)
        output, _ = second.communicate(timeout=300)
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 0, output
    assert sorted(record.status for record in records(tmp_path / "r")) == ["interrupted", "ok"]


def test_ctrl_c_while_a_trial_waits_for_quiet_saves_and_says_how_to_resume(tmp_path: Path) -> None:
    results = tmp_path / "results"
    words = (*REQUEST, "tracker=none")
    start(results, *words, script="contaminated").communicate(timeout=300)
    trial = start(results, *words, script="contaminated busy")
    assert trial.stdout is not None
    said_ = ""
    while " wait " not in said_:
        said_ = trial.stdout.readline()
        assert said_, "it ended"
    assert "for quiet: others use " in said_
    assert said_.endswith(", at most 30 s\n")
    trial.send_signal(signal.SIGINT)
    output = trial.finish(130)
    assert "stopped; what was measured is saved. Resume with: python -m xla_sweeps " in output
    kept = records(results)
    assert [str(record.status) for record in kept] == ["contaminated", "interrupted"]
    assert kept[1].contamination["waited_s"] < 60


def test_several_trials_say_which_of_them_runs_and_end_in_a_table(tmp_path: Path) -> None:
    words = [word for word in REQUEST if not word.startswith("model=")]
    several = start(tmp_path / "r", "-m", *words, "model=resnet50,vgg16", "tracker=none")
    output = several.finish()
    assert re.search(r"start    1 of 2  resnet50 .*(?s:.*)start    2 of 2  vgg16 ", output)
    assert re.search(r"(?m)^ *resnet50 +8 +4 .*(?s:.*)^ *vgg16 +8 +4 ", output)
