"""Somebody else's server or agent runs nothing of its own, and no secret leaves the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import forked
from foreign_place import KEY, TRIAL, contents, refused
from made_files import make_files

from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers import wandb_agents


def test_what_a_server_sends_runs_no_code_and_chooses_no_folder(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "em.py").write_text("open('pwned', 'w')\n")
    sent = {
        "model": "local",
        "path": "em.py:build",
        "trust_code": True,
        "results_dir": "elsewhere",
        "++hydra.callbacks.e": {"_target_": "pathlib.Path.touch"},
    }
    assert "name it, as in path=" in refused(place, [json.dumps(sent)], capsys)
    for value in ("${oc.env:WANDB_API_KEY}", "\ud800", "a\u0000", {"x": "_target_"}):
        sent = {"model": "mobilenet_v2", "tracker.group": value}
        assert "the JSON argument" in refused(place, [json.dumps(sent)], capsys)
    assert "not valid JSON" in refused(place, ['{"a":' + "[" * 100_000], capsys)


def test_the_words_that_a_person_types_reach_the_agents_in_the_command(place: Path) -> None:
    (place / "s.yaml").write_text(
        "method: grid\nparameters: {model: {value: local}}\n"
        "command: ['${env}', '${interpreter}', '-m', xla_sweeps, '${args_json}', batch_size=8]\n"
    )
    typed = {"path": "mine.py:build", "trust_code": True, "weights": "a/b.h5", "seed": 3}
    sent = wandb_agents._definition(place / "s.yaml", typed)
    words = ["path=mine.py:build", "trust_code=true", "weights=a/b.h5"]
    assert sent["command"] == [*wandb_agents.COMMAND, *words]
    parameters = {"model": "local", "seed": 3, "batch_size": 8}
    assert sent["parameters"] == {key: {"value": value} for key, value in parameters.items()}
    sent = wandb_agents._definition(place / "s.yaml", {"batch_size": 2})
    assert sent["parameters"]["batch_size"] == {"value": 2}, "what is typed wins over the command"


def test_a_typed_preset_keeps_the_nested_parameters_that_agents_get(place: Path) -> None:
    (place / "s.yaml").write_text(
        "method: grid\nparameters:\n  model: {value: mnist_mlp}\n"
        "  effort: {parameters: {block_s: {values: [0.1, 0.2]}, rounds_min: {value: 8}}}\n"
    )
    typed = {"effort": "standard", "effort.rounds_min": 9}
    assert wandb_agents._definition(place / "s.yaml", typed)["parameters"] == {
        "model": {"value": "mnist_mlp"},
        "effort.block_s": {"values": [0.1, 0.2]},
        "effort.rounds_min": {"value": 9},
        "effort": {"value": "standard"},
    }


OURS = ["${env}", "${interpreter}", "-P", "-m", "xla_sweeps", "${args_json}"]


@pytest.mark.parametrize(
    "command",
    [
        "touch pwned",
        ["touch", "pwned"],
        ["${env}", "A=b", *OURS[1:]],
        ["${env}", "${interpreter}", "em.py", "${args_json}"],
        [*OURS, "model=local", "path=em.py:build", "trust_code=true"],
        [*OURS, "+trust_code=true"],
        [*OURS, "weights=/tmp/w.h5"],
        [*OURS, "results_dir=/elsewhere"],
        [*OURS, "--config-dir=evil"],
        [*OURS, "xla_flags={xla_backend_extra_options:-a}"],
        [*OURS, "seed=${envvar:WANDB_API_KEY}"],
        [*OURS, "sweep", "s.yaml"],
    ],
    ids=str,
)
def test_agents_run_no_command_but_ours(
    command: Any, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = {"method": "grid", "parameters": {"seed": {"value": 1}}, "command": command}
    (place / "s.yaml").write_text(json.dumps(definition))
    error = refused(place, ["sweep", "s.yaml", "--launcher", "wandb"], capsys)
    assert error.startswith("xla-sweeps: s.yaml: command: ")


EXTRA = "xla_backend_extra_options"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        (EXTRA, "-opt-bisect-limit=3,-opt-bisect-print-ir-path=thesis.txt"),
        (EXTRA, 1),
        ("xla_gpu_asm_extra_flags", "-v"),
        ("xla_cpu_max_isa", "-AVX2"),
        ("xla_cpu_some_text", "program"),
        ("xla_dump_to", "there"),
        ("xla_gpu_cuda_data_dir", 1),
    ],
)
def test_flags_of_files_and_servers_write_nothing_and_start_nothing(
    flag: str, value: str | int, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(value)
    head, inner = "method: grid\nparameters:\n  xla_flags", f"{{{flag}: {text}}}"
    files = {
        "s.yaml": f"{head}.{flag}: {{value: {text}}}\n",
        "nested.yaml": f"{head}: {{value: {inner}}}\n",
        "group/xla_flags/mine.yaml": f"{flag}: {text}\n",
        "level/effort/mine.yaml": f"# @package _global_\nxla_flags: {inner}\n",
    }
    make_files(place, files)
    for arguments in (
        ["sweep", "s.yaml", "--dry-run"],
        ["sweep", "nested.yaml", "--dry-run"],
        [json.dumps({"model": "mobilenet_v2", "xla_flags": {flag: value}})],
        [json.dumps({f"xla_flags.{flag}": value})],
        ["--config-dir", "group", *TRIAL, "+xla_flags=mine"],
        ["--config-dir", "level", *TRIAL, "effort=mine"],
    ):
        error = refused(place, arguments, capsys)
        assert "only your own command line may set this flag" in error or "no files" in error


def test_a_secret_in_a_models_error_is_in_no_file_and_on_no_screen(place: Path) -> None:
    own = {
        "FAKE_WORKER": f"raise:xla text:https://me:p4ssw0rd@host/{KEY}",
        "TMPDIR": str(place.parent / "tools"),
    }
    words = ("model=mobilenet_v2", "modes=[graph,xla]")
    done = forked("trial", *words, cwd=place, more=own)
    assert "https://***@host/***" in done.stderr
    ((record,),) = Store(place / "results").load().records.values()
    failure = record.modes["xla"].failure
    assert failure is not None
    assert "https://***@host/***" in failure.message
    written = {**contents(place), "out": done.stdout.encode(), "err": done.stderr.encode()}
    assert any(name.endswith(".wandb") for name in written)
    assert not [
        name
        for name, content in written.items()
        if b"p4ssw0rd" in content or KEY.encode() in content
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["weights=https://me:p4ssw0rd@host/x", "source=hub", "trust_code=true"],
        ["weights=https://host/x?token=p4ssw0rd"],
        ["-m", "weights=https://me:p4ssw0rd@host/x,imagenet"],
        ["weights==https://me:p4ssw0rd@host/x"],
        ["model=https://me:p4ssw0rd@host/x"],
        ["sweep", "s.yaml", "weights=https://me:p4ssw0rd@host/x"],
        ['{"tracker.group": "https://me:p4ssw0rd@host/x"}'],
    ],
    ids=str,
)
def test_credentials_in_an_address_are_refused_and_not_repeated(
    arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "s.yaml").write_text("method: grid\nparameters: {seed: {value: 1}}\n")
    error = refused(place, arguments, capsys)
    assert "holds credentials, which records and W&B would keep" in error
    assert "p4ssw0rd" not in error


@pytest.mark.parametrize("arguments", [TRIAL[:2], ["push"]], ids=str)
def test_credentials_in_the_servers_address_are_refused(
    arguments: list[str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "https://me:p4ssw0rd@host")
    error = refused(place, arguments, capsys)
    assert "WANDB_BASE_URL holds a user and a password" in error
    assert "p4ssw0rd" not in error
