"""Guard: measure two sides in pairs of fresh processes that take turns, and judge at fixed looks.

Each pair is a replicate with a worker of either side; where both do not fit into memory, they run
one after the other. Pairs alternate the order. The first does not count: it fills caches, and says
how long a pair takes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from xla_sweeps.analysis import guard
from xla_sweeps.analysis.estimates import Samples, figure
from xla_sweeps.analysis.guard import LOOK, Change, Pair
from xla_sweeps.config.settings import least_memory_bytes
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.comparisons import headline_candidates
from xla_sweeps.schema.measurement import OUT_OF_MEMORY, Status
from xla_sweeps.schema.modes import label_of, mode_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.system.leases import Leases, lease_names, whole_replicate
from xla_sweeps.system.process import Stop
from xla_sweeps.trial import conductor
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import WAITING, ReplicateResult, Screen, Setting
from xla_sweeps.trial.runner import stop_signals
from xla_sweeps.trial.sides import Side
from xla_sweeps.trial.tracking import tracker_named

HOLDER = "guard"

NO_TURNS = "both sides do not fit into memory together: their processes run one after the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A guard's plan: sides, seconds, and the least relative change that matters (`detect`).

    `modes` has what is compared under each name: the labels before and after.
    """

    before: Side
    after: Side
    modes: Mapping[str, tuple[str, str]]
    budget_s: float
    detect: float
    logs: Path


@dataclass(kw_only=True)
class GuardResult:
    """Result of a guard.

    Attributes:
        changes: at the last look, of the modes that both sides measured.
        failures: of each mode, for each pair that tried it, the one that does not count first: the
            message of each side that failed, by its name.
        together: whether the sides took turns block by block.
        pair_s: seconds of the first pair.
        out_of_time: whether the budget ended it before its planned end.
    """

    plan: Plan
    looks: int = 0
    pairs: list[Pair] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    failures: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    models: dict[str, ModelFacts] = field(default_factory=dict)
    together: bool = True
    contaminated: int = 0
    pair_s: float = 0.0
    out_of_time: bool = False
    stopped: int = 0

    @property
    def broken(self) -> list[str]:
        """Modes that fail after where they run before, more often than the other way round."""
        return [
            mode
            for mode, pairs in self.failures.items()
            if sum([*failed] == ["after"] for failed in pairs)
            > sum([*failed] == ["before"] for failed in pairs)
        ]


def judged_modes(before: Trial, after: Trial, *, chosen: bool) -> dict[str, tuple[str, str]]:
    """The modes that a guard judges: those that were chosen, else the headline's.

    Where the sides have different modes, each is judged against the one in its place; of modes
    that nobody chose, the headline's candidates.

    Raises:
        ConfigError: one side has more of them.
    """
    first, second = before.modes, after.modes
    if not chosen:
        first, second = ((one.baseline, *headline_candidates(one.modes)) for one in (before, after))
        if first != second:
            first, second = first[1:2], second[1:2]
    if len(first) != len(second):
        shown = " and ".join(f"modes=[{','.join(one)}]" for one in (first, second))
        raise ConfigError(f"{shown}: each mode before needs one after, in the same order")
    return {
        old if old == new else f"{old} → {new}": (old, new)
        for old, new in zip(first, second, strict=True)
    }


def run_guard(plan: Plan, *, screen: Screen) -> GuardResult:
    """Measure pairs until every mode has a verdict, all looks are done, or the budget is spent.

    Raises:
        ConfigError: the budget is too small for one look.
        StoreError: a process cannot be started with its log.
    """
    device = plan.before.settings.device
    with (
        Leases(whole_replicate(device), holder=HOLDER) as whole,
        stop_signals() as stop,
    ):
        whole.wait(stop, lambda who: screen.warn(WAITING.format(device=device.label, holder=who)))
        session = Pairs(plan, screen, stop)
        timer = threading.Timer(plan.budget_s, stop.request)
        timer.daemon = True
        timer.start()
        try:
            session.run()
        finally:
            timer.cancel()
        session.result.stopped = stop.number
        session.result.out_of_time |= stop.requested and not stop.number
        if session.result.out_of_time and not session.result.looks:
            raise ConfigError(
                f"--budget: a pair takes more than the {plan.budget_s:g} s that were given, and a "
                f"verdict needs {LOOK} after one that does not count"
            )
        return session.result


