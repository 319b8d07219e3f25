"""Whole trials of training steps, epochs and half precision by the real command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import half_precision
import pytest
from commands import forked
from in_process import command as read
from made_pictures import make_pictures
from paths import SUPPORT
from programs import with_code
from real_trials import SHORT

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Training
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.tf

HERE = ("device=cpu", "ui=plain", "tracker=none", *SHORT)


def measured(cwd: Path, *words: str) -> tuple[Record, subprocess.CompletedProcess[str]]:
    """The record of a trial whose modes all have the right results, and what it printed.

    It takes no notice of other load, of which a round may else be lost.
    """
    more = {"HOME": str(cwd), "COLUMNS": "120"}
    done = with_code(forked("undisturbed", *words, *HERE, cwd=cwd, more=more), 0)
    loaded = Store(cwd / "results").load()
    assert loaded.problems == ()
    ((record,),) = loaded.records.values()
    for label, outcome in record.modes.items():
        assert outcome.status is Status.OK, (label, outcome)
        assert outcome.agreement is None or outcome.agreement.ok
    return record, done


def test_every_mode_trains_proved_verified_and_timed(tmp_path: Path) -> None:
    """The smallest model that both the explicit form and `compile` train."""
    modes = ("eager", "graph", "xla", "train_on_batch_auto", "train_on_batch_xla")
    small = ("model=mnist_mlp", "scenario=train_step", "batch_size=16")
    record, done = measured(tmp_path, *small, f"modes=[{','.join(modes)}]")
    assert (record.trial.scenario, record.trial.training) == ("train_step", Training())
    assert set(record.modes) == set(modes)
    for outcome in record.modes.values():
        assert outcome.effective["in_force"]
        assert outcome.agreement is not None
        assert len(outcome.latencies_s) >= 6
    assert record.modes["train_on_batch_xla"].effective["jit_compile"] is True
    assert record.modes["train_on_batch_auto"].effective["jit_compile"] is False
    assert record.model.params == 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
    assert record.model.macs == 784 * 512 + 512 * 256 + 256 * 10  # of a forward pass
    assert record.modes["xla"].compile_s
    assert "train_on_batch" in done.stdout
    assert "graph → xla" in done.stdout


@pytest.mark.parametrize(
    ("scenario", "modes"),
    [
        ("call", "graph,xla"),
        ("predict", "graph_host,predict_graph,predict_xla"),
        ("train_step", "graph,xla,train_on_batch_xla"),
    ],
)
@pytest.mark.exhaustive
def test_mixed_precision_is_measured_verified_and_recorded_as_it_was_built(
    scenario: str, modes: str, tmp_path: Path
) -> None:
    half_precision.require("mixed_bfloat16")
    half = ("model=mnist_mlp", "precision=mixed_bfloat16", "batch_size=16")
    record, _ = measured(tmp_path, *half, f"scenario={scenario}", f"modes=[{modes}]")
    assert (record.trial.precision, record.model.precision) == ("mixed_bfloat16", "bf16")
    assert all(outcome.agreement for outcome in record.modes.values())


@pytest.mark.exhaustive
def test_an_epoch_over_pictures_is_measured_with_its_input_and_its_last_batch(
    tmp_path: Path,
) -> None:
    make_pictures(tmp_path / "pics", images=10, classes=10, width_px=48, height_px=40)
    own = ("model=local", "trust_code=true", f"path={SUPPORT / 'own_models.py'}:build")
    fit = ("resolution=32", "scenario=fit", "data=pics", "batch_size=4")
    record, done = measured(tmp_path, *own, *fit)
    assert record.trial.data is not None
    assert (record.trial.data.pictures, record.trial.batches) == (10, 3)
    assert record.modes["input"].last_batch_compile_s is None
    compiled = record.modes["fit_xla"].last_batch_compile_s
    assert compiled is not None
    assert 0 < compiled < (record.modes["fit_xla"].compile_s or 0)
    text = " ".join(done.stdout.split())
    assert "3 batches a call · the last of 2" in text
    assert "Its input pipeline alone gives" in text
    assert "batches of drawn values" not in text
    assert "The last batch of an epoch has 2 of 4 samples. Compiling for its size takes:" in text
    where = ("--where", "candidate=fit_xla and baseline=fit_graph")
    (row,) = json.loads(read("results", "--format", "json", *where, cwd=tmp_path).stdout)
    assert (row["samples"], row["data"]) == (10, "pics")
    assert row["throughput_samples_per_s"] == pytest.approx(10 / (row["call_ms"] / 1e3))
    assert row["input_share"] > 0
    checked = read("check", cwd=tmp_path).stdout.splitlines()[:-1]
    assert all(line.startswith("note: ") for line in checked), checked
