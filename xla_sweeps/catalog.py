"""The model catalog: what the files of `conf/model/` say, checked, without Hydra and without TensorFlow."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from xla_sweeps.errors import ConfigError
from xla_sweeps.trial import ModelSpec

LIBRARIES = ("keras", "tf_keras")
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """Where a model comes from: a constructor in `<library>.applications`, and its keyword arguments."""

    library: str
    constructor: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What others published of a model, at its native resolution.

    Attributes:
        params_million: parameters, 1e6, as printed.
        params_of: which are counted: `all`, or `trainable` (without moving statistics).
        gmacs: multiply-accumulates of one image, 1e9, or None.
    """

    params_million: float
    params_of: str
    params_source: str
    gmacs: float | None
    gmacs_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One model variant.

    Attributes:
        aliases: other names that people know it by; suggested, never accepted.
        resolution: native side of the square input, px.
        min_resolution: the smallest that its constructor takes, px.
    """

    name: str
    family: str
    variant: str
    task: str
    resolution: int
    min_resolution: int
    sources: Mapping[str, SourceEntry]
    published: Published | None
    aliases: tuple[str, ...] = ()


def conf_dir() -> Path:
    """The configuration folder: inside the installed wheel, or beside the package in a checkout."""
    return next((path for path in (_HERE / "conf", _HERE.parent / "conf") if path.is_dir()), _HERE / "conf")


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """Every model of `conf/model/`, by name, in alphabetical order.

    Raises:
        ConfigError: a file is no catalog entry; with file and reason.
    """
    entries = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted((conf_dir() / "model").glob("*.yaml")):
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            raise ConfigError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from error
        entry = _entry(document, where=str(path))
        entries[entry.name] = entry
    return entries


def find(pattern: str) -> list[CatalogEntry]:
    """Entries whose name, family, variant or alias holds the pattern, or matches it as a glob; all for ""."""
    wanted = pattern.lower()
    glob = wanted if any(character in wanted for character in "*?[") else f"*{wanted}*"
    return [
        entry
        for entry in load_catalog().values()
        if any(
            fnmatch.fnmatchcase(word.lower(), glob)
            for word in (entry.name, entry.family, entry.variant, *entry.aliases)
        )
    ]


def unknown_model(given: str) -> ConfigError:
    """Error for a model that is not in the catalog, with the nearest one, aliases considered."""
    catalog = load_catalog()
    names = {name: name for name in catalog}
    names.update({alias: entry.name for entry in catalog.values() for alias in entry.aliases})
    near = difflib.get_close_matches(given.lower(), list(names), n=1, cutoff=0.5)
    hint = f" Did you mean '{names[near[0]]}'?" if near else ""
    return ConfigError(f"unknown model '{given}'.{hint} `xla-sweeps models` lists all {len(catalog)}.")


def model_spec(document: Mapping[str, Any], *, source: str | None, resolution: int | None, weights: str) -> ModelSpec:
    """The model that a trial asks for.

    Args:
        document: the composed `model` group: one catalog entry as plain data, perhaps a user's own.
        source: where to take it from; None for the first source of the entry.
        resolution: px; None for the native one.
        weights: `random`, `imagenet`, or a path.

    Raises:
        ConfigError: the model has no such source, cannot take that resolution, or the entry is malformed.
    """
    entry = _entry(document, where="model")
    if source is not None and source not in entry.sources:
        raise ConfigError(
            f"source={source}: {entry.name} is not available from it. Sources that have it: {', '.join(entry.sources)}."
        )
    name = source or next(iter(entry.sources))
    chosen = entry.sources[name]
    size = entry.resolution if resolution is None else resolution
    if size < entry.min_resolution:
        raise ConfigError(
            f"resolution={size}: too small for {entry.name}, which needs at least {entry.min_resolution} px "
            f"(native: {entry.resolution})"
        )
    if weights not in ("random", "imagenet") and not Path(weights).is_file():
        raise ConfigError(f"weights={weights}: no such file; allowed: random, imagenet, or the path of a weights file")
    published = entry.published
    return ModelSpec(
        name=entry.name, family=entry.family, variant=entry.variant, task=entry.task, source=name,
        library=chosen.library, constructor=chosen.constructor, arguments=dict(chosen.arguments), resolution_px=size,
        native_resolution_px=entry.resolution, weights=weights,
        published_params=published.params_million * 1e6 if published else None,
        published_gmacs=published.gmacs if published else None,
    )  # fmt: skip


def _entry(document: Any, *, where: str) -> CatalogEntry:
    """Check one entry; every reason is one line with its place."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: not a model entry; name a model, as in model=resnet50")
    sources = _field(document, "sources", Mapping, where)
    if not sources:
        raise ConfigError(f"{where}: sources is empty")
    published = document.get("published")
    return CatalogEntry(
        name=_field(document, "name", str, where),
        family=_field(document, "family", str, where),
        variant=_field(document, "variant", str, where),
        task=_field(document, "task", str, where),
        resolution=_field(document, "resolution", int, where),
        min_resolution=_field({"min_resolution": 1, **document}, "min_resolution", int, where),
        sources={str(name): _source(entry, where=f"{where}.sources.{name}") for name, entry in sources.items()},
        published=_published(published, where=f"{where}.published") if published else None,
        aliases=tuple(str(alias) for alias in document.get("aliases") or ()),
    )


def _source(document: Any, *, where: str) -> SourceEntry:
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: give library and constructor")
    library, constructor = _field(document, "library", str, where), _field(document, "constructor", str, where)
    if library not in LIBRARIES:
        raise ConfigError(f"{where}.library={library}: allowed are {', '.join(LIBRARIES)}")
    if not constructor.isidentifier() or constructor.startswith("_"):
        raise ConfigError(f"{where}.constructor={constructor}: the name of a public constructor is needed")
    arguments = document.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"{where}.arguments={arguments}: keyword arguments are needed")
    return SourceEntry(library=library, constructor=constructor, arguments=dict(arguments))


def _published(document: Any, *, where: str) -> Published:
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: give params_million and its source")
    gmacs = document.get("gmacs")
    return Published(
        params_million=float(_field(document, "params_million", int | float, where)),
        params_of=str(document.get("params_of", "all")),
        params_source=_field(document, "params_source", str, where),
        gmacs=None if gmacs is None else float(gmacs),
        gmacs_source=document.get("gmacs_source"),
    )


def _field(document: Mapping[str, Any], key: str, kind: Any, where: str) -> Any:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, kind):
        name = getattr(kind, "__name__", "number")
        raise ConfigError(f"{where}.{key}={value}: a {name} is needed")
    if isinstance(value, int) and value < 1:
        raise ConfigError(f"{where}.{key}={value}: it must be at least 1")
    return value
