"""Build the local page (`xla-sweeps dashboard`) of the rows of results folders.

The page holds the rows as gzipped columns, which a browser reads without parsing. Before gzip: the
length of the header (4 bytes, little-endian), the header (JSON, UTF-8, padded with blanks to a
multiple of 4 bytes), then the columns in the header's order, 4 bytes a row: codes into the header's
`values`, or, of a column without them, 32-bit floats, NaN for none; then the whole numbers that the
header names in `numbers`.
"""

from __future__ import annotations

import datetime
import gzip
import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import overview
from xla_sweeps.analysis.trust import trust
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import advice, export, overall, study
from xla_sweeps.report.dashboard.derived import (
    bands_of,
    facts_of,
    numbers_of,
    scenarios_of,
    with_derived,
)
from xla_sweeps.report.dashboard.page import render
from xla_sweeps.report.labels import join_words, short_devices
from xla_sweeps.report.wandb.tracker import run_urls
from xla_sweeps.schema.columns import IMPORTED, MEASURED, Verdict
from xla_sweeps.schema.comparisons import by_count, by_scenario
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import COLUMNS, ComparisonRow
from xla_sweeps.store import planned
from xla_sweeps.store.filter import matching, no_match, parse_filter
from xla_sweeps.store.rows import load
from xla_sweeps.store.table import join_tables, rows_of
from xla_sweeps.version import __version__

if TYPE_CHECKING:
    import pyarrow

MAX_ROWS = 200_000

_PAIR = ("origin", "scenario", "baseline", "candidate")

DEFAULT_NAME = "dashboard.html"

CATEGORIES = (
    *(name for name, column in COLUMNS.items() if column.on_page and column.kind is str),
    "results",
    "caveats",
)

NUMBERS = tuple(
    name for name, column in COLUMNS.items() if column.on_page and column.kind is not str
)
"""Columns that the page holds; it computes the rest from them."""

KEPT_BITS = 15
"""Mantissa bits of a number, so that it compresses: a relative error of at most 2**-16."""


@dataclass(frozen=True, slots=True)
class Written:
    """A page that was written: its bytes, and the answer to the commonest scenario's question."""

    size: int
    rows: int
    trials: int
    problems: tuple[str, ...]
    answer: str


