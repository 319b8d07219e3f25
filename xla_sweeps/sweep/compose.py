"""Compose the trials of a sweep from their values, fast.

Hydra composes once for each combination of the keys that only it can; models and plain values are
then inserted, with the same result (a test checks that).
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from xla_sweeps.config import catalog
from xla_sweeps.config import compose as composition
from xla_sweeps.config.identity import identifiers
from xla_sweeps.config.settings import (
    MAX_BATCH,
    MAX_SEED,
    Settings,
    check_accelerator_name,
    settings_of,
)
from xla_sweeps.errors import ConfigError, DeviceError, XlaSweepsError
from xla_sweeps.results.index import software_of
from xla_sweeps.schema import options
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.options import SYNTHETIC
from xla_sweeps.schema.overrides import flattened, overrides, repeating
from xla_sweeps.schema.trial import Ids, Trial, request_ids
from xla_sweeps.system import devices, environment

SILENT_MARGIN_S = 300.0
"""Beyond all deadlines of a replicate: to start, to save, and to finish W&B's run."""

CONFIG_DIR = "--config-dir"

_PLAIN = frozenset(options.NAMES) - set(options.NESTED)


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


_FREE = {"batch_size": range(1, MAX_BATCH + 1), "seed": range(MAX_SEED + 1)}
"""What large sweeps vary most, and nothing else of a trial depends on.

But where it trains on pictures: the batches of an epoch depend on their size.
"""

_DATA = "data="

_NUMBER = re.compile(f"({'|'.join(_FREE)})=(0|[1-9][0-9]{{0,9}})")


