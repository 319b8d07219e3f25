"""Tamper with results folders, and see that no reader falls and that `check` names the harm.

Each case changes one file of a folder of good records (or its kept rows) and lets every reader read
a copy of it. A case is harmful where `results` then shows another figure or status. Cases are
`damage` (the file is as a disk or an editor left it) or `forged` (its digest was computed again):
forged figures that agree with each other cannot be told.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow
import pyarrow.parquet
from factories import CONFIG, failed_outcome, full, make_outcome, make_record
from paths import DATA

from xla_sweeps.cli import main
from xla_sweeps.report.wandb_report import publish as report
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record, seal
from xla_sweeps.store import rows
from xla_sweeps.store.planned import count_unmeasured
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import rows_of

HANG_S = 300

VALUES: Sequence[Any] = (
    *(None, True, 0, -1, -4, 7, 2**31, 2**63, 2**70, 10**400, 0.0, -0.5, 1e-300, 1e300),
    *("", "x", "\x1b[2J", "ok", "timeout", "../../x"),
    *([], [1], ["a"], {}, {"a": 1}, float("nan"), float("inf")),
)

IGNORED = {
    *("log", "command", "note", "software", "driver", "commit", "host", "measured_at"),
    "failure_hint",
}
"""Columns that are no figure and no status."""


class HangError(Exception):
    """A reader took longer than `HANG_S`."""


@dataclass
class Tally:
    """Counts of outcomes."""

    harmful: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    def share(self, kind: str) -> float:
        """The share of the harmful cases of a kind that `check` names."""
        return self.named[kind] / max(1, self.harmful[kind])


def good_folder(results: Path) -> None:
    """Trials that are clean, contaminated, failed, an A/A pair, and of the schema before."""
    store = Store(results)
    config = {**CONFIG, "effort": {"name": "quick", "block_s": 0.2}}
    times = {"eager": 0.4, "graph": 0.2, "xla": 0.1}
    for seed in range(3):
        store.save(full(make_record(times, noise=0.02, seed=seed, config=config)))
    pair = {**config, "modes": ["graph", "graph"]}
    store.save(make_record({"graph": 0.2, "graph_2": 0.201}, trial_id="a" * 16, config=pair))
    two = {**config, "modes": ["graph", "xla"]}
    modes = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.COMPILE_ERROR)}
    store.save(make_record({"graph": 0.2}, trial_id="b" * 16, config=two, modes=modes))
    store.save(Record.from_json((DATA / "records" / "schema_4.json").read_bytes()))


def members(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with the name of each member; of a list, the first three."""
    names: Iterable[Any] = ()
    if isinstance(document, dict):
        names = list(document)
    elif isinstance(document, list):
        names = range(len(document))[:3]
    for name in names:
        yield document, name
        yield from members(document[name])


def xla_divided(document: Any, source: random.Random) -> None:
    factor = source.choice((2, 10, 100))
    for round_ in document["rounds"]:
        for block in round_["blocks"]:
            if block["mode"] == "xla":
                block["elapsed_ns"] //= factor
                block["enqueue_ns"] //= factor
    mode = document["modes"].get("xla", {})
    mode["latencies_s"] = [value / factor for value in mode.get("latencies_s", [])]


def modes_swapped(document: Any, source: random.Random) -> None:
    names = list(document["modes"])
    first, second = source.sample(names, 2)
    swap = {first: second, second: first}
    document["modes"] = {name: document["modes"][swap.get(name, name)] for name in names}
    for block in (block for round_ in document["rounds"] for block in round_["blocks"]):
        block["mode"] = swap.get(block["mode"], block["mode"])


def value_put(document: Any, source: random.Random) -> None:
    container, name = source.choice(list(members(document)))
    container[name] = copy.deepcopy(source.choice(VALUES))


def member_removed(document: Any, source: random.Random) -> None:
    container, name = source.choice(list(members(document)))
    del container[name]


def member_added(document: Any, source: random.Random) -> None:
    containers = [each for each, _ in members(document) if isinstance(each, dict)]
    source.choice(containers)["later"] = source.choice(VALUES)


def number_scaled(document: Any, source: random.Random) -> None:
    """One number by a factor, or with another sign."""
    numbers = [(each, name) for each, name in members(document) if type(each[name]) in (int, float)]
    container, name = source.choice(numbers)
    value, factor = container[name], source.choice((-1, 0, 0.1, 0.5, 2, 10, 1e9))
    container[name] = type(value)(value * factor)


