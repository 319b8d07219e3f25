"""One trial with a measuring process that dies on demand: what is kept, shown and recorded."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conducting import Notes
from neighbour import hog
from scripted import scripted

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.errors import ConfigError, LockedError, StoreError
from xla_sweeps.report.terminal.progress import TrialProgress
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.measurement import Flagged, Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Runtime
from xla_sweeps.store.store import Loaded, Store
from xla_sweeps.system.environment import environment
from xla_sweeps.system.process import Assignment
from xla_sweeps.trial import conductor, monitor, neighbours, recording, workers
from xla_sweeps.trial.replicate import ReplicateResult, Setting
from xla_sweeps.trial.runner import TrialResult, run_trial
from xla_sweeps.trial.workers import worker_environment


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests do beside these."""
    monkeypatch.setattr(monitor, "contamination", lambda samples, *, cores: "")


def settings(tmp_path: Path, *overrides: str) -> Settings:
    words = ["device=cpu", "modes=[graph,xla]", "effort.rounds_min=8", f"results_dir={tmp_path}"]
    words += overrides
    return settings_of(compose_config(words), environ={})


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *script: str,
    overrides: Sequence[str] = (),
    known_records: int | None = None,
    ui: str = "quiet",
    notes: Notes | None = None,
) -> tuple[TrialResult, Notes]:
    monkeypatch.setattr(workers, "backend_named", lambda name: scripted(*script))
    notes = notes or Notes()
    with TrialProgress(ui=ui) as screen:
        result = run_trial(
            settings(tmp_path, *overrides),
            screen=screen,
            tracker=notes,
            assignment=Assignment(known_records=known_records),
        )
    return result, notes


def test_a_model_whose_file_changes_while_it_is_measured_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "net.py"
    source.write_text("def make(): ...\n")
    own = ["model=local", f"path={source}:make", "trust_code=true", "input_spec=[{shape: [4]}]"]
    result, _ = run(tmp_path, monkeypatch, overrides=own)
    assert result.exit_code == 0
    kept = Store(tmp_path).load().records

    class Editing(Notes):
        def begin(self) -> None:
            source.write_text("def make(): return 1\n")

    with pytest.raises(ConfigError, match=r"net\.py:make: it, or a module that it im"):
        run(tmp_path, monkeypatch, overrides=own, notes=Editing())
    assert Store(tmp_path).load().records == kept


def test_a_trial_is_opened_before_it_is_measured_and_saved_before_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, notes = run(tmp_path, monkeypatch)
    assert result.exit_code == 0
    told = [kind for kind, _ in notes.told if kind in ("open", "rounds", "finish")]
    assert told == ["open", "rounds", "rounds", "finish"]
    assert [[one.round for one in rounds] for rounds in notes.of("rounds")] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    assert notes.of("finish") == [(1, 0)]
    (record,) = Store(tmp_path).load().records[result.trial_id]
    assert record == result.records[0]
    assert [round_.round for round_ in record.rounds] == list(range(8))
    assert result.summary is not None
    assert result.summary.comparisons[0].speedup.replicates == 1


def test_every_replicate_is_a_process_and_a_record_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = run(tmp_path, monkeypatch, overrides=["effort.replicates=3"])
    assert [record.replicate for record in result.records] == [0, 1, 2]
    assert len({record.log for record in result.records}) == 3
    assert all((tmp_path / record.log).is_file() for record in result.records)


def test_one_modes_death_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result, notes = run(tmp_path, monkeypatch, "segv:xla")
    record = result.records[0]
    assert record.modes["xla"].status is Status.CRASHED
    assert record.modes["graph"].status is Status.OK
    assert {block.mode for round_ in record.rounds for block in round_.blocks} == {"graph"}
    assert record.status is Status.OK
    assert result.exit_code == 1
    assert notes.of("finish") == [(1, 1)]
    assert "warning: xla: " in capsys.readouterr().err


