"""From `conf/` and the command line to a checked `Settings`: the only door, past which nothing is checked again.

Hydra composes; names go through our own catalog and registries, never through `instantiate`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from xla_sweeps import catalog, environment
from xla_sweeps.errors import ConfigError, XlaSweepsError, unknown_name
from xla_sweeps.trial import Effort, ExecutionMode, Precision, Timeouts, Trial, label_modes

UI_MODES = ("auto", "live", "plain", "quiet")
SCENARIOS = ("call",)
JIT_CANDIDATES = {
    "true": ExecutionMode.XLA,
    "false": ExecutionMode.GRAPH,
    "null": ExecutionMode.DEFAULT,
    "none": ExecutionMode.DEFAULT,
    "auto": ExecutionMode.AUTOCLUSTER,
}
"""The candidate mode of each value of `jit`, as Hydra, W&B and people write them, in lower case."""

ALLOWED_RESOLVERS = {"now", "hydra", "oc.select", "oc.dict.keys", "oc.dict.values"}
MAX_BATCH = 65_536
MAX_YAML_BYTES = 2**20
MAX_YAML_DEPTH = 32

_TOP_KEYS = (
    "model", "source", "scenario", "effort", "tracker", "resolution", "batch_size", "precision", "weights", "seed",
    "jit", "modes", "tf32", "device", "results_dir", "memory_limit_gib", "ui", "timeouts",
)  # fmt: skip
_RESOLVER = re.compile(r"\$\{\s*([A-Za-z_][\w.]*)\s*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerSettings:
    """Which tracker, and where its runs go."""

    name: str
    project: str
    entity: str | None
    group: str | None
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that one command asks for, checked.

    Attributes:
        document: the resolved configuration as plain data, for the record and W&B.
    """

    trial: Trial
    device: environment.Device
    tracker: TrackerSettings
    results_dir: Path
    ui: str
    document: Mapping[str, Any]