@dataclass(frozen=True)
class MeasuredPair:
    """One pair as measured: of each side, by its name, the replicate and the copy in it.

    `modes` is the plan's.
    """

    seen: Mapping[str, tuple[ReplicateResult, int]]
    modes: Mapping[str, tuple[str, str]]

    @property
    def ends(self) -> set[Status]:
        """Statuses of its processes and of the modes in them."""
        results = [result for result, _ in self.seen.values()]
        modes = [mode for result in results for mode in result.modes.values()]
        return {one.status for one in results} | {one.status for one in modes}

    def failures(self, mode: str) -> dict[str, str]:
        """The message of each side that failed in a mode."""
        failed = {}
        for name, (result, _) in self.seen.items():
            outcome = result.modes.get(self._label(mode, name))
            if outcome is None or outcome.status is not Status.OK or not result.finished:
                failure = (outcome and outcome.failure) or result.failure
                failed[name] = failure.message if failure else str(result.status)
        return failed

    def _label(self, mode: str, name: str) -> str:
        """The label that a mode has in the replicate of a side."""
        before, after = self.modes[mode]
        return label_of(mode_of(before if name == "before" else after), self.seen[name][1])

    def ratio(self, mode: str) -> float | None:
        """log(after / before) of seconds a call, or None."""
        if self.failures(mode):
            return None
        first, second = (self.seen[name][0] for name in ("before", "after"))
        labels = self._label(mode, "before"), self._label(mode, "after")
        if first is second:
            both = figure("speedup", [_samples(first)], labels[1], labels[0])
            return both.mean if both else None
        sides = [
            figure("call", [_samples(result)], label)
            for result, label in zip((first, second), labels, strict=True)
        ]
        return sides[1].mean - sides[0].mean if sides[0] and sides[1] else None


def _samples(result: ReplicateResult) -> Samples:
    return Samples(result.rounds, contaminated=result.contaminated)


