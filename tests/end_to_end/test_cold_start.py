"""`scenario=cold_start` by the real command: processes start and answer as eager does."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import command

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.exhaustive]

MODEL = """
import keras

def half():
    keras.config.set_dtype_policy("mixed_bfloat16")
    return build()

def build():
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(4)]
    )
"""

SIX = ("effort.rounds_min=6", "effort.rounds_look=6", "effort.rounds_max=6", "effort.replicates=1")


@pytest.mark.parametrize(
    ("modes", "cache", "function"),
    [
        ("xla,saved_xla", "warm", "build"),
        ("graph", "off", "build"),
        ("xla,saved_xla", "off", "half"),
    ],
)
def test_a_process_answers_as_eager_execution_does_and_its_start_is_timed(
    tmp_path: Path, modes: str, cache: str, function: str
) -> None:
    (tmp_path / "own_model.py").write_text(MODEL)
    done = command(
        *("model=local", f"path=own_model.py:{function}", "trust_code=true", "scenario=cold_start"),
        *("device=cpu", "ui=plain", "tracker=none", "batch_size=2"),
        *("effort=starts", f"modes=[{modes}]", f"compile_cache={cache}", *SIX),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    ((record,),) = Store(tmp_path / "results").load().records.values()
    assert len(record.rounds) >= 6, "more beside other load"
    for label, outcome in record.modes.items():
        assert outcome.status is Status.OK, (label, outcome)
        assert outcome.agreement is not None
        assert outcome.agreement.ok
        assert outcome.effective["in_force"]
        assert min(outcome.latencies_s) > 0.5, "TensorFlow alone takes as long to load"
        assert outcome.compile_s is None
        blocks = [block for one in record.rounds for block in one.blocks if block.mode == label]
        for block in blocks:
            assert sum(block.parts_ns.values()) == block.elapsed_ns
            assert min(block.parts_ns.values()) > 0
        assert bool(outcome.cache_bytes) == (cache == "warm")
        assert outcome.damaged_cache.startswith("cache_damaged: ") == (cache == "warm")
    part = "load" if "saved" in modes else "trace"
    assert part in done.stdout, "the parts of each start are shown"
