"""Compose `conf/` and overrides with Hydra; whatever it reports is a `ConfigError` of one line.

Unsafe input is refused before anything is composed: `_target_`, resolvers that read the
environment, Hydra's own options. `foreign` says what a file may set.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.utils import run_job
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    ConfigTypeError,
    InterpolationKeyError,
    OmegaConfBaseException,
)

from xla_sweeps.config import catalog
from xla_sweeps.config.foreign import HYDRA_KEYS, MAX_YAML_DEPTH, check_safe, texts, yaml_message
from xla_sweeps.config.own_folder import CONFIG, Loader, OwnFolder, whole
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError, XlaSweepsError, unknown_name
from xla_sweeps.schema.options import BY_NAME, GROUPS, missing_option, unknown_option
from xla_sweeps.schema.overrides import flatten, key_of, keys_of, option_of, overrides
from xla_sweeps.system.installation import install

ALLOWED_RESOLVERS = {"now", "hydra", "oc.select", "oc.dict.keys", "oc.dict.values"}

LAUNCHERS = ("joblib", "ray", "rq", "submitit_local", "submitit_slurm")
"""Launchers of Hydra's plugins: the first word of each is that of the package that has it."""

SHOWN_CHARACTERS = 60
"""The longest text that a message repeats whole."""

_RESOLVER = re.compile(r"\$\{\s*([A-Za-z_][\w.]*)\s*:")


def compose_config(words: Sequence[str], *, config_dir: OwnFolder | None = None) -> dict[str, Any]:
    """The configuration for these overrides as plain data; otherwise as `compose_run`."""
    return compose_run(words, config_dir=config_dir)[0]


def compose_run(
    words: Sequence[str], *, config_dir: OwnFolder | None = None
) -> tuple[dict[str, Any], Callable[[TaskFunction], Any]]:
    """Compose the configuration for these overrides: `model=resnet50`, `+experiment=mine`.

    Returns:
        The configuration as plain data, and what calls a task with it as Hydra does, which keeps it
        in Hydra's output folder; it raises a `ConfigError` too, where it cannot name that folder.
    """
    check_overrides(words)
    for override in map(parse_overrides, words):
        if override.is_sweep_override():
            several = str(override.input_line)
            raise ConfigError(
                f"'{several}' gives several values: add -m to run each of them. {_listing(several)}"
            )
    with composing(config_dir) as (hydra, name):
        composed = compose(name, overrides=list(words), return_hydra_config=True)
        config = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        for text in texts(OmegaConf.to_container(config, resolve=False)):
            _check_text(text, where="configuration")
        document: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)

    def run(task: TaskFunction) -> Any:
        with _one_line_errors():
            context = HydraContext(hydra.config_loader, Callbacks(composed))
            place: dict[str, Any] = {"job_dir_key": "hydra.run.dir", "job_subdir_key": None}
            return run_job(task, composed, hydra_context=context, **place).return_value

    return document, run


@contextlib.contextmanager
def composing(config_dir: OwnFolder | None) -> Iterator[tuple[Hydra, str]]:
    """Hydra with `conf/` and a further folder, and the name of the configuration to compose.

    No resolver reads more than the configuration.
    """
    if config_dir is not None:
        config_dir.require()
    GlobalHydra.instance().clear()
    with (
        # Hydra raises a ValueError for what a file's defaults hold
        _one_line_errors(ValueError, config_dir=config_dir),
        initialize_config_dir(str(catalog.conf_dir()), version_base="1.3", job_name="xla_sweeps"),
    ):
        for resolver in set(BaseContainer._resolvers) - ALLOWED_RESOLVERS:  # listed in private only
            OmegaConf.clear_resolver(resolver)
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        hydra.config_loader = Loader(hydra.config_loader.get_search_path(), config_dir)
        yield hydra, whole(config_dir.primary if config_dir else CONFIG)


def sweeper_params(words: Sequence[str], config_dir: OwnFolder | None) -> list[str]:
    """The overrides in `hydra.sweeper.params` of files that are trusted, but for those typed."""
    if config_dir is None or not config_dir.trusted:
        return []
    with composing(config_dir) as (hydra, name):
        config = hydra.compose_config(name, list(words), RunMode.MULTIRUN)
        given = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
    return [word for word in given if key_of(word) not in keys_of(words)]


