"""Upgrades of records: turn the document of an earlier schema into one of the next.

Up to schema 3 a record held the configuration as Hydra composed it. Early versions left out what
they did not have yet, and wrote a choice as a mapping with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Annotated, Any, get_args

import msgspec

from xla_sweeps.schema.measurement import Flagged, Status
from xla_sweeps.schema.modes import Mode, Scenario
from xla_sweeps.schema.options import LOCAL, name_of
from xla_sweeps.schema.trial import (
    Effort,
    FlagValue,
    InputSpec,
    Precision,
    Timeouts,
    TrackerSettings,
    Training,
)

_REFUSED = "refused:"
"""Beginning of the reason where a mode could not be verified, up to schema 4."""

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]

_NO_RECIPE = ("library", "published", "fixed_resolution", "min_resolution", "dtype_fixed")
"""Keys of a source in the catalog that are no arguments of what builds the model."""


class _Config(msgspec.Struct):
    """The values of a configuration whose types are checked; others are read if they fit."""

    batch_size: _Count | None = None
    batches: _Count | None = None
    modes: list[str] | None = None
    tracker: dict[str, Any] | None = None


def typed_trial(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 4 has `trial` and `tracker` in place of `config` and `data`, and typed flags."""
    config, data = document.pop("config"), document.pop("data", None)
    read = msgspec.convert(config, _Config)
    tracker = read.tracker or {}
    training = None
    if _text(config.get("optimizer")):
        training = {
            "optimizer": config["optimizer"],
            "learning_rate": _number(config.get("learning_rate")) or Training().learning_rate,
            "data": data,
        }
    return document | {
        "trial": {
            "model": _model(config, document),
            "modes": read.modes or list(document["modes"]),
            "batch_size": read.batch_size or 1,
            "batches": read.batches or 1,
            "precision": _text(config.get("precision")) or str(Precision.FLOAT32),
            "tf32": config.get("tf32") is True,
            "seed": _whole(config.get("seed")) or 0,
            "device": _text(config.get("device")),
            "scenario": name_of(config.get("scenario")) or str(Scenario.CALL),
            "effort": _effort(config.get("effort")),
            "timeouts": _timeouts(config.get("timeouts")),
            "memory_limit_bytes": round((_number(config.get("memory_limit_gib")) or 0) * 2**30),
            "runtime": _runtime(config),
            "training": training,
        },
        "tracker": {
            field.name: tracker[field.name]
            for field in fields(TrackerSettings)
            if tracker.get(field.name) is not None
        },
        "modes": {label: _mode(outcome) for label, outcome in document["modes"].items()},
        "flags": [asdict(Flagged.parse(text)) for text in document.get("flags", ())],
    }


def _mode(outcome: Any) -> Any:
    """A mode's outcome; `refused` was how the reason of its agreement began."""
    agreement = _mapping(_mapping(outcome).get("agreement"))
    reason = _text(agreement.get("reason"))
    if not reason.startswith(_REFUSED):
        return outcome
    reason = reason.removeprefix(_REFUSED).strip()
    return {**outcome, "agreement": {**agreement, "reason": reason, "refused": True}}


def unverifiable(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 5 has a status of its own for a mode that cannot be verified, and none for eager."""
    modes = {label: _unverifiable(label, outcome) for label, outcome in document["modes"].items()}
    return document | {"modes": modes}


def _unverifiable(label: str, outcome: Any) -> Any:
    failure = _mapping(_mapping(outcome).get("failure"))
    message = _text(failure.get("message"))
    if not message.startswith(_REFUSED) or outcome["status"] != Status.WRONG_RESULT:
        return outcome
    if label == Mode.EAGER:
        return {**outcome, "status": str(Status.OK), "failure": None}
    message = message.removeprefix(_REFUSED).strip()
    status = str(Status.UNVERIFIABLE)
    return {**outcome, "status": status, "failure": {**failure, "message": message}}


UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda document: document,  # 2 has the digest, and the same members
    2: lambda document: document,  # 3 has modes whose names an earlier version takes for copies
    3: typed_trial,
    4: unverifiable,
}
"""The function that turns a document of each earlier schema into the next one."""


def _model(config: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    built = document["model"]
    entry = _mapping(config.get("model"))
    source = name_of(config.get("source")) or str(built["source"])
    chosen = _mapping(_mapping(entry.get("sources")).get(source))
    library = _text(chosen.get("library")) or _LIBRARIES.get(source, source)
    recipe = {key: value for key, value in chosen.items() if key not in _NO_RECIPE}
    published = _mapping(chosen.get("published")) or _mapping(entry.get("published"))
    version, size = _whole(config.get("keras")), _whole(config.get("resolution"))
    if source == LOCAL:
        recipe = {key: config[key] for key in ("path", "import") if config.get(key) is not None}
    elif version == 2 and source == "examples":
        recipe["library"] = "tf_keras"
    elif version == 2:
        library = "tf_keras"
    params, gmacs = (_number(published.get(name)) for name in ("params_million", "gmacs"))
    return {
        **{name: built[name] for name in ("name", "family", "variant", "task")},
        "source": source,
        "library": library,
        "recipe": recipe,
        "resolution_px": size,
        "native_resolution_px": _whole(entry.get("resolution")),
        "inputs": _inputs(config, source, size, _whole(entry.get("frames"))),
        "weights": "own" if source == LOCAL else _text(config.get("weights")) or "random",
        "published_params": None if params is None else params * 1e6,
        "published_gmacs": gmacs,
        "keras": version,
    }


_LIBRARIES = {"applications": "keras", "hub": "tensorflow_hub"}
"""The library of a source whose entry names none; of the others it has the source's name."""


def _inputs(
    config: Mapping[str, Any], source: str, size: int | None, frames: int | None
) -> list[Any]:
    if source != LOCAL:
        shape = (*([frames] if frames else []), size or 0, size or 0, 3)
        return [asdict(InputSpec(shape=shape))] if size else []
    given = config.get("input_spec") or []
    return [given] if isinstance(given, Mapping) else list(given)


def _effort(given: Any) -> dict[str, Any]:
    """A level; 0 for the values that the record does not hold."""
    values: dict[str, Any] = {
        field.name: 0 if field.type != "bool" else False
        for field in fields(Effort)
        if field.default is MISSING
    }
    names = {field.name for field in fields(Effort)}
    return {
        **values,
        **{
            name: value
            for name, value in _mapping(given).items()
            if name in names and value is not None
        },
        "name": name_of(given),
    }


def _timeouts(given: Any) -> dict[str, Any]:
    names = {field.name for field in fields(Timeouts)}
    return {f"{key}_s": each for key, each in _mapping(given).items() if f"{key}_s" in names}


def _runtime(config: Mapping[str, Any]) -> dict[str, Any]:
    threads = _mapping(config.get("threads"))
    onednn = config.get("onednn")
    return {
        **{
            name: {
                key: value
                for key, value in _mapping(config.get(name)).items()
                if isinstance(value, get_args(FlagValue))
            }
            for name in ("xla_flags", "tf_xla_flags")
        },
        "intra_threads": _whole(threads.get("intra")),
        "inter_threads": _whole(threads.get("inter")),
        "onednn": onednn if isinstance(onednn, bool) else None,
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole else None