DOCUMENTS: Sequence[Callable[[Any, random.Random], None]] = (
    *3 * (value_put,),
    *2 * (number_scaled,),
    *(member_removed, member_added, xla_divided, modes_swapped),
)


def edited(path: Path, source: random.Random) -> str:
    """Change a record's document; returns the kind of the case."""
    document = json.loads(path.read_bytes())
    source.choice(DOCUMENTS)(document, source)
    if source.random() < 0.3:
        with contextlib.suppress(ValueError):  # NaN cannot be sealed
            path.write_bytes(seal(document))
            return "forged"
    path.write_text(json.dumps(document, indent=1))
    return "damage"


def cut_or_flipped(path: Path, source: random.Random) -> str:
    content = bytearray(path.read_bytes())
    how = source.randrange(4)
    if how == 0:
        content = content[: source.randrange(len(content))]
    elif how == 1:
        start = source.randrange(len(content))
        content[start : start + source.randrange(1, 4096)] = b""
    else:
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    path.write_bytes(content)
    return "damage"


def key_doubled(path: Path, source: random.Random) -> str:
    text = path.read_text()
    name = source.choice(("status", "trial", "modes", "rounds"))
    value = source.choice(('"timeout"', "{}", "[]", "5"))
    path.write_text(text.replace("{", f'{{"{name}": {value},', 1) + " " * source.randrange(2))
    return "damage"


def nested(path: Path, source: random.Random) -> str:
    depth = source.choice((500, 900, 3000, 100_000))
    inside = source.choice(("[", '{"a":'))
    text = path.read_text().replace('"flags": [', f'"flags": [{inside * depth}', 1)
    path.write_text(text)
    return "damage"


def odd(path: Path, source: random.Random) -> str:
    """Put something that is no record in its place, or beside it."""
    if source.random() < 0.5:
        path = path.with_name(
            source.choice(("9999.json", "5.json", "\u00b2.json", "x.json", ".a.tmp"))
        )
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    make: Callable[[Path], object] = source.choice(
        (os.mkfifo, Path.mkdir, sparse, partial(Path.symlink_to, target="/dev/zero"), Path.touch)
    )
    make(path)
    return "damage"


def sparse(path: Path) -> None:
    with path.open("wb") as handle:
        handle.truncate(200 * 2**30)


def rows_edited(results: Path, source: random.Random) -> str:
    """Change a number or the status in the kept rows, which readers believe."""
    path = results / "cache" / "rows.parquet"
    file = pyarrow.parquet.ParquetFile(path)
    table, beside = file.read(), file.metadata.metadata
    names = "speedup throughput_samples_per_s call_ms baseline_call_ms status params batch_size"
    names += " speedup_percent baseline_throughput_samples_per_s"
    name = source.choice(names.split())
    values = table[name].to_pylist()
    place = source.randrange(len(values))
    values[place] = "timeout" if name == "status" else (values[place] or 1) * 3
    column = pyarrow.array(values, table[name].type)
    table = table.set_column(table.schema.names.index(name), name, column)
    pyarrow.parquet.write_table(table.replace_schema_metadata(beside), path)
    return "damage"


FILES = (*5 * (edited,), *2 * (cut_or_flipped,), key_doubled, nested, odd)


def copied(folder: Path, target: Path) -> Path:
    """A copy of a results folder, with its pipes, links and holes."""

    def copy_file(source: str, place: str) -> None:
        path = Path(source)
        if path.is_fifo():
            os.mkfifo(place)
        elif path.stat().st_size > 2**30:
            sparse(Path(place))
        else:
            shutil.copy2(source, place)

    shutil.copytree(folder, target, symlinks=True, copy_function=copy_file)
    return target


def run(words: Sequence[str]) -> tuple[int, str, str]:
    """The command line in this process: exit code, standard output, standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.run(words)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return code, texts[0], texts[1]


def figures(text: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows of `results` by trial and modes, as far as they are figures or statuses."""
    return {
        (row["trial_id"], row["candidate"], row["baseline"]): {
            name: value for name, value in row.items() if name not in IGNORED
        }
        for row in csv.DictReader(io.StringIO(text))
    }


def planned(results: Path) -> None:
    rows.load_runs(Store(results))
    count_unmeasured(results)


def ended(results: Path, trial: str) -> None:
    rows.end_trial(Store(results), trial)


def reported(results: Path) -> None:
    loaded = rows.load(results)
    records, _, _ = rows.summaries(results, loaded)
    owner, project = report.place(records, "e", "p")
    every = rows_of(loaded.table)
    report.plan_document(records, every, entity=owner or "", project=project)


