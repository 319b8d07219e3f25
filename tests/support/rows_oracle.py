"""Compare the kept rows of a results folder with those of its records, computed once more.

It shares no code with what made the rows: an edited or foreign cache is found.
"""

from __future__ import annotations

import json
import math
import stat
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from record_oracle import asked_in

from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.store.table import check_size

_MIN_ROUNDS = 6

_WITHHELD = ("wrong_result", "nondeterministic", "retraced", "mode_not_effective")

_MODEL = ("family", "variant", "source", "task", "resolution_px", "params", "macs")

_COLUMNS = (
    "trial_id",
    "baseline",
    "candidate",
    "status",
    "batch_size",
    "device",
    "model",
    "statistics_version",
    "speedup",
    "speedup_low",
    "speedup_high",
    "speedup_percent",
    "call_ms",
    "baseline_call_ms",
    "throughput_samples_per_s",
    "baseline_throughput_samples_per_s",
    *_MODEL,
)

_Document = Mapping[str, Any]


class Kept:
    """The rows that `cache/` keeps, to be compared with the records trial by trial.

    Args:
        results_dir: the results folder.
    """

    def __init__(self, results_dir: Path) -> None:
        self._cache = results_dir / "cache"
        self._lines: list[str] = []
        self._rows: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        self._wrong: dict[Path, list[str]] = {}
        path = self._cache / "rows.parquet"
        try:
            for row in _believed(path, results_dir):
                self._rows.setdefault(row["trial_id"], []).append((path, row))
        except FileNotFoundError:
            pass
        except Exception as error:
            self._lines.append(f"{path}: cannot be read: {type(error).__name__}: {error}")

    def compare(self, trial: str, documents: Sequence[_Document]) -> None:
        """Compare the kept rows of a trial with its records."""
        for path, row in self._rows.pop(trial, ()):
            try:
                self._wrong.setdefault(path, []).extend(_wrong(row, documents))
            except Exception as error:
                self._wrong[path].append(f"{trial}: {type(error).__name__}: {error}")

    def differing(self) -> Iterator[str]:
        """A line for each kept file that cannot be read, or whose rows are not of the records."""
        for trial in list(self._rows):
            self.compare(trial, ())
        yield from self._lines
        for path, wrong in self._wrong.items():
            if wrong:
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                yield f"{path}: not the rows of the records: {wrong[0]}{more}; delete {self._cache}"


