"""Small results folders to make a page of, and the data that a page holds."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from factories import MODEL, failed_outcome, make_outcome, make_record

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

NASTY = '</script><script>alert(1)</script> in File "<module>" & \u202e'

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.1}


def measured(folder: Path) -> Path:
    """A results folder with one trial that succeeded and one that failed, of a hostile name."""
    store = Store(folder)
    store.save(make_record(TIMES))
    failed = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP, NASTY)}
    store.save(
        make_record(
            {"graph": 0.2},
            trial_id="f" * 16,
            modes=failed,
            model=replace(MODEL, name=NASTY, family=NASTY),
        )
    )
    return folder


def unpacked(page: Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The columns and the metadata of a page."""
    element = re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert element
    return unpack(base64.b64decode(element[1]))


def unpack(content: bytes) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Columns and metadata of packed bytes, as the page reads them."""
    raw = gzip.decompress(content)
    length = int.from_bytes(raw[:4], "little")
    document = json.loads(raw[4 : 4 + length])
    count, offset = document["rows"], 4 + length
    columns: dict[str, list[Any]] = {}
    for column in document["columns"]:
        kind = "<u4" if "values" in column else "<f4"
        cells = np.frombuffer(raw, kind, count, offset).tolist()
        offset += 4 * count
        columns[column["name"]] = (
            [column["values"][code] for code in cells]
            if "values" in column
            else [None if math.isnan(number) else number for number in cells]
        )
    return columns, document["meta"]
