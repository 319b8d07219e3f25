"""Conditions on one record, read as plain JSON; shares no code with the writer."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.system.files import read_regular

SCHEMAS = (1, 2, 3, 4, 5)
"""The schemas that this version knows; from 2 on, the last line is a digest."""

STATUSES = {
    "ok",
    "contaminated",
    "wrong_result",
    "unverifiable",
    "nondeterministic",
    "mode_not_effective",
    "retraced",
    "unsupported_op",
    "dynamic_shape",
    "build_error",
    "trace_error",
    "compile_error",
    "run_error",
    "oom_gpu",
    "oom_host",
    "timeout",
    "crashed",
    "infra",
    "interrupted",
    "skipped",
}

MEASURED = ("ok", "contaminated")

REQUIRED = {
    "schema_version": int,
    "trial_id": str,
    "replicate": int,
    "status": str,
    "model": dict,
    "environment": dict,
    "device": dict,
    "modes": dict,
    "rounds": list,
}

_DIGEST = re.compile(rb',\n "digest": "([0-9a-f]{64})"\n}\Z')

_DIGEST_BYTES = 81

_TOGETHER = (
    ("latency_enqueue_ns", "latencies_s"),
    ("warmup_block_calls", "warmup_block_ns"),
    ("warmup_block_ns", "warmup_block_calls"),
)
"""Lists of a mode: where the first is there, the second has as many values."""

_CLOCK_STEP_S = 2 * 3600
"""A clock that is set while a record is measured may go back by this much."""

_APART = 4.0
"""Two figures of one speed that differ by more than this factor cannot both be right."""


class Unreadable(Exception):
    """The file is no record that can be checked; the text says why."""


def read(path: Path) -> dict[str, Any]:
    """A record as plain data.

    Raises:
        Unreadable: it cannot be read, or is damaged.
    """
    try:
        content = read_regular(path)
        digest = _DIGEST.search(content[-_DIGEST_BYTES:])
        if digest:
            body = content[: -len(digest[0])]
            if hashlib.sha256(body).hexdigest().encode() != digest[1]:
                raise Unreadable("damaged: its digest is not that of its content")
        document = json.loads(content, object_pairs_hook=_once, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Unreadable(f"cannot be read: {reason or error}") from error
    if not isinstance(document, dict):
        raise Unreadable("not a record")
    asked = "config" if document.get("schema_version") in SCHEMAS[:3] else "trial"
    wrong = [
        name
        for name, kind in (REQUIRED | {asked: dict}).items()
        if not isinstance(document.get(name), kind) or isinstance(document[name], bool)
    ]
    if wrong:
        raise Unreadable(f"lacks, or has of the wrong type: {', '.join(wrong)}")
    version = document["schema_version"]
    if version not in SCHEMAS:
        raise Unreadable(f"schema {version} is unknown; known: {', '.join(map(str, SCHEMAS))}")
    if version > 1 and not digest:
        raise Unreadable("damaged: its last line is not a digest")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return members


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def problems_of(path: Path, document: Mapping[str, Any]) -> list[str]:
    """A line for each thing that cannot be true of the record at this path."""
    problems: list[str] = []
    parts = (
        *(_names, _numbers, _configuration, _words, _statuses, _modes, _rounds, _speeds),
        *(_times, _surroundings),
    )
    for part in parts:
        try:
            problems += part(path, document)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            problems.append(
                f"{part.__name__[1:]} cannot be checked: {type(error).__name__}: {error}"
            )
    return list(dict.fromkeys(problems))


def _names(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    if document["trial_id"] != path.parent.name:
        yield f"trial_id {document['trial_id']} differs from the folder's name"
    if str(document["replicate"]) != path.stem:
        yield f"replicate {document['replicate']} differs from the file's name"


def _numbers(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """Each number is finite and fits 64 bits."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{where}.{name}", member) for name, member in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{where}[{number}]", member) for number, member in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{where[1:]} is not finite"
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield f"{where[1:]} does not fit 64 bits"


