"""The golden record, changed in one place, in a results folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paths import DATA

GOLDEN = DATA / "records" / "schema_4.json"


def put(path: str, value: Any) -> Callable[[Any], None]:
    """Gives a document this value at a path as `rounds.3.blocks.0.calls`."""

    def change(document: Any) -> None:
        *names, last = path.split(".")
        for name in names:
            document = document[int(name) if isinstance(document, list) else name]
        document[int(last) if isinstance(document, list) else last] = value

    return change


def folder_with(tmp_path: Path, text: bytes) -> Path:
    """The path of a record of this content in a results folder."""
    trial = str(json.loads(GOLDEN.read_bytes())["trial_id"])
    path = tmp_path / "records" / trial / "0.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    return path
