"""Race the settings of one model, then measure the finalists again in pairs of fresh processes.

Each setting is an ordinary trial, which is measured unless a record of it counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from xla_sweeps.analysis.guard import LOOK, Change
from xla_sweeps.analysis.race import (
    Advice,
    Finals,
    Limits,
    Setting,
    Way,
    leading,
    settings_left,
    way_of,
)
from xla_sweeps.config.compose import override_values
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import Settings
from xla_sweeps.errors import ConfigError, DeviceError, XlaSweepsError, unknown_name
from xla_sweeps.schema.backend import backends, backends_of
from xla_sweeps.schema.modes import Execution, Scenario, mode_of, parse
from xla_sweeps.schema.overrides import flatten, key_of, keys_of, option_of, override_value
from xla_sweeps.schema.record import wall_s
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store, folder_below
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.plan import assign_records
from xla_sweeps.system.environment import absent
from xla_sweeps.trial.guard import GuardResult, Plan, run_guard
from xla_sweeps.trial.recording import make_stamp
from xla_sweeps.trial.replicate import Screen
from xla_sweeps.trial.runner import run_trial
from xla_sweeps.trial.sides import Side, require_comparable, side_of
from xla_sweeps.trial.tracking import tracker_named

FINALISTS = 2
"""The most settings that are measured again."""

SAME = 0.05
"""Ways that differ by less are equally good."""

PAIR_COST = 1.5
"""Time of a pair over that of a trial, about: two processes, fewer rounds."""

BATCH_SIZES = (1, 4, 16, 64)


NO_AXES = ("model", "modes", "jit", "device", "results_dir", "tracker", "ui")
"""Options that are no setting, or of which a setting has all values."""


class Stopped(Exception):
    """A signal ended the race; `args` has its number."""


def words_of(setting: Setting) -> list[str]:
    """The overrides of a setting; a value of None is the option's default."""
    return [f"{key}={override_value(value)}" for key, value in setting if value is not None]


