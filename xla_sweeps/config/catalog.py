"""The model catalog: the files of `conf/model/`, validated, without Hydra or TensorFlow."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from xla_sweeps.config.foreign import is_name, yaml_message
from xla_sweeps.config.own_files import own_model_hint
from xla_sweeps.config.values import convert
from xla_sweeps.errors import ConfigError, did_you_mean, unknown_name
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.trial import InputSpec, ModelSpec

_PACKAGE = Path(__file__).resolve().parents[1]

CHANNELS = 3

_Positive = Annotated[int, msgspec.Meta(ge=1)]

_READS_FILES = ("Tokenizer", "Preprocessor", "Converter")

_PRESET_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9.]+)+")


@dataclass(frozen=True, slots=True)
class Source:
    """A place that models come from.

    Attributes:
        libraries: what may build its models; the first by default.
        package: the distribution that must be installed beside the core, whose version decides what
            its models are, or "".
        extra: the extra of this package that installs it, or "".
        presets: whether `weights` may name a preset of the library.
        dtype_fixed: whether all its models bring their own dtypes, whatever `precision` says.
    """

    libraries: tuple[str, ...]
    package: str = ""
    extra: str = ""
    presets: bool = False
    dtype_fixed: bool = False

    @property
    def module(self) -> str:
        """The module of the package, or ""."""
        return self.package.replace("-", "_")


SOURCES: Mapping[str, Source] = {
    "applications": Source(("keras", "tf_keras")),
    "keras_cv": Source(("keras_cv",), package="keras-cv", extra="keras-cv", presets=True),
    "keras_hub": Source(("keras_hub",), package="keras-hub", extra="keras-hub", presets=True),
    "hub": Source(("tensorflow_hub",), package="tensorflow-hub", extra="hub", dtype_fixed=True),
    "examples": Source(("examples",)),
    LOCAL: Source((LOCAL,)),
}
"""Every source, as `source=NAME` chooses it."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Published figures of a model, at its native resolution.

    Attributes:
        params_million: parameters, 1e6, as printed.
        params_of: which are counted: `all`, or `trainable` (without moving statistics).
        gmacs: multiply-accumulates of one image, 1e9, or None.
        params_note: why the built model has other parameters, if it does.
        gmacs_note: why it has other multiply-accumulates, if it does.
    """

    params_million: float
    params_source: str
    params_of: str = "all"
    gmacs: float | None = None
    gmacs_source: str | None = None
    params_note: str = ""
    gmacs_note: str = ""


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The recipe by which one source builds a model.

    Attributes:
        library: what builds it.
        recipe: `constructor` and `arguments` (nested where an argument is itself constructed;
            `shape` and `size` name the arguments that take the input's shape, or its height and
            width), or a `handle` and its `replica`.
        published: figures of this source's model, where they are not the entry's.
        fixed_resolution: whether only the native resolution can be run.
        min_resolution: the smallest that this source's constructor takes, px, where that is more
            than the entry's.
    """

    library: str
    recipe: dict[str, Any]
    published: Published | None = None
    fixed_resolution: bool = False
    min_resolution: _Positive = 1


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model variant.

    Attributes:
        aliases: other names of the model; suggested, never accepted.
        resolution: native side of the square input, px.
        min_resolution: the smallest that its constructor takes, px.
        divisor: the resolution must be a multiple of it, px.
        frames: of a video clip; None for images.
    """

    name: str
    family: str
    variant: str
    task: str
    resolution: _Positive
    sources: dict[str, SourceEntry]
    min_resolution: _Positive = 1
    published: Published | None = None
    divisor: _Positive = 1
    frames: _Positive | None = None
    aliases: tuple[str, ...] = ()

    def published_in(self, source: str) -> Published | None:
        """Published figures of this source's model."""
        return self.sources[source].published or self.published


def conf_dir() -> Path:
    """The configuration folder."""
    return _shipped_folder("conf")


def shipped_sweeps() -> dict[str, Path]:
    """The sweep definitions that come with the package, by name."""
    return {path.stem: path for path in sorted(_shipped_folder("sweeps").glob("*.yaml"))}


