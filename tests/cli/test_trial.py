"""The command line of a trial: how its jobs end."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf
from paths import ROOT
from programs import run_program

from xla_sweeps.cli import trial
from xla_sweeps.cli.main import run
from xla_sweeps.cli.server_json import expand_json
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings, check_accelerator_name, settings_of
from xla_sweeps.errors import ConfigError, LockedError, StoreError
from xla_sweeps.schema.options import LOGGED, NAMES
from xla_sweeps.system.environment import environment
from xla_sweeps.trial import runner
from xla_sweeps.trial.runner import TrialResult
from xla_sweeps.trial.tracking import run_header

CPU = "13th Gen Intel(R) Core(TM) i7-1365U @ 1.80GHz"

ENDED = TrialResult(trial_id="0", summary=None, exit_code=0)

TRIAL = ["model=mobilenet_v2", "resolution=32", "tracker=none"]


def test_an_error_in_one_job_is_one_line_with_its_code_and_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = []
    errors: dict[int, tuple[Exception, int, str]] = {
        2: (LockedError("held by another"), 75, "xla-sweeps: held by another"),
        4: (StoreError("disk full"), 2, "xla-sweeps: disk full"),
        5: (KeyError("ours"), 70, "xla-sweeps: a defect of xla_sweeps itself: KeyError: 'ours'; "),
    }

    def run_trial(settings: Settings, **options: object) -> TrialResult:
        ran.append(settings.trial.seed)
        if settings.trial.seed in errors:
            raise errors[settings.trial.seed][0]
        return TrialResult(trial_id="0", summary=None, exit_code=int(settings.trial.seed == 1))

    monkeypatch.setattr(runner, "run_trial", run_trial)

    def shown(line: str) -> None:
        said = capsys.readouterr().err
        assert said.startswith(line)
        assert said.count("\n") == 1

    assert run([*TRIAL, "-m", "seed=1,2,3"]) == 75
    assert ran == [1, 2, 3]
    shown("xla-sweeps: held by another")
    for seed, (_, code, line) in errors.items():
        assert run([*TRIAL, f"seed={seed}"]) == code
        shown(line)


def test_the_config_that_a_run_logged_is_taken_back_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = settings_of(compose_config(TRIAL), explicit=set())
    facts: dict[str, Any] = {"device_kind": "cpu", "device_name": CPU, "results_dir": tmp_path}
    facts |= {"trial_id": "0", "environment": environment()}
    logged = run_header(asked.trial, asked.tracker, **facts).scalars
    assert set(logged) - set(NAMES) == set(LOGGED)
    words = expand_json([json.dumps({**logged, "_wandb": {}})])
    assert capsys.readouterr().err == ""
    again = compose_config(words)
    asked_again = (again["model"]["name"], again["resolution"], again["accelerator"])
    assert asked_again == ("mobilenet_v2", 32, CPU)
    check_accelerator_name(again["accelerator"])


def test_a_servers_notes_may_be_prose_and_what_is_typed_beside_its_json_wins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    notes = "costs $5\nthe second line"
    document = {"tracker": {"notes": notes}, "weights": "/tmp/w.h5", "batch_size": 4}
    words = expand_json([json.dumps(document), "weights=/tmp/w.h5", "batch_size=2"])
    assert "weights=/tmp/w.h5" in words
    assert "batch_size=4" not in words
    composed = compose_config([word for word in words if "weights" not in word])
    assert composed["tracker"]["notes"] == notes
    assert capsys.readouterr().err == ""
    expand_json([json.dumps(document)])
    assert "ignored weights: only your own command line may set it" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["[" * 450 + "]" * 450, json.dumps(["a"] * 20_000)])
def test_a_servers_value_that_is_too_deep_or_too_large_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="the JSON argument: input_spec: "):
        expand_json(['{"input_spec": ' + value + "}"])


def test_a_glob_runs_each_of_its_trials_in_each_combination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = []

    def run_trial(settings: Settings, **options: object) -> TrialResult:
        trial = settings.trial
        ran.append((trial.model.name, trial.batch_size, trial.seed))
        return TrialResult(trial_id="0", summary=None, exit_code=0)

    monkeypatch.setattr(runner, "run_trial", run_trial)
    models = "model=glob(regnetx_00*,exclude=[*2,*8])"
    assert run(["-m", models, "batch_size=choice(1,2)", "seed=range(3,4)", "tracker=none"]) == 0
    names = ("regnetx_004", "regnetx_006")
    assert ran == [(name, batch, seed) for name in names for batch in (1, 2) for seed in (3,)]


def test_bash_completes_commands_and_options_as_documented(tmp_path: Path) -> None:
    program = tmp_path / "xla-sweeps"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m xla_sweeps "$@"\n')
    program.chmod(0o755)
    (line,) = re.findall(r"(?m)^eval .*?\)\"", (ROOT / "docs" / "options.md").read_text())
    script = """
        for COMP_LINE in "xla-sweeps re" "xla-sweeps model=vgg1" "xla-sweeps models res"; do
            COMP_POINT=${#COMP_LINE}; COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            COMPREPLY=(); hydra_bash_completion; echo "${COMPREPLY[@]}"
        done
    """
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = run_program("bash", "-c", line + script, cwd=tmp_path, more=own)
    assert [sorted(line.split()) for line in done.stdout.splitlines()] == [
        ["report", "resolution=", "results", "results_dir="],
        ["model=vgg11", "model=vgg13", "model=vgg16", "model=vgg16_backbone", "model=vgg19"],
        [],
    ]
    assert done.stderr == ""


def test_one_trial_is_composed_resolved_and_claimed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[str] = []

    def counted(place: Any, name: str) -> None:
        real = getattr(place, name)

        def call(*words: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*words, **options)

        monkeypatch.setattr(place, name, call)

    counted(ConfigLoaderImpl, "load_configuration")
    counted(trial, "settings_of")
    counted(runner, "identify")
    counted(runner, "claim_trial")
    monkeypatch.setattr(runner, "_run_all", lambda session, count: None)
    monkeypatch.setattr(runner, "_conclude", lambda session: ENDED)
    assert run([*TRIAL, "seed=5"]) == 0
    assert sorted(calls) == ["claim_trial", "identify", "load_configuration", "settings_of"]
    (kept,) = (tmp_path / "results" / "hydra").glob("**/.hydra/config.yaml")
    assert OmegaConf.load(kept).seed == 5


def test_a_dry_run_shows_what_and_where_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [*TRIAL, "device=cpu", "results_dir=a/b"]
    assert run([*asked, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "mobilenet_v2 from applications, inputs 32×32×3\n  call, batch 4, float32: ea" in shown
    assert re.search(r"trial [0-9a-f]{16} in a/b, tracker none\ntiming takes at most 92 s", shown)
    assert run([*asked, "-m", "seed=1,2", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("python -m xla_sweeps") == 2
    for wrong in ("jit=maybe", "tracker=wandb", "results_dir=/proc/nope"):
        words = [word for word in asked if word.partition("=")[0] != wrong.partition("=")[0]]
        codes = [run([*words, wrong, *more]) for more in ([], ["--dry-run"])]
        refusals = capsys.readouterr().err.splitlines()
        assert (codes, refusals[0]) == ([2, 2], refusals[1])
    assert {path.name for path in tmp_path.iterdir()} <= {"leases"}


@pytest.mark.parametrize("word", ["jit=maybe", "source=kerascv", "+foo=1", "+experiment=x"])
def test_no_configuration_is_printed_that_a_run_refuses(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = [run([word, *more]) for more in ([], ["--cfg", "job"], ["--cfg", "job", "--resolve"])]
    out, err = capsys.readouterr()
    assert (codes, out, len({*err.splitlines()})) == ([2, 2, 2], "", 1)


def test_the_parameters_of_an_experiment_are_swept_and_trust_reaches_the_jobs_of_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [override /tracker: none]\nresults_dir: mine\n"
        "hydra: {sweeper: {params: {jit: 'true,null', seed: '1,2'}}}\n"
    )
    ran: list[Settings] = []

    def run_trial(settings: Settings, **options: object) -> TrialResult:
        ran.append(settings)
        return ENDED

    monkeypatch.setattr(runner, "run_trial", run_trial)
    words = ["+experiment=mine", "device=cpu"]
    assert run(["-m", "--trust-config", "conf", *words, "seed=3"]) == 0
    assert [(each.trial.seed, each.trial.modes[-1]) for each in ran] == [(3, "xla"), (3, "default")]
    (kept, _) = sorted((tmp_path / "mine" / "hydra").glob("*/*/.hydra/config.yaml"))
    assert (OmegaConf.load(kept).seed, OmegaConf.load(kept).jit) == (3, True)
    places = {"words": [f"--trust-config={tmp_path / 'conf'}"]}
    monkeypatch.setenv("XLA_SWEEPS_JOB", json.dumps(places))
    assert run(words) == 0
    assert ran[-1].results_dir == Path("mine")


def test_a_job_for_another_machine_is_resolved_there() -> None:
    job = trial._Job(("seed=1",), compose_config(["device=cpu"]), None)
    assert job.settings.device.kind == "cpu"
    assert set(vars(pickle.loads(pickle.dumps(job)))) == {"words", "document", "config_dir"}