class Pairs:
    """The pairs of a guard, while they are measured."""

    def __init__(self, plan: Plan, screen: Screen, stop: Stop) -> None:
        self.plan, self.screen, self.stop = plan, screen, stop
        self.result = GuardResult(plan=plan)
        self.modes, self.number = list(plan.modes), 0

    def run(self) -> None:
        """Measure a pair that does not count, then those that do."""
        result, device = self.result, self.plan.before.settings.device
        self.end = time.monotonic() + self.plan.budget_s
        title = f"guard {self.plan.before.settings.trial.model.variant}"
        self.screen.trial_started(title, replicates=1 + guard.MAX_PAIRS, log=self.plan.logs)
        pair = self._trial(self.plan.before, self.plan.after)
        if 0 < device.memory_bytes < least_memory_bytes(pair):
            self._take_no_turns()
        began, first = time.monotonic(), self.measure(before_first=True)
        if result.together and first.ends.intersection(OUT_OF_MEMORY):
            self._take_no_turns()
            began, first = time.monotonic(), self.measure(before_first=True)
        if Status.INTERRUPTED in first.ends:
            return
        built = {name: side.built.get(copy - 1) for name, (side, copy) in first.seen.items()}
        result.models = {name: model for name, model in built.items() if model}
        result.failures = {mode: [first.failures(mode)] for mode in self.modes}
        result.pair_s = time.monotonic() - began
        self.modes = [mode for mode, (failed,) in result.failures.items() if not failed]
        if self.modes:
            result.looks = self._looks()
            self._measure_pairs()

    def _take_no_turns(self) -> None:
        self.result.together = False
        self.screen.warn(NO_TURNS)

    def _trial(self, *sides: Side) -> Trial:
        """The trial of one side; of both, whose modes are copies, where they take turns."""
        trial = sides[0].settings.trial
        effort = replace(trial.effort, rounds_max=trial.effort.rounds_min, replicates=1)
        labels = dict.fromkeys(
            label_of(mode_of(self.plan.modes[mode][side is self.plan.after]), copy)
            for copy, side in enumerate(sides, start=1)
            for mode in self.modes
        )
        copies = "apart" if len(sides) > 1 else trial.copies
        return replace(trial, modes=tuple(labels), copies=copies, effort=effort)

    def _looks(self) -> int:
        """The looks that the rest of the budget allows; they are fixed before the first."""
        pair_s, budget_s = self.result.pair_s, self.plan.budget_s
        looks = guard.looks_within((self.end - time.monotonic()) / pair_s)
        if not looks:
            raise ConfigError(
                f"--budget: a pair takes {pair_s:.0f} s, and a verdict needs {LOOK} after one that "
                f"does not count: at least {(LOOK + 1) * pair_s:.0f} s; {budget_s:.0f} s were given"
            )
        self.screen.replicate_done(
            0,
            f"a pair that does not count, {pair_s:.0f} s;",
            f"now {LOOK} to {looks * LOOK} pairs in {LOOK * pair_s:.0f} to "
            f"{looks * LOOK * pair_s:.0f} s",
        )
        return looks

    def _measure_pairs(self) -> None:
        """Measure pairs and look at them until all is settled."""
        result, plan, modes = self.result, self.plan, self.modes
        began = time.monotonic()
        while len(result.pairs) < result.looks * LOOK:
            before_first = (len(result.pairs) + plan.before.settings.trial.seed) % 2 == 0
            measured = self.measure(before_first=before_first)
            if Status.INTERRUPTED in measured.ends:
                return
            self._keep(measured, before_first=before_first)
            done = len(result.pairs)
            if done % LOOK == 0:
                result.changes = [
                    guard.judge(
                        result.pairs, mode, looks=result.looks, modes=len(modes), detect=plan.detect
                    )
                    for mode in modes
                    if guard.is_enough(result.pairs, mode)
                ]
                open_ = [one for one in result.changes if one.mode not in result.broken]
                judged = {*result.broken, *(one.mode for one in result.changes)}
                if {*modes} <= judged and guard.is_settled(open_):
                    return
                left_s, pair_s = self.end - time.monotonic(), (time.monotonic() - began) / done
                if left_s < LOOK * pair_s and done < result.looks * LOOK:
                    result.out_of_time = True
                    return

    def _keep(self, measured: MeasuredPair, *, before_first: bool) -> None:
        """Keep the ratios of a pair, of seconds a sample, and its failures, and show them."""
        result, (before, after) = self.result, (self.plan.before, self.plan.after)
        samples = math.log(after.settings.trial.samples / before.settings.trial.samples)
        ratios = {mode: measured.ratio(mode) for mode in self.modes}
        kept = {mode: one - samples for mode, one in ratios.items() if one is not None}
        result.pairs.append(Pair(before_first, kept))
        result.contaminated += any(side.contaminated for side, _ in measured.seen.values())
        done, most = len(result.pairs), result.looks * LOOK
        words = [f"{mode} {100 * math.expm1(ratio):+.1f} %" for mode, ratio in kept.items()]
        self.screen.replicate_done(done, f"pair {done} of at most {most}:", ", ".join(words))
        for mode in self.modes:
            failed = measured.failures(mode)
            result.failures[mode].append(failed)
            for name, text in failed.items():
                self.screen.warn(f"{mode} failed {name}: {text}")

    def measure(self, *, before_first: bool) -> MeasuredPair:
        """Measure one pair."""
        sides = [self.plan.before, self.plan.after]
        sides = sides if before_first else sides[::-1]
        if self.result.together:
            replicate = self._conduct(*sides)
            seen = {side.name: (replicate, copy) for copy, side in enumerate(sides, start=1)}
        else:
            seen = {side.name: (self._conduct(side), 1) for side in sides}
        for side in sides:
            side.require_same_files()
        return MeasuredPair(seen, self.plan.modes)

    def _conduct(self, *sides: Side) -> ReplicateResult:
        trial = self._trial(*sides)
        job = ReplicateJob(
            trial=trial,
            replicate=len(self.result.pairs) + (self.result.looks > 0),
            modes=trial.modes,
            order_seed=trial.seed * 1009 + self.number,
        )
        self.number += 1
        log, device = self.plan.logs / f"{self.number}.log", sides[0].settings.device
        limit = trial.memory_limit_bytes
        with Leases(lease_names(device), holder=HOLDER) as leases:
            setting = Setting(
                commands=tuple(side.command(trial, log, at) for at, side in enumerate(sides)),
                watch=partial(Sampler, device=device, memory_limit_bytes=limit),
                stop=self.stop,
                leases=leases,
                screen=self.screen,
                tracker=tracker_named("none"),
            )
            return conductor.measure(job, setting)
