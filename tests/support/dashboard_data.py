"""Small results folders to make a page of, and the data that a page holds."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from factories import MODEL, failed_outcome, make_outcome, make_record

from xla_sweeps.report.dashboard.pack import unpack
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status

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
    found = re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert found
    return unpack(base64.b64decode(found[1]))
