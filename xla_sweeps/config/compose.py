"""Composes `conf/` and overrides with Hydra; an error is one line.

Unsafe input is refused before anything is composed: `_target_`, resolvers that read the
environment, YAML bombs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from xla_sweeps.config import catalog
from xla_sweeps.errors import ConfigError, XlaSweepsError, unknown_name
from xla_sweeps.schema.options import BY_NAME, NAMES

ALLOWED_RESOLVERS = {"now", "hydra", "oc.select", "oc.dict.keys", "oc.dict.values"}

MAX_YAML_BYTES = 2**20

MAX_YAML_DEPTH = 32

_SHORT = {"tracker": "tracker.name", "source.name": "source", "scenario.name": "scenario"}
"""What an override may be written as, and the key that it sets."""

_RESOLVER = re.compile(r"\$\{\s*([A-Za-z_][\w.]*)\s*:")


def compose_config(overrides: Sequence[str], *, config_dir: Path | None = None) -> DictConfig:
    """Compose the configuration for these overrides.

    Args:
        overrides: as on the command line: `model=resnet50`, `+experiment=mine`.
        config_dir: a further folder of configuration files, searched as Hydra's `--config-dir`
            does.

    Raises:
        ConfigError: what Hydra, OmegaConf or YAML reports, as one line.
    """
    check_overrides(overrides)
    if config_dir is not None:
        check_config_dir(config_dir)
        overrides = [*overrides, f"hydra.searchpath=[file://{config_dir.resolve()}]"]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(
            str(catalog.conf_dir()), version_base="1.3", job_name="xla_sweeps"
        ):
            config = compose("config", overrides=[full_key(word) for word in overrides])
        check_document(OmegaConf.to_container(config, resolve=False))
        return config
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_message(error, catalog.conf_dir())) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise _translated(error) from error


def full_key(override: str) -> str:
    """The override as Hydra composes it: `tracker=wandb` sets `tracker.name`."""
    key, equals, value = override.partition("=")
    full = _SHORT.get(key.lstrip("+"))
    return override if full is None else f"{full}{equals}{value}"


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
            raise ConfigError(
                f"cannot read the override '{text}': {reason}. Write key=value."
            ) from error
        key = override.key_or_group
        if key in seen and seen[key] != text:
            raise ConfigError(f"conflicting overrides: '{seen[key]}' and '{text}'; give {key} once")
        seen[key] = text


def override_values(overrides: Sequence[str]) -> dict[str, Any]:
    """The value of each plain `key=value` override, as Hydra reads it.

    Raises:
        ConfigError: one is unsafe, contradictory, or not a plain assignment.
    """
    check_overrides(overrides)
    values = {}
    for text in overrides:
        override = OverridesParser.create().parse_override(text)
        if override.is_delete() or override.is_sweep_override():
            raise ConfigError(f"'{text}': give one value, as in key=value")
        values[override.key_or_group] = OmegaConf.to_container(
            OmegaConf.create({"value": override.value()})
        )["value"]  # type: ignore[index, call-overload]
    return values


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
        check_file(path)


def check_file(path: Path) -> None:
    """Bound one YAML file before it is parsed.

    Raises:
        ConfigError: with its line: it is absent, too large, nested too deep, has aliases, or is not
            YAML.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    if path.stat().st_size > MAX_YAML_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_YAML_BYTES // 2**20} MiB")
    depth = 0
    try:
        for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError(f"{path}:{_line(event)}: YAML aliases are not allowed")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_YAML_DEPTH:
                raise ConfigError(
                    f"{path}:{_line(event)}: nested deeper than {MAX_YAML_DEPTH} levels"
                )
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(_yaml_message(error, path)) from error


def group_choices(group: str) -> list[str]:
    """The names of the files of a folder of `conf/`."""
    return sorted(path.stem for path in (catalog.conf_dir() / group).glob("*.yaml"))


def plain(config: DictConfig) -> dict[str, Any]:
    """A composed configuration as plain data, interpolations resolved, without Hydra's own node."""
    try:
        document = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise _translated(error) from error
    assert isinstance(document, dict)
    return {str(key): value for key, value in document.items() if key != "hydra"}


def _check_text(text: str, *, where: str) -> None:
    if "_target_" in text:
        raise ConfigError(f"_target_ in {where}: configuration never runs code; remove it")
    for resolver in _RESOLVER.findall(text):
        if resolver not in ALLOWED_RESOLVERS:
            raise ConfigError(
                f"resolver ${{{resolver}:…}} in {where} is not allowed: write the value itself"
            )


def _translated(error: Exception) -> XlaSweepsError:
    """Hydra's and OmegaConf's errors as one line of ours."""
    text = str(error)
    if isinstance(error, MissingConfigException):
        missing = re.search(r"Could not find '([^']+)/([^'/]*)'", text)
        if missing:
            return unknown_choice(missing[1], missing[2])
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
    """Error for an override of an unknown option, with the nearest one of its group."""
    group, _, inner = path.partition(".")
    keys = BY_NAME[group].keys if group in BY_NAME else {}
    known = [f"{group}.{key}" for key in keys] if inner and keys else NAMES
    return unknown_name("option", path, known, listed=len(known))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def unknown_choice(group: str, choice: str) -> ConfigError:
    """Error for a name that is not a file of a folder of `conf/`."""
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
