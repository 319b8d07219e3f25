"""Validate the composed configuration once and return it as a `Settings`.

Hydra composes; names go through our own catalog and registries, never through `instantiate`. A
mistake is a `ConfigError` of one line: what is wrong, where, what is allowed, the nearest match.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from xla_sweeps.config import catalog, compose, own_inputs, values
from xla_sweeps.config.local_model import user_model_spec
from xla_sweeps.config.runtime import check_backend, check_runtime
from xla_sweeps.config.scenario import (
    LEGACY,
    MAX_BATCH,
    MAX_BATCHES,
    batches_of,
    contradictions,
    modes_of,
    shapes_of,
    training_of,
)
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema import options
from xla_sweeps.schema.backend import backend_named, backends_of
from xla_sweeps.schema.comparisons import by_backend
from xla_sweeps.schema.environment_options import WANDB_TRACKERS, WANDB_VARIABLES
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import (
    MAX_ROUNDS,
    CompileCache,
    Effort,
    ModelSpec,
    Precision,
    Timeouts,
    TrackerSettings,
    Trial,
    trial_id,
)
from xla_sweeps.system import devices, environment
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.text import CREDENTIALS_RULE, has_credentials

_ASKING = ("project", "entity", "run_name", "notes", "job_type", "telemetry")
"""Keys of `tracker` that ask for W&B."""

_ACCELERATOR = re.compile(r"[A-Za-z0-9][\w .:()@/+,-]*", re.ASCII)

MAX_SECONDS = 10**7

MAX_COUNT = 10**6
"""The most rounds, calls and replicates."""

CONTEXT_BYTES = 400 * 2**20
"""Device memory of a process before it holds a model, about: its CUDA context."""

MAX_PROJECT = 128
"""Characters of a W&B project's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that one command asks for, validated.

    Attributes:
        words: arguments of the command that measures the same again (`repeating`); None where
            nobody typed one.
    """

    trial: Trial
    device: devices.Device
    tracker: TrackerSettings
    results_dir: Path
    ui: str
    words: tuple[str, ...] | None = None


def settings_of(
    document: Mapping[str, Any],
    *,
    explicit: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    device: devices.Device | None = None,
) -> Settings:
    """Validate a configuration.

    Args:
        document: as `compose_config` gives it.
        explicit: keys that the user gave, to tell contradictions from defaults.
        environ: for W&B's own variables; default: this process's.
        device: what the trial will run on; default: this machine's device that the document names.
    """
    environ = os.environ if environ is None else environ
    for key in document:
        if key not in options.NAMES:
            error = options.unknown_option(key)
            own = f" A group of your own is a folder {key}/ of --config-dir DIR."
            raise ConfigError(f"{error}{own if key in explicit else ''}")
    for option in options.OPTIONS:
        if option.name not in document:
            raise options.missing_option(option.name)
    check_accelerator_name(document["accelerator"])
    elsewhere = device is not None
    device = device or devices.resolve_device(values.text(document, "device"))
    trial = _to_trial(document, explicit, device, environ)
    if not elsewhere or device.name:
        devices.check_precision(device, trial.precision, tf32=trial.tf32)
        devices.check_accelerator(device, document["accelerator"])
        _check_memory(trial, device)
    return Settings(
        trial=trial,
        device=device,
        tracker=_tracker(document, explicit, environ),
        ui=values.choice(document, "ui"),
        results_dir=values.folder_of(values.text(document, "results_dir")),
    )


def identify(settings: Settings, facts: Mapping[str, Any], *, cores: int | None = None) -> str:
    """The trial's id on its device, with the software of `environment.environment()`."""
    package = catalog.SOURCES[settings.trial.model.source].package
    also = (package,) if package else ()
    identity = environment.identity(
        settings.device, facts, *backends_of(settings.trial), also=also, cores=cores
    )
    return trial_id(settings.trial, identity)