@dataclass(kw_only=True)
class Race:
    """A race: the options of every trial (`given`), what is varied, and what is known so far.

    Attributes:
        axes: values of each option that is varied; what is in use now comes first.
        chosen: those of them whose values somebody chose, so that a wrong one is a mistake.
        mode: the mode in use now; "" for the baseline of the scenario.
        screen: a display for each trial and guard.
        measured: the ways of each setting that was tried.
        replicate_s: the longest wall time of a replicate, seconds.
    """

    given: Sequence[str]
    axes: Mapping[str, Sequence[Any]]
    chosen: Collection[str]
    composer: Composer
    config_dir: OwnFolder | None
    mode: str
    limits: Limits
    budget_s: float
    screen: Callable[[Settings], AbstractContextManager[Screen]]
    warn: Callable[[str], None]
    measured: dict[Setting, list[Way]] = field(default_factory=dict)
    unfinished: bool = False
    replicate_s: float = 0.0
    began: float = field(default_factory=lambda: time.monotonic())

    @cached_property
    def start(self) -> Setting:
        """The setting in use now."""
        return tuple((key, values[0]) for key, values in self.axes.items())

    @cached_property
    def now(self) -> tuple[Setting, str]:
        """The way in use now."""
        return self.start, self.mode or self.settings(self.start).trial.baseline

    def settings(self, setting: Setting, *more: str) -> Settings:
        """The settings of a trial; errors as of `settings_of`."""
        given = self._without_modes() if more else self.given
        return self.composer.settings([*given, *words_of(setting), *more])

    def _without_modes(self) -> tuple[str, ...]:
        return tuple(word for word in self.given if key_of(word) not in ("modes", "jit"))

    def check(self) -> None:
        """Refuse what cannot be raced, before anything is measured.

        Raises:
            XlaSweepsError: an option or a value is wrong, or the results folder is.
        """
        settings = self.settings(self.start)
        trial = settings.trial
        if any(parse(label)[1] > 1 for label in trial.modes):
            raise ConfigError(f"modes=[{','.join(trial.modes)}]: name each once")
        if self.mode and self.mode not in (modes := list(filter(_runs_a_model, trial.modes))):
            raise unknown_name("mode of --now", self.mode, modes)
        for key in self.chosen:
            for value in self.axes.get(key, ()):
                other = self.settings(tuple({**dict(self.start), key: value}.items()))
                require_comparable(trial, other.trial)
        Store(settings.results_dir).check_writable()

    def run(self) -> None:
        """Measure until every axis was varied, or the rest of the budget is the finalists'.

        Raises:
            ConfigError: what is in use is refused, or the budget is below one comparison.
            Stopped: a signal came.
        """
        replicates = self.settings(self.start).trial.effort.replicates
        while left := settings_left(self.measured, self.axes, self.start):
            for setting in left:
                setting_s = replicates * self.replicate_s
                if self.measured and self._left_s() < self._pairs_s + setting_s:
                    self.unfinished = True
                    return
                self.measured[setting] = self._try(setting)
            if len(self.measured) == 1:
                self._check_first()

    def _check_first(self) -> None:
        """Refuse a race whose first setting, what is in use, cannot run or takes too long."""
        (ways,) = self.measured.values()
        if not any(way.mode for way in ways):
            raise ConfigError(ways[0].why_not)
        if self.budget_s < self._pairs_s:
            raise ConfigError(
                f"--budget: a replicate takes {self.replicate_s:.0f} s and a comparison about "
                f"{self._pairs_s:.0f} s; {self.budget_s:.0f} s were given"
            )

    @property
    def _pairs_s(self) -> float:
        """Seconds that the pairs of a finalist are likely to take, at least."""
        return (LOOK + 1) * PAIR_COST * self.replicate_s

    def _left_s(self) -> float:
        return self.budget_s - (time.monotonic() - self.began)

    def _try(self, setting: Setting) -> list[Way]:
        """The ways of a setting, from its records or a new trial; one that is refused says why."""
        try:
            settings = self.settings(setting)
            task = self.composer.of_words([*self.given, *words_of(setting)])
            store = Store(settings.results_dir)
            software = self.composer.software
            assign_records([task], rows.load_runs(store), software=software, retry=())
            if task.wanted:
                effort = replace(settings.trial.effort, replicates=task.wanted)
                missing = replace(settings, trial=replace(settings.trial, effort=effort))
                with self.screen(settings) as screen:
                    ended = run_trial(missing, screen=screen, tracker=tracker_named("none"))
                if ended.exit_code > 128:
                    raise Stopped(ended.exit_code - 128)
        except (ConfigError, DeviceError) as error:
            return [Way(setting=setting, mode="", why_not=str(error))]
        (name,) = task.trial_ids
        folder = settings.results_dir
        records, summaries, _ = rows.summaries(folder, rows.load(folder), only={name})
        self.replicate_s = max(self.replicate_s, wall_s(records[name][-1]))
        return [
            way_of(setting, mode, self.limits)
            for mode in summaries[name].modes
            if _runs_a_model(mode.label)
        ]

    def finish(self) -> Advice:
        """Measure the leaders again, against what is in use; `Stopped` if a signal came."""
        ways = [way for each in self.measured.values() for way in each]
        now = next(way for way in ways if way.name == self.now)
        ahead = leading(ways)
        finalists: dict[tuple[Setting, str], list[str]] = {}  # of one backend each, as pairs are
        for way in ahead if now.runs else ():
            side = way.setting, mode_of(way.mode).backend
            if way.name != self.now and (side in finalists or len(finalists) < FINALISTS):
                finalists.setdefault(side, []).append(way.mode)
        return Advice(
            now=now,
            ahead=ahead,
            out=[way for way in ways if way.why_not],
            finals=self._confirm_all(finalists),
            tried=len(self.measured),
            unfinished=self.unfinished,
            limited=self.limits != Limits(),
        )

    def _confirm_all(self, finalists: Mapping[tuple[Setting, str], Sequence[str]]) -> Finals:
        changes: dict[tuple[Setting, str], Change] = {}
        broken: dict[tuple[Setting, str], str] = {}
        pairs = contaminated = 0
        for place, ((setting, _), modes) in enumerate(finalists.items()):
            share_s = self._left_s() / (len(finalists) - place)
            seconds = min(self._left_s(), max(self._pairs_s, share_s))
            if place and seconds < self._pairs_s:
                self.warn("too little of the budget is left to measure another leader again")
                break
            result = self._confirm(setting, modes, seconds)
            if result is None:
                continue
            changes |= {(setting, change.mode): change for change in result.changes}
            for mode in result.broken:
                texts = [failed["after"] for failed in result.failures[mode] if "after" in failed]
                broken[setting, mode] = f"it failed in the pairs: {texts[-1]}"
            pairs += len(result.pairs)
            contaminated += result.contaminated
        return Finals(changes=changes, broken=broken, pairs=pairs, contaminated=contaminated)

    def _confirm(
        self, setting: Setting, modes: Sequence[str], seconds: float
    ) -> GuardResult | None:
        """Pairs of what is in use now and modes of a setting; None in too short a time."""
        settings, (start, mode) = self.settings(self.start), self.now
        logs = folder_below(settings.results_dir, "logs", "advise") / make_stamp()
        try:
            plan = Plan(
                before=self._side("before", start, [mode]),
                after=self._side("after", setting, modes),
                modes={each: (mode, each) for each in modes},
                budget_s=seconds,
                detect=SAME,
                logs=logs.absolute(),
            )
            with self.screen(settings) as screen:
                result = run_guard(plan, screen=screen)
        except XlaSweepsError as error:
            self.warn(str(error))
            return None
        if result.stopped:
            raise Stopped(result.stopped)
        return result

    def _side(self, name: str, setting: Setting, modes: Sequence[str]) -> Side:
        words = [*words_of(setting), f"modes=[{','.join(modes)}]"]
        given = self._without_modes()
        return side_of(name, sys.executable, given, words, config_dir=self.config_dir)

    def command(self, way: Way) -> tuple[str, ...]:
        """The words that measure a way alone."""
        return self.settings(way.setting, f"modes=[{way.mode}]").words or ()