def test_what_no_reader_would_take_is_a_failure_with_the_reason(tmp_path: Path) -> None:
    asked = settings(tmp_path)
    measured = ReplicateResult(seconds={"build": -5195.0}, finished=True)
    record = recording.make_record(asked, "a" * 16, 0, measured, environment())
    assert record.status is Status.RUN_ERROR
    assert record.failure is not None
    assert "$.seconds" in record.failure.message
    stored, _ = Store(tmp_path).save(replace(record, started_at=recording.now()))
    assert Store(tmp_path).load() == Loaded(records={"a" * 16: [stored]})


def test_rounds_received_before_a_death_are_kept_and_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = run(tmp_path, monkeypatch, "die-at:6")
    record = result.records[0]
    assert record.status is Status.KILLED
    assert [round_.round for round_ in record.rounds] == list(range(6))
    assert Flagged("cut_short") in record.flags
    assert result.summary is not None
    row = result.summary.comparisons[0]
    assert (row.status, row.speedup.value, row.speedup.replicates) == (Status.KILLED, None, 0)
    assert row.failure.message


def test_what_a_failing_disk_did_not_take_is_saved_by_the_next_trial_under_a_free_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Store, record: Record) -> None:
        raise StoreError("cannot save the record: No space left on device")

    results = tmp_path / "r"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as failing:
        failing.setattr(Store, "save", full)
        failing.setattr(recording, "TRY_S", 0.0)
        with pytest.raises(StoreError, match=r"No space left.* is in .*; the next trial") as caught:
            run(results, monkeypatch)
    kept = Path(str(caught.value).partition("measured is in ")[2].partition(";")[0])
    content = kept.read_bytes()
    record = Record.from_json(content)
    Store(results).save(replace(record, started_at="2026-01-01T00:00:00+00:00"))  # takes its number

    run(tmp_path / "other", monkeypatch)
    assert kept.exists(), "it belongs elsewhere"
    said: list[str] = []
    recording.take_in(Store(results), warn=said.append)
    assert not kept.exists()
    assert said == [
        f"{kept}, which could not be saved then, is now "
        f"{results / 'records' / record.trial_id / '1.json'}"
    ]
    kept.write_bytes(content)  # as if it had died before it removed it
    run(results, monkeypatch)
    assert not kept.exists()
    ((first, second, third),) = Store(results).load().records.values()
    assert replace(second, replicate=0) == record
    assert record.rounds == first.rounds != third.rounds
    assert not capsys.readouterr().err.count("could not")


def test_a_kept_record_that_cannot_be_saved_again_stays_and_stops_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store, said = Store(tmp_path / "r"), list[str]()
    recording.take_in(store, warn=said.append)
    assert not [*tmp_path.iterdir()]
    folder = recording._folder_of(store, make=True)
    assert folder is not None
    folder.mkdir(parents=True)
    (folder / "x-1-0.json").write_text("no record")
    recording.take_in(store, warn=said.append)
    assert len(said) == 1
    assert (folder / "x-1-0.json").exists()


def test_a_replicate_after_a_contaminated_one_waits_for_quiet_and_its_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(monitor, "WAIT_LIMIT_S", 2.0)
    monkeypatch.setattr(neighbours, "NAMED", 99)  # other tests run beside it
    results = tmp_path / "r"
    two = ["effort.replicates=2"]
    with hog(tmp_path), monkeypatch.context() as busy:
        busy.setattr(monitor, "contamination", lambda samples, *, cores: "others")
        first, _ = run(results, monkeypatch, overrides=two, ui="plain")
        run(tmp_path / "q", monkeypatch)
    alone, again = (record.contamination for record in first.records)
    assert "waited_s" not in alone, "nothing is known of the machine before the first"
    assert again["waited_s"] == 2.0
    assert again["foreign_cores"] > 0.25
    assert "hungry" in again["busiest"]
    waits = [line for line in capsys.readouterr().err.splitlines() if " wait " in line]
    assert len(waits) == 1
    assert re.search(r"wait +for quiet: others use .*hungry.*, at most 2 s$", waits[0])

    monkeypatch.setattr(monitor, "contamination", lambda samples, *, cores: "")
    later, _ = run(results, monkeypatch, overrides=two, known_records=2)
    assert later.records[0].status is Status.OK
    assert "waited_s" not in later.records[0].contamination, "the one before waited in vain"
    quiet, _ = run(tmp_path / "q", monkeypatch, known_records=1)
    assert quiet.records[0].contamination["waited_s"] == 0.0
    last, _ = run(tmp_path / "q", monkeypatch, known_records=2)
    assert "waited_s" not in last.records[0].contamination