def asked_in(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request: the trial, or the configuration of a record up to schema 3."""
    if "trial" not in document:
        return dict(document["config"])
    return {**document["trial"], "tracker": document.get("tracker")}


def _configuration(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    config, model, environment = asked_in(document), document["model"], document["environment"]
    lacking = [name for name in ("model", "batch_size", "modes") if name not in config]
    if lacking:
        yield f"config lacks {', '.join(lacking)}"
    batch_size = config.get("batch_size", 1)
    if type(batch_size) is not int or not 1 <= batch_size <= 2**31:
        yield f"config.batch_size {batch_size!r} is not a whole number from 1"
    labels: list[str] = []
    for mode in config.get("modes", list(document["modes"])):
        count = sum(
            re.fullmatch(rf"{re.escape(str(mode))}(_\d+)?", label) is not None for label in labels
        )
        labels.append(f"{mode}_{count + 1}" if count else mode)
    if labels != list(document["modes"]):
        yield f"modes {', '.join(document['modes'])} are not those of config: {', '.join(labels)}"
    tracker = config.get("tracker")
    tags = tracker.get("tags") if isinstance(tracker, dict) else None
    if tracker is not None and not isinstance(tracker, dict):
        yield "config.tracker is not a mapping"
    if tags is not None and not (
        isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    ):
        yield "config.tracker.tags is not a list of texts"
    for name in ("name", "family", "variant", "source", "task"):
        if not isinstance(model.get(name), str):
            yield f"model.{name} is not a text"
    asked = config.get("model")
    if isinstance(asked, dict):
        for name in ("name", "family", "variant", "task"):
            if name in asked and asked[name] != model.get(name):
                yield f"model.{name} {model.get(name)!r} is not that of config: {asked[name]!r}"
    for name in ("resolution_px", "params", "trainable_params", "macs"):
        value = model.get(name)
        if value is not None and (type(value) is not int or value < 0):
            yield f"model.{name} {value!r} is not a whole number from 0"
    if (model.get("trainable_params") or 0) > (model.get("params") or math.inf):
        yield "model.trainable_params is more than model.params"
    for name in ("packages", "loaded", "driver", "flags", "cpu"):
        if not isinstance(environment.get(name) or {}, dict):
            yield f"environment.{name} is not a mapping"
    loaded = environment.get("loaded")
    if isinstance(loaded, dict) and not isinstance(loaded.get("libraries") or {}, dict):
        yield "environment.loaded.libraries is not a mapping"
    by_type = model.get("macs_by_type") or {}
    if not isinstance(by_type, dict) or any(
        type(value) is not int or value < 0 for value in by_type.values()
    ):
        yield "model.macs_by_type is not a mapping of whole numbers from 0"
    if not isinstance(document["device"].get("name", ""), str):
        yield "device.name is not a text"


def _words(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """The words become a command, which people paste into a terminal."""
    words = document.get("words") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        yield "words is not a list of texts"
    elif not all(map(str.isprintable, words)):
        yield "words hold a control character: they give no command"


def _statuses(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    status, modes, rounds = (document[name] for name in ("status", "modes", "rounds"))
    if status not in STATUSES:
        yield f"unknown status {status}"
    if (status in MEASURED) != (document.get("failure") is None):
        yield f"status {status}, and {'a' if document.get('failure') else 'no'} failure"
    if status in MEASURED and not any(mode.get("latencies_s") for mode in modes.values()):
        yield f"{status} without a measured mode"
    all_ok = all(mode.get("status") == "ok" for mode in modes.values())
    if status == "ok" and not rounds and len(modes) > 1 and all_ok:
        yield "ok without a single round"
    dirty = sum(bool(round_.get("dirty")) for round_ in rounds)
    if status == "contaminated" and rounds and 5 * dirty <= len(rounds) - dirty:
        yield f"contaminated, and {dirty} of {len(rounds)} rounds are"
    flags = document.get("flags", [])
    kind: type = dict if document.get("schema_version", 0) >= 4 else str
    if not isinstance(flags, list) or not all(isinstance(flag, kind) for flag in flags):
        yield "flags is not a list of flags"


def _modes(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    for label, mode in document["modes"].items():
        status, agreement = mode.get("status"), mode.get("agreement")
        if status not in STATUSES:
            yield f"{label}: unknown status {status}"
        if (status == "ok") != (mode.get("failure") is None):
            yield f"{label}: status {status}, and {'a' if mode.get('failure') else 'no'} failure"
        silent = agreement and label == "eager" and agreement.get("refused") is True
        if agreement and status == "ok" and agreement.get("ok") is not True and not silent:
            yield f"{label}: ok, and its outputs disagree"
        if status == "ok" and mode.get("effective", {}).get("in_force") is False:
            yield f"{label}: ok, and it was not in force"
        if status == "ok":
            yield from proof(label, mode.get("effective") or {})
        sizes = ("peak_memory_bytes", "steady_memory_bytes")
        for name in ("trace_s", "first_call_s", "compile_s", *sizes):
            if (mode.get(name) or 0) < 0:
                yield f"{label}: {name} {mode[name]} is below 0"
        if any(not value > 0 for value in mode.get("latencies_s", ())):
            yield f"{label}: a latency that is not above 0"
        for one, other in _TOGETHER:
            if mode.get(one) and len(mode[one]) != len(mode.get(other) or ()):
                yield f"{label}: {one} and {other} differ in length"
        first, compiled = mode.get("first_call_s"), mode.get("compile_s")
        if first is not None and compiled is not None and compiled > first:
            yield f"{label}: compile_s {compiled} is more than first_call_s {first}"


def proof(label: str, proof: Mapping[str, Any]) -> Iterator[str]:
    """The name of a mode against the values read back; Keras chooses in some modes."""
    words = re.sub(r"_\d+$", "", label).split("_")
    said = {"executing_eagerly": "eager" in words or label.startswith("call_host")}
    if words[-1] not in ("predict", "batch", "auto", "input"):
        said["jit_compile"] = "xla" in words
    for name, expected in said.items():
        if name in proof and (proof[name] is True) != expected:
            yield f"{label}: ok, and {name} is {proof[name]}"


def _rounds(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    rounds, modes = document["rounds"], document["modes"]
    numbers = [round_["round"] for round_ in rounds]
    if len(set(numbers)) != len(numbers):
        yield "duplicate round"
    elif numbers != sorted(numbers):
        yield "rounds are not in order"
    starts = [round_.get("started_ns", 0) for round_ in rounds]
    if any(later < earlier for earlier, later in itertools.pairwise(starts)):
        yield "a round started before the one before it"
    calls: dict[str, int] = {}
    for round_ in rounds:
        where, spent_ns = f"round {round_['round']}", 0
        if not isinstance(round_.get("dirty", ""), str):
            yield f"{where}: dirty is not a text"
        if any(type(value) not in (int, float) for value in (round_.get("load") or {}).values()):
            yield f"{where}: load is not numbers"
        for block in round_["blocks"]:
            spent_ns += block["elapsed_ns"]
            if block["mode"] not in modes:
                yield f"{where}: a block of an unknown mode {block['mode']}"
            if (
                block["calls"] < 1
                or block["elapsed_ns"] <= 0
                or not 0 <= block["enqueue_ns"] <= block["elapsed_ns"]
            ):
                yield f"{where}: impossible block: {block}"
            if calls.setdefault(block["mode"], block["calls"]) != block["calls"]:
                yield f"{where}: {block['calls']} calls of {block['mode']}, not as before"
        if sorted(round_["order"]) != sorted(block["mode"] for block in round_["blocks"]):
            yield f"{where}: its blocks are not those of its order"
        begun, ended = round_.get("started_ns", 0), round_.get("finished_ns", 0)
        if ended < begun:
            yield f"{where}: finished before it started"
        elif spent_ns > ended - begun:
            yield f"{where}: its blocks take longer than the round"


def _speeds(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """Figures of one speed must agree: blocks, single calls, and the intended length of blocks."""
    effort = asked_in(document).get("effort")
    block_s = effort.get("block_s", 0) if isinstance(effort, dict) else 0
    on_cpu = document["device"].get("kind") == "cpu"
    for label, mode in document["modes"].items():
        blocks = [
            block
            for round_ in document["rounds"]
            for block in round_["blocks"]
            if block["mode"] == label and block["calls"] > 0
        ]
        if not blocks:
            continue
        elapsed_s = statistics.median(block["elapsed_ns"] for block in blocks) / 1e9
        call_s = statistics.median(block["elapsed_ns"] / block["calls"] for block in blocks) / 1e9
        if elapsed_s < block_s / _APART:
            yield f"{label}: its blocks last {elapsed_s:.3g} s, and {block_s:g} s were asked for"
        latencies = mode.get("latencies_s")
        if latencies:
            alone_s = statistics.median(latencies)
            if alone_s * _APART < call_s or (on_cpu and alone_s > call_s * _APART):
                yield f"{label}: a call takes {alone_s:.3g} s alone and {call_s:.3g} s in rounds"


def _times(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    seconds = _wall_s(document)
    if seconds is not None and seconds < -_CLOCK_STEP_S:
        yield "finished before it started"
    spent: Sequence[Any] = list((document.get("seconds") or {}).values())
    if any(not value >= 0 for value in spent):
        yield "seconds: a stage took less than nothing"


def _surroundings(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """Other load of the machine meanwhile."""
    seen = document.get("contamination") or {}
    for name in ("foreign_cores", "cores", "waited_s", "gpu_sm_mhz", "gpu_celsius"):
        value = seen.get(name, 0)
        numbers = value if isinstance(value, list) else [value]
        if not all(type(number) in (int, float) for number in numbers):
            yield f"contamination.{name} is not a number"
        elif any(number < 0 for number in numbers) and name != "gpu_celsius":
            yield f"contamination.{name} {value} is below 0"
    names = seen.get("busiest") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        yield "contamination.busiest is not a list of texts"


def _wall_s(document: Mapping[str, Any]) -> float | None:
    """Seconds from start to finish by the machine's clock; None where one is not known."""
    begun, ended = document.get("started_at") or "", document.get("finished_at") or ""
    if not (begun and ended):
        return None
    first, last = (datetime.datetime.fromisoformat(text) for text in (begun, ended))
    return (last - first).total_seconds()
