"""A whole trial of training steps by the real command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from commands import command
from oracle import contradictions
from paths import SUPPORT

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Training
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.tf

SHORT = (
    *("effort.block_s=0.005", "effort.rounds_min=6", "effort.rounds_look=6", "effort.rounds_max=6"),
    *("effort.warmup_s=0.05", "effort.latency_calls=10", "effort.latency_cap_s=0.2"),
)

MODES = ("eager", "graph", "xla", "train_on_batch_auto", "train_on_batch_xla")


@pytest.fixture(scope="module")
def trial(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Record, subprocess.CompletedProcess[str]]:
    """One trial of the smallest model that both the explicit form and `compile` train."""
    cwd = tmp_path_factory.mktemp("training")
    done = command(
        *("model=mnist_mlp", "scenario=train_step", "batch_size=16", "device=cpu", "ui=plain"),
        *("tracker=none", f"modes=[{','.join(MODES)}]", *SHORT),
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    loaded = Store(cwd / "results").load()
    assert loaded.problems == ()
    ((record,),) = loaded.records.values()
    return record, done


def test_every_mode_trains_proved_verified_and_timed(
    trial: tuple[Record, subprocess.CompletedProcess[str]],
) -> None:
    record, _ = trial
    assert record.trial.scenario == "train_step"
    assert record.trial.training == Training()
    assert set(record.modes) == set(MODES)
    for label, outcome in record.modes.items():
        assert outcome.status is Status.OK, (label, outcome)
        assert outcome.effective["in_force"]
        assert outcome.agreement is not None
        assert outcome.agreement.ok
        assert len(outcome.latencies_s) >= 6
    assert record.modes["train_on_batch_xla"].effective["jit_compile"] is True
    assert record.modes["train_on_batch_auto"].effective["jit_compile"] is False
    assert record.model is not None
    assert record.model.params == 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
    assert record.model.macs == 784 * 512 + 512 * 256 + 256 * 10  # of a forward pass


def test_the_answer_is_about_the_own_step(
    trial: tuple[Record, subprocess.CompletedProcess[str]],
) -> None:
    record, done = trial
    assert record.modes["xla"].compile_s is not None
    assert record.modes["xla"].compile_s > 0
    assert "train_on_batch" in done.stdout
    assert "graph → xla" in done.stdout


OWN = ("model=local", "trust_code=true", f"path={SUPPORT / 'own_models.py'}")

FIT = ("scenario=fit", "data=pics", "device=cpu", "ui=plain", "tracker=none", *SHORT)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set `pics` of ten pictures of ten classes."""
    cwd = tmp_path_factory.mktemp("fit")
    done = command(
        *("make-data", "pics", "--images", "10", "--width-px", "48", "--height-px", "40"), cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return cwd


def test_an_epoch_over_pictures_is_measured_with_its_input_and_its_last_batch(
    pictures: Path,
) -> None:
    own = [*OWN[:2], f"{OWN[2]}:build", "resolution=32"]
    done = command(*own, *FIT, "batch_size=4", cwd=pictures)
    assert done.returncode == 0, done.stderr
    ((record,),) = Store(pictures / "results").load().records.values()
    assert {outcome.status for outcome in record.modes.values()} == {Status.OK}
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
    rows = command(
        *("results", "--format", "json", "--where", "candidate=fit_xla and baseline=fit_graph"),
        cwd=pictures,
    )
    (row,) = json.loads(rows.stdout)
    assert (row["samples"], row["data"]) == (10, "pics")
    assert row["throughput_samples_per_s"] == pytest.approx(10 / (row["call_ms"] / 1e3))
    assert row["input_share"] > 0
    checked = command("check", cwd=pictures).stdout.splitlines()[:-1]
    assert all(line.startswith("note: ") for line in checked), checked
    assert contradictions(pictures / "results") == []


@pytest.mark.parametrize(
    ("built", "complaint"),
    [
        ("of_float32", "does not take pictures: expected one input [side, side, 3], found [8]"),
        ("of_any_size", "labels from 0 to 9, but the model's head has 8 outputs"),
    ],
)
def test_pictures_that_the_model_cannot_train_on_end_the_trial_with_one_line(
    pictures: Path, built: str, complaint: str
) -> None:
    words = (*OWN[:2], f"{OWN[2]}:{built}", "resolution=32")
    done = command(*words, *FIT, "results_dir=refused", cwd=pictures)
    assert done.returncode == 1
    assert complaint in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr
