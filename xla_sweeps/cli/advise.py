"""The command `advise`: which setting to use, what it buys over the one in use, what to write."""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xla_sweeps.analysis.guard import LOOK, Change
from xla_sweeps.analysis.race import Limits, Setting, Way, leading, settings_left, way_of
from xla_sweeps.cli.arguments import (
    add_config_dir,
    add_output,
    command_parser,
    read_trials,
    require_model,
)
from xla_sweeps.cli.guard import SECONDS
from xla_sweeps.cli.sweep import Request, slots_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config.catalog import shipped_sweeps
from xla_sweeps.config.compose import override_values
from xla_sweeps.config.settings import Settings, identify
from xla_sweeps.config.values import quantity_in
from xla_sweeps.errors import LEFT_CODE, ConfigError, XlaSweepsError, unknown_name
from xla_sweeps.report import export
from xla_sweeps.report.advised import Advice, document_of, text_of, words_of
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.trial_progress import TrialProgress
from xla_sweeps.schema.backend import backends
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.overrides import key_of, keys_of
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store, folder_below
from xla_sweeps.sweeps.definition import load_sweep
from xla_sweeps.system.environment import absent, environment
from xla_sweeps.trial.guard import Plan, run_guard
from xla_sweeps.trial.runner import run_trial
from xla_sweeps.trial.sides import Side, side_of
from xla_sweeps.trial.tracking import tracker_named

FINALISTS = 2
"""Settings that are measured again."""

SAME = 0.05
"""Ways that differ by less are equally good."""

PAIR_COST = 1.5
"""A pair takes about so many times as long as a trial: two processes, fewer rounds."""

_LIMIT_MS = quantity_in({"ms": 1, "s": 1000}, "a time such as 50ms")

_BYTES = quantity_in({"GiB": 2**30, "MiB": 2**20}, "a size such as 4GiB")

_BATCH_SIZES = (1, 4, 16, 64)

_EXAMPLES = """\
  xla-sweeps advise model=mobilenet_v2 --budget 10min
  xla-sweeps advise model=resnet50 batch_size=1 --latency-limit 50ms
  xla-sweeps advise model=tiny_dense precision=float32 --vary threads.intra=1,2
"""


def advise_command(arguments: Sequence[str]) -> int:
    """Race the settings, measure the finalists again, and say what to write."""
    options = _parser().parse_intermixed_args(list(arguments))
    if options.output is not None:
        export.require_writable(options.output)
    require_model("advise", options.overrides)
    race = Race(options)
    race.check()
    race.run()
    advice = race.advise(shlex.join(["xla-sweeps", "advise", *arguments]))
    if advice is None:
        warn("stopped; its trials are kept: run the command again to go on")
        return 128 + race.stopped
    if options.format == "json":
        export.write_json(document_of(advice), options.output)
    else:
        export.write_text(text_of(advice), options.output)
    return 0 if advice.is_sure else LEFT_CODE


