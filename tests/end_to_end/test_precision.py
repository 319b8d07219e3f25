"""An example in half precision by the real command, in each scenario: verified, and recorded."""

from __future__ import annotations

from pathlib import Path

import half_precision
import pytest
from commands import command

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.tf

SHORT = (
    *("effort.block_s=0.005", "effort.rounds_min=6", "effort.rounds_look=6", "effort.rounds_max=6"),
    *("effort.warmup_s=0.05", "effort.latency_calls=10", "effort.latency_cap_s=0.2"),
)


@pytest.mark.parametrize(
    ("scenario", "modes"),
    [
        ("call", ("graph", "xla")),
        ("predict", ("graph_host", "predict_graph", "predict_xla")),
        ("train_step", ("graph", "xla", "train_on_batch_xla")),
    ],
)
def test_mixed_precision_is_measured_verified_and_recorded_as_it_was_built(
    scenario: str, modes: tuple[str, ...], tmp_path: Path
) -> None:
    half_precision.require("mixed_bfloat16")
    done = command(
        *("model=mnist_mlp", f"scenario={scenario}", "precision=mixed_bfloat16", "batch_size=16"),
        *("device=cpu", "ui=plain", "tracker=none", f"modes=[{','.join(modes)}]", *SHORT),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    ((record,),) = Store(tmp_path / "results").load().records.values()
    assert record.trial.precision == "mixed_bfloat16"
    assert record.model is not None
    assert record.model.precision == "bf16"
    for label, outcome in record.modes.items():
        assert outcome.status is Status.OK, (label, outcome)
        assert outcome.agreement is not None
        assert outcome.agreement.ok
