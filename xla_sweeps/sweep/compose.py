"""Compose the trials of a sweep from their values.

Hydra composes once for each choice of groups. Models and plain values are then set, with the same
result: a test compares the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from xla_sweeps.config import catalog
from xla_sweeps.config import compose as composition
from xla_sweeps.config.identity import identify
from xla_sweeps.config.settings import Settings, check_accelerator_name, settings_of
from xla_sweeps.errors import ConfigError, DeviceError, XlaSweepsError
from xla_sweeps.results.derive import software_of
from xla_sweeps.schema import options
from xla_sweeps.schema.backend import backend_of, backends
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import DEFAULT_BACKEND, mode_of
from xla_sweeps.schema.overrides import flattened, keys_of, overrides, repeating
from xla_sweeps.schema.trial import request_id
from xla_sweeps.system import devices, environment

SILENT_MARGIN_S = 300.0
"""Beyond all deadlines of a replicate: to start, to save, and to finish W&B's run."""

CONFIG_DIR = "--config-dir"

_PLAIN = frozenset(options.NAMES) - set(options.NESTED)

_ELSEWHERE = devices.Device(kind="gpu", index=0, name="")
"""Stands for a device that is not known yet."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a trial may be measured on here: a device, and how many cores go with it."""

    device: devices.Device
    cores: int


class Task(msgspec.Struct, kw_only=True, gc=False):
    """One trial of a sweep, and what was measured of it.

    Attributes:
        words: its overrides, as a person would type them.
        key: equal for tasks that are the same trial.
        trial_ids: the ids that it has on the places of this machine; empty where it is measured
            on a cluster.
        outcomes: of its records that count, oldest first; extended while the sweep runs.
        seen: trial and replicate number of each known record, whether it counts or not.
        builds: the newest `schema.build.Build` by trial id; only its records are in `outcomes`.
        accepted: statuses of the replicates that count as measured.
        wanted: replicates that are still to be measured.
        timed_s: the most seconds that a replicate is timed, by the limits of its effort.
        forks: whether its first measuring process may be forked: it is quick, has no copies of a
            mode, from which others learn, and runs no code of the user.
        silent_s: seconds without a line of output after which its command has hung.
        backend: the framework that runs it.
    """

    words: tuple[str, ...]
    key: str
    model: str
    effort: str
    replicates: int
    request_id: str
    trial_ids: tuple[str, ...] = ()
    accelerator: str | None = None
    tags: tuple[str, ...] = ()
    outcomes: list[Status] = []
    seen: frozenset[tuple[str, int]] = frozenset()
    builds: dict[str, dict[str, str]] = {}
    accepted: tuple[Status, ...] = (Status.OK,)
    wanted: int = 0
    silent_s: float = math.inf
    timed_s: float = 0.0
    forks: bool = False
    backend: str = DEFAULT_BACKEND