def _runs_a_model(label: str) -> bool:
    """False for a mode that times the input alone."""
    return mode_of(label).execution is not Execution.NONE


def axes_of(composer: Composer, given: Sequence[str], vary: Sequence[str]) -> dict[str, list[Any]]:
    """The axes of a race: the usual ones that no option fixes, and `KEY=V,V` of `vary`.

    What is in use now comes first: what is given, else the option's default.

    Raises:
        ConfigError: a word of `vary` can be no axis, or names one twice.
    """
    base = flatten(composer.base())
    axes = _usual_axes(composer, base, given)
    chosen: set[str] = set()
    for word in vary:
        key, equals, values = word.partition("=")
        if not equals or not values:
            raise ConfigError(f"--vary {word}: expected KEY=VALUE,VALUE")
        if key in chosen:
            raise ConfigError(f"--vary {word}: give {key} once, with all values")
        chosen.add(key)
        several = [override_values([f"{key}={value}"])[key] for value in values.split(",")]
        if any(isinstance(value, (list, dict)) for value in (base.get(key), *several)):
            raise ConfigError(f"--vary {word}: expected plain values, as in xla_flags.NAME=1,2")
        if option_of(key) in NO_AXES:
            raise ConfigError(f"--vary {word}: {key} is the same in all settings")
        axes[key] = [base.get(key), *several]
    axes = {key: list(dict.fromkeys(values)) for key, values in axes.items()}
    return {key: values for key, values in axes.items() if len(values) > 1}


def _usual_axes(
    composer: Composer, base: Mapping[str, Any], given: Sequence[str]
) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    fixed = keys_of(given)
    if not {"modes", "jit", "keras"}.intersection(fixed):
        own = backends_of(composer.settings(given).trial)[0].name
        axes["backend"] = [own, *(each.name for each in backends() if not absent(each))]
    axes["precision"] = [base["precision"], "float32", "mixed_bfloat16"]
    if base["scenario"] == Scenario.FIT:
        axes["steps_per_execution"] = [base["steps_per_execution"], 8]
    axes["batch_size"] = [base["batch_size"], *BATCH_SIZES]
    return {key: values for key, values in axes.items() if key not in fixed}