def command(*words: str) -> Callable[[Path], str]:
    """The output of a command that may refuse, and must not fall; `{}` is the folder."""

    def go(results: Path) -> str:
        code, said, err = run([word.format(results) for word in words])
        if code not in (0, 1, 2) or "Traceback" in err or "defect" in err:
            raise AssertionError(f"{' '.join(words)}: exit {code}: {err[-600:]}")
        return said

    return go


READERS: Mapping[str, Callable[[Path], object]] = {
    "json": command("results", "{}", "--format", "json", "-o", "{}/rows.json"),
    "table": command("results", "{}"),
    "page": command("dashboard", "{}"),
    "compare": command("compare", "{}", "{}"),
    "report": reported,
    "plan": planned,
    "sweep --dry-run": command("sweep", "{}/s.yaml", "--dry-run", "results_dir={}", "tracker=none"),
}
SELDOM = 40
"""A reader that starts a process is tried in one of so many cases."""

SWEEP = {"method": "grid", "parameters": {"model": {"value": "resnet50"}}}


class Harness:
    """Tampers with copies of one good folder.

    Args:
        work: an empty folder to work in.
    """

    def __init__(self, work: Path) -> None:
        self.work, self.tally = work, Tally()
        good_folder(work / "good")
        (work / "good" / "s.yaml").write_text(json.dumps(SWEEP))
        self.before = figures(self.shown(copied(work / "good", work / "first")))

    def shown(self, results: Path) -> str:
        return run(["results", str(results), "--all", "--format", "csv"])[1]

    def case(self, number: int, source: random.Random) -> None:
        """One case: tamper, check, then every reader with a copy of its own."""
        folder = self.work / str(number)
        bad = copied(self.work / "good", folder / "bad")
        path = source.choice(sorted(bad.glob("records/*/*.json")))
        how: Callable[[Path, random.Random], str] = source.choice((*FILES, rows_edited))
        name, trial = f"case {number} {how.__name__} of {path.parent.name}", path.parent.name
        if how is rows_edited:
            self.shown(bad)  # keeps the rows that are edited in place
            kind, named = rows_edited(bad, source), "cache"
        else:
            kind, named = how(path, source), trial
        after: dict[tuple[str, ...], dict[str, str]] = {}
        said = ""
        with self.guarded(f"{name}: check"):
            said = command("check", "{}")(bad)
        if how is not rows_edited:
            for reader, read in self.readers(number, trial).items():
                with self.guarded(f"{name}: {reader}"):
                    read(copied(bad, folder / reader))
                shutil.rmtree(folder / reader, ignore_errors=True)
        with self.guarded(f"{name}: results"):
            if how is rows_edited:
                command("results", "{}")(bad)
            after = figures(self.shown(bad))
        if after != self.before:
            self.tally.harmful[kind] += 1
            lines = [line for line in said.splitlines()[:-1] if named in line]
            self.tally.named[kind] += bool(lines)
            if not lines:
                self.tally.silent.append(f"{kind} {name}: {difference(self.before, after)}")
        shutil.rmtree(folder, ignore_errors=True)

    def readers(self, number: int, trial: str) -> Mapping[str, Callable[[Path], object]]:
        readers: dict[str, Callable[[Path], object]] = {**READERS}
        readers["end of a trial"] = partial(ended, trial=trial)
        if number % SELDOM == 0:
            words = ("report", "{}", "--dry-run", "-o", "{}/report-plan.json")
            readers["report --dry-run"] = command(*words)
        return readers

    @contextlib.contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Note what falls or hangs."""

        def late(*_: object) -> None:
            raise HangError(f"longer than {HANG_S} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(HANG_S)
        try:
            yield
        except (Exception, SystemExit) as error:
            self.tally.crashes.append(f"{what}: {type(error).__name__}: {str(error)[:600]}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


def difference(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> str:
    """The first figure that differs."""
    for key, row in before.items():
        other = after.get(key)
        if other is None:
            return f"{key} is gone"
        for name, value in row.items():
            if other[name] != value:
                return f"{key} {name}: {value} -> {other[name]}"
    return f"more rows: {sorted(set(after) - set(before))[:2]}"


def tamper(work: Path, *, count: int, seed: int) -> Tally:
    """Run so many cases; with the same seed, the same ones."""
    with mock.patch.object(rows, "RACY_NS", -1):  # kept rows are believed at once
        harness = Harness(work)
        for number in range(count):
            harness.case(number, random.Random(f"{seed} {number}"))
        return harness.tally
