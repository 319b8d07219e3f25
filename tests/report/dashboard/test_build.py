"""The command that writes the page: what it holds is what `results` says, and mistakes are one line."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import MODEL, failed_outcome, make_outcome, make_record
from paths import DATA

from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.dashboard.pack import unpack
from xla_sweeps.results import index
from xla_sweeps.results.rows import load
from xla_sweeps.results.store import Store
from xla_sweeps.results.table import rows_of
from xla_sweeps.schema.measurement import Status

NASTY = '</script><script>alert(1)</script> in File "<module>" & \u202e'

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.1}


def command(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_sweeps", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def measured(folder: Path) -> Path:
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
    found = re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert found
    return unpack(base64.b64decode(found[1]))


def test_the_page_contains_the_rows_that_results_shows(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    done = command("dashboard", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "XLA is faster than graph in 1 of 2 pairs" in done.stdout
    columns, meta = unpacked(tmp_path / "results" / "dashboard.html")
    rows = {
        (row.trial_id, row.baseline, row.candidate): row
        for row in rows_of(load(tmp_path / "results").table)
    }
    keys = list(zip(columns["trial_id"], columns["baseline"], columns["candidate"], strict=True))
    assert sorted(keys) == sorted(rows)
    for name, column in columns.items():
        if name == "results":
            continue
        for key, value in zip(keys, column, strict=True):
            wanted = getattr(rows[key], name)
            if name == "flags":
                wanted = " ".join(wanted)
            assert value == (
                pytest.approx(float(wanted), rel=2**-15)
                if isinstance(wanted, int | float)
                else wanted
            ), name
    assert meta["overview"]["graph"]["failed"] == 1
    assert meta["overview"]["eager"]["geomean"] == pytest.approx(4.0, rel=1e-2)
    assert (meta["records"], meta["trials"], meta["title"]) == (2, 2, "results")
    assert meta["devices"] == [{"name": "Some CPU", "trials": 2, "floor": 0.01, "aa_pairs": 0}]


def test_the_page_knows_how_many_planned_trials_it_contains(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    Store(folder).save(make_record(TIMES, request_id="done"))
    page = tmp_path / "page.html"
    build.write_page([folder], page)
    assert unpacked(page)[1]["planned"] is None
    index.keep(folder, "a/b", ["0", "1", "done"])
    index.keep(folder, "another", ["1", "2", "3"])
    index.keep(folder, "another", ["1", "2"])
    (folder / "sweeps" / "damaged.json").write_text("{")
    build.write_page([folder], page)
    assert unpacked(page)[1]["planned"] == 1 + 3


def test_outside_text_never_becomes_markup(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    output = tmp_path / "page.html"
    build.write_page([tmp_path / "results"], output, title=NASTY)
    text = output.read_text(encoding="utf-8")
    assert "alert(1)" not in text.replace("&lt;script&gt;alert(1)&lt;/script&gt;", "")
    assert "<module>" not in text
    columns, meta = unpacked(output)
    assert NASTY in columns["family"]
    assert NASTY in columns["failure_message"]
    assert meta["title"] == NASTY


def test_several_folders_keep_their_names(tmp_path: Path) -> None:
    for name in ("a/results", "b/results", "c"):
        measured(tmp_path / name)
    output = tmp_path / "page.html"
    build.write_page([tmp_path / "a/results", tmp_path / "c"], output)
    assert set(unpacked(output)[0]["results"]) == {"results", "c"}
    build.write_page([tmp_path / "a/results", tmp_path / "b/results"], output)
    assert len(set(unpacked(output)[0]["results"])) == 2


def test_a_page_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        build.write_page([tmp_path / "results"], tmp_path / "page.html")
    assert not list(tmp_path.glob(".*.tmp"))


def test_too_many_rows_for_a_page_are_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(tmp_path / "results")
    monkeypatch.setattr(build, "MAX_ROWS", 2)
    with pytest.raises(
        ConfigError, match=r"4 rows are more than a page holds \(2\); keep some with --where"
    ):
        build.write_page([tmp_path / "results"], tmp_path / "page.html")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["--titel", "x"], "unrecognized"),
        (["results", "-o", "/proc/nothing/page.html"], "cannot write"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    tmp_path: Path, arguments: Sequence[str], said: str
) -> None:
    measured(tmp_path / "results")
    done = command("dashboard", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("exit_code", [0, 1])
def test_open_shows_the_page_in_the_browser_or_says_that_there_is_none(
    tmp_path: Path, exit_code: int
) -> None:
    measured(tmp_path / "results")
    browser, shown = tmp_path / "browser", tmp_path / "shown"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shown}\nexit {exit_code}\n')
    browser.chmod(0o755)
    alone = {"BROWSER": str(browser), "PATH": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    done = command("dashboard", "--open", cwd=tmp_path, **alone)
    assert (done.returncode, "opens offline" in done.stdout) == (0, True)
    assert shown.read_text().strip() == (tmp_path / "results" / "dashboard.html").as_uri()
    assert ("open the file yourself" in done.stderr) == bool(exit_code)


def test_a_page_shows_published_figures_beside_measured_ones(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    sample = DATA / "published_sample.csv"
    assert command("import", sample, "--into", "results", cwd=tmp_path).returncode == 0
    build.write_page([tmp_path / "results"], tmp_path / "page.html")
    columns, meta = unpacked(tmp_path / "page.html")
    imported = [place for place, origin in enumerate(columns["origin"]) if origin == "imported"]
    assert {columns["device"][place] for place in imported} == {
        "NVIDIA A100",
        "NVIDIA V100",
        "NVIDIA T4",
    }
    assert meta["overview"]["eager"]["pairs"] == 1  # measured ones alone
    alone = tmp_path / "published"
    assert command("import", sample, "--into", "published", cwd=tmp_path).returncode == 0
    build.write_page([alone], tmp_path / "page.html")
    assert set(unpacked(tmp_path / "page.html")[0]["origin"]) == {"imported"}


def test_a_filter_keeps_the_rows_that_match(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    done = command("dashboard", "--where", "family=ResNetV1 and baseline=graph", cwd=tmp_path)
    assert done.returncode == 0
    columns, meta = unpacked(tmp_path / "results" / "dashboard.html")
    assert (columns["family"], columns["baseline"]) == (["ResNetV1"], ["graph"])
    assert meta["overview"]["graph"]["pairs"] == 1
    nothing = command("dashboard", "--where", "family=Nobody", cwd=tmp_path)
    assert (nothing.returncode, "no row matches --where 'family=Nobody'" in nothing.stderr) == (
        2,
        True,
    )
    wrong = command("dashboard", "--where", "famly=x", cwd=tmp_path)
    assert (wrong.returncode, "family" in wrong.stderr) == (2, True)


def test_two_folders_can_be_compared_on_the_page(tmp_path: Path) -> None:
    for name, seconds in (("before", 0.1), ("after", 0.05)):
        Store(tmp_path / name).save(
            make_record({"graph": 0.2, "xla": seconds}, noise=0.001, request_id="1" * 16)
        )
    assert (
        command(
            "dashboard", "before", "after", "--compare", "-o", "page.html", cwd=tmp_path
        ).returncode
        == 0
    )
    section = unpacked(tmp_path / "page.html")[1]["comparison"]
    assert (section["title_a"], section["title_b"]) == ("before", "after")
    changed = {row["quantity"]: row for row in section["rows"]}
    assert changed["xla throughput"]["verdict"] == "faster"
    assert changed["xla throughput"]["ratio"] == pytest.approx(2.0, rel=1e-2)
    done = command("dashboard", "before", "--compare", cwd=tmp_path)
    assert (done.returncode, "needs two results folders, got 1" in done.stderr) == (2, True)


def test_an_interrupted_mode_is_not_counted_as_a_failure(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    stopped = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.INTERRUPTED)}
    Store(tmp_path / "results").save(make_record({"graph": 0.2}, trial_id="e" * 16, modes=stopped))
    done = command("dashboard", cwd=tmp_path)
    assert "failed in 1" in done.stdout
    assert "not measured to their end: 1" in done.stderr
    assert "interrupted" not in unpacked(tmp_path / "results" / "dashboard.html")[0]["status"]