def without_own_files(
    words: Sequence[str], document: Mapping[str, Any], config_dir: OwnFolder | None
) -> Sequence[str]:
    """Overrides for the same trial that need no file which only its owner trusts."""
    if config_dir is None or not config_dir.has_own:
        return words
    kept = [word for word in words if option_of(word) in BY_NAME]
    for group in ("model", "effort"):
        if group not in keys_of(kept):
            kept.insert(0, f"{group}={document[group]['name']}")
    try:
        base = flatten(compose_config(kept, config_dir=OwnFolder(config_dir.path)))
    except ConfigError:  # its own model or effort names files too
        return words
    more = {key: value for key, value in flatten(document).items() if base.get(key) != value}
    return [*kept, *overrides(more)]


@contextlib.contextmanager
def _one_line_errors(*more: type[Exception], config_dir: OwnFolder | None = None) -> Iterator[None]:
    """Turn what Hydra, OmegaConf or YAML reports, and these errors, into one line."""
    reported: tuple[type[Exception], ...] = (HydraException, OmegaConfBaseException, yaml.YAMLError)
    try:
        yield
    except (*reported, *more) as error:
        raise _translate(error, config_dir) from error


def _translate(error: Exception, config_dir: OwnFolder | None) -> XlaSweepsError:
    """Errors of Hydra, OmegaConf and YAML as one line of ours."""
    cause = error.__cause__ or error.__context__ or error
    for each in (error, cause):
        if isinstance(each, yaml.YAMLError):
            return ConfigError(yaml_message(each, catalog.conf_dir()))
    missing = getattr(error, "missing_cfg_file", None) or ""
    if "/" in missing:
        is_model = missing.startswith("model/")  # it may be a path: model=./net.py
        group, _, choice = missing.partition("/") if is_model else missing.rpartition("/")
        return unknown_choice(group, choice, config_dir)
    if isinstance(cause, ConfigKeyError | ConfigAttributeError) and cause.full_key:
        group, _, inner = cause.full_key.partition(".")
        if group in BY_NAME and not inner:
            return missing_option(group)
        keys = BY_NAME[group].keys if inner and group in BY_NAME else {}
        names = [f"{group}.{key}" for key in keys]
        return unknown_option(cause.full_key, names)
    if isinstance(cause, ConfigTypeError) and (option := BY_NAME.get(cause.full_key or "")):
        return ConfigError(f"{option.name}: write {option.usage}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, InterpolationKeyError):
        lines[1:] = ["(to write ${ as text, put a backslash before it)"]
    return ConfigError(" ".join(lines[:2]) if lines else type(error).__name__)


def check_overrides(words: Sequence[str]) -> None:
    """Refuse what is unsafe or contradictory before anything is composed.

    That is `_target_`, a resolver that reads the environment, and one key with two values.
    """
    seen: dict[str, str] = {}
    for text in words:
        _check_text(text, where=f"override '{text}'")
        override = parse_overrides(text)
        _check_reach(override)
        key = override.key_or_group
        if not str(key):
            raise ConfigError(f"'{_cut(text)}': expected KEY=VALUE, as in model=resnet50")
        if key in seen and seen[key] != text:
            raise ConfigError(f"conflicting overrides: '{seen[key]}' and '{text}'; give {key} once")
        seen[key] = text


def parse_overrides(text: str) -> Override:
    """One override as Hydra reads it; what it cannot read is refused with how to quote it."""
    reason = f"nested deeper than {MAX_YAML_DEPTH} levels"
    try:
        override = OverridesParser.create().parse_override(text)
        if _depth(override.value()) <= MAX_YAML_DEPTH:
            return override
    except RecursionError:
        pass
    except HydraException as error:
        reason = str(error).splitlines()[0]
    except ValueError:
        reason = "it has a number of too many digits"
    raise ConfigError(f"cannot read the override '{_cut(text)}': {reason}. {quoting(text)}")


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, dict | list) else 0


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def quoting(text: str) -> str:
    """Advice on writing an override whose value is one text, as a shell takes it."""
    key, equals, value = text.partition("=")
    plain = equals and re.fullmatch(r"[\w.+/]+", key) and len(value) <= SHOWN_CHARACTERS
    if not plain or set(value) & set("\\\"'${}[]"):
        return "Write key=value."
    quoted = shlex.quote(f'{key}="{value}"')
    return f"Quote what is a text: {quoted}"


def _listing(text: str) -> str:
    """Advice on writing an override of several values as one value."""
    key, _, values = text.partition("=")
    if key in BY_NAME and "=[" in BY_NAME[key].usage:
        return f"One trial of all: {shlex.quote(f'{key}=[{values}]')}"
    return quoting(text)