def compose_config(overrides: Sequence[str], *, config_dir: Path | None = None) -> DictConfig:
    """Compose the configuration for these overrides.

    Args:
        overrides: as on the command line: `model=resnet50`, `+experiment=mine`.
        config_dir: a further folder of configuration files, searched as Hydra's `--config-dir` does.

    Raises:
        ConfigError: one line for whatever Hydra, OmegaConf or YAML had to say.
    """
    check_overrides(overrides)
    if config_dir is not None:
        check_config_dir(config_dir)
        overrides = [*overrides, f"hydra.searchpath=[file://{config_dir.resolve()}]"]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(catalog.conf_dir()), version_base="1.3", job_name="xla_sweeps"):
            config = compose("config", overrides=list(overrides))
        check_document(OmegaConf.to_container(config, resolve=False))
        return config
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_message(error, catalog.conf_dir())) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise _translated(error, overrides) from error


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse what is unsafe or contradictory before anything is composed.

    Raises:
        ConfigError: `_target_`, a resolver that reads the environment, or one key with two values.
    """
    seen: dict[str, str] = {}
    for text in overrides:
        _check_text(text, where=f"override '{text}'")
        try:
            override = OverridesParser.create().parse_override(text)
        except (OverrideParseException, HydraException) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"cannot read the override '{text}': {reason}. Write key=value.") from error
        key = override.key_or_group
        if key in seen and seen[key] != text:
            raise ConfigError(f"conflicting overrides: '{seen[key]}' and '{text}'; give {key} once")
        seen[key] = text


def check_document(value: Any, *, where: str = "configuration") -> None:
    """Refuse `_target_` keys and environment resolvers anywhere in unresolved configuration."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_text(str(key), where=where)
            check_document(item, where=f"{where}.{key}" if where != "configuration" else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            check_document(item, where=where)
    elif isinstance(value, str):
        _check_text(value, where=where)


def check_config_dir(folder: Path) -> None:
    """Bound every YAML file of a user's folder before it is parsed: size, depth, no aliases.

    Raises:
        ConfigError: with file and line.
    """
    if not folder.is_dir():
        raise ConfigError(f"--config-dir {folder}: no such folder")
    for path in sorted(folder.rglob("*.yaml")):
        if path.stat().st_size > MAX_YAML_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_YAML_BYTES // 2**20} MiB, the most that is read")
        depth = 0
        try:
            for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
                if isinstance(event, yaml.AliasEvent):
                    raise ConfigError(f"{path}:{_line(event)}: YAML aliases are not allowed")
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_YAML_DEPTH:
                    raise ConfigError(f"{path}:{_line(event)}: nested deeper than {MAX_YAML_DEPTH} levels")
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(_yaml_message(error, path)) from error


def to_settings(
    config: DictConfig, *, explicit: Collection[str] = (), environ: Mapping[str, str] | None = None
) -> Settings:
    """Check a composed configuration, once, and give it as values.

    Args:
        config: what Hydra composed.
        explicit: keys that the user gave, so that contradictions can be told from defaults.
        environ: for W&B's own variables; default: this process's.

    Raises:
        XlaSweepsError: one line: what, where, what is allowed, the nearest match.
    """
    environ = os.environ if environ is None else environ
    document = _plain(config)
    for key in document:
        if key not in _TOP_KEYS:
            raise unknown_name("option", key, _TOP_KEYS, listed=len(_TOP_KEYS))
    device = environment.resolve_device(_text(document, "device"))
    trial = _to_trial(document, explicit, device)
    environment.check_precision(device, trial.precision, tf32=trial.tf32)
    tracker = _tracker(document, explicit, environ)
    document["tracker"] = {**asdict(tracker), "tags": list(tracker.tags)}
    document.update(
        source=trial.model.source, resolution=trial.model.resolution_px, modes=list(trial.modes), device=trial.device,
        scenario=trial.scenario,
    )  # fmt: skip
    return Settings(
        trial=trial, device=device, tracker=tracker, document=document, ui=_choice(document, "ui", UI_MODES),
        results_dir=Path(_text(document, "results_dir")).expanduser(),
    )  # fmt: skip


def candidate_mode(jit: Any) -> ExecutionMode:
    """The candidate that a value of `jit` chooses.

    Raises:
        ConfigError: the value is none of true, false, null, auto.
    """
    word = "null" if jit is None else str(jit).lower()
    if (isinstance(jit, int | float) and not isinstance(jit, bool)) or word not in JIT_CANDIDATES:
        raise ConfigError(f"jit={jit}: allowed are true (xla), false (graph), null (default) and auto (autocluster)")
    return JIT_CANDIDATES[word]


def group_choices(group: str) -> list[str]:
    """The names that a group of `conf/` offers."""
    return sorted(path.stem for path in (catalog.conf_dir() / group).glob("*.yaml"))


def _to_trial(document: Mapping[str, Any], explicit: Collection[str], device: environment.Device) -> Trial:
    entry = document["model"]
    if not isinstance(entry, Mapping):
        raise ConfigError("model: name a model, as in model=resnet50; `xla-sweeps models` lists them")
    source = document["source"]
    source_name = source.get("name") if isinstance(source, Mapping) else source
    resolution = document["resolution"]
    spec = catalog.model_spec(
        entry, source=None if source_name in (None, "auto") else str(source_name),
        resolution=None if resolution is None else _integer(document, "resolution", at_least=1),
        weights=_text(document, "weights"),
    )  # fmt: skip
    scenario = document["scenario"]
    scenario_name = scenario.get("name") if isinstance(scenario, Mapping) else scenario
    if scenario_name not in SCENARIOS:
        raise unknown_name("scenario", str(scenario_name), SCENARIOS)
    limit_gib = document["memory_limit_gib"]
    return Trial(
        model=spec,
        modes=_modes(document, explicit),
        batch_size=_integer(document, "batch_size", at_least=1, at_most=MAX_BATCH),
        precision=Precision(_choice(document, "precision", [str(item) for item in Precision])),
        tf32=_boolean(document, "tf32"),
        seed=_integer(document, "seed", at_least=0, at_most=2**31 - 1),
        device=device.label,
        scenario=str(scenario_name),
        effort=_numbers(document, "effort", Effort),
        timeouts=_timeouts(document),
        memory_limit_bytes=environment.memory_limit_default()
        if limit_gib is None
        else round(_number(document, "memory_limit_gib") * 2**30),
    )


def _modes(document: Mapping[str, Any], explicit: Collection[str]) -> tuple[str, ...]:
    candidate = candidate_mode(document["jit"])
    given = document["modes"]
    if given is None:
        implied = [ExecutionMode.EAGER, ExecutionMode.GRAPH, candidate]
        return label_modes(list(dict.fromkeys(implied)))
    if isinstance(given, str):
        given = [word for word in re.split(r"[\s,]+", given.strip("[]() ")) if word]
    if not isinstance(given, list) or not given:
        raise ConfigError(f"modes={given}: give a list, as in modes=[eager,graph,xla]")
    names = [str(mode) for mode in ExecutionMode]
    modes = []
    for name in given:
        if name not in names:
            raise unknown_name("execution mode", str(name), names)
        modes.append(ExecutionMode(name))
    if "jit" in explicit and "modes" in explicit and candidate not in modes:
        raise ConfigError(
            f"conflicting overrides: jit={_jit_word(document['jit'])} asks for the mode {candidate}, which "
            f"modes=[{','.join(modes)}] leaves out; give one of the two"
        )
    return label_modes(modes)


def _jit_word(jit: Any) -> str:
    return "null" if jit is None else str(jit).lower()


def _tracker(document: Mapping[str, Any], explicit: Collection[str], environ: Mapping[str, str]) -> TrackerSettings:
    """The tracker that was named; by default offline, online where W&B's own variables ask for it."""
    given = document["tracker"]
    if not isinstance(given, Mapping):
        raise unknown_name("tracker", str(given), group_choices("tracker"))
    name = str(given.get("name"))
    wandb_mode = environ.get("WANDB_MODE", "").lower()
    if "tracker" not in explicit:
        if wandb_mode in ("disabled", "dryrun", "offline"):
            name = "none" if wandb_mode == "disabled" else "wandb_offline"
        elif wandb_mode == "online" or environ.get("WANDB_SWEEP_ID"):
            name = "wandb"
    tags = given.get("tags") or []
    project = str(given.get("project") or environ.get("WANDB_PROJECT") or "xla-sweeps")
    if environ.get("WANDB_PROJECT") and not any(key.startswith("tracker.project") for key in explicit):
        project = environ["WANDB_PROJECT"]
    if project == "sweeps":
        raise ConfigError("tracker.project=sweeps: W&B's client cannot read a project of that name; choose another")
    entity, group = (given.get(key) or environ.get(f"WANDB_{variable}") for key, variable in
                     (("entity", "ENTITY"), ("group", "RUN_GROUP")))  # fmt: skip
    return TrackerSettings(name=name, project=project, entity=entity, group=group, tags=tuple(str(tag) for tag in tags))


def _plain(config: DictConfig) -> dict[str, Any]:
    try:
        document = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise _translated(error, []) from error
    assert isinstance(document, dict)
    return {str(key): value for key, value in document.items() if key != "hydra"}


def _numbers(document: Mapping[str, Any], key: str, kind: type[Effort]) -> Effort:
    """A group of numbers as its dataclass: every field there, of its type, and positive."""
    given = document[key]
    if not isinstance(given, Mapping):
        raise unknown_name(key, str(given), group_choices(key))
    names = [item.name for item in fields(kind)]
    for name in given:
        if name not in names:
            raise unknown_name(f"option of {key}", str(name), names, listed=len(names))
    values: dict[str, Any] = {"name": str(given.get("name", key))}
    for item in fields(kind):
        if item.name == "name":
            continue
        if item.type == "bool":
            values[item.name] = _boolean(given, item.name, prefix=f"{key}.")
        elif item.type == "int":
            least = {"rounds_min": 6, "rounds_max": 6}.get(item.name, 1)
            values[item.name] = _integer(given, item.name, at_least=least, prefix=f"{key}.")
        else:
            values[item.name] = _number(given, item.name, prefix=f"{key}.")
    if values["rounds_max"] < values["rounds_min"]:
        raise ConfigError(f"{key}.rounds_max={values['rounds_max']} is below {key}.rounds_min={values['rounds_min']}")
    return kind(**values)


def _timeouts(document: Mapping[str, Any]) -> Timeouts:
    given = document["timeouts"]
    names = [item.name.removesuffix("_s") for item in fields(Timeouts)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"timeouts={given}: set one stage, as in timeouts.compile=600; stages: {', '.join(names)}")
    for name in given:
        if name not in names:
            raise unknown_name("stage in timeouts", str(name), names)
    return Timeouts(**{f"{name}_s": _number(given, name, prefix="timeouts.") for name in names})


def _integer(
    document: Mapping[str, Any], key: str, *, at_least: int, at_most: int | None = None, prefix: str = ""
) -> int:
    value = document.get(key)
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{prefix}{key}={value}: a whole number is needed")
    if value < at_least or (at_most is not None and value > at_most):
        upper = f" and at most {at_most}" if at_most is not None else ""
        raise ConfigError(f"{prefix}{key}={value}: it must be at least {at_least}{upper}")
    return value


def _number(document: Mapping[str, Any], key: str, *, prefix: str = "") -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{prefix}{key}={value}: a number above 0 is needed")
    return float(value)


def _boolean(document: Mapping[str, Any], key: str, *, prefix: str = "") -> bool:
    value = document.get(key)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfigError(f"{prefix}{key}={value}: allowed are true and false")
    return value


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise ConfigError(f"{key}={value}: a text is needed")
    return str(value)


def _choice(document: Mapping[str, Any], key: str, allowed: Sequence[str]) -> str:
    value = str(document.get(key))
    if value not in allowed:
        raise unknown_name(key, value, allowed)
    return value


def _check_text(text: str, *, where: str) -> None:
    if "_target_" in text:
        raise ConfigError(f"_target_ in {where}: configuration names things, it never runs code; remove it")
    for resolver in _RESOLVER.findall(text):
        if resolver not in ALLOWED_RESOLVERS:
            raise ConfigError(f"resolver ${{{resolver}:…}} in {where} is not allowed: write the value itself")


def _translated(error: Exception, overrides: Sequence[str]) -> XlaSweepsError:
    """Hydra's and OmegaConf's errors as one line of ours."""
    text = str(error)
    if isinstance(error, MissingConfigException):
        missing = re.search(r"Could not find '([^']+)/([^'/]*)'", text)
        if missing:
            return _unknown_choice(missing[1], missing[2])
        primary = re.search(r"Cannot find primary config '([^']+)'", text)
        if primary:
            return ConfigError(f"no configuration file '{primary[1]}' in {catalog.conf_dir()}")
    cause = error.__cause__ or error.__context__
    if isinstance(cause, yaml.YAMLError):
        return ConfigError(_yaml_message(cause, catalog.conf_dir()))
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return _unknown_option(unknown[1].split("@")[0])
    ambiguous = re.search(r"Ambiguous value for argument '([^']+)'", text)
    if ambiguous:
        return ConfigError(f"'{ambiguous[1]}' gives several values: add -m to run each of them")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ConfigError(" ".join(lines[:2]) if lines else type(error).__name__)


def _unknown_option(path: str) -> ConfigError:
    """Error for an override of something that is not there, with the nearest option of its group."""
    group, _, _ = path.partition(".")
    inner: dict[str, list[str]] = {
        "effort": [item.name for item in fields(Effort)],
        "timeouts": [item.name.removesuffix("_s") for item in fields(Timeouts)],
        "tracker": [item.name for item in fields(TrackerSettings)],
    }
    if "." in path and group in inner:
        return unknown_name("option", path, [f"{group}.{name}" for name in inner[group]], listed=len(_TOP_KEYS))
    return unknown_name("option", path, _TOP_KEYS, listed=len(_TOP_KEYS))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _unknown_choice(group: str, choice: str) -> ConfigError:
    if not choice:
        return ConfigError(f"{group}: name one, as in {group}={group_choices(group)[0]}")
    if group == "model":
        return catalog.unknown_model(choice)
    return unknown_name(group, choice, group_choices(group))


def _yaml_message(error: Exception, place: Path) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"{place}: not valid YAML: {problem}"
    name = mark.name if str(mark.name).endswith((".yaml", ".yml")) else place
    return f"{name}:{mark.line + 1}: not valid YAML: {problem}"
