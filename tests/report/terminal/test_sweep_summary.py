"""The summary that a sweep shows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from changed_rows import with_columns
from factories import make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.terminal import sweep_summary
from xla_sweeps.report.terminal.sweep_summary import show_sweep
from xla_sweeps.report.terminal.tables import show_rows
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

(ROW,) = summarize([make_record()]).comparisons


def shown(
    rows: Sequence[ComparisonRow], capsys: pytest.CaptureFixture[str], *, folder: str = "results"
) -> str:
    """Text that is shown of a sweep with these rows."""
    show_sweep(
        "mine",
        rows=rows,
        counts={"ok": len(rows)},
        gave_up={},
        stopped=None,
        planned=len(rows),
        results_dir=Path(folder),
        again="xla-sweeps sweep mine.yaml",
    )
    return capsys.readouterr().out


def test_the_command_that_shows_the_results_can_be_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "xla-sweeps results 'my results'\n" in shown([ROW], capsys, folder="my results")


def test_interrupted_trials_are_not_failed(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = with_columns(
        ROW, verdict=Verdict.NOT_MEASURED, status=Status.INTERRUPTED, failure_message="interrupted"
    )
    out = shown([ROW, stopped], capsys)
    assert "▲ 1 faster   ‖ 1 not measured" in out
    assert "✕" not in out
    failed = with_columns(stopped, status=Status.TIMEOUT, verdict=Verdict.FAILED)
    assert "✕ 1 failed" in shown([failed], capsys)


def test_a_sweep_whose_aa_pairs_differ_too_often_is_untrusted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    different = {"p_value": 1e-6, "speedup_low": 1.5, "speedup_high": 2.5}
    twin = with_columns(ROW, candidate="graph_2", replicates=6, **different)
    assert "1 of 1 A/A pairs differ by more than 1 %" in shown([ROW, twin], capsys)
    out = shown([ROW, twin, with_columns(twin, model="vgg16")], capsys)
    assert "untrusted: 2 of 2 A/A pairs differ by more than 1 %" in out
    assert "Do not rely on these verdicts" in out
    show_rows([ROW, twin, with_columns(twin, model="vgg16")])
    assert "untrusted: 2 of 2 A/A pairs" in " ".join(capsys.readouterr().out.split())


def test_each_scenario_has_its_own_table_and_sums(capsys: pytest.CaptureFixture[str]) -> None:
    step = with_columns(ROW, scenario="train_step", speedup=0.5, verdict=Verdict.SLOWER)
    out = shown([ROW, step, with_columns(ROW, model="vgg16")], capsys)
    calls, _, steps = out.rpartition("scenario=train_step")
    assert out.count("scenario=train_step") == out.count("scenario=call") == 2
    assert "xla over graph: geometric mean speedup 2.000× over 2 of 3 planned trials" in calls
    assert "▲ 2 faster" in calls
    assert "▼ 1 slower" in steps
    assert "xla over graph: geometric mean speedup 0.500× over 1 of 3 planned trials" in steps
    twins = [
        with_columns(
            ROW,
            scenario=scenario,
            candidate="graph_2",
            p_value=1e-6,
            speedup_low=1.5,
            speedup_high=2.5,
        )
        for scenario in ("call", "train_step")
    ]
    assert shown(twins, capsys).count("1 of 1 A/A pairs differ by more than 1 %") == 2
    assert "scenario=" not in shown([ROW], capsys)


def test_no_mean_is_of_several_devices(capsys: pytest.CaptureFixture[str]) -> None:
    slow = with_columns(ROW, speedup=0.5, verdict=Verdict.SLOWER, device="Tesla T4")
    out = shown([with_columns(ROW, device="NVIDIA A100"), slow], capsys)
    for words in ("on A100: geometric mean speedup 2.000×", "on T4: geometric mean speedup 0.500×"):
        assert f"xla over graph {words} over 1 of 2 planned trials" in out


def test_contaminated_comparisons_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_summary, "ROWS_SHOWN", 2)
    whole = with_columns(ROW, replicates=3)
    busy = with_columns(whole, status=Status.CONTAMINATED)
    out = shown([whole, busy, ROW], capsys)
    assert "~ 1 of 3 contaminated by other load" in out
    assert "▲ 3 faster" in out
    assert "and 1 more: xla-sweeps results results" in out
    assert "contaminated" not in shown([whole], capsys)


def test_many_models_are_told_by_where_most_pairs_lie_and_few_by_their_mean_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [with_columns(ROW, model=f"model{n}", speedup=1.0 + n / 10) for n in range(11)]
    out = shown(rows, capsys)
    assert "over 11 of 11 planned trials, 11 models; 8 of 10 between 1.10× and 1.90×" in out
    assert "95 %" not in out.partition("geometric mean")[2]
    few = shown(rows[:7], capsys)
    assert "7 models" in few
    assert "8 of 10" not in few
    assert "95 %" not in few.partition("geometric mean")[2]


def test_a_sweep_ends_with_a_table_of_its_trials(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [with_columns(ROW, model=f"model{number}") for number in range(3)]
    out = shown(rows, capsys)
    assert all(out.count(row.trial.model) == 1 for row in rows)
    assert "2.00×" in out
    assert "more:" not in out
    assert "speedup" not in shown([], capsys)


@pytest.mark.parametrize("kept", [False, True])
def test_contaminated_trials_are_resumed_unless_they_are_kept(
    kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    show_sweep(
        "mine",
        rows=[],
        counts={"ok": 1, "contaminated": 5},
        gave_up={},
        stopped=None,
        planned=6,
        results_dir=Path("results"),
        again="xla-sweeps sweep mine.yaml",
        kept=kept,
    )
    out = capsys.readouterr().out
    assert ("5 contaminated: measured again on resume; --accept-contaminated keeps" in out) != kept
    assert ("resume with: xla-sweeps sweep mine.yaml" in out) != kept
