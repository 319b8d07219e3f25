"""Death at every fault point of trial and driver: no acknowledged record is lost or duplicated."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from driving import Notes, alive_in, counted, gone, start
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from oracle import contradictions
from paths import SUPPORT
from programs import run_program
from quick_sweep import quick_launch
from quick_trial import record
from wandb_server import wandb_server

from xla_sweeps.cli.check import examine
from xla_sweeps.errors import LockedError
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.claim import claim_trial
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.plan import INCONCLUSIVE, assign_records, counting, missing
from xla_sweeps.system.devices import devices

REPETITIONS = int(os.environ.get("FAULT_REPETITIONS", "1"))

PUSH = "import faults; from xla_sweeps.__main__ import main; main()"

FAKE = (sys.executable, str(SUPPORT / "fake_trial.py"))

IN_DRIVER = ("plan.loaded", "driver.submit", "driver.ended")

IN_QUICK_TRIAL = (
    "worker.import",
    "claim.before",
    "claim.after",
    "claim.release",
    "supervisor.result",
    "store.opened",
    "store.written",
    "store.synced",
    "store.linked",
    "store.folder_synced",
)

STAGES = ("import", "build", "trace", "compile", "verify", "warmup", "block", "finished")

IN_REAL_TRIAL = ("spawn.before", "spawn.after", *(f"worker.{stage}" for stage in STAGES))

IN_PUSH = ("push.before", "push.after", "push.marked")

RAISED = ("store.written",)
"""Points whose exceptions are tried daily."""

KILLED = ("driver.ended", "claim.after", "store.written", "store.linked")
"""Points at which a death is tried daily; the others, nightly."""


def nightly_unless(daily: bool, *values: str) -> Any:
    """A case that is only tried nightly, unless it is one of every day."""
    return pytest.param(*values, marks=() if daily else pytest.mark.exhaustive)


TRIALS = [f"t{number:06d}" for number in range(3)]


def acknowledged(log: Path) -> set[tuple[str, int]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return {(line.split()[0], int(line.split()[1])) for line in lines}


@pytest.mark.parametrize(
    ("point", "action"),
    [
        nightly_unless(point in (KILLED if action == "kill" else RAISED), point, action)
        for point in (*IN_DRIVER, *IN_QUICK_TRIAL)
        for action in ("kill", "raise")
    ],
)
def test_death_at_a_point_neither_loses_nor_duplicates_a_record(
    point: str, action: str, tmp_path: Path
) -> None:
    for repetition in range(REPETITIONS):
        results, log = tmp_path / f"r{repetition}", tmp_path / f"ack{repetition}"
        fault = {
            "XLA_SWEEPS_FP": f"{point}:{action}:1:{tmp_path / f'once{repetition}'}",
            "ACK": str(log),
            "IDS": "3",
        }
        sweep = start(results, slots=2, **fault)
        output, _ = sweep.communicate(timeout=300)
        assert gone(results), alive_in(results)
        assert (tmp_path / f"once{repetition}").exists(), "the fault was injected"
        final = set(counted(results))
        assert acknowledged(log) <= {(trial, number) for trial in final for number in range(9)}, (
            output
        )
        if sweep.returncode:
            output = start(results, ACK=str(log), IDS="3").finish()
            measured = {
                line.split("id=")[1].split()[0] for line in output.splitlines() if " end " in line
            }
            assert measured == set(TRIALS) - final, "exactly what was missing"
        kept = {trial: counts["ok"] for trial, counts in counted(results).items()}
        assert kept == dict.fromkeys(TRIALS, 1)
        assert contradictions(results) == []


def real_sweep(
    results: Path, monkeypatch: pytest.MonkeyPatch, *given: str, **environ: str
) -> list[str]:
    """One trial of the real command with a scripted measuring process, under the real driver."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    words = ("model=mobilenet_v2", "modes=[graph,xla]", "tracker=none", f"results_dir={results}")
    composer = Composer([*words, *given], slots=[Slot(name="cpu", device=devices()[-1])])
    task = composer.task({})
    store, notes = Store(results), Notes()
    store.check_writable()
    assign_records([task], load_runs(store), software=composer.software, retry=())
    launcher = LocalLauncher(quick_launch(1, command=FAKE))
    Driver(launcher, store, notes, extra=["ui=plain"], logs=results / "logs").run([task])
    return [outcome for _, outcome in notes.ends]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "action"),
    [(point, action) for point in IN_REAL_TRIAL for action in ("kill", "raise")],
)
@pytest.mark.exhaustive
def test_death_in_or_around_the_measuring_process_is_one_record_and_is_retried(
    point: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = real_sweep(
        tmp_path / "r", monkeypatch, XLA_SWEEPS_FP=f"{point}:{action}:1:{tmp_path / 'once'}"
    )
    assert (tmp_path / "once").exists(), "the fault was injected"
    outcomes = [run.outcome for run in load_runs(Store(tmp_path / "r")).all()]
    if (point, action) == ("worker.build", "raise"):  # the model's own error, which is a result
        assert outcomes == [Status.BUILD_ERROR]
        assert ends == ["build_error"]
    else:
        assert outcomes.count(Status.OK) == 1
        assert len(outcomes) <= 2
        assert ends[-1] == "ok"
    assert examine(tmp_path / "r").problems == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_fault_point_is_reached_by_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "passed"
    with wandb_server() as server:
        for name, value in server.environment(HOME=str(tmp_path / "home")).items():
            monkeypatch.setenv(name, value)
        real_sweep(tmp_path / "r", monkeypatch, XLA_SWEEPS_FP_LOG=str(log))
        run_program(sys.executable, "-c", PUSH, "push", tmp_path / "r", cwd=SUPPORT)
    assert set(log.read_text().split()) == {*IN_DRIVER, *IN_QUICK_TRIAL, *IN_REAL_TRIAL, *IN_PUSH}


@pytest.mark.exhaustive
def test_a_hang_is_stopped_by_its_timeout_and_the_sweep_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = real_sweep(
        tmp_path / "r",
        monkeypatch,
        "timeouts.measure=8",  # which the next attempt must not need on a busy machine
        XLA_SWEEPS_FP=f"worker.block:hang:1:{tmp_path / 'once'}",
    )
    assert ends == ["timeout", "ok"]
    (counts,) = counted(tmp_path / "r").values()
    assert counts == {"timeout": 1, "ok": 1}


IDS = ["a", "b", "c"]


class SweepMachine(RuleBasedStateMachine):
    """Drivers that plan, claim, publish and die, at once, over one store.

    The model is the set of acknowledged records.
    """

    drivers: Bundle[dict[str, Any]] = Bundle("drivers")
    holders: Bundle[dict[str, Any]] = Bundle("holders")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self._folder.name))
        self.acknowledged: dict[tuple[str, int], Status] = {}
        self.held: dict[str, Any] = {}

    def teardown(self) -> None:
        for claim in self.held.values():
            claim.__exit__(None, None, None)
        self._folder.cleanup()

    def outcomes(self, trial: str) -> list[Status]:
        runs = load_runs(self.store).by_trial.get(trial, ())
        return counting([run.outcome for run in runs], ())

    @rule(target=drivers)
    def plan(self) -> dict[str, Any]:
        """A driver plans from the records alone."""
        wanted = [trial for trial in IDS if missing(self.outcomes(trial), replicates=1)]
        final = {
            trial
            for trial in IDS
            if any(
                status not in INCONCLUSIVE
                for (name, _), status in self.acknowledged.items()
                if name == trial
            )
        }
        assert set(wanted) >= set(IDS) - final
        return {"wanted": wanted, "known": {trial: len(self.store.keys(trial)) for trial in IDS}}

    @rule(target=holders, driver=drivers, trial=st.sampled_from(IDS))
    def claim(self, driver: dict[str, Any], trial: str) -> Any:
        """It starts a trial: with the claim, and only if no record was added since the plan."""
        claim = claim_trial(self.store.results_dir, trial)
        try:
            claim.__enter__()
        except LockedError:
            assert trial in self.held
            return multiple()
        assert trial not in self.held, "two hold the same trial"
        if trial not in driver["wanted"] or len(self.store.keys(trial)) > driver["known"][trial]:
            claim.__exit__(None, None, None)
            return multiple()
        self.held[trial] = claim
        return {"trial": trial, "known": driver["known"][trial]}

    @rule(
        holder=consumes(holders),
        status=st.sampled_from(
            ["ok", "contaminated", "interrupted", "build_error", "crashed", "killed"]
        ),
    )
    def publish(self, holder: dict[str, Any], status: str) -> None:
        """It saves its record, which is acknowledged."""
        saved, _ = self.store.save(record(holder["trial"], status, {}))
        assert (saved.trial_id, saved.replicate) not in self.acknowledged, (
            "somebody measured the same replicate"
        )
        self.acknowledged[saved.trial_id, saved.replicate] = saved.status
        self.held.pop(holder["trial"]).__exit__(None, None, None)

    @rule(holder=consumes(holders))
    def die(self, holder: dict[str, Any]) -> None:
        """It is killed: the kernel releases its claim, nothing is stored."""
        self.held.pop(holder["trial"]).__exit__(None, None, None)

    @rule(cut=st.integers(0, 400), trial=st.sampled_from(IDS))
    def damage(self, cut: int, trial: str) -> None:
        """A record is truncated by another program."""
        if trial in self.held:
            return
        for path in sorted((self.store.records_dir / trial).glob("*.json"))[:1]:
            path.write_bytes(path.read_bytes()[:cut])
            os.utime(path.parent)
            self.acknowledged.pop((trial, int(path.stem)), None)
            self.store.load(trial)

    @invariant()
    def nothing_acknowledged_is_lost_and_the_index_agrees(self) -> None:
        loaded = {
            (saved.trial_id, saved.replicate): saved.status
            for group in self.store.load().records.values()
            for saved in group
        }
        assert loaded == self.acknowledged
        runs = load_runs(self.store).all()
        assert {(run.trial_id, run.replicate): run.outcome for run in runs} == self.acknowledged


SweepMachine.TestCase.settings = settings(
    max_examples=8 * REPETITIONS, stateful_step_count=25, deadline=None
)

TestSweepMachine = SweepMachine.TestCase
