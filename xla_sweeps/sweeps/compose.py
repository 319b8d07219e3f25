"""Compose the trials of a sweep from their values.

Hydra composes once for each choice of groups. Models and plain values are then set, with the same
result: a test compares the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from xla_sweeps.config import catalog
from xla_sweeps.config import compose as composition
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import Settings, check_accelerator_name, identify, settings_of
from xla_sweeps.errors import ConfigError, DeviceError, XlaSweepsError
from xla_sweeps.schema import options
from xla_sweeps.schema.backend import backends, backends_of
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import DEFAULT_BACKEND
from xla_sweeps.schema.overrides import (
    flatten,
    key_of,
    keys_of,
    option_of,
    override_value,
    overrides,
    repeating,
)
from xla_sweeps.schema.trial import as_typed, request_id
from xla_sweeps.store.derive import software_identity
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.system import devices, environment

SILENT_MARGIN_S = 300.0
"""Seconds beyond all deadlines of a replicate: to start, to save, and to finish W&B's run."""

_PLAIN = frozenset(options.NAMES) - set(options.NESTED) | {"model"}
"""Options that are one plain value each, and the model, which is one file."""

_ELSEWHERE = Slot(name="", device=devices.Device(kind="gpu", index=0, name=""))
"""Stands for a slot that is not known yet."""

Known = frozenset[tuple[str, int]]
"""Trial and replicate number of records."""


class Task(msgspec.Struct, kw_only=True, gc=False):
    """One trial of a sweep, with its records.

    Attributes:
        key: equal for tasks that are the same trial.
        trial_ids: those that it has on the slots of this machine; empty on a cluster.
        outcomes: of its records that count, oldest first; extended while the sweep runs.
        seen: trial and replicate number of each known record, whether it counts or not.
        builds: the newest `schema.record.Build` by trial id; only its records are in `outcomes`.
        accepted: statuses of the replicates that count as measured.
        clear: whether its replicates settle it though some are contaminated: then these count.
        wanted: replicates that are still to be measured.
        timed_s: the most seconds that a replicate is timed, by the limits of its effort.
        duplicates: one in so many trials of one replicate is measured `twice`; 0 for none.
        baseline: the mode that its candidates are compared with.
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
    seen: Known = frozenset()
    builds: dict[str, dict[str, str]] = {}
    accepted: tuple[Status, ...] = (Status.OK,)
    clear: bool = False
    wanted: int = 0
    silent_s: float = math.inf
    timed_s: float = 0.0
    duplicates: int = 0
    twice: bool = False
    backends: tuple[str, ...] = (DEFAULT_BACKEND,)
    baseline: str = ""

    @property
    def counted(self) -> tuple[Status, ...]:
        """Statuses of the replicates that count as measured."""
        return (*self.accepted, Status.CONTAMINATED) if self.clear else self.accepted

    def stored_keys(self, store: Store) -> Known:
        """Its records in the store, unread, where its trial ids are known."""
        return frozenset(key for identifier in self.trial_ids for key in store.keys(identifier))


class Composer:
    """Compose the trials of one sweep.

    Overrides of the command line win over the definition's. The slots are where trials may run
    here; None on a cluster. Each trial gets the further folder of configuration files.
    """

    def __init__(
        self,
        given: Sequence[str],
        *,
        slots: Sequence[Slot] | None,
        environ: Mapping[str, str] | None = None,
        config_dir: OwnFolder | None = None,
        accepted: tuple[Status, ...] = (Status.OK,),
    ) -> None:
        composition.check_overrides(given)
        self._given, self._accepted = tuple(given), accepted
        self._config_dir = config_dir and config_dir.absolute()
        self._place = self._config_dir.words if self._config_dir else ()
        self._keys = keys_of(given)
        self._slots: list[Slot] | None = None
        if slots is not None:  # equal devices give equal trials
            self._slots = list({(slot.device, slot.core_count): slot for slot in slots}.values())
        self._environ = os.environ if environ is None else environ
        self._facts = environment.environment()
        self._bases: dict[tuple[str, ...], dict[str, Any]] = {}
        for place, word in enumerate(given):  # the time, say, differs between trials
            if key_of(word) == "results_dir" and "${" in word:
                (resolved,) = overrides({"results_dir": self.base()["results_dir"]})
                self._given = (*given[:place], resolved, *given[place + 1 :])

    def base(self) -> dict[str, Any]:
        """The configuration of the command line's overrides alone: results_dir, ui and such."""
        return self._document(self._given)

    @property
    def software(self) -> dict[str, str]:
        """The versions of the software that records must have to count, by backend."""
        return {backend.name: software_identity(self._facts, backend) for backend in backends()}

    def task(self, values: Mapping[str, Any]) -> Task:
        """One trial, checked; errors as of `settings_of`."""
        kept = {key: value for key, value in flatten(values).items() if key not in self._keys}
        return self.of_words((*overrides(kept), *self._given))

    def anchor(self, words: Sequence[str]) -> Task:
        """The anchor trial, with those values of the sweep that change no measurement."""
        usual, kept = flatten(self._document(())), {}
        for key, value in flatten(self.base()).items():
            if key.startswith(("results_dir", "tracker", "timeouts")) and value != usual.get(key):
                kept[key] = value
        kept.pop("tracker.tags", None)
        return self.of_words([*overrides(kept), *words])

    def settings(self, words: Sequence[str]) -> Settings:
        """The settings of a trial's words on the first of the slots; errors as of `settings_of`."""
        words = _overrides_of(words)
        slot = self._slots[0] if self._slots else _ELSEWHERE
        on_cpu = slot.device.kind == "cpu"
        document, folder = self._document(words), self._config_dir
        again = composition.without_own_files(words, document, folder)
        again = repeating(again, config_dir=str(folder.path if folder else ""), on_cpu=on_cpu)
        return replace(self._on_slot(slot, document, words), words=again)

    def _on_slot(self, slot: Slot, document: Mapping[str, Any], words: Sequence[str]) -> Settings:
        explicit = keys_of(words)
        return settings_of(document, explicit=explicit, environ=self._environ, device=slot.device)

    def of_words(self, words: Sequence[str]) -> Task:
        """One trial of overrides alone, checked; errors as of `settings_of`."""
        words = _overrides_of(words)
        document = self._document(words)
        check_accelerator_name(document["accelerator"])
        accelerator = None if document["accelerator"] is None else str(document["accelerator"])
        slots = self._matching(accelerator)
        several = {slot: self._on_slot(slot, document, words) for slot in slots}
        trial_ids: tuple[str, ...] = ()
        if self._slots is not None:
            identified = (
                identify(one, self._facts, cores=slot.core_count) for slot, one in several.items()
            )
            trial_ids = tuple(dict.fromkeys(identified))
        settings = several[slots[0]]
        trial, request = settings.trial, request_id(settings.trial)
        return Task(
            words=(*self._place, *(word for word in words if not word.startswith("ui="))),
            key=" ".join(trial_ids) or f"{request} {accelerator or ''}",
            model=trial.model.name,
            effort=trial.effort.name,
            replicates=trial.effort.replicates,
            request_id=request,
            trial_ids=trial_ids,
            accelerator=accelerator,
            tags=settings.tracker.tags,
            accepted=self._accepted,
            silent_s=trial.timeouts.total_s + SILENT_MARGIN_S,
            timed_s=trial.effort.timed_s(len(trial.modes)),
            duplicates=trial.effort.duplicates,
            backends=tuple(backend.name for backend in backends_of(trial)),
            baseline=trial.baseline,
        )

    def _matching(self, accelerator: str | None) -> list[Slot]:
        """The slots with that accelerator; one that stands for all where they are not known."""
        if self._slots is None:
            return [_ELSEWHERE]
        wanted = accelerator or ""
        matching = [
            slot for slot in self._slots if devices.is_accelerator(slot.device.name, wanted)
        ]
        if not matching:
            names = ", ".join(dict.fromkeys(slot.device.name for slot in self._slots))
            raise DeviceError(
                f"accelerator={accelerator}: this machine has {names}; use --launcher ray or slurm"
            )
        return matching

    def _document(self, words: Sequence[str]) -> dict[str, Any]:
        """The configuration of these overrides as plain data, a copy of its own."""
        folder = self._config_dir
        by_hydra = (folder is not None and folder.has_own) or any(map(_needs_hydra, words))
        plain: dict[str, Any] = {}
        rest: list[str] = []
        for word in words:
            values = {} if by_hydra else _plain_value(word)
            plain |= values
            rest += [] if values else [word]
        base = self._bases.get(tuple(rest))
        if base is None:
            base = composition.compose_config(rest, config_dir=self._config_dir)
            self._bases[tuple(rest)] = base
        return {
            key: dict(value) if isinstance(value, dict) else value
            for key, value in {**base, **plain}.items()
        }


