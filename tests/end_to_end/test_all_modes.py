"""One whole trial of every mode by the real command with TensorFlow: record, output, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from real_trials import SMALL, finished, records

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module")
def all_modes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str, str]:
    cwd = tmp_path_factory.mktemp("all_modes")
    code, out, err = finished(*SMALL, "modes=[eager,default,graph,xla,autocluster]", cwd=cwd)
    return cwd, code, out, err


def latencies_of(record: Record, name: str) -> int:
    """The number of single calls in the clean rounds; a block of one call is such a call."""
    counted = [round_ for round_ in record.rounds if not round_.dirty] or record.rounds
    blocks = [block for round_ in counted for block in round_.blocks if block.mode == name]
    return sum(1 if block.calls == 1 else len(block.single_ns) for block in blocks)


def test_a_trial_measures_every_mode_with_its_proof_and_agreement(
    all_modes: tuple[Path, int, str, str],
) -> None:
    cwd, code, _, err = all_modes
    assert code == 0, err
    (record,) = records(cwd)
    assert record.status in (Status.OK, Status.CONTAMINATED)
    assert set(record.modes) == {"eager", "default", "graph", "xla", "autocluster"}
    for name, outcome in record.modes.items():
        assert outcome.status is Status.OK, (name, outcome)
        assert outcome.effective["in_force"]
        assert outcome.agreement is not None
        assert outcome.agreement.ok
        assert outcome.agreement.rmse_ref_rel is None  # all are close to eager
        assert len(outcome.latencies_s) == latencies_of(record, name)
        assert outcome.first_call_s is not None
        assert outcome.first_call_s > 0
    assert record.modes["autocluster"].effective["xla_clusters"] > 0
    assert record.modes["graph"].effective["xla_clusters"] == 0
    compile_s = {name: outcome.compile_s or 0.0 for name, outcome in record.modes.items()}
    assert compile_s["xla"] > compile_s["graph"]
    assert compile_s["autocluster"] > compile_s["graph"]


def test_a_record_contains_raw_blocks_host_facts_and_the_environment(
    all_modes: tuple[Path, int, str, str],
) -> None:
    (record,) = records(all_modes[0])
    clean = [round_ for round_ in record.rounds if not round_.dirty]
    assert len(record.rounds) >= 10  # a whole Williams design of five modes
    assert all(sorted(round_.order) == sorted(record.modes) for round_ in record.rounds)
    assert {len(round_.blocks) for round_ in clean} <= {5}
    starts = [round_.started_ns for round_ in record.rounds]
    assert starts == sorted(starts)
    assert record.model.params == 4_253_864
    assert record.model.macs is not None
    assert 10e6 < record.model.macs < 13e6
    assert (
        record.environment["loaded"]["tensorflow"] == record.environment["packages"]["tensorflow"]
    )
    assert record.sync["queued"] is False
    assert record.contamination["samples"] > 5
    assert record.contamination["peak_rss_bytes"] > 2e8
    assert set(record.seconds) >= {"build", "prepare", "measure"}
    assert record.trial.model.resolution_px == 32


def test_the_output_is_a_table_the_steps_and_an_answer_and_the_log_has_that_of_the_libraries(
    all_modes: tuple[Path, int, str, str],
) -> None:
    cwd, _, out, err = all_modes
    assert "MobileNet 32 px · batch 2 · 4.3 M params" in out
    assert "eager → graph" in out
    assert "XLA " in out
    assert out.count("95 %") >= 3
    assert "measure" in err
    assert "rounds" in err
    for noise in ("tensorflow", "oneDNN", "wandb:", "cuda"):
        assert noise not in out + err
    (log,) = cwd.glob("results/logs/*/*.log")
    assert str(log.relative_to(cwd)) in err
    assert "XLA service" in log.read_text()


def test_an_offline_run_is_written_without_an_account_and_no_secret_reaches_any_file(
    all_modes: tuple[Path, int, str, str],
) -> None:
    cwd, _, out, err = all_modes
    (run,) = cwd.glob("results/wandb/offline-run-*/*.wandb")
    assert f" {run.parent.relative_to(cwd)}\n" in out
    for path in cwd.rglob("*"):
        if path.is_file():
            assert b"canary" not in path.read_bytes(), path
    assert "canary" not in out + err


def test_everything_is_written_below_results_dir(all_modes: tuple[Path, int, str, str]) -> None:
    cwd = all_modes[0]
    assert [path.name for path in cwd.iterdir()] == ["results"]
    assert {path.name for path in (cwd / "results").iterdir()} == {
        "records",
        "logs",
        "wandb",
        "published",
        "hydra",
        "claims",
        "cache",
    }


def test_json_results_of_a_real_trial_have_the_documented_columns(
    all_modes: tuple[Path, int, str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xla_sweeps", "results", "--all", "--format", "json"],
        cwd=all_modes[0],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    rows = json.loads(done.stdout)
    assert [(row["baseline"], row["candidate"]) for row in rows if row["headline"]] == [
        ("graph", "autocluster"),
        ("graph", "default"),
        ("graph", "xla"),
    ]
    assert all(row["speedup"] > 0 and row["verdict"] != "failed" for row in rows)
