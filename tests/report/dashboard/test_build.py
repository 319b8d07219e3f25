"""Building the page: it holds the rows that `results` shows, and no markup of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import command
from dashboard_data import NASTY, TIMES, measured, unpacked
from dashboard_page import table_of
from factories import TRIAL_ID, config_of, make_record
from synthetic_rows import base_row, compared

from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import study
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.dashboard.derived import DERIVED_NUMBERS, DERIVED_TEXTS
from xla_sweeps.schema.row import value_of
from xla_sweeps.store import planned
from xla_sweeps.store.rows import load
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import rows_of


def written(folders: Path | list[Path], **options: Any) -> tuple[Any, Any]:
    """The columns and the metadata of a page of these folders."""
    folders = folders if isinstance(folders, list) else [folders]
    page = folders[0].parent / "page.html"
    build.write_page(folders, page, **options)
    return unpacked(page)


def test_the_page_contains_the_rows_that_results_shows(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    done = command("dashboard", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "XLA is faster than graph in 1 of 2 configurations" in done.stdout
    columns, meta = unpacked(tmp_path / "results" / "dashboard.html")
    rows = {
        (row.trial.trial_id, row.baseline.mode, row.candidate.mode): row
        for row in rows_of(load(tmp_path / "results").table)
    }
    keys = list(zip(columns["trial_id"], columns["baseline"], columns["candidate"], strict=True))
    assert sorted(keys) == sorted(rows)
    for name, column in columns.items():
        if name in ("results", "caveats", *DERIVED_TEXTS, *DERIVED_NUMBERS):
            continue
        for key, value in zip(keys, column, strict=True):
            wanted = value_of(rows[key], name)
            if name == "flags":
                wanted = " ".join(wanted)
            elif isinstance(wanted, int | float):
                wanted = pytest.approx(float(wanted), rel=2**-15)
            assert value == wanted, name
    assert (meta["records"], meta["trials"], meta["title"]) == (2, 2, "results")
    assert meta["folders"] == {"results": "."}


def test_the_page_knows_how_many_planned_trials_it_contains(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    Store(folder).save(make_record(TIMES, request_id="done"))
    assert written(folder)[1]["planned"] is None
    planned.keep(folder, "a/b", ["0", "1", "done"])
    planned.keep(folder, "another", ["1", "2", "3"])
    planned.keep(folder, "another", ["1", "2"])
    (folder / "sweeps" / "damaged.json").write_text("{")
    assert written(folder)[1]["planned"] == 1 + 3


def test_the_page_knows_the_addresses_of_its_trials_runs_and_of_no_others(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    Store(folder).save(make_record(TIMES))
    address = "https://wandb.ai/me/xla/runs/1"
    marks = folder / "published" / "api.wandb.ai_me_xla"
    marks.mkdir(parents=True)

    def note(trial: str, **address_parts: str) -> None:
        run = {"replicates": [0], "confirmed": [0], **address_parts}
        (marks / f"{trial}.json").write_text(json.dumps({"runs": {"1": run}}))

    note(TRIAL_ID)  # as before addresses were noted
    note("f" * 16, url="https://wandb.ai/me/xla/runs/2")
    (marks / "damaged.json").write_text("{")
    assert written(folder)[1]["runs"] == {}
    note(TRIAL_ID, url=address)
    assert written(folder)[1]["runs"] == {"results": {TRIAL_ID: address}}


def test_outside_text_never_becomes_markup(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    columns, meta = written(tmp_path / "results", title=NASTY)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" not in text.replace("&lt;script&gt;alert(1)&lt;/script&gt;", "")
    assert "<module>" not in text
    assert NASTY in columns["family"]
    assert NASTY in columns["failure_message"]
    assert meta["title"] == NASTY


def test_several_folders_keep_their_names(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in ("a/results", "b/results", "c"))
    for folder in (one, other, third):
        measured(folder)
    assert set(written([one, third])[0]["results"]) == {"results", "c"}
    assert len(set(written([one, other])[0]["results"])) == 2


def test_the_answer_names_the_folder_that_counts_and_the_other_scenarios(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for replicates, folder in enumerate(map(measured, folders), start=1):
        for replicate in range(1, replicates):
            Store(folder).save(make_record(TIMES, replicate=replicate))
    step = make_record(trial_id="e" * 16, config=config_of("train_step"))
    Store(folders[1]).save(step)
    said = build.write_page(folders, tmp_path / "page.html").answer
    assert "the newest: 0 of a and 2 of b." in said
    assert said.endswith(" Also measured, each by itself: train_step.")


def test_what_was_not_measured_is_no_part_of_the_answers_counts() -> None:
    rows = [
        base_row(model=f"m{place}", results="a", **change) | compared(100.0, 150.0, 0.01)
        for place, change in enumerate(({}, {"status": "contaminated"}, {}))
    ]
    rows[2] |= {"verdict": "not_measured", "status": "interrupted", "speedup": None}
    said = build.answer(table_of(rows))
    assert "~ 1 of 2 contaminated by other load" in said
    rows[2]["results"] = "b"
    assert "2 of a and 0 of b" in build.answer(table_of(rows))


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
    said = r"4 rows are more than a page holds \(2\); keep some with --where"
    with pytest.raises(ConfigError, match=said):
        written(tmp_path / "results")


def test_a_page_shows_published_figures_beside_measured_ones(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    columns, meta = written(tmp_path / "results", published=True)
    without_checks = {*study.QUESTIONS} - {"compatibility"}
    assert {table["key"] for table in meta["study"]} == without_checks
    assert set(columns["verdict"]) == {"faster", "failed", "ambiguous", "none"}
    imported = [place for place, origin in enumerate(columns["origin"]) if origin == "imported"]
    assert {columns["device"][place] for place in imported} == {
        "NVIDIA A100",
        "NVIDIA V100",
        "NVIDIA T4",
        "unnamed GPU",
    }
    assert set(written(tmp_path / "empty", published=True)[0]["origin"]) == {"imported"}
