"""Whole trials by the real command with TensorFlow: every mode, own models, interrupts, limits."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import Running, command
from ended import alive, processes, wait_until
from in_process import command as read
from real_trials import SHORT, environment, finished, records

from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.record import Record

pytestmark = pytest.mark.tf

SMALL = ["model=mnist_mlp", "batch_size=2", *SHORT]

Ended = tuple[Path, str, str]
"""Folder, output and standard error of a trial."""


@pytest.fixture(scope="module")
def all_modes(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    cwd = tmp_path_factory.mktemp("all_modes")
    words = ("modes=[eager,default,graph,xla,autocluster]", "tracker=wandb_offline")
    code, out, err = finished(*SMALL, *words, cwd=cwd)
    assert code == 0, err
    return cwd, out, err


def headlines(cwd: Path) -> list[dict[str, Any]]:
    shown = read("results", "--all", "--format", "json", cwd=cwd)
    return [row for row in json.loads(shown.stdout) if row["headline"]]


def count_latencies(record: Record, name: str) -> int:
    """The number of single calls in the clean rounds; a block of one call is such a call."""
    counted = [round_ for round_ in record.rounds if not round_.dirty] or record.rounds
    blocks = [block for round_ in counted for block in round_.blocks if block.mode == name]
    return sum(1 if block.calls == 1 else len(block.single_ns) for block in blocks)


def test_a_trial_measures_every_mode_with_its_proof_and_agreement(all_modes: Ended) -> None:
    (record,) = records(all_modes[0])
    assert record.status in (Status.OK, Status.CONTAMINATED)
    assert set(record.modes) == {"eager", "default", "graph", "xla", "autocluster"}
    for name, outcome in record.modes.items():
        assert outcome.status is Status.OK, (name, outcome)
        assert outcome.effective["in_force"]
        assert outcome.agreement is not None
        assert outcome.agreement.ok
        assert outcome.agreement.rmse_ref_rel is None  # all are close to eager
        assert len(outcome.latencies_s) == count_latencies(record, name)
        assert outcome.first_call_s
    assert record.modes["autocluster"].effective["xla_clusters"] > 0
    assert record.modes["graph"].effective["xla_clusters"] == 0
    compile_s = {name: outcome.compile_s or 0.0 for name, outcome in record.modes.items()}
    assert min(compile_s["xla"], compile_s["autocluster"]) > compile_s["graph"]
    assert [(row["baseline"], row["candidate"]) for row in headlines(all_modes[0])] == [
        ("graph", "autocluster"),
        ("graph", "default"),
        ("graph", "xla"),
    ]


def test_a_record_contains_raw_blocks_host_facts_and_the_environment(all_modes: Ended) -> None:
    (record,) = records(all_modes[0])
    assert len(record.rounds) >= 10  # a whole Williams design of five modes
    assert all(sorted(round_.order) == sorted(record.modes) for round_ in record.rounds)
    assert {len(round_.blocks) for round_ in record.rounds if not round_.dirty} <= {5}
    starts = [round_.started_ns for round_ in record.rounds]
    assert starts == sorted(starts)
    assert (record.model.params, record.trial.model.resolution_px) == (535_818, 28)
    assert record.model.macs == 784 * 512 + 512 * 256 + 256 * 10
    software = record.environment
    assert software["loaded"]["tensorflow"] == software["packages"]["tensorflow"]
    assert record.sync["queued"] is False
    assert record.contamination["samples"] > 5
    assert record.contamination["peak_rss_bytes"] > 2e8
    assert set(record.seconds) >= {"build", "prepare", "measure"}


def test_output_and_files_are_below_results_dir_and_hold_no_noise_and_no_secret(
    all_modes: Ended,
) -> None:
    cwd, out, err = all_modes
    assert "MNIST MLP 28 px · batch 2 · 535.8 k params" in out
    assert "eager → graph" in out
    assert out.count("95 %") >= 3
    assert "rounds" in err
    for noise in ("tensorflow", "oneDNN", "wandb:", "cuda", "canary"):
        assert noise not in out + err
    (log,) = cwd.glob("results/logs/*/*.log")
    assert str(log.relative_to(cwd)) in err
    assert "XLA service" in log.read_text()
    (run,) = cwd.glob("results/wandb/offline-run-*/*.wandb")
    assert f" {run.parent.relative_to(cwd)}\n" in out
    assert [path.name for path in cwd.iterdir()] == ["results"]
    assert {path.name for path in (cwd / "results").iterdir()} == {
        *("records", "logs", "wandb", "published", "hydra", "claims", "cache")
    }
    for path in cwd.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes(), path


OWN = """
from pathlib import Path
import keras

def make():
    units = int(Path(__file__).with_name("units.txt").read_text())
    tokens = keras.Input((16,), dtype="int32", name="tokens")
    image = keras.Input((8,), name="image")
    values = keras.layers.Flatten()(keras.layers.Embedding(255, 1)(tokens))
    values = keras.layers.Concatenate()([values, image])
    return keras.Model([tokens, image], keras.layers.Dense(units)(values))