def test_a_trial_that_cannot_start_gives_its_device_back_to_the_next_in_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(job: object, setting: Setting) -> None:
        assert setting.leases.take() == ""
        assert setting.leases.held
        raise StoreError("cannot start the measuring process: Too many open files")

    with monkeypatch.context() as failing:
        failing.setattr(conductor, "measure", refuse)
        with pytest.raises(StoreError, match="Too many open files"):
            run(tmp_path, monkeypatch)
    result, _ = run(tmp_path, monkeypatch)
    assert [record.status for record in result.records] == ["ok"]


def test_a_record_is_saved_once_there_is_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = Store.save, []

    def sometimes(self: Store, record: Record) -> tuple[Record, Path]:
        tries.append(record.replicate)
        if len(tries) < 3:
            raise StoreError("cannot save the record: No space left on device")
        return real(self, record)

    monkeypatch.setattr(Store, "save", sometimes)
    monkeypatch.setattr(recording, "PAUSE_S", 0.01)
    result, _ = run(tmp_path, monkeypatch)
    assert [record.status for record in result.records] == ["ok"]


def test_auto_clustering_on_a_cpu_gets_its_flag_before_tensorflow_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", f"--mine --tf_xla_persistent_cache_directory={tmp_path}")

    def flags(modes: str) -> str:
        words = ["device=cpu", f"results_dir={tmp_path}", f"modes=[{modes}]"]
        asked = settings_of(compose_config(words), environ={})
        return worker_environment(asked.trial, asked.device, default_backend())["TF_XLA_FLAGS"]

    assert flags("graph,autocluster") == "--mine --tf_xla_cpu_global_jit"
    assert flags("graph,xla") == "--mine"
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit")  # twice it would have no effect
    assert flags("graph,autocluster") == "--tf_xla_cpu_global_jit"


def test_a_trials_flags_follow_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_mine=1")
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    asked = settings_of(compose_config(["device=cpu", f"results_dir={tmp_path}"]), environ={})
    runtime = Runtime(
        xla_flags={"xla_b": "true"},
        tf_xla_flags={"tf_xla_cpu_global_jit": "true"},
        intra_threads=1,
        onednn=False,
    )
    trial = replace(asked.trial, modes=("autocluster",), runtime=runtime)
    child = worker_environment(trial, asked.device, default_backend())
    assert child["XLA_FLAGS"] == "--xla_mine=1 --xla_b=true"
    assert child["TF_XLA_FLAGS"] == "--tf_xla_cpu_global_jit=true"
    assert (child["TF_NUM_INTRAOP_THREADS"], child["TF_ENABLE_ONEDNN_OPTS"]) == ("1", "0")
    assert "TF_NUM_INTEROP_THREADS" not in child


def test_a_full_disk_is_detected_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(
        os, "statvfs", lambda path: type("Full", (), {"f_bavail": 1, "f_frsize": real.f_frsize})()
    )
    with pytest.raises(
        StoreError, match=r"has less than 16 MiB of space left. Free some, or choose another"
    ):
        run(tmp_path, monkeypatch)
    assert not list((tmp_path / "records").iterdir())


def test_a_sweeps_job_measures_one_replicate_unless_another_process_already_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = ["effort.replicates=3"]
    first, _ = run(tmp_path, monkeypatch, overrides=three, known_records=0)
    assert [record.replicate for record in first.records] == [0]
    with pytest.raises(LockedError, match="already measured by another process; skipped") as caught:
        run(tmp_path, monkeypatch, overrides=three, known_records=0)
    assert caught.value.exit_code == 75
    again, _ = run(tmp_path, monkeypatch, overrides=three, known_records=1)
    assert [record.replicate for record in again.records] == [1]
    assert again.trial_id == first.trial_id