@dataclass
class Race:
    """The race of one command: its settings, and what is known of them so far."""

    options: argparse.Namespace
    measured: dict[Setting, list[Way]] = field(default_factory=dict)
    stopped: int = 0
    left: int = 0
    trial_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @cached_property
    def request(self) -> Request:
        """The trials' common part, composed as a sweep's."""
        file = shipped_sweeps()["predict_cost"]
        given = tuple(word for word in self.options.overrides if key_of(word) not in self.axes)
        asked = Options(file=file, overrides=given, config_dir=self.options.config_dir)
        return Request(asked, load_sweep(file), slots_of(asked)[:1])

    @cached_property
    def limits(self) -> Limits:
        """The limits that an answer must keep."""
        return Limits(latency_ms=self.options.latency_limit, memory_bytes=self.options.memory)

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """The values of each option that is varied: what is in use now comes first."""
        given = keys_of(self.options.overrides)
        made = _usual_axes(self.options.overrides, given)
        for word in self.options.vary:
            key, equals, values = word.partition("=")
            if not equals or not values:
                raise ConfigError(f"--vary {word}: expected KEY=VALUE,VALUE")
            words = [*(own for own in self.options.overrides if key_of(own) == key)]
            words += [f"{key}={value}" for value in values.split(",")]
            made[key] = list(dict.fromkeys(override_values([one])[key] for one in words))
        return made

    @cached_property
    def start(self) -> Setting:
        """The setting in use now."""
        return tuple((key, values[0]) for key, values in self.axes.items())

    @property
    def now(self) -> tuple[Setting, str]:
        """The way in use now."""
        return self.start, self.options.now or self.settings(self.start).trial.baseline

    def settings(self, setting: Setting) -> Settings:
        """The settings of a trial; errors as of `settings_of`."""
        words = [*words_of(setting), *self.request.options.overrides]
        return self.request.composer.settings(words)

    def check(self) -> None:
        """Refuse what cannot be raced, before anything is measured."""
        trial = self.settings(self.start).trial
        if self.options.now and self.options.now not in trial.modes:
            raise unknown_name("mode of --now", self.options.now, trial.modes)
        if len(trial.workers) > 1:
            raise ConfigError("advise: give modes of one backend; others are raced by backend=")
        for word in self.options.vary:  # a wrong value is a mistake, not an outcome
            axis = key_of(word)
            for value in self.axes[axis]:
                self.settings(tuple({**dict(self.start), axis: value}.items()))
        self.request.store.check_writable()

    def run(self) -> None:
        """Measure until every axis was varied, or the rest of the budget is the finalists'."""
        while left := settings_left(self.measured, self.axes, self.start):
            for position, setting in enumerate(left):
                if self.measured and self._remaining_s() < self.trial_s:
                    self.left = len(left) - position
                    return
                self.measured[setting] = self._measure(setting)
                if self.stopped:
                    return
                if self.options.budget < self._pairs_s:
                    raise ConfigError(
                        f"--budget: a setting takes {self.trial_s:.0f} s and a comparison about "
                        f"{self._pairs_s:.0f} s; {self.options.budget:.0f} s were given"
                    )

    @property
    def _pairs_s(self) -> float:
        """Seconds that the pairs of a finalist are likely to take, at least."""
        return (LOOK + 1) * PAIR_COST * self.trial_s

    def _remaining_s(self) -> float:
        """Seconds left for trials: the pairs of one finalist need the rest of the budget."""
        return float(self.options.budget - (time.monotonic() - self.began) - self._pairs_s)

    def _measure(self, setting: Setting) -> list[Way]:
        """The ways of a setting, from its records or a new trial; one that is refused says why."""
        try:
            settings = self.settings(setting)
        except XlaSweepsError as error:
            return [Way(setting=setting, mode="", why_not=str(error))]
        trial_id, store = identify(settings, environment()), Store(settings.results_dir)
        if not store.keys(trial_id):
            began = time.monotonic()
            with TrialProgress(ui=settings.ui, brief=True) as screen:
                try:
                    result = run_trial(settings, screen=screen, tracker=tracker_named("none"))
                except ConfigError as error:
                    return [Way(setting=setting, mode="", why_not=str(error))]
            self.trial_s = max(self.trial_s, time.monotonic() - began)
            self.stopped = max(0, result.exit_code - 128)
        folder = settings.results_dir
        _, summaries = read_trials(folder, rows.load(folder), only={trial_id})
        if trial_id not in summaries:
            return [Way(setting=setting, mode="", why_not="it left no record")]
        return [way_of(setting, mode, self.limits) for mode in summaries[trial_id].modes]

    def advise(self, again: str) -> Advice | None:
        """Measure the finalists again, in fresh processes; None where a signal stopped it."""
        if self.stopped:
            return None
        ways = [way for each in self.measured.values() for way in each]
        now = next((way for way in ways if way.name == self.now), None)
        if now is None:
            raise ConfigError("advise: what is in use now was not measured: xla-sweeps results")
        ahead = leading(ways)
        finalists: dict[Setting, list[Way]] = {}
        for way in ahead:
            if way.name != self.now and (way.setting in finalists or len(finalists) < FINALISTS):
                finalists.setdefault(way.setting, []).append(way)
        changes: dict[tuple[Setting, str], Change] = {}
        for position, (setting, own) in enumerate(finalists.items()):
            left_s = self.options.budget - (time.monotonic() - self.began)
            share_s = max(self._pairs_s, left_s / (len(finalists) - position))
            names = {way.mode: way.name for way in own}
            found = self._confirm(setting, list(names), min(left_s, share_s))
            if found is None:
                return None
            changes |= {names[change.mode]: change for change in found}
        return Advice(
            now=now,
            ahead=ahead,
            changes=changes,
            out=[way for way in ways if way.why_not],
            settings=self.settings(self.start),
            measured=len(self.measured),
            left=self.left,
            limited=self.limits != Limits(),
            overrides=self.request.options.overrides,
            again=again,
        )

    def _confirm(
        self, setting: Setting, modes: Sequence[str], seconds: float
    ) -> Sequence[Change] | None:
        """Changes from what is in use now, by pairs; none in too short a time, None if stopped."""
        settings, now = self.settings(self.start), self.now
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
        logs = folder_below(settings.results_dir, "logs", "advise") / f"{stamp}-{os.getpid()}"
        plan = Plan(
            before=self._side("before", self.start, [now[1]]),
            after=self._side("after", setting, modes),
            modes={mode: (now[1], mode) for mode in modes},
            budget_s=seconds,
            detect=SAME,
            logs=logs.absolute(),
        )
        try:
            with TrialProgress(ui=settings.ui, brief=True) as screen:
                result = run_guard(plan, screen=screen)
        except ConfigError as error:
            warn(str(error))
            return ()
        self.stopped = result.stopped
        return None if result.stopped else result.changes

    def _side(self, name: str, setting: Setting, modes: Sequence[str]) -> Side:
        words = [*words_of(setting), f"modes=[{','.join(modes)}]"]
        given = self.request.options.overrides
        given = tuple(word for word in given if key_of(word) not in ("modes", "jit"))
        return side_of(name, sys.executable, given, words, config_dir=self.options.config_dir)


