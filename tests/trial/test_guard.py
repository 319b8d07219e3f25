"""A guard's pairs: their order, what ends them, and what each of them says, without processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conducting import Notes
from factories import MODEL, TRIAL, failed_outcome, make_outcome, make_rounds

from xla_sweeps.analysis.guard import LOOK, MAX_PAIRS
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.guard import document_of, text_of, verdicts_of
from xla_sweeps.schema.measurement import Failure, ModeOutcome, Phase, Status
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import ReplicateJob, TrackerSettings
from xla_sweeps.system.devices import Device
from xla_sweeps.system.process import becomes_readable
from xla_sweeps.trial import conductor, guard
from xla_sweeps.trial.guard import GuardResult, Plan, judged_modes, run_guard
from xla_sweeps.trial.replicate import ReplicateResult, Setting
from xla_sweeps.trial.sides import Side, differences

FACTS = {"search": [], "python": "3.11", "packages": {"tensorflow": "2.21.0"}, "git": ""}


def side(name: str, **changes: Any) -> Side:
    device = Device(kind="cpu", index=0, name="Some CPU", uuid="", memory_bytes=0)
    settings = Settings(
        trial=replace(TRIAL, modes=("graph", "xla")),
        device=device,
        tracker=TrackerSettings(),
        results_dir=Path("results"),
        ui="quiet",
    )
    fields: dict[str, Any] = {"own": (), "settings": settings, "facts": FACTS, "commit": ""}
    return Side(**{**fields, "name": name, "python": "python", "folder": Path(name), **changes})


@dataclass
class Machine:
    """What measuring gives: each side's factor, and what fails where.

    Attributes:
        factors: seconds a call of each side, by its folder.
        second: factor of the side that starts second.
        fails: the outcome of a mode on a side in the n-th replicate, or None.
        sides: those of each replicate, in order.
    """

    factors: dict[str, float]
    second: float = 1.0
    fails: Callable[[str, str, int, int], ModeOutcome | None] = lambda *asked: None
    sides: list[tuple[str, ...]] = field(default_factory=list)
    labels: list[tuple[str, ...]] = field(default_factory=list)

    def conduct(self, job: ReplicateJob, setting: Setting) -> ReplicateResult:
        self.labels.append(job.modes)
        places = [str(command.folder) for command in setting.commands]
        self.sides.append(tuple(places))
        result = ReplicateResult(finished=True)
        call_s = {}
        for label in job.modes:
            place = next(
                at for at, own in zip(places, job.trial.workers, strict=True) if label in own
            )
            failed = self.fails(place, str(mode_of(label)), len(self.sides), len(places))
            if failed:
                result.modes[label] = failed
                continue
            seconds = 0.1 * self.factors[place] * (self.second if place == places[-1] else 1.0)
            call_s[label] = seconds
            result.modes[label] = make_outcome(seconds)
        result.rounds = list(make_rounds(call_s, noise=0.001, seed=len(self.sides)))
        result.built = dict.fromkeys(range(len(places)), MODEL)
        return result


@dataclass
class Timed(Machine):
    """A machine on which a pair takes 10 s by its own clock, and later `slower` times that."""

    slower: int = 1
    seconds: float = 0.0

    def conduct(self, job: ReplicateJob, setting: Setting) -> ReplicateResult:
        self.seconds += 10.0 * (self.slower if self.sides else 1)
        return super().conduct(job, setting)


class Restless(Timed):
    """Sides that differ by another factor in each pair."""

    def conduct(self, job: ReplicateJob, setting: Setting) -> ReplicateResult:
        self.factors["after"] = math.exp(0.3 * math.sin(2.4 * len(self.sides)))
        return super().conduct(job, setting)


def guarded(machine: Machine, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> GuardResult:
    monkeypatch.setattr(conductor, "measure", machine.conduct)
    if isinstance(machine, Timed):
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: machine.seconds))
    fields = {
        "before": side("before"),
        "after": side("after"),
        "modes": {"graph": ("graph",) * 2, "xla": ("xla",) * 2},
    }
    plan = Plan(**{**fields, "budget_s": 600.0, "detect": 0.05, "logs": Path("logs"), **changes})
    return run_guard(plan, screen=Notes())


def test_sides_that_differ_clearly_are_told_apart_at_the_first_look_whatever_the_order_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine({"before": 1.0, "after": 1.2}, second=1.1)
    result = guarded(machine, monkeypatch)
    assert [str(change.verdict) for change in result.changes] == ["slower", "slower"]
    assert result.changes[0].change == pytest.approx(0.2, abs=0.01)
    assert len(result.pairs) == LOOK
    assert machine.sides[1:] == [("before", "after"), ("after", "before")] * 2
    assert result.together
    assert result.models == {"before": MODEL, "after": MODEL}


def test_a_mode_is_compared_with_another_of_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({"before": 1.0, "after": 1.2})
    before, after = side("before"), side("after")
    jax = replace(after.settings.trial, modes=("jax_eager", "jax_xla"))
    after = replace(after, settings=replace(after.settings, trial=jax))
    modes = judged_modes(before.settings.trial, jax, chosen=False)
    assert modes == {"xla → jax_xla": ("xla", "jax_xla")}
    result = guarded(machine, monkeypatch, after=after, modes=modes)
    assert [str(change.verdict) for change in result.changes] == ["slower"]
    assert machine.labels[0] == ("xla", "jax_xla_2")
    assert machine.labels[2] == ("jax_xla", "xla_2")


def test_each_mode_before_needs_one_after() -> None:
    one, two = (replace(TRIAL, modes=modes) for modes in (("xla",), ("graph", "xla")))
    with pytest.raises(ConfigError, match=r"modes=\[xla\] and modes=\[graph,xla\]: each mode"):
        judged_modes(one, two, chosen=True)


def test_equal_sides_are_equivalent(monkeypatch: pytest.MonkeyPatch) -> None:
    result = guarded(Machine({"before": 1.0, "after": 1.0}, second=1.1), monkeypatch)
    assert [str(change.verdict) for change in result.changes] == ["equivalent", "equivalent"]


def test_sides_that_do_not_fit_into_memory_together_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = failed_outcome(Status.OOM_GPU)
    machine = Machine(
        {"before": 1.0, "after": 1.2},
        fails=lambda place, mode, n, alive: full if alive > 1 else None,
    )
    result = guarded(machine, monkeypatch)
    assert not result.together
    assert not any(any(pairs) for pairs in result.failures.values())
    alone = [("before",), ("after",), ("after",), ("before",)]
    assert machine.sides == [("before", "after"), *alone[:2], *alone, *alone]
    assert [str(change.verdict) for change in result.changes] == ["slower", "slower"]


def failing(places: str, *replicates: int) -> Callable[..., ModeOutcome | None]:
    """XLA that fails on these sides in these replicates, of which 1 does not count."""
    crash = failed_outcome(Status.CRASHED, "it crashed")
    return lambda place, mode, n, alive: (
        crash if mode == "xla" and place in places.split() and n in replicates else None
    )


def test_a_mode_that_breaks_is_measured_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({"before": 1.0, "after": 1.0}, fails=failing("after", 1))
    result = guarded(machine, monkeypatch)
    assert result.broken == ["xla"]
    assert result.failures["xla"] == [{"after": "it crashed"}]
    assert [change.mode for change in result.changes] == ["graph"]
    assert result.changes[0].confidence == pytest.approx(1 - 0.0116)


@pytest.mark.parametrize("replicates", [(2, 3, 4, 5), (3,), (2, 4, 6, 8), (1,)])
def test_a_mode_that_fails_after_in_any_pair_is_broken_and_each_failure_is_kept(
    replicates: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = guarded(
        Machine({"before": 1.0, "after": 1.0}, fails=failing("after", *replicates)), monkeypatch
    )
    assert result.broken == ["xla"]
    assert verdicts_of(result) == {"graph": "equivalent", "xla": "broke"}
    assert len(result.pairs) == LOOK
    tried = 1 if replicates == (1,) else 1 + LOOK
    expected = [{"after": "it crashed"} if n in replicates else {} for n in range(1, 1 + tried)]
    assert result.failures["xla"] == expected
    count = sum(map(bool, expected))
    text = text_of(document_of(result, "again"))
    assert f"xla: after fails in {count} of {tried} pair" in text
    assert "it crashed" in text
    assert text.startswith("After fails in a mode that runs before.")


@pytest.mark.parametrize(("places", "judged"), [("before", 7), ("before after", 7)])
def test_a_failure_of_the_baseline_breaks_nothing_and_is_told(
    places: str, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = guarded(Machine({"before": 1.0, "after": 1.2}, fails=failing(places, 3)), monkeypatch)
    assert verdicts_of(result) == {"graph": "slower", "xla": "slower"}
    assert [change.pairs for change in result.changes] == [8, judged]
    text = text_of(document_of(result, "again"))
    for name in places.split():
        assert f"xla: {name} fails in 1 of 9 pairs: it crashed" in text


@pytest.mark.parametrize("places", ["before", "before after"])
def test_what_could_not_be_judged_is_named_and_what_was_is_not_denied(
    places: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = failing(places, *range(2, 99))
    result = guarded(Machine({"before": 1.0, "after": 1.0}, fails=fails), monkeypatch)
    assert verdicts_of(result) == {"graph": "equivalent", "xla": "unjudged"}
    document = document_of(result, "again")
    assert document["verdict"] == "unjudged"
    text = text_of(document)
    assert text.startswith("Not every mode could be judged: xla.")
    assert "Nothing could be judged" not in text
    assert f"xla: 0 pairs gave a time on both sides; {LOOK} in both orders are needed" in text


def test_pairs_of_one_order_only_are_no_ground_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine({"before": 1.0, "after": 1.2}, fails=failing("before", *range(2, 99, 2)))
    result = guarded(machine, monkeypatch)
    assert verdicts_of(result) == {"graph": "slower", "xla": "unjudged"}


def test_nothing_is_judged_after_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({"before": 1.0, "after": 1.2})

    def interrupted(job: ReplicateJob, setting: Setting) -> ReplicateResult:
        result = machine.conduct(job, setting)
        if len(machine.sides) == LOOK:
            failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
            return ReplicateResult(status=Status.INTERRUPTED, failure=failure)
        return result

    machine_of = Machine({"before": 1.0, "after": 1.2})
    machine_of.conduct = interrupted  # type: ignore[method-assign]
    result = guarded(machine_of, monkeypatch)
    assert len(result.pairs) == LOOK - 2
    assert not result.changes


def test_a_model_whose_file_changes_between_two_pairs_ends_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "after" / "net.py"
    source.parent.mkdir()
    source.write_text("def make(): ...\n")
    own = ["model=local", "path=net.py:make", "trust_code=true", "input_spec=[{shape: [4]}]"]
    with contextlib.chdir(source.parent):
        model = settings_of(compose_config([*own, "device=cpu"]), environ={}).trial.model
    after = side("after", folder=source.parent)
    trial = replace(after.settings.trial, model=model)
    after = replace(after, settings=replace(after.settings, trial=trial))
    machine = Machine({"before": 1.0, str(source.parent): 1.0})
    assert guarded(machine, monkeypatch, after=after).pairs
    pairs = len(machine.sides)

    class Editing(Machine):
        def conduct(self, job: ReplicateJob, setting: Setting) -> ReplicateResult:
            if len(self.sides) == 3:
                source.write_text("def make(): return 1\n")
            return super().conduct(job, setting)

    machine = Editing(machine.factors)
    with pytest.raises(ConfigError, match=r"^--after: path=net\.py:make: it, or a module"):
        guarded(machine, monkeypatch, after=after)
    assert len(machine.sides) == 4 < pairs


def test_the_budget_fixes_the_looks_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    result = guarded(Timed({"before": 1.0, "after": 1.2}), monkeypatch, budget_s=95.0)
    assert (result.pair_s, result.looks) == (10.0, 2)
    with pytest.raises(ConfigError, match="at least 50 s; 45 s were given"):
        guarded(Timed({"before": 1.0, "after": 1.2}), monkeypatch, budget_s=45.0)


def test_the_budget_ends_a_guard_whose_pairs_become_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    result = guarded(Restless({"before": 1.0, "after": 1.0}, slower=2), monkeypatch, budget_s=95.0)
    assert (result.looks, len(result.pairs), result.out_of_time) == (2, LOOK, True)
    assert {str(change.verdict) for change in result.changes} == {"ambiguous"}
    text = text_of(document_of(result, "again"))
    assert f"--budget ended it after {LOOK} of {2 * LOOK} pairs" in text


def test_the_budget_ends_a_guard_in_a_pair_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(job: ReplicateJob, setting: Setting) -> ReplicateResult:
        assert becomes_readable(setting.stop, 60)
        return ReplicateResult(status=Status.INTERRUPTED)

    machine = Machine({})
    machine.conduct = hang  # type: ignore[method-assign]
    says = f"a pair takes more than the 0.1 s that were given, and a verdict needs {LOOK} "
    with pytest.raises(ConfigError, match=says):
        guarded(machine, monkeypatch, budget_s=0.1)
    machine = Machine({"before": 1.0, "after": 1.0})
    measure = machine.conduct
    machine.conduct = lambda job, setting: (hang if machine.sides else measure)(job, setting)  # type: ignore[method-assign]
    result = guarded(machine, monkeypatch, budget_s=1.0)
    assert (result.stopped, result.out_of_time) == (0, True)
    assert {*verdicts_of(result).values()} == {"unjudged"}


def test_pairs_that_never_agree_end_at_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    result = guarded(Restless({"before": 1.0, "after": 1.0}), monkeypatch)
    assert len(result.pairs) == MAX_PAIRS
    assert {str(change.verdict) for change in result.changes} == {"ambiguous"}
    assert not result.out_of_time


def test_what_differs_between_the_sides_is_named() -> None:
    packages = {"tensorflow": "2.22.0"}
    after = side(
        "after", facts={**FACTS, "packages": packages}, commit="abc", own=("onednn=false",)
    )
    models = {"before": MODEL, "after": replace(MODEL, params=27_100_000)}
    assert differences(side("before"), after, models) == {
        "tensorflow": ("2.21.0", "2.22.0"),
        "commit": ("—", "abc"),
        "options": ("—", "onednn=false"),
        "parameters": (f"{MODEL.params:,}", "27,100,000"),
    }