def _shipped_folder(name: str) -> Path:
    """A folder of data: inside the installed wheel, or beside the package in a checkout."""
    for folder in (_PACKAGE / "data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    why = "install it with pip, since a zip file or the package's folder alone does not run"
    raise ConfigError(f"{_PACKAGE}: its folder {name}/ is missing; {why}")


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """Every model of `conf/model/` by name, in alphabetical order."""
    entries = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted((conf_dir() / "model").glob("*.yaml")):
        if path.stem == LOCAL:
            continue
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        except yaml.YAMLError as error:
            raise ConfigError(yaml_message(error, path)) from error
        entry = entry_of(document, where=str(path))
        entries[entry.name] = entry
    return entries


LAYERS = "xla_sweeps.backends.keras.single_layers"
"""The module that builds models of one layer, as in `path=MODULE:LSTM`."""


@cache
def load_layers() -> dict[str, dict[str, Any]]:
    """Shapes of `inputs`, perhaps their `dtype`, and `arguments` of each of these layers."""
    layers: dict[str, dict[str, Any]] = yaml.safe_load(
        (conf_dir() / "layers.yaml").read_text(encoding="utf-8")
    )
    return layers


def find(pattern: str, entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """Entries with a name, family, variant or alias that holds a pattern, or matches its glob."""
    wanted = pattern.lower()
    glob = wanted if any(character in wanted for character in "*?[") else f"*{wanted}*"
    return [
        entry
        for entry in entries
        if any(
            fnmatch.fnmatchcase(word.lower(), glob)
            for word in (entry.name, entry.family, entry.variant, *entry.aliases)
        )
    ]


def unknown_model(given: str, own: Iterable[str] = ()) -> ConfigError:
    """Error for a model that is not known, with the nearest one, aliases and `own` considered."""
    words = {**names(), **{name: name for name in own}}
    near = difflib.get_close_matches(given.lower(), list(words), n=2, cutoff=0.5)
    hint = did_you_mean(given, [words[name] for name in near])
    if file := own_model_hint(given):
        hint = f" {file}."
    elif given.startswith("["):
        hint = f" For several: values: {given} in a sweep file, or -m model={given.strip('[]')}."
    elif "*" in given:
        hint = f" For all that match: -m 'model=glob({given})'."
    count = len(load_catalog())
    return ConfigError(f"unknown model '{given}'.{hint} `xla-sweeps models` lists all {count}.")


def names() -> dict[str, str]:
    """Every model's name, by its name and its aliases."""
    entries = load_catalog().values()
    return {word: entry.name for entry in entries for word in (entry.name, *entry.aliases)}


def model_spec(
    document: Mapping[str, Any], *, source: str | None, resolution: int | None, weights: str
) -> ModelSpec:
    """The model that a trial asks for, of one catalog entry as plain data, perhaps a user's own.

    Without a source it is the entry's first; without a resolution (px) the native one.
    """
    entry = entry_of(document, where="model")
    if source is not None and source not in entry.sources:
        raise ConfigError(
            f"source={source}: {entry.name} is not available from it. Sources that have it: "
            f"{', '.join(entry.sources)}."
        )
    name = source or next(iter(entry.sources))
    chosen = entry.sources[name]
    size = _resolution(entry, chosen, name, resolution)
    _check_weights(entry, chosen, name, weights)
    published = entry.published_in(name)
    shape = (size, size, CHANNELS) if entry.frames is None else (entry.frames, size, size, CHANNELS)
    return ModelSpec(
        name=entry.name,
        family=entry.family,
        variant=entry.variant,
        task=entry.task,
        source=name,
        library=chosen.library,
        recipe=dict(chosen.recipe),
        resolution_px=size,
        native_resolution_px=entry.resolution,
        inputs=(InputSpec(shape=shape),),
        weights=weights,
        published_params=published.params_million * 1e6 if published else None,
        published_gmacs=published.gmacs if published else None,
    )


def _resolution(
    entry: CatalogEntry, chosen: SourceEntry, source: str, resolution: int | None
) -> int:
    size = entry.resolution if resolution is None else resolution
    if chosen.fixed_resolution and size != entry.resolution:
        others = [name for name, other in entry.sources.items() if not other.fixed_resolution]
        other = f"; source={others[0]} takes others" if others else ""
        why = f"{entry.name} from source={source} runs at {entry.resolution} px only{other}"
        raise ConfigError(f"resolution={size}: {why}")
    least = max(entry.min_resolution, chosen.min_resolution)
    if size < least:
        where = f" from source={source}" if least > entry.min_resolution else ""
        raise ConfigError(
            f"resolution={size}: too small for {entry.name}{where}, which needs at least {least} "
            f"px (native: {entry.resolution})"
        )
    if size % entry.divisor:
        below = size - size % entry.divisor
        near = [px for px in (below, below + entry.divisor) if px >= entry.min_resolution]
        raise ConfigError(
            f"resolution={size}: {entry.name} needs a multiple of {entry.divisor} px; nearest: "
            f"{' and '.join(str(px) for px in near)} (native: {entry.resolution})"
        )
    return size


def _check_weights(entry: CatalogEntry, chosen: SourceEntry, source: str, weights: str) -> None:
    presets = SOURCES[source].presets
    if weights == "imagenet" and presets and not chosen.recipe.get("preset"):
        raise ConfigError(
            f"weights=imagenet: no pretrained preset of {entry.name} is known for source={source}; "
            "name one, as in weights=PRESET, or use weights=random (speed does not depend on the "
            "values)"
        )
    is_preset_name = presets and bool(_PRESET_NAME.fullmatch(weights))
    is_handle = source == "hub" and (weights.startswith("https://") or Path(weights).is_dir())
    if weights in ("random", "imagenet") or is_preset_name or is_handle or Path(weights).is_file():
        return
    allowed = "a preset's name, or the path" if presets else "the path"
    allowed += " of a weights file"
    if source == "hub":
        allowed = "the path of a SavedModel, or the https:// address of one"
    raise ConfigError(f"weights={weights}: no such file; allowed: random, imagenet, or {allowed}")


def entry_of(document: Any, *, where: str) -> CatalogEntry:
    """Validate one entry; an error is one line with its place."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: not a model entry; name a model, as in model=resnet50")
    given = document.get("sources")
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"{where}: sources is empty")
    sources = {
        str(name): _source(str(name), source, where=f"{where}.sources.{name}")
        for name, source in given.items()
    }
    entry = convert({**document, "sources": sources}, CatalogEntry, where=where)
    if not is_name(entry.name):
        raise ConfigError(f"{where}.name={entry.name}: expected letters, digits, _ and - only")
    return entry


def _source(name: str, document: Any, *, where: str) -> SourceEntry:
    if name not in SOURCES:
        raise unknown_name(f"source in {where.rpartition('.')[0]}", name, SOURCES)
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: give a handle, or constructor and arguments")
    libraries, fields = SOURCES[name].libraries, SourceEntry.__struct_fields__
    own = {"library": libraries[0]} | {key: document[key] for key in fields if key in document}
    left = (*fields, "dtype_fixed")  # of the request, not of the model: config.scenario reads it
    recipe = {key: value for key, value in document.items() if key not in left}
    if own["library"] not in libraries:
        raise ConfigError(f"{where}.library={own['library']}: allowed are {', '.join(libraries)}")
    if name != "hub":
        _check_recipe(recipe, where=where)
    elif not isinstance(recipe.get("handle"), str):
        raise ConfigError(f"{where}: give a handle")
    return convert({**own, "recipe": recipe}, SourceEntry, where=where)


def _check_recipe(document: Mapping[str, Any], *, where: str) -> None:
    """A constructor's public name and its keyword arguments, and so on down."""
    constructor = str(document.get("constructor", ""))
    if not constructor.isidentifier() or constructor.startswith("_"):
        raise ConfigError(f"{where}.constructor={constructor}: expected the name of a public one")
    arguments = document.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"{where}.arguments={arguments}: expected keyword arguments")
    if "weights" in arguments or not is_name(str(document.get("preset", "none"))):
        why = "remove arguments.weights, give the preset by its name, and use weights=FILE"
        raise ConfigError(f"{where}: only your own command line names files: {why}")
    if constructor.endswith(_READS_FILES):
        raise ConfigError(f"{where}.constructor={constructor}: it reads files; leave it out")
    for name, value in arguments.items():
        _check_argument(value, where=f"{where}.arguments.{name}")


def _check_argument(value: Any, *, where: str) -> None:
    """Check what an argument constructs; none of its texts may be a path."""
    if isinstance(value, Mapping):
        if "constructor" in value:
            _check_recipe(value, where=where)
        for name, inner in value.items():
            _check_argument(inner, where=f"{where}.{name}")
    elif isinstance(value, list):
        for inner in value:
            _check_argument(inner, where=where)
    elif isinstance(value, str) and re.search(r"[/\\~]", value):
        raise ConfigError(f"{where}={value}: a recipe names no file")
