"""A whole trial of training steps by the real command."""

from __future__ import annotations

import subprocess

import pytest
from commands import command

from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

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
    assert record.config["scenario"] == "train_step"
    assert record.config["optimizer"] == "sgd"
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
