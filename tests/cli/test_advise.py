"""The command `advise` on a planted machine: what it tries, its answer, and its refusals."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from composed import complaint_of
from factories import failed_outcome, make_outcome, make_record, make_rounds

from xla_sweeps.analysis import guard as pairs
from xla_sweeps.cli.advise import advise_command
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings, identify, settings_of
from xla_sweeps.errors import LEFT_CODE, ConfigError, DeviceError
from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.schema.trial import Trial
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps import race
from xla_sweeps.sweeps.launchers.slots import slots_for
from xla_sweeps.system import environment
from xla_sweeps.trial import sides
from xla_sweeps.trial.guard import Plan

pytestmark = pytest.mark.usefixtures("composed_once")

WORDS = ["model=mobilenet_v2", "device=cpu"]

Times = Mapping[str, float]


def usual(trial: Trial) -> dict[str, float]:
    """Seconds a call: bfloat16 gains with XLA only, a thread less loses, larger batches gain."""
    half, alone = str(trial.precision) != "float32", trial.runtime.intra_threads == 1
    times = {"eager": 0.09, "graph": 0.03, "xla": 0.02}
    if half:
        times = {"eager": 0.20, "graph": 0.10, "xla": 0.015}
    cost = (1 + trial.batch_size / 4) / 2 * (1.3 if alone else 1.0)
    return {mode: seconds * cost for mode, seconds in times.items()}


@dataclass
class Machine:
    """A machine on which a trial takes 60 s by its own clock.

    Attributes:
        call_s: seconds a call of each mode of a trial; `in_pairs` likewise in pairs.
        outcomes: of a trial's modes that are no `ok`.
        before: called before each trial: it may raise, or return an exit code.
        breaks: modes that fail in the pairs, on the side after.
        tried, plans: what was asked for.
    """

    call_s: Callable[[Trial], Times] = usual
    in_pairs: Callable[[Trial], Times] | None = None
    outcomes: Callable[[Trial], Mapping[str, ModeOutcome]] = lambda trial: {}
    before: Callable[[Trial], int] = lambda trial: 0
    breaks: tuple[str, ...] = ()
    tried: list[Trial] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    seconds: float = 0.0

    def run_trial(self, settings: Settings, **ui: Any) -> Any:
        trial = settings.trial
        self.tried.append(trial)
        self.seconds += 60
        code = self.before(trial)
        times = self.call_s(trial)
        outcomes = {mode: make_outcome(seconds) for mode, seconds in times.items()}
        outcomes |= self.outcomes(trial)
        timed = {mode: times[mode] for mode in times if outcomes[mode].status is Status.OK}
        facts: Any = {
            "trial_id": identify(settings, environment.environment()),
            "trial": trial,
            "modes": outcomes,
            "rounds": make_rounds(timed, noise=0.001, seed=len(self.tried)),
        }
        if code:
            facts["status"] = Status.INTERRUPTED
        Store(settings.results_dir).save(make_record(times, **facts))
        return SimpleNamespace(exit_code=code)

    def run_guard(self, plan: Plan, **ui: Any) -> Any:
        self.plans.append(plan)
        call_s = self.in_pairs or self.call_s
        before, after = (side.settings.trial for side in (plan.before, plan.after))
        scale = math.log(after.samples / before.samples)
        changes = []
        for name, (old, new) in plan.modes.items():
            ratio = math.log(call_s(after)[new] / call_s(before)[old]) - scale
            noise = (0.001, -0.001, -0.001, 0.001)
            seen = [pairs.Pair(n % 2 == 0, {name: ratio + each}) for n, each in enumerate(noise)]
            changes.append(pairs.judge(seen, name, looks=1, modes=1, detect=plan.detect))
        broken = [name for name in plan.modes if name in self.breaks]
        return SimpleNamespace(
            changes=changes,
            stopped=0,
            broken=broken,
            failures={name: [{"after": "boom"}] for name in broken},
            pairs=[1] * 4,
            contaminated=3,
        )


def fake_side(name: str, text: str, words: Any, own: Any, **more: Any) -> Any:
    """A side by its words alone: no process says what its environment has."""
    return SimpleNamespace(settings=settings_of(compose_config([*words, *own])))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(race, "run_trial", made.run_trial)
    monkeypatch.setattr(race, "run_guard", made.run_guard)
    monkeypatch.setattr(race, "side_of", fake_side)
    monkeypatch.setattr(race, "time", SimpleNamespace(monotonic=lambda: made.seconds))
    return made


@dataclass
class Asked:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return " ".join(self.out.split())

    def lines(self, label: str) -> list[str]:
        return [line[8:] for line in self.out.splitlines() if line.startswith(f"{label} ")]


Ask = Callable[..., Asked]


@pytest.fixture
def ask(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*more: str, words: list[str] = [*WORDS, "batch_size=4"]) -> Asked:  # noqa: B006
        given = [*words, f"results_dir={tmp_path / 'results'}", "--budget", "30min", *more]
        code = advise_command(given)
        return Asked(code, *capsys.readouterr())

    return run


def test_the_answer_is_what_the_pairs_say_with_its_lines_of_code(
    ask: Ask, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "side_of", sides.side_of)  # this interpreter, as a process says it
    asked = ask("--vary", "threads.intra=1")
    assert asked.code == 0
    assert asked.said.startswith(
        "Use XLA, precision=mixed_bfloat16: 2.00× the images/s of graph (95 %: "
    ), asked.said
    assert 'keras.mixed_precision.set_global_policy("mixed_bfloat16")' in asked.out
    assert "tf.function(model, jit_compile=True)" in asked.out
    assert "Other programs used the machine in 3 of 4 pairs." in asked.said
    (run,) = asked.lines("run")
    settings = settings_of(compose_config(shlex.split(run)[3:]))
    assert settings.trial.modes == ("xla",)
    assert str(settings.trial.precision) == "mixed_bfloat16"
    commands = ("run ", "again ", "write ")
    assert not [
        line for line in asked.out.splitlines() if len(line) > 80 and not line.startswith(commands)
    ]


def test_larger_batches_are_tried_and_compared_by_the_sample(ask: Ask, machine: Machine) -> None:
    asked = ask(words=[*WORDS, "precision=float32"])
    assert {trial.batch_size for trial in machine.tried} == {1, 4, 16, 64}
    gain = (usual_of(4)["graph"] / 4) / (usual_of(64)["xla"] / 64)
    assert f"Use XLA, batch size 64: {gain:.2f}× the images/s of graph, batch size 4" in asked.said
    assert "batch_size = 64" in asked.out


def usual_of(size: int) -> Times:
    settings = settings_of(compose_config([*WORDS, f"batch_size={size}"]))
    return usual(settings.trial)


def test_what_is_in_use_is_what_was_given_or_the_default(ask: Ask, machine: Machine) -> None:
    ask("precision=float32", "--vary", "threads.intra=1")
    assert [trial.runtime.intra_threads for trial in machine.tried] == [None, 1]
    machine.tried.clear()
    ask("precision=float32", "threads.intra=2", "--vary", "threads.intra=1")
    assert [trial.runtime.intra_threads for trial in machine.tried] == [2], (
        "one is measured already"
    )


def test_what_is_in_use_may_be_another_mode(ask: Ask) -> None:
    document = json.loads(ask("--now", "eager", "--format", "json").out)
    assert document["now"]["mode"] == "eager"
    assert document["gain"][0] == pytest.approx(6, rel=0.01)
    assert document["best"]["setting"]["precision"] == "mixed_bfloat16"


def test_where_nothing_is_faster_the_answer_is_to_stay(ask: Ask, machine: Machine) -> None:
    asked = ask("precision=float32", "--now", "xla")
    assert asked.code == 0
    assert asked.said.startswith("Stay with XLA: nothing that was tried is surely faster")
    assert machine.plans == []


def test_what_is_fast_in_the_race_alone_is_not_chosen(ask: Ask, machine: Machine) -> None:
    machine.in_pairs = lambda trial: {**usual(trial), "xla": 0.03}
    asked = ask("precision=float32")
    assert asked.code == 0
    assert asked.said.startswith("Stay with graph")
    assert [plan.modes for plan in machine.plans] == [{"xla": ("graph", "xla")}]


def test_what_is_fast_and_wrong_is_not_chosen(ask: Ask, machine: Machine) -> None:
    machine.outcomes = lambda trial: {"xla": failed_outcome(Status.WRONG_RESULT, "it is wrong")}
    asked = ask("precision=float32")
    assert asked.said.startswith("Stay with graph")
    assert "XLA: it is wrong" in asked.said


def test_a_limit_that_nothing_keeps_is_said(ask: Ask, machine: Machine) -> None:
    asked = ask("--latency-limit", "1ms")
    assert asked.code == 3
    assert asked.said.startswith("Nothing that was tried agrees and keeps the limits.")
    assert "ms, over the limit" in asked.out
    assert machine.plans == []


def test_what_is_in_use_may_break_a_limit(ask: Ask) -> None:
    asked = ask("--latency-limit", "25ms")
    assert asked.code == 0
    assert asked.said.startswith("Use XLA, precision=mixed_bfloat16")
    assert "Graph is no answer: its calls take up to" in asked.said


def test_a_limit_on_memory_holds_against_what_is_known(ask: Ask, machine: Machine) -> None:
    assert ask("precision=float32", "--memory", "2GiB").said.startswith("Use XLA")
    said = ask("precision=float32", "--memory", "512MiB").said
    assert "it takes 1.00 GiB, over the limit" in said


def test_the_reason_is_told_at_once_where_what_is_in_use_is_refused(
    ask: Ask, machine: Machine
) -> None:
    def refuse(trial: Trial) -> int:
        raise ConfigError("resolution=7: the model takes 32 and more")

    machine.before = refuse
    with pytest.raises(ConfigError, match="resolution=7"):
        ask()
    assert len(machine.tried) == 1


def test_where_what_is_in_use_fails_the_fastest_that_runs_is_named(
    ask: Ask, machine: Machine
) -> None:
    machine.outcomes = lambda trial: {"graph": failed_outcome(Status.COMPILE_ERROR, "no kernel")}
    asked = ask("precision=float32")
    assert asked.code == 0
    assert asked.said.startswith("Use XLA: 200")
    assert "Graph is no answer: no kernel." in asked.said
    assert machine.plans == []


def test_a_race_that_was_stopped_measures_that_setting_again(ask: Ask, machine: Machine) -> None:
    machine.before = lambda trial: 130 if len(machine.tried) == 2 else 0
    stopped = ask()
    assert stopped.code == 130
    assert stopped.out == ""
    assert "rerun the command to resume" in stopped.err
    first = [str(trial.precision) for trial in machine.tried]
    machine.tried.clear()
    machine.before = lambda trial: 0
    assert ask().code == 0
    assert [str(trial.precision) for trial in machine.tried] == first[1:]
    machine.tried.clear()
    assert ask().code == 0
    assert machine.tried == []


def test_a_budget_below_one_comparison_is_refused_after_the_first_setting(
    ask: Ask, machine: Machine
) -> None:
    with pytest.raises(
        ConfigError, match=r"--budget: a replicate takes 60 s .* about 450 s; 120 s"
    ):
        ask("--budget", "2min")
    assert len(machine.tried) == 1


def test_only_the_replicates_that_are_missing_are_measured(ask: Ask, machine: Machine) -> None:
    assert ask("precision=float32").code == 0
    (one,) = machine.tried
    assert ask("precision=float32", "effort.replicates=3").code == 0
    assert [trial.effort.replicates for trial in machine.tried[1:]] == [2]
    assert machine.tried[1] == replace(one, effort=replace(one.effort, replicates=2))


def test_the_budget_counts_all_replicates_of_a_setting(ask: Ask, machine: Machine) -> None:
    asked = ask("--budget", "650", "effort.replicates=3", words=WORDS)
    assert len(machine.tried) == 1, "another one takes 180 s, and the pairs 450"
    assert "others were not, for lack of time" in asked.said


def test_a_precision_that_the_device_lacks_is_no_answer(ask: Ask, machine: Machine) -> None:
    def refuse(trial: Trial) -> int:
        if str(trial.precision) == "mixed_bfloat16":
            raise DeviceError("Tesla T4 (compute capability 7.5) has no bfloat16 arithmetic")
        return 0

    machine.before = refuse
    asked = ask()
    assert asked.said.startswith("Use XLA: 1.50×"), asked.said
    assert "has no bfloat16 arithmetic" in asked.said


def test_a_device_that_shares_its_cores_in_a_sweep_has_all_of_them_here(
    ask: Ask, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slot,) = slots_for("cpu")
    monkeypatch.setattr("xla_sweeps.cli.advise.slots_of", lambda _: [replace(slot, cores=(0,))])
    assert ask("precision=float32").code == 0


def test_what_failed_in_the_pairs_is_no_answer_though_it_was_fast(
    ask: Ask, machine: Machine
) -> None:
    machine.breaks = ("xla",)
    asked = ask("precision=float32")
    assert asked.said.startswith("Stay with graph: nothing"), asked.said
    assert "it failed in the pairs: boom" in asked.said
    over = ask("precision=float32", "--latency-limit", "25ms")
    assert over.code == LEFT_CODE
    assert over.said.startswith("Nothing that was tried agrees and keeps the limits."), over.said


def test_pairs_are_of_one_backend_each(
    ask: Ask, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda module: module != "torch")
    machine.call_s = lambda trial: {**usual(trial), "jax_xla": 0.02}
    asked = ask("precision=float32", "modes=[graph,xla,jax_xla]")
    assert asked.code == 0
    assert sorted(map(list, (plan.modes for plan in machine.plans))) == [["jax_xla"], ["xla"]]


def test_the_budget_is_kept_for_the_leaders(ask: Ask, machine: Machine) -> None:
    asked = ask("--budget", "650", words=WORDS)
    assert len(machine.tried) == 3
    assert "others were not, for lack of time" in asked.said
    assert len(machine.plans) == 1


def test_an_epoch_of_input_alone_is_no_way_to_train(ask: Ask, machine: Machine) -> None:
    times = {"input": 0.001, "graph": 0.4, "xla": 0.3, "fit_graph": 0.5, "fit_xla": 0.35}
    machine.call_s = lambda trial: times
    words = ["scenario=fit", "precision=float32", "steps_per_execution=1"]
    asked = ask(*words)
    assert "input pipeline" not in asked.said
    assert asked.said.startswith("Use "), asked.said
    (write,) = (line[8:] for line in asked.out.splitlines() if line.startswith("write"))
    assert "model.compile" not in write, "XLA on a step of one's own is no argument of compile"


def test_another_backend_is_raced_and_written(
    ask: Ask, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda module: module != "torch")
    machine.call_s = lambda trial: (
        {"jax_eager": 0.2, "jax_xla": 0.01} if "jax_xla" in trial.modes else usual(trial)
    )
    machine.in_pairs = machine.call_s
    asked = ask("precision=float32")
    assert asked.said.startswith("Use JAX with XLA: 3.00× the images/s of graph"), asked.said
    assert 'os.environ["KERAS_BACKEND"] = "jax"' in asked.out


def test_the_command_to_run_has_a_folder_of_ones_own(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    asked = ask("precision=float32", "--config-dir", str(tmp_path / "conf"))
    assert asked.lines("run")[0].startswith("python -m xla_sweeps --config-dir ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--now", "graphs"], "unknown mode of --now 'graphs'. Did you mean 'graph'?"),
        (["modes=[graph,graph]"], "modes=[graph,graph_2]: name each once"),
        (["--vary", "batch_size"], "--vary batch_size: expected KEY=VALUE,VALUE"),
        (["--vary", "threads.intra=1", "--vary", "threads.intra=2"], "give threads.intra once"),
        (["--vary", "xla_flags={a:1}"], "expected plain values"),
        (["modes=[graph,xla]", "--vary", "modes=graph,xla"], "expected plain values"),
        (["--vary", "jit=true,false"], "jit is the same in all settings"),
        (["--vary", "model=resnet50"], "model is the same in all settings"),
        (["scenario=fit", "--now", "input"], "unknown mode of --now 'input'"),
        (["--vary", "precision=float33"], "unknown precision 'float33'"),
        (["--vary", "scenario=predict"], "scenario: both sides need the same"),
        (["--vary", "presicion=float32"], "presicion"),
        (["--budget", "soon"], "expected a time such as 90s or 4m"),
        (["--memory", "4"], "expected a size such as 4GiB"),
    ],
)
def test_a_mistake_is_one_line_before_anything_starts(
    ask: Ask, machine: Machine, words: list[str], says: str
) -> None:
    assert says in complaint_of(ask, *words)
    assert list(itertools.chain(machine.tried, machine.plans)) == []