class Composer:
    """Composes the trials of one sweep.

    Args:
        given: overrides of the command line; they win over the definition's.
        places: where trials may run here; None where that is not known (a cluster).
        config_dir: a further folder of configuration files, which each trial gets too.
        accepted: statuses of the replicates that count as measured.
    """

    def __init__(
        self,
        given: Sequence[str],
        *,
        places: Sequence[Place] | None,
        environ: Mapping[str, str] | None = None,
        config_dir: Path | None = None,
        accepted: tuple[Status, ...] = (Status.OK,),
    ) -> None:
        composition.check_overrides(given)
        self._given, self._accepted = tuple(given), accepted
        self._config_dir = config_dir.resolve() if config_dir else None
        self._place = (f"{CONFIG_DIR}={self._config_dir}",) if config_dir else ()
        self._keys = keys_of(given)
        self._places = None if places is None else list(dict.fromkeys(places))
        self._environ = os.environ if environ is None else environ
        self._facts = environment.environment()
        self._bases: dict[tuple[str, ...], dict[str, Any]] = {}

    def base(self) -> dict[str, Any]:
        """The configuration of the command line's overrides alone: results_dir, ui and such."""
        return self._document(self._given, {})

    @property
    def software(self) -> dict[str, str]:
        """The versions of the software that records must have to count, by backend."""
        return {backend.name: software_of(self._facts, backend) for backend in backends()}

    def task(self, values: Mapping[str, Any]) -> Task:
        """One trial, checked.

        Raises:
            XlaSweepsError: as `settings.to_settings`.
        """
        kept = {key: value for key, value in flattened(values).items() if key not in self._keys}
        return self._task((*overrides(kept), *self._given), kept)

    def of_words(self, words: Sequence[str]) -> Task:
        """One trial of overrides alone, checked."""
        return self._task(_overrides_of(words), {})

    def anchor(self, words: Sequence[str]) -> Task:
        """The anchor trial, with those overrides of the command line that change no measurement."""
        kept = [
            word for word in self._given if word.startswith(("results_dir=", "tracker", "timeouts"))
        ]
        return self.of_words(
            [*(word for word in kept if not word.startswith("tracker.tags")), *words]
        )

    def document(self, words: Sequence[str]) -> dict[str, Any] | None:
        """The configuration of a task's words as plain data, as Hydra composes it.

        None where only the trial itself does that: with a folder of configuration files.

        Args:
            words: the task's, and further ones.
        """
        return None if self._config_dir is not None else self._document(words, {})

    def settings(self, words: Sequence[str]) -> Settings:
        """The settings of a trial's words on the first of the places.

        Raises:
            XlaSweepsError: as `settings.to_settings`.
        """
        words = _overrides_of(words)
        device = self._places[0].device if self._places else _ELSEWHERE
        again = repeating(
            words, config_dir=str(self._config_dir or ""), on_cpu=device.kind == "cpu"
        )
        return replace(self._settings(words, {}, device), words=again)

    def _task(self, words: Sequence[str], values: Mapping[str, Any]) -> Task:
        """The trial of these overrides; `values` are those that are known without reading them."""
        found = self._document(words, values)["accelerator"]
        check_accelerator_name(found)
        accelerator = None if found is None else str(found)
        trial_ids: tuple[str, ...] = ()
        if self._places is None:
            settings = self._settings(words, values, _ELSEWHERE)
        else:
            places = self._matching(self._places, accelerator)
            several = [self._settings(words, values, place.device) for place in places]
            ids = (
                identify(one, self._facts, cores=place.cores)
                for one, place in zip(several, places, strict=True)
            )
            settings, trial_ids = several[0], tuple(dict.fromkeys(ids))
        trial, asked = settings.trial, request_id(settings.trial)
        return Task(
            words=(*self._place, *(word for word in words if not word.startswith("ui="))),
            key=" ".join(trial_ids) or f"{asked} {accelerator or ''}",
            model=trial.model.name,
            effort=trial.effort.name,
            replicates=trial.effort.replicates,
            request_id=asked,
            trial_ids=trial_ids,
            accelerator=accelerator,
            tags=settings.tracker.tags,
            accepted=self._accepted,
            silent_s=trial.timeouts.total_s + SILENT_MARGIN_S,
            timed_s=trial.effort.timed_s(len(trial.modes)),
            backend=backend_of(trial).name,
            forks=trial.effort.name == "quick"
            and trial.effort.replicates == 1
            and len(set(map(mode_of, trial.modes))) == len(trial.modes)
            and trial.model.source != "local"
            and self._config_dir is None,
        )

    @staticmethod
    def _matching(places: Sequence[Place], accelerator: str | None) -> list[Place]:
        """The places with that accelerator."""
        matching = [
            place
            for place in places
            if accelerator is None or devices.is_accelerator(place.device.name, accelerator)
        ]
        if not matching:
            names = ", ".join(dict.fromkeys(place.device.name for place in places))
            raise DeviceError(
                f"accelerator={accelerator}: this machine has {names}; use --launcher ray or slurm"
            )
        return matching

    def _settings(
        self, words: Sequence[str], values: Mapping[str, Any], device: devices.Device
    ) -> Settings:
        """The settings of these overrides on a device, checked as those of a single trial."""
        explicit = keys_of(words)
        document = self._document(words, values)
        return settings_of(document, explicit=explicit, environ=self._environ, device=device)

    def _document(self, words: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of these overrides as plain data, a copy of its own.

        Hydra composes once for each choice of groups; models and plain values are then set.

        Args:
            words: overrides.
            values: of some of them, by key.
        """
        plain: dict[str, Any] = {}
        rest: list[str] = []
        by_hydra = any("${" in word or word.startswith("model.") for word in words)
        for word in words:
            found = () if by_hydra else _plain_value(word, values)
            if found:
                plain[word.partition("=")[0]] = found[0]
            else:
                rest.append(word)
        base = self._bases.get(tuple(rest))
        if base is None:
            config = composition.compose_config(rest, config_dir=self._config_dir)
            base = self._bases[tuple(rest)] = composition.plain(config)
        composition.check_document({key: plain[key] for key in plain.keys() - {"model"}})
        document = {**base, **plain}
        return {
            key: dict(value) if isinstance(value, dict) else value
            for key, value in document.items()
        }


def _plain_value(word: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The plain value that an override sets, or a model's entry; empty where only Hydra knows it.

    Args:
        word: an override.
        values: by key, those that need not be read from their words.
    """
    key = word.partition("=")[0]
    if key not in _PLAIN and key != "model":
        return ()
    found = (values[key],) if key in values else _value_of(word)
    if key != "model":
        return found
    entries = (_model(name) for name in found if isinstance(name, str))
    return tuple(entry for entry in entries if entry is not None)


@lru_cache(maxsize=4096)
def _value_of(word: str) -> tuple[Any, ...]:
    """The value of an override; empty where it has several, as of a range."""
    if composition.parsed(word).is_sweep_override():
        return ()
    return tuple(composition.override_values([word]).values())


def _overrides_of(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith(CONFIG_DIR)]


@cache
def _model(name: str) -> Mapping[str, Any] | None:
    """The content of a model's file; None where there is none in `conf/`."""
    if name not in composition.group_choices("model"):
        return None
    content: Mapping[str, Any] = yaml.safe_load(
        (catalog.conf_dir() / "model" / f"{name}.yaml").read_text("utf-8")
    )
    return content


def compose_all(
    composer: Composer, trials: Iterable[Mapping[str, Any]], *, lines: Mapping[str, int], where: str
) -> Iterator[Task]:
    """Compose the trials of a sweep, each once, so that all are checked before any runs.

    Args:
        composer: of the sweep.
        trials: their values.
        lines: line of each parameter in the definition.
        where: the definition's file.

    Raises:
        ConfigError: with the file, and the line of the wrong parameter.
    """
    seen: set[str] = set()
    for values in trials:
        try:
            task = composer.task(values)
        except XlaSweepsError as error:
            raise ConfigError(f"{_location(error, values, lines, where)}: {error}") from error
        if task.key not in seen:
            seen.add(task.key)
            yield task


def _location(
    error: XlaSweepsError, values: Mapping[str, Any], lines: Mapping[str, int], where: str
) -> str:
    """The file, and the line of the parameter that the error names."""
    text = str(error)
    named = [
        key
        for key in values
        if f"{key}=" in text
        or f"{key}." in text
        or f"'{values[key]}'" in text
        or f"'{key}'" in text
    ]
    line = next((lines[key] for key in named if key in lines), None)
    return where if line is None else f"{where}:{line}"
