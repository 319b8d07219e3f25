"""Whole trials by the real command with TensorFlow: interrupts, limits, timeouts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import command
from paths import ROOT, SUPPORT
from real_trials import (
    SHORT,
    SMALL,
    UNDISTURBED,
    children,
    environment,
    finished,
    gone,
    line_with,
    records,
    start,
)

from xla_sweeps.schema.measurement import Flag, Flagged, Status

pytestmark = pytest.mark.tf

OWN = """
from pathlib import Path
import keras

def make():
    units = int(Path(__file__).with_name("units.txt").read_text())
    inputs = keras.Input((8,))
    return keras.Model(inputs, keras.layers.Dense(units)(inputs))
"""

OWN_WORDS = ("model=local", "path=own_net:make", "trust_code=true", "batch_size=2", *SHORT)


def own_model(folder: Path, units: int) -> None:
    """A model of one layer, which reads from a file how wide it is."""
    (folder / "own_net.py").write_text(OWN)
    (folder / "units.txt").write_text(str(units))


def test_multirun_measures_each_choice_and_an_aa_pair_is_a_trial_of_its_own(
    tmp_path: Path,
) -> None:
    own_model(tmp_path, 4)
    words = (*OWN_WORDS, "modes=[graph],[graph,graph]", "tracker=none")
    code, out, err = finished("-m", *words, cwd=tmp_path, program=UNDISTURBED)
    assert code == 0, err
    assert sorted(len(record.modes) for record in records(tmp_path)) == [1, 2]
    assert "A/A: two copies of graph measure" in out


def test_the_command_of_a_row_adds_a_replicate_and_another_build_is_not_pooled_with_it(
    tmp_path: Path,
) -> None:
    own_model(tmp_path, 4)
    words = (*OWN_WORDS, "modes=[graph,xla]", "tracker=none")
    code, out, err = finished(*words, cwd=tmp_path, program=UNDISTURBED)
    assert code == 0, err
    assert "1 replicate)" in out
    (row,) = headlines(tmp_path)
    again = subprocess.run(
        row["command"].replace("python", sys.executable, 1),
        shell=True,
        cwd=tmp_path,
        env={**environment(tmp_path), "WANDB_MODE": "disabled"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    first, second = records(tmp_path)
    assert (first.trial_id, second.trial_id) == (row["trial_id"],) * 2
    clean = 1 + (second.status is Status.OK)
    assert f"{clean} replicate{'s' * (clean > 1)})" in again.stdout

    own_model(tmp_path, 64)
    code, out, err = finished(*words, cwd=tmp_path, program=UNDISTURBED)
    assert code == 0, err
    assert "earlier replicates are left out" in " ".join(out.split())
    kept = records(tmp_path)
    assert [record.replicate for record in kept] == [0, 1, 2]
    assert len({record.trial_id for record in kept}) == 1
    assert [record.model.params for record in kept] == [36, 36, 576]
    fingerprints = [record.model.fingerprint for record in kept]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2] != ""
    assert kept[0].model.macs_by_type == {"f32": 32}
    (row,) = headlines(tmp_path)
    assert (row["params"], row["replicates"], row["effective_precision"]) == (576, 1, "f32")
    assert "build_changed" in row["flags"]
    assert "2 of 3 records are left out" in command("check", cwd=tmp_path).stdout


def headlines(cwd: Path) -> list[dict[str, Any]]:
    shown = command("results", "--format", "json", cwd=cwd)
    return [row for row in json.loads(shown.stdout) if row["headline"]]


def test_multirun_ends_in_a_table_of_all_also_where_a_launcher_runs_them_elsewhere(
    tmp_path: Path,
) -> None:
    several = [*SMALL[:2], "batch_size=4,2", "modes=[graph,xla]", "timeouts.build=0.5"]
    elsewhere = ["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=2"]
    code, out, err = finished("-m", *several, *elsewhere, "tracker=none", cwd=tmp_path)
    assert code == 1, err
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("mobilenet_v1 ")]
    assert [batch for _, _, batch, *_ in rows] == ["4", "2"], out


@pytest.mark.parametrize(
    ("limit", "status", "text"),
    [
        ("memory_limit_gib=0.25", Status.OOM_HOST, "exceeded its memory limit of 0.2 GiB"),
        ("timeouts.build=0.5", Status.TIMEOUT, "stage 'import' timed out after 0.5 s"),
    ],
)
def test_an_exceeded_limit_is_a_recorded_outcome(
    limit: str, status: Status, text: str, tmp_path: Path
) -> None:
    code, out, _ = finished(*SMALL, limit, "tracker=none", cwd=tmp_path)
    assert code == 1
    (record,) = records(tmp_path)
    assert record.status is status
    assert record.failure is not None
    assert text in record.failure.message
    assert "not measured" in out or "ran out of memory" in out


def test_a_signal_from_outside_saves_what_was_measured_and_shows_how_to_resume(
    tmp_path: Path,
) -> None:
    process = start(*SMALL, cwd=tmp_path)
    line_with(process.stderr, "compile")
    pids = children(process.pid)
    assert pids
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert gone(pids)
    (record,) = records(tmp_path)
    assert record.status is Status.INTERRUPTED
    assert "stopped; what was measured is saved. Resume with: python -m xla_sweeps" in err
    assert "Traceback" not in err


def test_the_measuring_process_dies_with_a_command_that_is_killed(tmp_path: Path) -> None:
    process = start(*SMALL, cwd=tmp_path)
    line_with(process.stderr, "build")
    pids = children(process.pid)
    assert pids
    process.kill()
    process.communicate()
    assert gone(pids)


def test_a_killed_measuring_process_is_recorded_as_a_crash(tmp_path: Path) -> None:
    process = start(*SMALL, "tracker=none", cwd=tmp_path)
    line_with(process.stderr, "build")
    os.kill(children(process.pid)[0], signal.SIGSEGV)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    (record,) = records(tmp_path)
    assert (record.status, record.failure.kind if record.failure else "") == (
        Status.CRASHED,
        "SIGSEGV",
    )
    assert (
        "Fatal Python error: Segmentation fault"
        in next(tmp_path.glob("results/logs/*/*.log")).read_text()
    )
    assert "not measured" in out
    assert "Traceback" not in err


def test_the_same_trial_twice_at_once_is_refused(tmp_path: Path) -> None:
    first = start(*SMALL, "tracker=none", cwd=tmp_path)
    line_with(first.stderr, "import")
    while not (measuring := children(first.pid)):
        time.sleep(0.05)
    os.kill(measuring[0], signal.SIGSTOP)  # so that the first lasts longer than the second
    code, out, err = finished(*SMALL, "tracker=none", cwd=tmp_path)
    os.kill(measuring[0], signal.SIGCONT)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=300)
    assert code == 75
    assert out == ""
    assert f"by another process (pid {first.pid} on " in err
    assert err.count("\n") == 1


def test_a_users_model_is_measured_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((SUPPORT / "own_models.py").read_text())
    code, out, err = finished(
        "model=local",
        "path=mine:two_inputs",
        "trust_code=true",
        "tracker=none",
        "batch_size=2",
        *SHORT,
        cwd=tmp_path,
    )
    assert code == 0, err
    assert "mine:two_inputs" in out
    assert "samples/s" in out
    (record,) = records(tmp_path)
    assert record.model.inputs == ("tokens[16] int32", "image[32, 32, 3] float32")
    assert (record.model.params, record.model.macs) == (
        3 * 3 * 3 * 8 + 8 + 255 * 8 + 16 * 4 + 4,
        194_464,
    )
    assert {mode: outcome.status for mode, outcome in record.modes.items()} == dict.fromkeys(
        ("eager", "graph", "xla"), Status.OK
    )
    assert all(outcome.agreement and outcome.agreement.ok for outcome in record.modes.values())


def test_a_mode_that_xla_cannot_compile_is_reported_with_its_reason_and_the_others_are_measured(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        "import tensorflow as tf\n\ndef build():\n    return lambda x: "
        "tf.nn.max_pool_with_argmax(x, 2, 2, 'SAME')[0]\n"
    )
    code, out, _ = finished(
        "model=local",
        "path=mine.py:build",
        "resolution=16",
        "trust_code=true",
        "tracker=none",
        *SHORT,
        cwd=tmp_path,
    )
    assert code == 1
    assert "XLA has no kernel for the operation MaxPoolWithArgmax" in out
    (record,) = records(tmp_path)
    assert record.modes["xla"].status is Status.UNSUPPORTED_OP
    assert record.modes["graph"].status is Status.OK


def test_a_fixed_batch_size_of_a_saved_model_is_the_only_one_allowed(tmp_path: Path) -> None:
    import tensorflow as tf

    class Fixed(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, 8, 8, 3))])
        def __call__(self, images: Any) -> Any:
            return tf.reduce_mean(images, axis=(1, 2))

    tf.saved_model.save(Fixed(), str(tmp_path / "saved"))
    asked = ("model=local", "path=saved", "trust_code=true", "tracker=none", *SHORT)
    code, out, _ = finished(*asked, cwd=tmp_path)
    assert code == 1
    assert "batch_size=4: saved was saved for batches of 1; use batch_size=1" in out
    code, out, _ = finished(*asked, "batch_size=1", cwd=tmp_path)
    assert code == 0
    record = next(
        candidate
        for candidate in records(tmp_path)
        if candidate.status is Status.OK or candidate.rounds
    )
    assert record.model.eager_is_graph
    assert Flagged(Flag.EAGER_IS_GRAPH) in record.flags


def test_a_detector_is_measured_with_decoding_and_suppression(tmp_path: Path) -> None:
    code, out, err = finished(
        "model=yolo_v8_xs",
        "resolution=64",
        "batch_size=2",
        "scenario=detect",
        "modes=[graph,xla]",
        "tracker=none",
        *SHORT,
        cwd=tmp_path,
    )
    assert code == 0, err
    (record,) = records(tmp_path)
    assert record.trial.scenario == "detect"
    assert all(outcome.agreement and outcome.agreement.ok for outcome in record.modes.values())
    assert "keras_cv" in out


def test_a_hub_model_runs_as_a_replica_that_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = subprocess.run(
        [sys.executable, "-m", "xla_sweeps", "hub-replicas", "deit_tiny_patch16_224"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert "1 of 1 built" in made.stdout
    saved = (
        tmp_path
        / "cache"
        / "xla-sweeps"
        / "replicas"
        / "v1"
        / "deit_tiny_patch16_224"
        / "saved_model.pb"
    )
    before = saved.stat().st_mtime_ns
    code, out, err = finished(
        "model=deit_tiny_patch16_224",
        "source=hub",
        "batch_size=1",
        "modes=[eager,graph]",
        "tracker=none",
        *SHORT,
        cwd=tmp_path,
    )
    assert code == 0, err
    assert saved.stat().st_mtime_ns == before
    (record,) = records(tmp_path)
    assert record.model.replica_of == "https://tfhub.dev/sayakpaul/deit_tiny_patch16_224/1"
    assert (record.model.params, record.model.eager_is_graph) == (5_717_416, True)
    assert "hub, random weights" in out
    assert record.model.macs == pytest.approx(1.26e9, rel=0.03)