def _check_reach(override: Override) -> None:
    """Refuse what would reach Hydra itself, or a file outside the folders of configuration."""
    key, text = override.key_or_group, override.input_line
    if override.package is not None:
        raise ConfigError(f"'{text}': @ is not allowed; write key=value")
    if re.match(r"hydra\b", key):
        launcher = key.startswith("hydra.launcher.")
        plain = override.type is OverrideType.CHANGE or launcher
        settable = launcher or key in HYDRA_KEYS or key == "hydra/launcher"
        if not settable or not plain or override.is_delete():
            raise ConfigError(
                f"'{text}': of Hydra's own options only {', '.join(HYDRA_KEYS)}, hydra/launcher "
                "and hydra.launcher.KEY can be set"
            )
        if override.is_sweep_override():
            raise ConfigError(f"'{text}': give one value, as in {key}=VALUE")
        if key in ("hydra.run.dir", "hydra.sweep.dir"):
            folder_of(str(override.value()))
    if override.is_delete() and key in BY_NAME:
        raise ConfigError(f"~{key}: it cannot be removed; set it: {BY_NAME[key].usage}")
    if override.is_delete() or override.is_sweep_override():
        return
    value, is_file = override.value(), "/" in key or (key in BY_NAME and BY_NAME[key].in_files)
    if not isinstance(value, str):
        if is_file:
            raise unknown_choice(key, override.get_value_element_as_str())
    elif (is_file or key in GROUPS) and (".." in value or value.startswith("/")):
        if key == "model":
            raise catalog.unknown_model(value)
        raise ConfigError(f"'{text}': expected the name of a file in {key}/, not a path")
    if text and text.startswith("+") and key in BY_NAME and is_file:
        raise ConfigError(f"'{text}': it has a value already; write {text.lstrip('+')}")


def override_values(words: Sequence[str]) -> dict[str, Any]:
    """The value of each plain `key=value` override, as Hydra reads it."""
    check_overrides(words)
    values = {}
    for text in words:
        override = parse_overrides(text)
        if override.is_delete() or override.is_sweep_override():
            raise ConfigError(f"'{text}': give one value, as in key=value")
        own = "+" if override.is_add() and override.key_or_group not in BY_NAME else ""
        values[f"{own}{override.key_or_group}"] = override.value()
    return values


def group_choices(group: str, config_dir: OwnFolder | None = None) -> list[str]:
    """The names of the files of a folder of `conf/`, and of `config_dir`."""
    folders = [catalog.conf_dir(), *([config_dir.path] if config_dir else [])]
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


def own_entries(config_dir: OwnFolder | None) -> tuple[dict[str, catalog.CatalogEntry], list[str]]:
    """The models of a folder as trials compose them, and a line for each that is wrong."""
    entries, problems = {}, []
    for name in sorted({*group_choices("model", config_dir)} - {*group_choices("model")}):
        try:
            document = compose_config([f"model={name}"], config_dir=config_dir)
            entry = catalog.entry_of(document["model"], where=f"model={name}")
        except ConfigError as error:
            problems.append(f"model={name} cannot be used: {error}")
        else:
            entries[entry.name] = entry
    return entries, problems


def _check_text(text: str, *, where: str) -> None:
    check_safe(text, where=where)
    for resolver in _RESOLVER.findall(text):
        if resolver not in ALLOWED_RESOLVERS:
            named = f"resolver ${{{resolver}:…}} in {where}"
            raise ConfigError(f"{named} is not allowed: write the value itself")


def unknown_choice(group: str, choice: str, config_dir: OwnFolder | None = None) -> ConfigError:
    """Error for a name that is not a file of a folder of `conf/`, nor of `config_dir`."""
    choices = [*GROUPS.get(group, ()), *group_choices(group, config_dir)]
    if not choice:
        return ConfigError(f"{group}: name one, as in {group}={(choices or ['NAME'])[0]}")
    if group == "model":
        return catalog.unknown_model(choice, choices)
    if group == "hydra/launcher":
        if choice in LAUNCHERS:
            package = f"hydra-{choice.partition('_')[0]}-launcher"
            return ConfigError(f"{group}={choice}: install its plugin: {install(package)}")
        return unknown_name(group, choice, ["basic", *LAUNCHERS])
    return unknown_name(group, choice, choices)
