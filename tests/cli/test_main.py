"""The real command in a subprocess: exit codes, output streams, and mistakes."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
from commands import command, fresh_command
from paths import ROOT
from programs import run_program

from xla_sweeps.cli import COMMANDS, main
from xla_sweeps.cli.server_json import expand_json
from xla_sweeps.config.catalog import load_catalog
from xla_sweeps.errors import BUG_CODE, ConfigError
from xla_sweeps.version import __version__


def test_help_groups_the_options_and_lists_models_and_sources(tmp_path: Path) -> None:
    done = fresh_command("--help", cwd=tmp_path, code=0)
    assert done.stderr == ""
    for part in (
        "What is measured:",
        "How it is executed:",
        "Commands:",
        "keras_cv, keras_hub, hub",
    ):
        assert part in done.stdout
    models = {name for name in load_catalog() if not name.endswith("_backbone")}
    assert {*models, "NAME_backbone"} <= set(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_commands_that_only_show_import_neither_tensorflow_nor_wandb_nor_keras(
    tmp_path: Path,
) -> None:
    program = (
        "import sys; from xla_sweeps.cli.main import run; "
        "[run(words.split()) for words in ('--help', '--cfg job', 'models', 'results nowhere')]; "
        "print(sorted({'tensorflow', 'keras', 'wandb', 'tf_keras'} & set(sys.modules)), "
        "file=sys.stderr)"
    )
    own = {"PYTHONPATH": str(ROOT)}
    done = run_program(sys.executable, "-c", program, cwd=tmp_path, more=own)
    assert done.stderr.splitlines()[-1] == "[]"


def test_cfg_job_prints_the_composed_configuration(tmp_path: Path) -> None:
    done = fresh_command("model=resnet50", "jit=auto", "--cfg", "job", cwd=tmp_path, code=0)
    assert "name: resnet50" in done.stdout
    assert "jit: auto" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_shown(tmp_path: Path) -> None:
    assert command("--version", cwd=tmp_path).stdout == f"xla-sweeps {__version__}\n"


def test_arguments_of_an_agent_in_json_become_overrides() -> None:
    argument = (
        '{"model": "resnet50", "jit": true, "modes": ["graph", "xla"], "resolution": null, '
        '"tracker.group": "a b\'c", "_wandb": {}}'
    )
    expanded = ["model=resnet50", "jit=true", "modes=[graph,xla]", "resolution=null"]
    assert expand_json(["seed=1", argument]) == ["seed=1", *expanded, "tracker.group='a b\\'c'"]
    with pytest.raises(ConfigError, match="is not valid JSON"):
        expand_json(["{model"])


@pytest.mark.parametrize(
    "error", [TypeError("two\nlines\x1b[31m"), MemoryError(), RecursionError(), OSError(5, "EIO")]
)
def test_a_defect_is_one_line_with_its_traceback_in_a_file(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(name: str) -> None:
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("pkgutil.resolve_name", broken)
    assert main.run(["doctor"]) == BUG_CODE
    [saved] = tmp_path.iterdir()
    said = capsys.readouterr().err
    assert said.startswith(f"xla-sweeps: a defect of xla_sweeps itself: {type(error).__name__}")
    assert said.endswith(f"; please report it, with {saved}\n")
    assert (said.count("\n"), "\x1b" in said) == (1, False)
    assert "Traceback" in saved.read_text()


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_help_of_a_command_fits_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        assert main.run([*filter(None, [name]), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "xla-sweeps" in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_a_folder_may_have_a_name_like_a_word_of_a_trial(tmp_path: Path) -> None:
    (tmp_path / "device=cpu").mkdir()
    done = command("results", "device=cpu", cwd=tmp_path)
    assert "device=cpu holds no records" in done.stderr
