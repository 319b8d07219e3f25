"""The command `advise`: its answer from kept trials and planted pairs, and its refusals."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import make_record

from xla_sweeps.analysis import guard as pairs
from xla_sweeps.cli import advise
from xla_sweeps.cli.advise import advise_command
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import identify, settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.store.store import Store
from xla_sweeps.system import environment
from xla_sweeps.trial.guard import Plan

WORDS = ["model=mobilenet_v2", "device=cpu", "modes=[eager,graph,xla]", "batch_size=4"]

CALL_S = {
    ("float32", 2): {"eager": 0.09, "graph": 0.03, "xla": 0.02},
    ("float32", 1): {"eager": 0.10, "graph": 0.04, "xla": 0.03},
    ("mixed_bfloat16", 2): {"eager": 0.20, "graph": 0.10, "xla": 0.015},
    ("mixed_bfloat16", 1): {"eager": 0.20, "graph": 0.12, "xla": 0.02},
}

VARIED = ["--vary", "threads.intra=2,1"]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with a record of every setting."""
    for seed, ((precision, threads), call_s) in enumerate(CALL_S.items()):
        words = [*WORDS, f"precision={precision}", f"threads.intra={threads}"]
        settings = settings_of(compose_config(words))
        facts: Any = {
            "trial_id": identify(settings, environment.environment()),
            "trial": settings.trial,
        }
        Store(tmp_path).save(make_record(call_s, noise=0.001, seed=seed, **facts))
    return tmp_path


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Pairs that find what the records say; the plans that were asked for."""
    asked: list[Plan] = []

    def find(plan: Plan, *, screen: Any) -> Any:
        asked.append(plan)
        before, after = (_call_s(side) for side in (plan.before, plan.after))
        changes = [
            pairs.judge(
                [
                    pairs.Pair(place % 2 == 0, {name: math.log(after[new] / before[old]) + noise})
                    for place, noise in enumerate((0.001, -0.001, -0.001, 0.001))
                ],
                name,
                looks=1,
                modes=len(plan.modes),
                detect=plan.detect,
            )
            for name, (old, new) in plan.modes.items()
        ]
        return SimpleNamespace(changes=changes, stopped=0)

    monkeypatch.setattr(advise, "run_guard", find)
    return asked


def _call_s(side: Any) -> dict[str, float]:
    values = dict(word.split("=") for word in side.own)
    return CALL_S[values["precision"], int(values["threads.intra"])]


def ask(folder: Path, *more: str) -> int:
    return advise_command([*WORDS, f"results_dir={folder}", *VARIED, *more])


def test_the_answer_is_what_the_pairs_found_with_its_lines_of_code(
    measured: Path, planted: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured) == 0
    text = capsys.readouterr().out
    said = " ".join(text.split())
    assert said.startswith(
        "Use XLA, precision=mixed_bfloat16: 2.00× the samples/s of graph (95 %: "
    ), said
    assert 'keras.mixed_precision.set_global_policy("mixed_bfloat16")' in text
    assert "tf.function(model, jit_compile=True)" in text
    (run,) = (line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("run "))
    words = shlex.split(run)[3:]
    assert settings_of(compose_config(words)).trial.modes == ("xla",)
    assert "3 settings tried" in text
    assert [plan.modes for plan in planted] == [{"xla": ("graph", "xla")}]


def test_what_is_in_use_may_be_another_mode(
    measured: Path, planted: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--now", "eager", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["now"]["mode"] == "eager"
    assert document["gain"][0] == pytest.approx(6, rel=0.01)
    assert document["best"]["setting"]["precision"] == "mixed_bfloat16"


def test_where_nothing_is_faster_the_answer_is_to_stay(
    measured: Path, planted: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["precision=float32", "--now", "xla"]
    assert ask(measured, *words) == 0
    assert capsys.readouterr().out.startswith("Stay with XLA: nothing that was tried is faster")
    assert planted == []


def test_a_limit_that_nothing_meets_is_said_and_no_answer(
    measured: Path, planted: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--latency-limit", "1ms") == 3
    text = capsys.readouterr().out
    assert text.startswith("Nothing that was tried keeps the limits and agrees")
    assert "ms a call is over the limit" in text
    assert planted == []


def test_a_limit_excludes_what_is_faster(
    measured: Path, planted: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--latency-limit", "25ms") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Use XLA, precision=mixed_bfloat16")
    assert "Graph is no answer: " in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--now", "graphs"], "unknown mode of --now 'graphs'. Did you mean 'graph'?"),
        (["--vary", "batch_size"], "--vary batch_size: expected KEY=VALUE,VALUE"),
        (["--vary", "precision=float33"], "unknown precision 'float33'"),
        (["--vary", "presicion=float32"], "presicion"),
        (["--budget", "soon"], "expected a time such as 90s or 4m"),
        (["--memory", "4"], "expected a size such as 4GiB"),
    ],
)
def test_a_mistake_is_one_line(measured: Path, words: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(measured, *words)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
