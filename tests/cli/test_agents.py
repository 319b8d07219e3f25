"""The command `agents`: what a person may add, and the checks that an agent's trials have."""

from __future__ import annotations

import json
import os
import signal
import time
from argparse import Namespace
from pathlib import Path

import pytest
from commands import Running
from ended import wait_until

from xla_sweeps.cli import trial
from xla_sweeps.cli.agents import agents_command
from xla_sweeps.config.compose import compose_config
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers.wandb_agents import COMMAND, command_of
from xla_sweeps.sweeps.plan import AA_EVERY, MIN_TRIALS_FOR_AA, QUICK, count_for_twin
from xla_sweeps.system.leases import LEASES, Leases
from xla_sweeps.system.process import Assignment


def test_what_the_sweep_sets_is_refused_and_the_rest_is_named() -> None:
    with pytest.raises(ConfigError, match=r"=4: the sweep sets it; allowed: .*trust_code"):
        agents_command(["me/p/abc", "batch_size=4"])
    with pytest.raises(ConfigError, match=r"results_dir=r: the sweep sets it"):
        agents_command(["me/p/abc", "results_dir=r"])
    with pytest.raises(ConfigError, match=r"unknown tracker 'auo'\. Did you mean 'auto'"):
        agents_command(["me/p/abc", "tracker=auo"])


def given(
    monkeypatch: pytest.MonkeyPatch, words: list[str], assignment: Assignment
) -> list[Namespace]:
    """The requests that a trial's command runs under an agent."""
    asked: list[Namespace] = []

    def note(one: Namespace, assignment: Assignment) -> int:
        asked.append(one)
        return 0

    monkeypatch.setattr(trial, "_run_one", note)
    for name, value in {**assignment.environment(), "WANDB_SWEEP_ID": "s"}.items():
        monkeypatch.setenv(name, value)
    assert trial.trial_command(words) == 0
    return asked


def processor_s(process: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(("stopped", "status"), [(False, "ok"), (True, "interrupted")])
def test_a_trial_that_prepares_ahead_does_nothing_until_it_may_or_is_stopped(
    stopped: bool, status: str, tmp_path: Path
) -> None:
    """A stopped one is told so by its run and its record, as if it had been measured."""
    counted, places = tmp_path / "counted", {LEASES: str(tmp_path / "leases")}
    mine = Assignment(shares=["core-0", "core-1", "use-core-0"], counted=str(counted))
    words = ("model=mobilenet_v2", "effort=quick", "tracker=none", "device=cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LEASES, places[LEASES])
        measuring = Leases(["core-0", "core-1"], holder="another trial")
        assert not measuring.take()
    running = Running(
        "trial", *words, cwd=tmp_path, environment={**os.environ, **places, **mine.environment()}
    )
    assert wait_until(lambda: (tmp_path / "leases" / "use-core-0.lock").exists())
    spent_s = processor_s(running.pid)
    time.sleep(1)
    assert processor_s(running.pid) < spent_s + 0.3
    assert {path.name for path in tmp_path.iterdir()} == {"leases"}
    if stopped:
        running.send_signal(signal.SIGTERM)
    else:
        measuring.close()
    running.finish(143 if stopped else 0)
    measuring.close()
    ((record,),) = Store(tmp_path / "results").load().records.values()
    assert record.status == status
    assert "turns" in record.seconds


def test_an_agents_trial_has_the_persons_words_and_an_a_a_twin_after_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    folder = f"--trust-config={tmp_path / 'conf'}"
    mine = ("results_dir=mine", "tracker=wandb_offline", "trust_code=true", folder)
    assignment = Assignment(words=mine, counted=str(tmp_path / "counted"))
    values = {"model": "resnet50", "effort": "standard", "tracker": "none"}
    words = [json.dumps(values), "results_dir=theirs", "modes=[graph,xla]"]
    first, twin = given(monkeypatch, words, assignment)
    for asked in (first, twin):
        assert asked.config_dir.path == tmp_path / "conf"
        document = compose_config(asked.overrides)
        assert (document["results_dir"], document["trust_code"]) == ("mine", True)
        assert document["model"]["name"] == "resnet50"
        assert "tracker=wandb_offline" in asked.overrides
    assert compose_config(twin.overrides)["modes"] == ["graph", "graph"]
    assert "tracker.tags" in keys_of(twin.overrides)
    (second,) = given(monkeypatch, words, assignment)
    assert second.overrides == first.overrides


def test_some_of_an_agents_quick_trials_are_measured_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assignment = Assignment(counted=str(tmp_path / "counted"))
    words = ["model=resnet50", "effort.duplicates=1", "effort.replicates=1"]
    (asked,) = given(monkeypatch, words, assignment)
    assert compose_config(asked.overrides)["effort"]["replicates"] == 2


@pytest.mark.parametrize(("effort", "first"), [(QUICK, MIN_TRIALS_FOR_AA - 1), ("standard", 0)])
def test_a_twin_follows_as_often_as_in_other_sweeps(
    effort: str, first: int, tmp_path: Path
) -> None:
    due = [count_for_twin(tmp_path / "counted", effort) for _ in range(2 * AA_EVERY)]
    assert [number for number, one in enumerate(due) if one] == [first, first + AA_EVERY]


@pytest.mark.parametrize(
    "program", ["xla_sweeps", "xla_sweeps/__main__.py", "../mine/xla_sweeps", "-m xla_sweeps"]
)
def test_the_command_that_wandb_documents_for_hydra_is_ours(program: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    command = ["${env}", "${interpreter}", "${program}", "${args_no_hyphens}"]
    path.write_text(json.dumps({"program": program, "command": command}))
    assert command_of(path) == COMMAND


@pytest.mark.parametrize("program", ["train.py", "xla_sweeps.py", "-c xla_sweeps", ""])
def test_another_program_is_refused(program: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps({"program": program, "command": ["${interpreter}", "${program}"]}))
    with pytest.raises(ConfigError, match="agents would run it on every machine"):
        command_of(path)
