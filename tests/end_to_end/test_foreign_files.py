"""One bad file in a results folder stops no command: the rest is read, and a line names it."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from commands import forked
from factories import failed_outcome, full, make_outcome, make_record
from golden_record import put

from xla_sweeps.cli import main
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import seal
from xla_sweeps.store.rows import end_trial, load_runs
from xla_sweeps.store.store import Store

GOOD = "0" * 15 + "1"


def sparse(path: Path) -> None:
    with path.open("wb") as handle:
        handle.truncate(200 * 2**30)


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


ODD_FILES: Mapping[str, Callable[[Path], object]] = {
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "nested in a record": lambda path: path.write_bytes(
        make_record().to_json().replace(b'"in_force": true', b'"a": ' + b"[" * 100_000)
    ),
    "pipe": os.mkfifo,
    "sparse": sparse,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "folder": Path.mkdir,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"\xff\xfe{}"),
}

WRONG_VALUES: Mapping[str, Any] = {
    "environment.packages": 5,
    "environment.driver": "x",
    "environment.flags": [1],
    "environment.loaded": {"libraries": [1]},
    "model.macs_by_type": {"f32": "x"},
    "environment.cpu": 3,
    "trial": [],
    "trial.modes": "x",
    "trial.batch_size": -4,
    "trial.batch_size ": "x",
    "tracker": "x",
    "tracker.tags": 5,
    "model.params": 2**70,
    "model.name": None,
    "device.name": {"a": 1},
    "modes": {},
    "modes.xla.compile_s": -5,
    "modes.xla.latencies_s": [-1.0],
    "modes.xla.steady_memory_bytes": 2**64,
    "rounds.0.blocks.0.calls": 0,
    "rounds.0.blocks.0.elapsed_ns": 10**400,
    "contamination": {"foreign_cores": ["a", 1]},
    "seconds": {"build": "x"},
    "started_at": 5,
    "trial_id": "../../../../t/outside",
    "schema_version": 0,
    "schema_version ": True,
    "schema_version  ": 99,
    "status": "later",
}
SILENT = {"device.name", "modes", "contamination"}
"""Strange, but nothing that a reader relies on; telemetry, which readers take for missing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good trial, and one of each kind of bad file, also beside a good record."""
    results = tmp_path_factory.mktemp("foreign") / "r"
    store = Store(results)
    for number in range(2):
        store.save(make_record(trial_id=GOOD, noise=0.01, seed=number))
    for number, make in enumerate(ODD_FILES.values(), start=0x100):
        store.save(make_record(trial_id=f"{number:016x}"))
        make(store.records_dir / f"{number:016x}" / "5.json")
    for number, (path, value) in enumerate(WRONG_VALUES.items(), start=0x200):
        record = make_record(
            trial_id=f"{number:016x}",
            modes={"graph": make_outcome(0.2), "xla": make_outcome(0.1)},
        )
        document = json.loads(record.to_json())
        put(path.strip(), value)(document)
        folder = store.records_dir / f"{number:016x}"
        folder.mkdir()
        (folder / "0.json").write_bytes(seal(document))
    outside = results.parent / "outside"
    Store(outside).save(make_record(trial_id="e" * 16))
    (store.records_dir / ("e" * 16)).symlink_to(outside / "records" / ("e" * 16))
    (store.records_dir / "notes.txt").write_text("mine")
    return results


READERS: Mapping[str, tuple[str, ...]] = {
    "results": ("results", "{}", "--format", "csv", "--all"),
    "results as a table": ("results", "{}"),
    "page": ("dashboard", "{}"),
    "compare": ("compare", "{}", "{}"),
    "report": ("report", "{}", "--dry-run"),
    "check": ("check", "{}"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.timeout(120)
def test_every_reader_reads_the_rest_and_names_what_it_cannot_use(
    folder: Path, reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = copied(folder, tmp_path / "r")
    code = main.run([word.format(results) for word in READERS[reader]])
    said = capsys.readouterr()
    assert code == (1 if reader == "check" else 0), said.err
    if reader == "results":
        assert f"{GOOD}," in said.out
        for number in range(0x100, 0x100 + len(ODD_FILES)):
            assert f"{number:016x}," in said.out  # of the good record beside it
    named = said.out if reader == "check" else said.err
    for number in range(0x100, 0x100 + len(ODD_FILES)):
        assert named.count(f"{number:016x}/5.json") >= 1, named
    for number, path in enumerate(WRONG_VALUES, start=0x200):
        assert f"{number:016x}" in named or path.strip() in SILENT, (path, named)
    assert "Traceback" not in said.err


VALUES: Sequence[Any] = (
    *(None, True, 0, -1, -4, 7, 2**31, 2**63, 2**70, 10**400, 0.0, -0.5, 1e-300, 1e300),
    *("", "x", "\x1b[2J", "ok", "timeout", "../../x"),
    *([], [1], ["a"], {}, {"a": 1}),
)


def place_of(document: Any, source: random.Random) -> tuple[Any, Any]:
    """A container in a document and the name of a member: of each level as often as of another."""
    name = source.choice(list(document) if isinstance(document, dict) else range(len(document)))
    inner = document[name]
    if isinstance(inner, dict | list) and inner and source.random() < 0.8:
        return place_of(inner, source)
    return document, name


def tamper(document: Any, source: random.Random) -> None:
    """Give one member another value, change its number, remove it, or add one beside it."""
    container, name = place_of(document, source)
    how, value = source.randrange(4), container[name]
    if how == 0 and isinstance(container, dict):
        container["later"] = copy.deepcopy(source.choice(VALUES))
    elif how == 1:
        del container[name]
    elif how == 2 and type(value) in (int, float):
        container[name] = type(value)(value * source.choice((-1, 0, 0.1, 0.5, 2, 10, 1e9)))
    else:
        container[name] = copy.deepcopy(source.choice(VALUES))


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of records of which each is changed in one place, with a digest that fits."""
    store = Store(tmp_path_factory.mktemp("forged") / "r")
    lost = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.COMPILE_ERROR)}
    good = [
        full(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.02)),
        make_record({"graph": 0.2, "graph_2": 0.201}),
        make_record({"graph": 0.2}, modes=lost),
    ]
    documents = [json.loads(record.to_json()) for record in good]
    for number in range(int(os.environ.get("TAMPERED_RECORDS", "300"))):
        source, name = random.Random(number), f"{number:016x}"
        document = {**copy.deepcopy(source.choice(documents)), "trial_id": name}
        tamper(document, source)
        path = store.records_dir / name / "0.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(seal(document))
    return store.results_dir


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_falls_over_records_with_any_value_in_any_place(
    forged: Path, reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = copied(forged, tmp_path / "r")
    code = main.run([word.format(results) for word in READERS[reader]])
    said = capsys.readouterr().err
    assert code == (1 if reader == "check" else 0), said
    assert "Traceback" not in said


def test_planning_and_the_end_of_trials_stand_any_value_in_any_place(
    forged: Path, tmp_path: Path
) -> None:
    store = Store(copied(forged, tmp_path / "r"))
    assert len(load_runs(store).problems) > 10
    for path in sorted(copied(forged, tmp_path / "other").glob("records/*"))[:30]:
        end_trial(Store(tmp_path / "other"), path.name)


def test_planning_and_the_end_of_a_trial_go_on_too(folder: Path, tmp_path: Path) -> None:
    results = copied(folder, tmp_path / "r")
    store = Store(results)
    said = ""
    for number in range(0x100, 0x100 + len(ODD_FILES)):
        summary, problems = end_trial(store, f"{number:016x}")
        assert summary is not None
        said += " ".join(problems)
        assert f"{number:016x}/5.json" in said
        assert store.save(make_record(trial_id=f"{number:016x}"))[0].replicate == 6


def test_a_results_folder_whose_records_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records").write_text("in the way")
    for command in ("results", "dashboard", "check"):
        assert main.run([command, str(tmp_path)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_a_trial_measures_through_no_link_and_beside_any_file(tmp_path: Path) -> None:
    """Three folders that somebody packed: with links, and with files that no record is."""
    words = ["model=mobilenet_v2", "resolution=32", "modes=[graph,xla]", "device=cpu"]
    words += ["ui=plain", "tracker=none"]

    def trial(results: str) -> CompletedProcess[str]:
        own = {"FAKE_WORKER": "", "COLUMNS": "200"}
        return forked("trial", *words, f"results_dir={results}", cwd=tmp_path, more=own)

    assert trial("good").returncode == 0
    (name,) = (path.name for path in (tmp_path / "good" / "records").iterdir())
    (tmp_path / "outside").mkdir()
    precious = tmp_path / "outside" / "precious"
    precious.write_text("precious")
    for place, target in ((f"claims/{name}.lock", precious), (f"logs/{name}", precious.parent)):
        link = tmp_path / place.partition("/")[0] / place
        link.parent.mkdir(parents=True)
        link.symlink_to(target)
        done = trial(place.partition("/")[0])
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert place.partition("/")[2] in done.stderr
    assert [path.read_text() for path in precious.parent.iterdir()] == ["precious"]
    folder = tmp_path / "odd" / "records" / name
    folder.mkdir(parents=True)
    os.mkfifo(folder / "5.json")
    (folder / "9999.json").write_bytes(b"[" * 100_000)
    (folder / "\u00b2.json").write_text("{}")
    done = trial("odd")
    assert done.returncode == 0, done.stderr
    assert "9999.json: not a record: it is nested too deeply; moved to" in done.stderr
    assert "5.json: not a regular file" in done.stderr
    assert (folder / "10000.json").exists()