def _to_trial(
    document: Mapping[str, Any],
    explicit: Collection[str],
    device: devices.Device,
    environ: Mapping[str, str],
) -> Trial:
    document = own_inputs.apply(document, explicit)
    spec = _built_by(_model(document, explicit), document)
    source = catalog.SOURCES[spec.source]
    if source.module and not environment.is_installed(source.module):
        why = f"{source.module} is not installed; install it: {how_to_install(source.extra)}"
        raise ConfigError(f"source={spec.source}: {why}")
    limit_gib = values.optional(values.number, document, "memory_limit_gib", at_most=2**20)
    scenario = Scenario(values.choice(document, "scenario"))
    modes = modes_of(document, explicit, scenario)
    for name in by_backend(modes):
        check_backend(backend_named(name), spec)
    training, number = training_of(document, explicit, scenario), partial(values.integer, document)
    trial = Trial(
        copies="apart" if values.choice(document, "copies") == "apart" else "together",
        compile_cache=cast(CompileCache, values.choice(document, "compile_cache")),
        model=spec,
        modes=modes,
        batches=batches_of(document, explicit, scenario, training.data if training else None),
        steps_per_execution=number("steps_per_execution", at_least=1, at_most=MAX_BATCHES),
        shapes=shapes_of(document, scenario),
        batch_size=number("batch_size", at_least=1, at_most=MAX_BATCH),
        precision=Precision(values.choice(document, "precision")),
        tf32=values.boolean(document, "tf32"),
        seed=number("seed", at_least=0, at_most=2**31 - 1),
        device=device.label,
        scenario=scenario,
        training=training,
        effort=_effort(document),
        timeouts=_timeouts(document),
        memory_limit_bytes=round(0.9 * devices.memory_bytes())
        if limit_gib is None
        else round(limit_gib * 2**30),
    )
    for reason in contradictions(document, explicit, trial):
        raise ConfigError(reason)
    runtime, *_ = [  # all backends must have what is asked of one
        check_runtime(document, environ, backend_named(name)) for name in by_backend(modes)
    ]
    return replace(trial, runtime=runtime)


def _model(document: Mapping[str, Any], explicit: Collection[str]) -> ModelSpec:
    """A model of the catalog, or the user's own."""
    entry = document["model"]
    if not isinstance(entry, Mapping):
        raise ConfigError("model: name one, as in model=resnet50; `xla-sweeps models` lists them")
    source = values.choice(document, "source")
    if entry.get("name") == options.LOCAL:
        if source not in ("auto", options.LOCAL):
            raise ConfigError(f"source={source}: model=local is your own model; leave source out")
        if "weights" in explicit:
            keeps = "your own model keeps its weights; leave weights out"
            raise ConfigError(f"weights={document['weights']}: {keeps}")
        return user_model_spec(document)
    for key in ("path", "import", "signature", "inputs", "input_spec"):
        if document.get(key) is not None:
            applies = "applies only to a model of your own; add model=local"
            raise ConfigError(f"{key}={document[key]}: {applies}")
    spec = catalog.model_spec(
        entry,
        source=None if source == "auto" else source,
        resolution=values.optional(values.integer, document, "resolution", at_least=1),
        weights=values.text(document, "weights"),
    )
    if _brings_code(spec) and not values.boolean(document, "trust_code"):
        raise ConfigError(
            f"weights={spec.weights}: a SavedModel outside the catalog can run any code; add "
            "trust_code=true if you trust it"
        )
    return spec


def _built_by(spec: ModelSpec, document: Mapping[str, Any]) -> ModelSpec:
    """The model as the asked version of Keras builds it."""
    if document["keras"] is None:
        return spec
    version = values.integer(document, "keras", at_least=2, at_most=3)
    if version == 3 and spec.library == LEGACY:
        raise ConfigError(f"keras=3: Keras 3 has no {spec.variant} any more; leave keras out")
    if version == 3:
        return replace(spec, keras=3)
    if spec.source == "applications":
        return replace(spec, library=LEGACY, keras=2)
    if spec.source == "examples":
        return replace(spec, recipe={**spec.recipe, "library": LEGACY}, keras=2)
    raise ConfigError(
        f"keras=2: {spec.name} from source={spec.source} is not built by tf_keras; it has the "
        "models of source=applications and source=examples"
    )


def _brings_code(spec: ModelSpec) -> bool:
    """True if loading it runs code from a file or an address outside the catalog."""
    if spec.source != "hub" or spec.weights == "random":
        return False
    entry = catalog.load_catalog().get(spec.name)
    published = entry.sources.get("hub") if entry else None
    own = published is None or published.recipe["handle"] != spec.recipe["handle"]
    return own or spec.weights != "imagenet"


def check_accelerator_name(given: Any) -> None:
    """Refuse what would fit every device, or is no part of a name: batch scripts contain it."""
    named = isinstance(given, str | int) and not isinstance(given, bool)
    if given is not None and not (named and _ACCELERATOR.fullmatch(str(given))):
        raise ConfigError(
            f"accelerator={given}: expected a part of a device's name, as in A100: letters, "
            "digits, spaces and . : _ - ( ) @ / + ,"
        )


def _check_memory(trial: Trial, device: devices.Device) -> None:
    """Refuse several processes whose weights alone do not fit on the device together."""
    count, needed = len(trial.workers), least_memory_bytes(trial)
    if count > 1 and 0 < device.memory_bytes < needed:
        is_apart = trial.copies == "apart"
        asked = "copies=apart" if is_apart else f"modes=[{','.join(trial.modes)}]"
        raise ConfigError(
            f"{asked}: {count} processes with the weights of {trial.model.name} need at least "
            f"{needed / 2**30:.1f} GiB, {device.label} has {device.memory_bytes / 2**30:.1f} GiB; "
            f"use {'copies=together' if is_apart else 'modes of one backend'}"
        )