"""


@pytest.mark.exhaustive
def test_an_own_models_row_repeats_it_and_another_build_is_not_pooled(tmp_path: Path) -> None:
    (tmp_path / "own_net.py").write_text(OWN)
    (tmp_path / "units.txt").write_text("4")
    own = ("model=local", "path=own_net:make", "trust_code=true", "modes=[graph,xla]", *SHORT)
    code, out, err = finished(*own, "tracker=none", cwd=tmp_path, program="undisturbed")
    assert code == 0, err
    assert "1 replicate)" in out
    assert "own_net:make" in out
    row = next(row for row in headlines(tmp_path) if row["candidate"] == "xla")
    (tmp_path / "units.txt").write_text("64")
    words = shlex.split(row["command"])
    again = words[words.index("xla_sweeps") + 1 :]
    code, out, err = finished(*again, "tracker=none", cwd=tmp_path, program="undisturbed")
    assert code == 0, err
    assert "earlier replicates are left out" in " ".join((out + err).split())
    kept = records(tmp_path)
    assert [(record.trial_id, record.replicate) for record in kept] == [
        (row["trial_id"], 0),
        (row["trial_id"], 1),
    ]
    assert kept[0].model.inputs == ("tokens[16] int32", "image[8] float32")
    assert [record.model.params for record in kept] == [255 + 25 * 4, 255 + 25 * 64]
    assert kept[0].model.fingerprint != kept[1].model.fingerprint != ""
    for outcome in kept[0].modes.values():
        assert outcome.agreement is not None
        assert outcome.agreement.ok
    row = next(row for row in headlines(tmp_path) if row["candidate"] == "xla")
    assert (row["params"], row["replicates"]) == (255 + 25 * 64, 1)
    assert "build_changed" in row["flags"]
    assert "1 of 2 records are left out" in read("check", cwd=tmp_path).stdout


@pytest.mark.exhaustive
def test_multirun_ends_in_a_table_of_all_also_where_a_launcher_runs_them_elsewhere(
    tmp_path: Path,
) -> None:
    several = [*SMALL[:2], "batch_size=4,2", "modes=[graph,xla]", "timeouts.build=0.5"]
    elsewhere = ["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=2"]
    code, out, err = finished("-m", *several, *elsewhere, "tracker=none", cwd=tmp_path)
    assert code == 1, err
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("mnist_mlp ")]
    assert [batch for _, _, batch, *_ in rows] == ["4", "2"], out
    for record in records(tmp_path):
        assert record.status is Status.TIMEOUT
        assert record.failure is not None
        assert "stage 'import' timed out after 0.5 s" in record.failure.message


@pytest.mark.exhaustive
def test_a_signal_from_outside_saves_what_was_measured_and_shows_how_to_resume(
    tmp_path: Path,
) -> None:
    long = ("effort.rounds_max=6000", "effort.rounds_min=6000")
    words = [word for word in SMALL if not word.startswith("effort.rounds_m")]
    trial = Running(
        "command", "ui=plain", *words, *long, cwd=tmp_path, environment=environment(tmp_path)
    )
    assert any("compile" in line for line in trial.stdout)
    pids = processes("xla_sweeps.backends.tensorflow.worker", f" {trial.pid} ")
    assert pids
    trial.send_signal(signal.SIGINT)
    said = trial.finish(130)
    assert wait_until(lambda: not any(map(alive, pids)))
    (record,) = records(tmp_path)
    assert record.status is Status.INTERRUPTED
    assert "stopped; what was measured is saved. Resume with: python -m xla_sweeps" in said
    assert "Traceback" not in said


@pytest.mark.exhaustive
def test_a_fixed_batch_size_of_a_saved_model_is_the_only_one_allowed(tmp_path: Path) -> None:
    import tensorflow as tf

    class Fixed(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, 8, 8, 3))])
        def __call__(self, images: Any) -> Any:
            return tf.reduce_mean(images, axis=(1, 2))

    tf.saved_model.save(Fixed(), str(tmp_path / "saved"))
    asked = ("model=local", "path=saved", "trust_code=true", "tracker=none", "modes=[graph]")
    code, out, err = finished(*asked, *SHORT, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "batch_size=4: saved was saved for batches of 1; use batch_size=1" in err


@pytest.mark.exhaustive
def test_a_detector_is_measured_with_decoding_and_suppression(tmp_path: Path) -> None:
    small = ("model=yolo_v8_xs", "resolution=64", "batch_size=2", "modes=[graph,xla]")
    code, out, err = finished(*small, "scenario=detect", "tracker=none", *SHORT, cwd=tmp_path)
    assert code == 0, err
    (record,) = records(tmp_path)
    assert record.trial.scenario == "detect"
    assert all(outcome.agreement and outcome.agreement.ok for outcome in record.modes.values())
    assert "keras_cv" in out


@pytest.mark.exhaustive
def test_a_hub_model_runs_as_a_replica_that_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "deit_tiny_patch16_224"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = command("hub-replicas", name, cwd=tmp_path)
    assert "1 of 1 built" in made.stdout
    saved = tmp_path / "cache" / "xla-sweeps" / "replicas" / "v1" / name / "saved_model.pb"
    before = saved.stat().st_mtime_ns
    asked = (f"model={name}", "source=hub", "batch_size=1", "modes=[eager,graph]", "tracker=none")
    code, out, err = finished(*asked, *SHORT, cwd=tmp_path)
    assert code == 0, err
    assert saved.stat().st_mtime_ns == before
    (record,) = records(tmp_path)
    assert record.model.replica_of == "https://tfhub.dev/sayakpaul/deit_tiny_patch16_224/1"
    assert (record.model.params, record.model.eager_is_graph) == (5_717_416, True)
    assert Flagged(Flag.EAGER_IS_GRAPH) in record.flags
    assert "hub, random weights" in out
    assert record.model.macs == pytest.approx(1.26e9, rel=0.03)
