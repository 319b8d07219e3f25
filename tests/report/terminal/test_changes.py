"""The output of `compare`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparisons import side, trial
from factories import config_of
from shown import text_shown

from xla_sweeps.analysis.changes import difference_of
from xla_sweeps.report.terminal.changes import show_difference


def test_long_names_of_modes_and_devices_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("AMD EPYC 9654 96-Core Processor", "NVIDIA A100-SXM4-40GB")
    sides = []
    for title, seed, xla_s in (("A", 10, 0.1), ("B", 20, 0.12)):
        call_s = {"predict_graph": 0.2, "predict_xla": xla_s}
        trials = [
            trial(call_s, seed=seed + number, config=config_of("predict"), device=device)
            for number, device in enumerate({"kind": "cpu", "name": name} for name in names)
        ]
        sides.append(side(*trials, title=title))
    lines = text_shown(show_difference, difference_of(*sides)).splitlines()
    assert max(map(len, lines)) <= 80
    for part in ("A100-SXM4-40GB", "predict_xla / predict_graph speedup"):
        assert sum(part in line for line in lines) in (2, 3), part
    assert "96-Core" not in "".join(lines)


def test_each_scenario_has_its_own_table_and_counts() -> None:
    training = config_of("train_step", "graph")
    sides = [
        side(
            trial({"graph": 0.2, "xla": 0.1}, seed=seed),
            trial({"graph": step_s}, seed=seed + 50, config=training, asked="q2"),
            title=title,
        )
        for title, seed, step_s in (("A", 10, 0.2), ("B", 20, 0.4))
    ]
    out = text_shown(show_difference, difference_of(*sides))
    calls, _, steps = out.partition("scenario=train_step\n")
    assert "xla throughput" in calls.partition("scenario=call\n")[2]
    assert "▼ slower" in steps
    assert "2 trials on both sides, 4 comparisons\n" in out
    assert "scenario=call: 0 slower, 0 faster, 0 ambiguous, 3 equivalent\n" in out
    assert "scenario=train_step: 1 slower, 0 faster, 0 ambiguous, 0 equivalent\n" in out


def test_of_very_many_packages_that_differ_the_first_are_listed() -> None:
    alike = [side(trial({"graph": 0.2, "xla": 0.1}, seed=seed), title="A") for seed in (1, 2)]
    many = tuple((f"package {number}", "1", "2") for number in range(20_000))
    out = text_shown(show_difference, replace(difference_of(*alike), environment=many))
    assert "package 59 " in out
    assert "package 60 " not in out
    assert "and 19,940 more" in out