def _believed(path: Path, results_dir: Path) -> Iterator[dict[str, Any]]:
    """The rows that readers would believe: of this folder, and of trials as they are now."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("not a regular file")
    records = results_dir / "records"
    file = pyarrow.parquet.ParquetFile(path)
    beside = json.loads((file.metadata.metadata or {})[b"xla_sweeps"])
    version, modified = beside.get("version", ()), beside.get("modified_ns", {})
    if len(version) != 4 or version[-1] != records.stat().st_ino:
        return
    if not set(_COLUMNS) <= set(file.schema_arrow.names):
        return
    check_size(file.metadata, sum(1 for _ in records.iterdir()))
    for row in file.read().to_pylist():
        folder = records / row["trial_id"]
        now = folder.stat().st_mtime_ns if folder.is_dir() else None
        if modified.get(row["trial_id"]) != now:
            continue
        if row["statistics_version"] == STATISTICS_VERSION:
            yield row


def _wrong(row: Mapping[str, Any], documents: Sequence[_Document]) -> Iterator[str]:
    """Columns that do not match the records of the trial."""
    what = f"{row['candidate']} against {row['baseline']} of {row['trial_id']}"
    if not documents:
        yield f"{what}: there is no record"
        return
    for name, value in _expected(row, documents).items():
        kept = row[name]
        close = (
            math.isclose(kept, value, rel_tol=1e-6)
            if isinstance(kept, float) and isinstance(value, float)
            else kept == value
        )
        if not close:
            yield f"{what}: {name} is {kept!r} there and {value!r} here"
    bounds = [row["speedup_low"], row["speedup"], row["speedup_high"]]
    measured = [bound for bound in bounds if bound is not None]
    if measured != sorted(measured):
        yield f"{what}: its speedup is outside of its interval"


def _expected(row: Mapping[str, Any], documents: Sequence[_Document]) -> dict[str, Any]:
    documents = _newest_build(documents)
    clean = [document for document in documents if document["status"] != "contaminated"]
    enough = any(len(_rounds(document)) >= _MIN_ROUNDS for document in clean)
    counted = clean if enough else documents
    first, candidate, baseline = counted[0], row["candidate"], row["baseline"]
    model = next(
        (document["model"] for document in documents[::-1] if document["model"].get("params")), None
    )
    model = model or documents[-1]["model"]
    batch_size, batches = (asked_in(first).get(name) or 1 for name in ("batch_size", "batches"))
    training = asked_in(first).get("training") or {}
    samples, data = batch_size * batches, first.get("data") or training.get("data")
    samples = min(samples, data["pictures"]) if data else samples
    labels = [label for label in (baseline, candidate) if label]
    statuses = [_status(documents, label) for label in labels[::-1]]
    failed = next((status for status in statuses if status != "ok"), None)
    rounds, contaminated = _counting(documents, *labels)
    ratios = [[math.log(calls[0] / calls[1]) for calls in group] for group in rounds if baseline]
    speedup = _estimate(ratios)
    value = None if failed or speedup is None else math.exp(speedup)
    expected: dict[str, Any] = {
        "batch_size": batch_size,
        "device": str(first["device"].get("name", "")),
        "model": model["name"],
        **{name: model.get(name) for name in _MODEL},
        "speedup": value,
        "speedup_percent": None if value is None else 100 * (value - 1),
        "status": failed or ("skipped" if not rounds else "contaminated" if contaminated else "ok"),
    }
    for prefix, label in (("", candidate), ("baseline_", baseline)):
        alone, _ = _counting(documents, label)
        log_s = _estimate([[math.log(call_s) for (call_s,) in group] for group in alone])
        expected[f"{prefix}call_ms"] = None if log_s is None else 1e3 * math.exp(log_s)
        rate = None if log_s is None else samples / math.exp(log_s)
        expected[f"{prefix}throughput_samples_per_s"] = rate
    return expected


def _newest_build(documents: Sequence[_Document]) -> list[_Document]:
    """The records that measured what the newest one measured, in order."""
    build: dict[str, Any] = {}
    kept: list[_Document] = []
    for document in sorted(documents, key=lambda document: -int(document["replicate"])):
        model, loaded = _mapping(document["model"]), _mapping(document["environment"]).get("loaded")
        facts = {
            "params": model.get("params"),
            "operations": model.get("fingerprint"),
            **_mapping(_mapping(loaded).get("libraries")),
        }
        facts = {name: value for name, value in facts.items() if value not in (None, "")}
        if all(build.get(name, value) == value for name, value in facts.items()):
            build, kept = {**facts, **build}, [document, *kept]
    return kept


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _status(documents: Sequence[_Document], label: str) -> str:
    modes = [document["modes"][label] for document in documents if label in document["modes"]]
    told = [mode for mode in modes if mode["status"] in ("ok", "nondeterministic")]
    for mode in modes:
        status = str(mode["status"])
        if status in _WITHHELD and (status != "nondeterministic" or mode is told[-1]):
            return status
    works = any(mode["status"] == "ok" and mode.get("latencies_s") for mode in modes)
    failed = [str(mode["status"]) for mode in modes if mode["status"] != "ok"]
    if failed and not works:
        return failed[0]
    cut = [str(document["status"]) for document in documents if document.get("failure")]
    if cut and not (works and _counting(documents, label)[0]):
        return cut[-1]
    return "ok" if works else "skipped"


def _counting(
    documents: Sequence[_Document], *labels: str
) -> tuple[list[list[tuple[float, ...]]], bool]:
    """Seconds a call of the rounds that count, by replicate; True if they are contaminated."""
    quiet = [
        (document["status"] == "contaminated", _calls(document, labels, dirty=False))
        for document in documents
    ]
    enough = [(busy, calls) for busy, calls in quiet if len(calls) >= _MIN_ROUNDS]
    if enough:
        clean = [calls for busy, calls in enough if not busy]
        return clean or [calls for _, calls in enough], not clean
    every = [_calls(document, labels, dirty=True) for document in documents]
    every = [calls for calls in every if len(calls) >= _MIN_ROUNDS]
    return every, bool(every)


def _calls(document: _Document, labels: Sequence[str], *, dirty: bool) -> list[tuple[float, ...]]:
    calls = []
    for round_ in _rounds(document):
        call_s = {
            block["mode"]: block["elapsed_ns"] / block["calls"] / 1e9 for block in round_["blocks"]
        }
        if all(label in call_s for label in labels) and (dirty or not round_.get("dirty")):
            calls.append(tuple(call_s[label] for label in labels))
    return calls


def _rounds(document: _Document) -> Sequence[Mapping[str, Any]]:
    """The rounds that count: none of a replicate that was cut before its effort's least."""
    rounds: Sequence[Mapping[str, Any]] = document["rounds"]
    flags = [flag["flag"] if isinstance(flag, dict) else flag for flag in document.get("flags", ())]
    if "cut_short" not in flags:
        return rounds
    effort = asked_in(document).get("effort")
    least = effort.get("rounds_min") if isinstance(effort, Mapping) else None
    clean = [round_ for round_ in rounds if not round_.get("dirty")]
    return rounds if len(clean) >= (least or _MIN_ROUNDS) else ()


def _estimate(groups: Sequence[Sequence[float]]) -> float | None:
    """The mean over replicates of the median of all averages of two rounds."""
    middles = []
    for group in groups:
        first, second = np.triu_indices(len(group))
        values = np.array(group)
        middles.append(float(np.median((values[first] + values[second]) / 2)))
    return statistics.fmean(middles) if middles else None