def _usual_axes(words: Sequence[str], given: Collection[str]) -> dict[str, list[Any]]:
    """The axes that are varied unless an override fixes them; what is in use now comes first."""
    values = override_values(words)
    axes: dict[str, list[Any]] = {}
    if not {"backend", "modes", "jit", "keras"}.intersection(given):
        able = [backend.name for backend in backends() if not absent(backend)]
        axes["backend"] = able
    axes["precision"] = ["float32", "mixed_bfloat16"]
    if values.get("scenario") == Scenario.FIT:
        axes["steps_per_execution"] = [1, 8]
    axes["batch_size"] = [4, *(size for size in _BATCH_SIZES if size != 4)]
    return {key: one for key, one in axes.items() if key not in given and len(one) > 1}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "advise",
        "Races settings from what you use now: backend, precision, batch size, modes, and what "
        "--vary adds. A setting is dropped only where its interval lies below the leader's. The "
        "finalists are measured again against what you use now, in pairs of fresh processes, and "
        "only those figures are told. The trials are kept: run it again to go on. Exit code 3 "
        "where nothing could be told apart.",
        examples=_EXAMPLES,
    )
    both = "options of every trial; one that is given is not varied (batch_size=1)"
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=both)
    text = "the mode that you use now (default: the graph mode of the scenario)"
    parser.add_argument("--now", metavar="MODE", help=text)
    text = "vary another option: threads.intra=1,2 (repeatable)"
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=V,V", help=text)
    text = "time for everything, such as 120 (seconds), 10min or 1h (default: 10min)"
    parser.add_argument("--budget", type=SECONDS, default=600.0, metavar="TIME", help=text)
    text = "the most that a call may take: the 90th percentile, with its interval (50ms)"
    parser.add_argument("--latency-limit", type=_LIMIT_MS, metavar="TIME", help=text)
    text = "the most device memory that a mode may take (4GiB)"
    parser.add_argument("--memory", type=_BYTES, metavar="SIZE", help=text)
    add_output(parser, "text", "json")
    add_config_dir(parser)
    return parser
