"""Folders of further configuration files, and the part of Hydra that reads them.

Each file is checked when it is composed, and no other: `foreign` says what it may set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from xla_sweeps.config.foreign import configuration_text
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import BY_NAME, GROUPS
from xla_sweeps.schema.overrides import option_of, override_value
from xla_sweeps.schema.trial import as_typed

CONFIG = "config"
"""The file of `conf/` that every trial is composed of."""

_TRUSTED = "trusted"


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of `--config-dir`, or of `--trust-config`.

    Attributes:
        trusted: whether its files may set what a person may type.
        primary: the file that is composed first.
    """

    path: Path
    trusted: bool = False
    primary: str = CONFIG

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments that name it."""
        option = "--trust-config" if self.trusted else "--config-dir"
        primary = (f"--config-name={self.primary}",) if self.primary != CONFIG else ()
        return (f"{option}={self.path}", *primary)

    @property
    def has_own(self) -> bool:
        """True if its files may set what only its owner may."""
        return self.trusted or self.primary != CONFIG

    def require(self) -> None:
        """Refuse a folder, or a file to begin with, that is not there."""
        if not self.path.is_dir():
            raise ConfigError(f"{self.words[0].replace('=', ' ')}: no such folder")
        if self.primary != CONFIG and not (self.path / f"{self.primary}.yaml").is_file():
            raise ConfigError(f"{self.words[1]}: no such file in {self.path}")

    def absolute(self) -> OwnFolder:
        """The same, whatever the current folder."""
        return replace(self, path=self.path.absolute())


class _Checked(FileConfigSource):
    """The files of such a folder, each checked when it is read."""

    @staticmethod
    def scheme() -> str:
        return "checked"

    def is_config(self, config_path: str) -> bool:
        """True for a file that is there, and does not stand before one of ours."""
        ours = ConfigStore.instance().get_type(self._normalize_file_name(config_path))
        return ours is not ObjectType.CONFIG and super().is_config(config_path)

    def load_config(self, config_path: str) -> ConfigResult:
        name, trusted = self._normalize_file_name(config_path), self.provider == _TRUSTED
        text = configuration_text(Path(self.path), name, trusted=trusted)
        content = OmegaConf.create(text) if text.strip() else OmegaConf.create()
        header = ConfigSource._get_header_dict(text)
        return ConfigResult(self.provider, f"checked://{self.path}", content, header)


class Loader(ConfigLoaderImpl):
    """Hydra's loader, for which each option with choices is a group of configurations.

    A choice that was typed wins over every file.
    """

    def __init__(self, path: ConfigSearchPath, folder: OwnFolder | None) -> None:
        if folder is not None:
            provider = _TRUSTED if folder.trusted else "foreign"
            path.prepend(provider, f"checked://{folder.path}", SearchPathQuery("schema", None))
        super().__init__(path)

    def load_configuration(
        self, config_name: str | None, overrides: list[str], *given: Any, **more: Any
    ) -> DictConfig:
        """Compose a configuration."""
        typed: dict[str, Any] = {}
        words = [word for text in overrides for word in self._words(text, typed)]
        config = super().load_configuration(config_name, words, *given, **more)
        for name, value in typed.items():
            config[name] = value
        return config

    def _words(self, text: str, typed: dict[str, Any]) -> Sequence[str]:
        """An override as Hydra composes it; a value that is no configuration goes to `typed`."""
        name, bare = option_of(text), text.lstrip("+")
        option = BY_NAME.get(name)
        if option is not None and option.open_keys and text[0] not in "+~":
            return (f"++{text}",)  # the configuration does not have the key
        if name not in GROUPS or not bare.startswith(f"{name}="):
            return (text,)
        override = OverridesParser.create().parse_override(bare)
        if override.is_sweep_override():
            return (bare,)
        value, word = override.value(), as_typed(override.value())
        is_choice = word in GROUPS[name]
        if not is_choice and self.repository.config_exists(f"{name}/{value}"):
            return (bare,)
        if BY_NAME[name].keys:
            return (f"++{name}.name={bare.partition('=')[2]}",)
        typed[name] = value
        return (f"{name}={override_value(word)}",) if is_choice else ()


def whole(primary: str) -> str:
    """The name of a configuration with the groups of the options."""
    name, groups = f"xla_sweeps.{primary}", [{group: None} for group in GROUPS]
    ConfigStore.instance().store(name=name, node={"defaults": [primary, *groups, "_self_"]})
    return name


SourcesRegistry.instance().register(_Checked)
for _group, _choices in GROUPS.items():
    _nested = bool(BY_NAME[_group].keys)
    for _choice in _choices:
        ConfigStore.instance().store(
            group=_group,
            name=_choice,
            node={"name" if _nested else _group: yaml.safe_load(_choice)},
            package=None if _nested else "_global_",
        )
