"""The real command in a subprocess: exit codes, what goes where, and that a mistake writes nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from factories import make_record

from xla_sweeps import __version__
from xla_sweeps.catalog import load_catalog
from xla_sweeps.cli import expand_json
from xla_sweeps.errors import ConfigError
from xla_sweeps.store import Store

ROOT = Path(__file__).resolve().parents[1]


def command(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return subprocess.run(
        [sys.executable, "-m", "xla_sweeps", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120,
        env={**kept, "PYTHONPATH": str(ROOT), "HOME": str(cwd), "COLUMNS": "120", **environ},
    )  # fmt: skip


def test_help_groups_the_options_and_lists_models_and_sources(tmp_path: Path) -> None:
    done = command("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    for part in (
        "What is measured:",
        "How it is executed:",
        "Commands:",
        "efficientnetv2s",
        "regnetx_016",
        "keras_cv, keras_hub, hub",
    ):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"], ["models"], ["results", "nowhere"]])
def test_commands_that_only_tell_import_no_tensorflow_wandb_or_keras(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys; from xla_sweeps.cli import run; run(sys.argv[1:]); "
        "print(sorted({'tensorflow', 'keras', 'wandb', 'tf_keras'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "[]"


def test_cfg_job_prints_the_composed_configuration(tmp_path: Path) -> None:
    done = command("model=resnet50", "jit=auto", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 0
    assert "name: resnet50" in done.stdout
    assert "jit: auto" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_told(tmp_path: Path) -> None:
    assert command("--version", cwd=tmp_path).stdout == f"xla-sweeps {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["model=efficientnetv2x"], "xla-sweeps: unknown model 'efficientnetv2x'. Did you mean 'efficientnetv2"),
        (
            ["jit=maybe"],
            "xla-sweeps: jit=maybe: allowed are true (xla), false (graph), null (default) and auto (autocluster)",
        ),
        (["resolution=0"], "xla-sweeps: resolution=0: it must be at least 1"),
        (["device=gpu:77"], "xla-sweeps: device=gpu:77: this machine has"),
        (["tracker=wandb"], "xla-sweeps: tracker=wandb: W&B online needs an API key"),
        (
            ["resuls"],
            "xla-sweeps: unknown command 'resuls'. Did you mean 'results'? Allowed: sweep, agents, results, dashboard, import, compare, models, hub-replicas, doctor, push, report, check.",
        ),
        (["results", "--format", "xml"], "xla-sweeps: results: argument --format: invalid choice: 'xml'"),
        (
            ["results", "nowhere"],
            "xla-sweeps: nowhere holds no records; measure first: python -m xla_sweeps model=NAME",
        ),
        (["models", "alexnet"], "xla-sweeps: unknown model 'alexnet'."),
        (["-m", "model=resnet50,vgg61"], "xla-sweeps: unknown model 'vgg61'. Did you mean 'vgg1"),
        (["-m", "batch_size=1,0"], "xla-sweeps: batch_size=0: it must be at least 1"),
        (["hydra.sweeper._target_=os.system"], "xla-sweeps: _target_ in override"),
        (
            ["results_dir=/proc/nope"],
            "xla-sweeps: results_dir=/proc/nope cannot be written: No such file or directory.",
        ),
        (['{"model": '], "xla-sweeps: the argument '{\"model\": ' begins like a JSON object but is none"),
        (["--config-dir", "nowhere", "model=x"], "xla-sweeps: --config-dir nowhere: no such folder"),
    ],
)
def test_a_mistake_is_one_line_exit_2_and_nothing_written(arguments: list[str], line: str, tmp_path: Path) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_an_agent_in_json_become_overrides() -> None:
    argument = '{"model": "resnet50", "jit": true, "modes": ["graph", "xla"], "resolution": null, "weights": "a b\'c", "_wandb": {}}'
    assert expand_json(["effort=quick", argument]) == [
        "effort=quick", "model=resnet50", "jit=true", "modes=[graph,xla]", "resolution=null", "weights='a b\\'c'",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="begins like a JSON object"):
        expand_json(["{model"])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    store = Store(tmp_path / "results")
    store.save(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}))
    store.save(make_record({"graph": 0.1, "xla": 0.2}, trial_id="f" * 16))
    return tmp_path


def test_results_are_a_table_of_headline_rows_by_default(results: Path) -> None:
    done = command("results", cwd=results)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "▲ faster" in done.stdout
    assert "▼ slower" in done.stdout
    assert "xla / graph" in done.stdout
    assert "graph / eager" not in done.stdout
    assert "graph / eager" in command("results", "--all", cwd=results).stdout


def test_results_export_the_same_rows_as_json_csv_and_parquet(results: Path) -> None:
    rows = json.loads(command("results", "--format", "json", "--all", cwd=results).stdout)
    assert len(rows) == 4
    assert {row["verdict"] for row in rows} == {"faster", "slower"}
    lines = list(csv.DictReader(io.StringIO(command("results", "--format", "csv", "--all", cwd=results).stdout)))
    assert [line["trial_id"] for line in lines] == [row["trial_id"] for row in rows]
    assert [float(line["speedup"]) for line in lines] == pytest.approx([row["speedup"] for row in rows])
    assert command("results", "--format", "parquet", "--all", "-o", "rows.parquet", cwd=results).returncode == 0
    assert pyarrow.parquet.read_table(results / "rows.parquet").to_pylist() == rows
    refused = command("results", "--format", "parquet", cwd=results)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_a_damaged_record_is_said_and_the_others_are_shown(results: Path) -> None:
    path = results / "results" / "records" / ("f" * 16) / "0.json"
    path.write_bytes(path.read_bytes()[:100])
    done = command("results", cwd=results)
    assert done.returncode == 0
    assert "warning: " in done.stderr
    assert "quarantine" in done.stderr
    assert "▲ faster" in done.stdout


def test_a_formula_in_a_name_is_no_formula_in_a_csv(tmp_path: Path) -> None:
    record = make_record()
    hostile = "=HYPERLINK(1)"
    Store(tmp_path / "results").save(make_record(config={**record.config, "precision": hostile}, trial_id="e" * 16))
    (line,) = csv.DictReader(io.StringIO(command("results", "--format", "csv", cwd=tmp_path).stdout))
    assert line["precision"] == f"'{hostile}"


def test_models_lists_the_catalog_and_finds_in_it(tmp_path: Path) -> None:
    everything = command("models", cwd=tmp_path).stdout
    assert f"{len(load_catalog())} models" in everything
    assert "regnetx_016" in everything
    found = command("models", "vgg*", cwd=tmp_path).stdout
    assert "5 models" in found
    assert "resnet50" not in found


def test_models_shows_one_model_with_what_each_source_builds(tmp_path: Path) -> None:
    shown = command("models", "efficientnetv2s", cwd=tmp_path).stdout
    for part in ("keras: EfficientNetV2S", "keras_cv: ImageClassifier", "xla-sweeps[keras_cv]", "384 px"):
        assert part in shown


def test_hub_replicas_lists_what_there_is_and_refuses_what_there_is_not(tmp_path: Path) -> None:
    listed = command("hub-replicas", "--list", "vit_*", cwd=tmp_path, XLA_SWEEPS_CACHE=str(tmp_path / "cache"))
    assert listed.returncode == 0
    assert listed.stdout.count("not made yet") == 7
    assert f"0 of 7 made, 0 MiB, in {tmp_path}/cache/replicas/v1" in " ".join(listed.stdout.split())
    wrong = command("hub-replicas", "vit_b61", cwd=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("xla-sweeps: unknown model of source=hub 'vit_b61'. Did you mean 'vit_b16'?")


def test_doctor_tells_devices_versions_and_quiet_without_writing(tmp_path: Path) -> None:
    done = command("doctor", "--seconds", "0.3", cwd=tmp_path)
    assert done.returncode == 0
    for part in ("cpu", "tensorflow", "quiet", "steal", "disk", "W&B"):
        assert part in done.stdout
    assert not (tmp_path / "results").exists()


def test_push_without_a_key_is_one_line(results: Path) -> None:
    done = command("push", cwd=results)
    assert done.returncode == 2
    assert done.stderr.startswith("xla-sweeps: tracker=wandb: W&B online needs an API key")