def write_page(
    results_dirs: Sequence[Path],
    output: Path,
    *,
    where: str | None = None,
    comparison: Mapping[str, Any] | None = None,
    title: str | None = None,
    published: bool = False,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Written:
    """Write the page of these results folders; `comparison` is a section of `changes.as_section`.

    `published` adds the public study's figures, and `advance` gets (trials read, trials to read).

    Raises:
        StoreError: nothing to show, or the file cannot be written.
        ConfigError: more rows than a page can hold.
    """
    import pyarrow

    chosen = parse_filter(where) if where is not None else None
    names = Counter(folder.resolve().name for folder in results_dirs)
    labels = {
        folder: folder.resolve().name if names[folder.resolve().name] == 1 else str(folder)
        for folder in results_dirs
    }
    loaded = {
        label: load(folder, published=published and not place, advance=advance)
        for place, (folder, label) in enumerate(labels.items())
    }
    table = join_tables(
        rows.table.append_column("results", pyarrow.repeat(label, rows.table.num_rows))
        for label, rows in loaded.items()
    )
    every, table = table.num_rows, matching(table, chosen)
    if not table.num_rows:
        raise StoreError(_nothing(results_dirs, where, every))
    if table.num_rows > MAX_ROWS:
        raise ConfigError(
            f"dashboard: {table.num_rows:,} rows are more than a page holds ({MAX_ROWS:,}); "
            "keep some with --where, "
            "as in --where 'headline=true', or read `xla-sweeps results --format parquet`"
        )
    every_row = rows_of(table)
    problems = tuple(problem for rows in loaded.values() for problem in rows.problems)
    trials = sum(rows.trials for rows in loaded.values())
    missing = [planned.count_unmeasured(folder) for folder in results_dirs]
    is_planned = any(count is not None for count in missing)
    name, shown = title or " · ".join(loaded), {*table["trial_id"].unique().to_pylist()}
    runs = {
        label: {trial: url for trial, url in run_urls(folder).items() if trial in shown}
        for folder, label in labels.items()
    }
    meta = {
        "version": __version__,
        "generated_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "title": name,
        "records": sum(rows.records for rows in loaded.values()),
        "trials": trials,
        "planned": trials + sum(filter(None, missing)) if is_planned else None,
        "problems": list(problems),
        "comparison": comparison,
        "trust": _trust(every_row),
        "study": [asdict(each) for each in study.of_table(table)],
        "folders": {
            label: Path(os.path.relpath(folder.resolve(), output.resolve().parent)).as_posix()
            for folder, label in labels.items()
        },
        "runs": {label: urls for label, urls in runs.items() if urls},
    }
    caveats = map(advice.all_caveats, every_row)
    table = table.append_column("caveats", pyarrow.array(caveats, pyarrow.string()))
    packed = pack(table.select([*CATEGORIES, *NUMBERS]), meta)
    page = render(packed, title=f"{name} — XLA for Keras vision models").encode()
    export.replace(output, page)
    return Written(len(page), table.num_rows, trials, problems, answer(table))


def pack(table: pyarrow.Table, meta: Mapping[str, Any]) -> bytes:
    """The columns of a table and data about it, gzipped; texts become codes."""
    import pyarrow

    numbers = dict[str, list[int]]()
    facts = dict[str, Any]()
    if {*CATEGORIES, *NUMBERS} <= {*table.column_names}:
        numbers = numbers_of(table)
        facts = {
            "numbers": list(numbers),
            "scenarios": scenarios_of(table),
            "bands": bands_of(table, numbers["twin"]),
            **facts_of(table),
            "short": short_devices(table["device"].unique().to_pylist()),
        }
        table = with_derived(table)
    described: list[dict[str, Any]] = []
    content: list[bytes] = []
    for name in table.column_names:
        if pyarrow.types.is_string(table[name].type):
            coded = table[name].combine_chunks().dictionary_encode()
            described.append({"name": name, "values": coded.dictionary.to_pylist()})
            content.append(np.asarray(coded.indices).astype("<u4").tobytes())
        else:
            described.append({"name": name})
            content.append(_round_bits(table[name].cast("float64").to_numpy()).tobytes())
    content += [np.asarray(own).astype("<u4").tobytes() for own in numbers.values()]
    document = {"rows": table.num_rows, "columns": described, "meta": meta, **facts}
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A file name need not be UTF-8: its lone surrogates become question marks.
    header = text.encode(errors="replace")
    header += b" " * (-len(header) % 4)
    return gzip.compress(
        b"".join([len(header).to_bytes(4, "little"), header, *content]), 6, mtime=0
    )


def _round_bits(column: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """The bits of each value as a 32-bit float, rounded to the mantissa bits that are kept."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(column, dtype="<f4")
    dropped = 23 - KEPT_BITS
    bits = single.view("<u4")
    rounded = (bits + np.uint32(1 << (dropped - 1))) & ~np.uint32((1 << dropped) - 1)
    keep = np.isfinite(rounded.view("<f4")) | np.isinf(column)
    return np.where(keep, rounded, np.uint32(0x7FC00000))


def answer(table: pyarrow.Table) -> str:
    """The commonest scenario's answer, with the names of the others and of several folders."""
    columns = study.answers_of(table, (*overview.SUMMED, "status", "results"))
    whole = overview.overview_of(columns)
    published = [
        speedup
        for origin, speedup in zip(columns["origin"], columns["speedup"], strict=True)
        if origin == IMPORTED and speedup
    ]
    others_said = overall.published_words(published)
    text = ""
    if MEASURED in columns["origin"] or not others_said:
        text = overall.overall_answer(whole, overview.devices_of(columns))
    wanted = (MEASURED, whole.scenario, whole.baseline, whole.candidate)
    pairs = zip(*(columns[name] for name in _PAIR), strict=True)
    asked = [place for place, pair in enumerate(pairs) if pair == wanted]
    places = [place for place in asked if columns["verdict"][place] != Verdict.NOT_MEASURED]
    folders = Counter(dict.fromkeys(table["results"].unique().to_pylist(), 0))
    folders.update(columns["results"][place] for place in places)
    busy = overall.busy_words(columns["status"][place] == Status.CONTAMINATED for place in places)
    others = [each for each in by_count(columns["scenario"]) if each != whole.scenario]
    also = f"Also measured, each by itself: {join_words(others)}." if others and asked else ""
    return " ".join(filter(None, (text, busy, overall.folders_words(folders), also, others_said)))


def _trust(rows: Sequence[ComparisonRow]) -> dict[str, dict[str, Any]]:
    """What the A/A pairs of each scenario say, as the terminal says it; and if it is a warning."""
    return {
        scenario: {"text": overall.trust_words(test), "untrusted": test.untrusted}
        for scenario, own in by_scenario(rows, key=lambda row: row.trial.scenario).items()
        if (test := trust(own))
    }


def _nothing(folders: Sequence[Path], where: str | None, rows: int) -> str:
    names = ", ".join(str(folder) for folder in folders)
    if where is not None:
        show = shlex.join(["xla-sweeps", "results", str(folders[0])])
        return f"dashboard: {no_match(where, rows)}; `{show}` shows all rows"
    return f"{names} holds no comparison to show; measure first: python -m xla_sweeps model=NAME"