def _needs_hydra(word: str) -> bool:
    """True if other overrides decide on its value, or it may hold some of theirs."""
    own = key_of(word).startswith("model.") or option_of(word) not in (*options.BY_NAME, "hydra")
    return own or "${" in word


@lru_cache(maxsize=4096)
def _plain_value(word: str) -> Mapping[str, Any]:
    """The option and plain value, or model's entry, that an override sets; else empty."""
    key = word.partition("=")[0]
    if key not in _PLAIN or composition.parse_overrides(word).is_sweep_override():
        return {}
    values = composition.override_values([word])
    if key in options.GROUPS and as_typed(values[key]) not in options.GROUPS[key]:
        return {}  # a file of one's own, or a mistake
    if key != "model":
        return values
    name = values[key]
    if name not in composition.group_choices("model"):
        return {}
    path = catalog.conf_dir() / "model" / f"{name}.yaml"
    return {key: yaml.safe_load(path.read_text("utf-8"))}


def _overrides_of(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("--")]


def compose_all(
    composer: Composer, trials: Iterable[Mapping[str, Any]], *, lines: Mapping[str, int], where: str
) -> list[Task]:
    """Compose the trials of a sweep, each once, so that all are checked before any runs.

    An error names the file, and the line of the wrong parameter.
    """
    tasks: dict[str, Task] = {}
    for values in trials:
        try:
            task = composer.task(values)
        except XlaSweepsError as error:
            raise ConfigError(f"{_location(error, values, lines, where)}: {error}") from error
        if task.replicates > (tasks[task.key].replicates if task.key in tasks else 0):
            tasks[task.key] = task
    return list(tasks.values())


def _location(
    error: XlaSweepsError, values: Mapping[str, Any], lines: Mapping[str, int], where: str
) -> str:
    """The file, and the line of the parameter that the error names by its key, or else value."""
    keys = {key: (f"{key}=", f"{key}.", f"'{key}'", f"unknown {key} ") for key in values}
    contents = {key: (f"'{one}'", f"'{override_value(one)}'") for key, one in values.items()}
    for named in (keys, contents):
        for key, words in named.items():
            if key in lines and any(word in str(error) for word in words):
                return f"{where}:{lines[key]}"
    return where