@dataclass(frozen=True, slots=True)
class _Family:
    """Trials that differ in batch size and seed alone, checked once.

    Attributes:
        pattern: the task of each, but for what differs.
        trial: the one that was checked.
        trial_ids: on each place of this machine that they may run on.
        request_ids: on any.
    """

    pattern: Task
    trial: Trial
    trial_ids: tuple[Ids, ...]
    request_ids: Ids

    def task(
        self, words: tuple[str, ...], *, batch_size: int | None = None, seed: int | None = None
    ) -> Task:
        """One of them; by default the one that was checked."""
        batch_size = self.trial.batch_size if batch_size is None else batch_size
        seed = self.trial.seed if seed is None else seed
        asked = self.request_ids(batch_size, seed)
        ids = tuple(identifier(batch_size, seed) for identifier in self.trial_ids)
        return msgspec.structs.replace(
            self.pattern,
            words=words,
            key=" ".join(ids) or f"{asked} {self.pattern.accelerator or ''}",
            request_id=asked,
            trial_ids=ids,
            outcomes=[],
            builds={},
        )


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
        self._keys = {word.partition("=")[0].lstrip("+~") for word in given}
        self._places = None if places is None else list(dict.fromkeys(places))
        self._environ = os.environ if environ is None else environ
        self._facts = environment.environment()
        self._bases: dict[tuple[str, ...], dict[str, Any]] = {}
        self._families: dict[tuple[str, ...], _Family] = {}
        self._free = [key for key in _FREE if key not in self._keys]
        self._data = _data_in(given)
        self._patterns: dict[_Pattern, tuple[_Family, tuple[str, ...], dict[str, int]]] = {}

    def base(self) -> dict[str, Any]:
        """The configuration of the command line's overrides alone: results_dir, ui and such."""
        return self._document({})

    @property
    def software(self) -> str:
        """The versions of the software that records must have to count."""
        return software_of(self._facts)

    def _kept(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in flattened(values).items() if key not in self._keys}

    def task(self, values: Mapping[str, Any]) -> Task:
        """One trial, checked.

        Raises:
            XlaSweepsError: as `settings.to_settings`.
        """
        numbers = {
            key: value
            for key in self._free
            if (key != "batch_size" or not _pictures(values.get("data", self._data)))
            and type(value := values.get(key)) is int
            and value in _FREE[key]
        }
        pattern = _pattern(values, numbers)
        known = None if pattern is None else self._patterns.get(pattern)
        if known is None:
            kept = self._kept(values)
            words = (*overrides(kept), *self._given)
            family, others = self._family_of(words, lambda: self._document(kept))
            names = (word.partition("=")[0] for word in self._shown(words))
            shown = zip(names, self._shown(words), strict=True)
            template = tuple(name if name in numbers else word for name, word in shown)
            known = family, template, others
            if pattern is not None:
                self._patterns[pattern] = known
        family, template, others = known
        written = [f"{word}={numbers[word]}" if word in numbers else word for word in template]
        return family.task(tuple(written), **{**others, **numbers})

    def _family_of(
        self, words: Sequence[str], compose: Callable[[], dict[str, Any]]
    ) -> tuple[_Family, dict[str, int]]:
        """The family of the trial of these words, and its own batch size and seed among them.

        Args:
            words: overrides.
            compose: gives their configuration.
        """
        found = filter(None, map(_NUMBER.fullmatch, words))
        numbers = {match[1]: int(match[2]) for match in found}
        if _pictures(_data_in(words)):
            numbers.pop("batch_size", None)
        if not all(number in _FREE[key] for key, number in numbers.items()):
            numbers = {}  # refused below
        others = (word for word in words if word.partition("=")[0] not in numbers)
        same = (*numbers, *others)
        family = self._families.get(same)
        if family is None:
            explicit = {word.partition("=")[0].lstrip("+~") for word in words}
            family = self._families[same] = self._family(compose(), explicit)
        return family, numbers

    def _shown(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words of a task; how progress is shown is the sweep's own."""
        return (*self._place, *(word for word in words if not word.startswith("ui=")))

    def _family(self, document: dict[str, Any], explicit: Collection[str]) -> _Family:
        """A trial, checked, and those that differ from it in batch size and seed alone."""
        accelerator = document["accelerator"]
        check_accelerator_name(accelerator)
        if self._places is None:
            elsewhere = devices.Device(kind="gpu", index=0, name="")
            settings = settings_of(
                document, explicit=explicit, environ=self._environ, device=elsewhere
            )
            ids: tuple[Ids, ...] = ()
        else:
            ids, settings = self._local(document, explicit, accelerator)
        trial = settings.trial
        pattern = Task(
            words=(),
            key="",
            model=trial.model.name,
            effort=trial.effort.name,
            replicates=trial.effort.replicates,
            request_id="",
            accelerator=None if accelerator is None else str(accelerator),
            tags=settings.tracker.tags,
            accepted=self._accepted,
            silent_s=trial.timeouts.total_s + SILENT_MARGIN_S,
            timed_s=trial.effort.timed_s(len(trial.modes)),
            forks=trial.effort.name == "quick"
            and trial.effort.replicates == 1
            and len(set(map(mode_of, trial.modes))) == len(trial.modes)
            and trial.model.source != "local"
            and self._config_dir is None,
        )
        return _Family(pattern, trial, ids, request_ids(trial))

    def document(self, words: Sequence[str]) -> dict[str, Any] | None:
        """The configuration of a task's words as plain data, as Hydra composes it.

        None where only the trial itself does that: with a folder of configuration files.

        Args:
            words: the task's, and further ones.
        """
        if self._config_dir is not None:
            return None
        given = {word for word in self._given if not word.startswith("ui=")}
        if given - set(words):  # an anchor, which has some of them only
            return self._composed(words)
        own = [word for word in words if word not in given]
        return self._document(flattened(composition.override_values(own)))

    def settings(self, words: Sequence[str]) -> Settings:
        """The settings of a trial's words on the first of the places.

        Raises:
            XlaSweepsError: as `settings.to_settings`.
        """
        words = _overrides_of(words)
        document = self._composed(words)
        device = (
            self._places[0].device if self._places else devices.Device(kind="gpu", index=0, name="")
        )
        explicit = {word.partition("=")[0] for word in words}
        found = settings_of(document, explicit=explicit, environ=self._environ, device=device)
        again = repeating(
            words, config_dir=str(self._config_dir or ""), on_cpu=device.kind == "cpu"
        )
        return replace(found, words=again)

    def of_words(self, words: Sequence[str]) -> Task:
        """One trial of overrides alone, checked."""
        words = _overrides_of(words)
        family, numbers = self._family_of(words, lambda: self._composed(words))
        return family.task(self._shown(words), **numbers)

    def anchor(self, words: Sequence[str]) -> Task:
        """The anchor trial, with those overrides of the command line that change no measurement."""
        kept = [
            word for word in self._given if word.startswith(("results_dir=", "tracker", "timeouts"))
        ]
        return self.of_words(
            [*(word for word in kept if not word.startswith("tracker.tags")), *words]
        )

    def _composed(self, words: Sequence[str]) -> dict[str, Any]:
        return composition.plain(composition.compose_config(words, config_dir=self._config_dir))

    def _local(
        self, document: dict[str, Any], explicit: Collection[str], accelerator: Any
    ) -> tuple[tuple[Ids, ...], Settings]:
        """The trial's ids on the places of this machine that it may run on."""
        assert self._places is not None
        fit = [
            place
            for place in self._places
            if accelerator is None or devices.is_accelerator(place.device.name, str(accelerator))
        ]
        if not fit:
            names = ", ".join(dict.fromkeys(place.device.name for place in self._places))
            raise DeviceError(
                f"accelerator={accelerator}: this machine has {names}; use --launcher ray or slurm"
            )
        found: dict[str, tuple[Ids, Settings]] = {}
        for place in fit:
            mine = document if len(fit) == 1 else copy.deepcopy(document)
            settings = settings_of(
                mine, explicit=explicit, environ=self._environ, device=place.device
            )
            ids, trial = identifiers(settings, self._facts, cores=place.cores), settings.trial
            found[ids(trial.batch_size, trial.seed)] = ids, settings
        return tuple(ids for ids, _ in found.values()), next(iter(found.values()))[1]

    def _document(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of these values as plain data, a copy of its own."""
        model = values.get("model")
        if self._config_dir and model not in composition.group_choices("model"):
            model = None  # only Hydra finds a model of one's own
        plain = {key: value for key, value in values.items() if key in _PLAIN}
        put = {*plain, "model"} if isinstance(model, str) else set(plain)
        rest = tuple(overrides({key: value for key, value in values.items() if key not in put}))
        base = self._bases.get(rest)
        if base is None:
            base = self._bases[rest] = self._composed([*rest, *self._given])
        composition.check_document(plain)
        document = {
            key: dict(value) if isinstance(value, dict) else value for key, value in base.items()
        }
        return document | plain | ({"model": dict(_model(model))} if isinstance(model, str) else {})


def _data_in(words: Sequence[str]) -> str:
    """The value of `data` in the last of these overrides that sets it."""
    found = [word.removeprefix(_DATA) for word in words if word.startswith(_DATA)]
    return found[-1] if found else SYNTHETIC


def _pictures(data: Any) -> bool:
    """Whether this value of `data` names pictures; a wrong value does too."""
    return data not in (None, SYNTHETIC)


_Pattern = tuple[Any, ...]
"""Equal for trials that differ in batch size and seed alone."""


def _pattern(values: Mapping[str, Any], numbers: Collection[str]) -> _Pattern | None:
    """The pattern of these values; None where one is a list or a mapping.

    Args:
        values: of one trial.
        numbers: the keys that do not count.
    """
    pattern = tuple(
        [key if key in numbers else (key, type(value), value) for key, value in values.items()]
    )
    with contextlib.suppress(TypeError):
        hash(pattern)
        return pattern
    return None


def _overrides_of(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith(CONFIG_DIR)]


@cache
def _model(name: str) -> Mapping[str, Any]:
    """The content of a model's file."""
    if name not in composition.group_choices("model"):
        raise composition.unknown_choice("model", name)
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
