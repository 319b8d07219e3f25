"""The command `check`: validates a results folder independently of the code that wrote it.

It reads the files as plain JSON and checks what must hold: names, numbers, times, samples, and that
no replicate was stored twice.
"""

from __future__ import annotations

import collections
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.cli import command_parser
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import StoreError


def check_command(arguments: Sequence[str]) -> int:
    """Validate a results folder."""
    parser = command_parser(
        "check",
        "Independent of the code that wrote it. Exit code 1 if there is a problem.",
    )
    parser.add_argument(
        "dir",
        nargs="?",
        default="results",
        type=folder_of,
        help="results folder (default: results)",
    )
    options = parser.parse_args(arguments)
    if not (options.dir / "records").is_dir():
        raise StoreError(f"{options.dir} holds no records")
    counts, problems = check(options.dir)
    for problem in problems:
        print(problem)
    counted = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(f"{options.dir}: {counted}; {len(problems)} problems")
    return 1 if problems else 0


STATUSES = {
    "ok",
    "contaminated",
    "wrong_result",
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

REQUIRED = (
    "schema_version",
    "trial_id",
    "replicate",
    "status",
    "config",
    "model",
    "environment",
    "device",
    "modes",
    "rounds",
)


def check(results_dir: Path) -> tuple[dict[str, int], list[str]]:
    """Counts of what the folder holds, and a line for each problem."""
    problems: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    seen: dict[str, str] = {}
    for folder in sorted(path for path in (results_dir / "records").glob("*") if path.is_dir()):
        counts["trials"] += 1
        problems += [f"{path}: left-over temporary file" for path in folder.glob(".*.tmp")]
        machines = set()
        for path in sorted(folder.glob("*.json")):
            counts["records"] += 1
            document, found = _read(path)
            problems += [f"{path}: {text}" for text in found]
            if document is None:
                continue
            counts[str(document["status"])] += 1
            machines.add(
                json.dumps(
                    [document["device"].get("name"), document["environment"].get("packages")]
                )
            )
            if document["rounds"]:
                digest = hashlib.sha256(
                    json.dumps([document["rounds"], document["started_at"]]).encode()
                ).hexdigest()
                if digest in seen:
                    problems.append(f"{path}: the same measurement as {seen[digest]}")
                seen[digest] = str(path)
        if len(machines) > 1:
            problems.append(f"{folder}: records of different devices or versions under one trial")
    counts["quarantined"] = sum(1 for _ in (results_dir / "quarantine").glob("*"))
    return dict(counts), problems


def _read(path: Path) -> tuple[Mapping[str, Any] | None, list[str]]:
    """A record as plain data, and its problems."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return None, [f"cannot be read: {error}"]
    missing = (
        [key for key in REQUIRED if key not in document]
        if isinstance(document, dict)
        else list(REQUIRED)
    )
    if missing:
        return None, [f"lacks {', '.join(missing)}"]
    return document, list(_wrong(path, document))


def _wrong(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    if document["trial_id"] != path.parent.name:
        yield f"trial_id {document['trial_id']} differs from the folder's name"
    if str(document["replicate"]) != path.stem:
        yield f"replicate {document['replicate']} differs from the file's name"
    if document["status"] not in STATUSES:
        yield f"unknown status {document['status']}"
    begun, ended = document.get("started_at") or "", document.get("finished_at") or ""
    if (
        begun
        and ended
        and datetime.datetime.fromisoformat(ended) < datetime.datetime.fromisoformat(begun)
    ):
        yield "finished before it started"
    numbers = [item["round"] for item in document["rounds"]]
    if len(set(numbers)) != len(numbers):
        yield "duplicate round"
    for item in document["rounds"]:
        for block in item["blocks"]:
            if block["mode"] not in document["modes"]:
                yield f"round {item['round']}: a block of an unknown mode {block['mode']}"
            if (
                block["calls"] < 1
                or block["elapsed_ns"] <= 0
                or not 0 <= block["enqueue_ns"] <= block["elapsed_ns"]
            ):
                yield f"round {item['round']}: impossible block: {block}"
    unmeasured = (
        document["status"] == "ok" and not document["rounds"] and len(document["modes"]) > 1
    )
    if unmeasured and all(mode.get("status") == "ok" for mode in document["modes"].values()):
        yield "ok without a single round"