def least_memory_bytes(trial: Trial) -> float:
    """The device memory that the processes of a trial need for contexts and weights alone."""
    return len(trial.workers) * (CONTEXT_BYTES + 4 * (trial.model.published_params or 0.0))


def _effort(document: Mapping[str, Any]) -> Effort:
    chosen = document["effort"]
    if not isinstance(chosen, Mapping):
        raise unknown_name("effort", str(chosen), compose.group_choices("effort"))
    name = str(chosen.get("name", "effort"))
    keys = {key: value for key, value in chosen.items() if key != "name"}
    given = values.read_nested({"effort": keys}, "effort")
    level: dict[str, Any] = {}
    for field in fields(Effort):
        key = f"effort.{field.name}"
        if field.default is not MISSING and not given.get(key):
            continue
        if field.type == "bool":
            level[field.name] = values.boolean(given, key)
        elif field.type == "int":
            rounds = field.name in ("rounds_min", "rounds_max", "side_rounds")
            least, most = (6, MAX_ROUNDS) if rounds else (1, MAX_COUNT)
            level[field.name] = values.integer(given, key, at_least=least, at_most=most)
        elif field.type == "float":
            level[field.name] = values.number(given, key, at_most=MAX_SECONDS)
    if level["rounds_max"] < level["rounds_min"]:
        low, high = (f"effort.{key}={level[key]}" for key in ("rounds_min", "rounds_max"))
        raise ConfigError(f"{high} is below {low}")
    return Effort(name=name, **level)


def _timeouts(document: Mapping[str, Any]) -> Timeouts:
    given = values.read_nested(document, "timeouts")
    limits = {
        f"{name}_s": values.number(given, f"timeouts.{name}", at_most=MAX_SECONDS)
        for name in options.BY_NAME["timeouts"].keys
    }
    return Timeouts(**limits)


def _tracker(
    document: Mapping[str, Any], explicit: Collection[str], environ: Mapping[str, str]
) -> TrackerSettings:
    """The tracker that was named; by default what W&B's own variables ask for, if anything."""
    given = document["tracker"]
    if not isinstance(given, Mapping):
        given = {"name": given}
    name = values.choice(document, "tracker")
    if name == "auto":
        mode = environ.get("WANDB_MODE", "").lower()
        if mode in ("disabled", "dryrun", "offline"):
            name = "none" if mode == "disabled" else "wandb_offline"
        elif mode == "online" or environ.get("WANDB_SWEEP_ID"):
            name = "wandb"
        else:
            asks = {f"tracker.{key}" for key in _ASKING} & set(explicit)
            name = "wandb_offline" if asks or environment.uses_wandb(environ) else "none"
    if name in WANDB_TRACKERS and has_credentials(environ.get("WANDB_BASE_URL", "")):
        raise ConfigError(CREDENTIALS_RULE)
    tags = given.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str | int) for tag in tags):
        raise ConfigError(f"tracker.tags={tags}: expected a list, as in tracker.tags=[A,B]")
    for key in ("project", "entity", "group"):
        if not isinstance(given.get(key), str | int | None):
            raise ConfigError(f"tracker.{key}={given[key]}: expected a string")
    telemetry = {"tracker.telemetry": given.get("telemetry", False)}
    asked = given.get("project") if "tracker.project" in explicit else None
    is_wandb = name in (*WANDB_TRACKERS, "none")  # which `push` sends to W&B later
    environ = environ if is_wandb else {}  # another tracker reads no variables of W&B's
    project = str(asked or environ.get("WANDB_PROJECT") or given.get("project") or "xla-sweeps")
    if is_wandb:
        _check_project(project)
    others = (tag.strip() for tag in environ.get("WANDB_TAGS", "").split(","))
    return TrackerSettings(
        name=name,
        project=project,
        telemetry=values.boolean(telemetry, "tracker.telemetry"),
        tags=tuple(dict.fromkeys(filter(None, (*map(str, tags), *others)))),
        **{
            key: None if value is None else str(value)
            for key, variable in WANDB_VARIABLES.items()
            for value in [given.get(key) or environ.get(variable) or None]
        },
    )


def _check_project(project: str) -> None:
    if project == "sweeps":
        other = "W&B's client cannot read a project of that name; choose another"
        raise ConfigError(f"tracker.project=sweeps: {other}")
    if re.search(r"[/\\#?%:]", project) or len(project) > MAX_PROJECT:
        why = f"W&B takes at most {MAX_PROJECT} characters, none of / \\ # ? % :"
        raise ConfigError(f"tracker.project={project}: {why}")
