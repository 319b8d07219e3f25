"""The summary that a sweep shows at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed_rows import with_columns
from factories import make_record
from shown import rows_text, text_shown

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.terminal import sweep_summary
from xla_sweeps.report.terminal.sweep_summary import show_sweep
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

(ROW,) = summarize([make_record()]).comparisons


def shown(*rows: ComparisonRow, **changes: Any) -> str:
    """Text that is shown of a sweep with these rows."""
    given: dict[str, Any] = {"counts": {"ok": len(rows)}, "planned": len(rows)}
    given |= {"gave_up": {}, "stopped": None}
    given |= {"results_dir": Path("results"), "again": "xla-sweeps sweep mine.yaml"}
    return text_shown(show_sweep, "mine", rows=rows, **{**given, **changes})


def test_the_command_that_shows_the_results_can_be_typed() -> None:
    assert "xla-sweeps results 'my results'\n" in shown(ROW, results_dir=Path("my results"))


def test_interrupted_trials_are_not_failed() -> None:
    stopped = with_columns(
        ROW, verdict=Verdict.NOT_MEASURED, status=Status.INTERRUPTED, failure_message="interrupted"
    )
    out = shown(ROW, stopped)
    assert "▲ 1 faster   ‖ 1 not measured" in out
    assert "✕" not in out
    failed = with_columns(stopped, status=Status.TIMEOUT, verdict=Verdict.FAILED)
    assert "✕ 1 failed" in shown(failed)


def test_a_sweep_whose_aa_pairs_differ_too_often_is_untrusted() -> None:
    twin = with_columns(
        ROW, candidate="graph_2", replicates=6, p_value=1e-6, speedup_low=1.5, speedup_high=2.5
    )
    assert "1 of 1 A/A pairs differ by more than 1 %" in shown(ROW, twin)
    rows = (ROW, twin, with_columns(twin, model="vgg16"))
    out = shown(*rows)
    assert "untrusted: 2 of 2 A/A pairs differ by more than 1 %" in out
    assert "Do not rely on these verdicts" in out
    assert "untrusted: 2 of 2 A/A pairs" in " ".join(rows_text(*rows).split())
    step = with_columns(twin, scenario="train_step")
    assert shown(twin, step).count("1 of 1 A/A pairs differ by more than 1 %") == 2


def test_each_scenario_has_its_own_table_and_sums() -> None:
    step = with_columns(ROW, scenario="train_step", speedup=0.5, verdict=Verdict.SLOWER)
    out = shown(ROW, step, with_columns(ROW, model="vgg16"))
    calls, _, steps = out.rpartition("scenario=train_step")
    assert out.count("scenario=train_step") == out.count("scenario=call") == 2
    assert "xla over graph: geometric mean speedup 2.00× over 2 of 3 planned trials" in calls
    assert "▲ 2 faster" in calls
    assert "▼ 1 slower" in steps
    assert "xla over graph: geometric mean speedup 0.50× over 1 of 3 planned trials" in steps
    assert "scenario=" not in shown(ROW)


def test_planned_trials_of_a_ratio_are_those_that_can_have_it() -> None:
    """An A/A twin has its own pair alone; a trial of both has both."""
    pairs = [with_columns(ROW, model=f"model{number}") for number in range(4)]
    verdict = Verdict.EQUIVALENT
    twin = with_columns(ROW, candidate="graph_2", speedup=1.0, verdict=verdict, purpose="aa")
    out = shown(*pairs, twin, planned=6, twins=1)
    assert "mine: 6 trials" in out
    assert "xla over graph: geometric mean speedup 2.00× over 4 of 5 planned trials" in out
    assert "graph_2 over graph: geometric mean speedup 1.00× over 1 of 1 planned A/A trial," in out
    both = with_columns(twin, purpose="result")
    assert "speedup 1.00× over 2 of 6 planned trials" in shown(
        *pairs, twin, both, planned=6, twins=1
    )


def test_no_mean_is_of_several_devices() -> None:
    slow = with_columns(ROW, speedup=0.5, verdict=Verdict.SLOWER, device="Tesla T4")
    out = shown(with_columns(ROW, device="NVIDIA A100"), slow)
    for words in ("on A100: geometric mean speedup 2.00×", "on T4: geometric mean speedup 0.50×"):
        assert f"xla over graph {words} over 1 of 2 planned trials" in out


def test_contaminated_comparisons_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_summary, "ROWS_SHOWN", 2)
    whole = with_columns(ROW, replicates=3)
    out = shown(whole, with_columns(whole, status=Status.CONTAMINATED), ROW)
    assert "~ 1 of 3 contaminated by other load" in out
    assert "▲ 3 faster" in out
    assert "and 1 more: xla-sweeps results results" in out
    assert "contaminated" not in shown(whole)


def test_many_models_are_told_by_where_most_pairs_lie_and_few_by_their_mean_alone() -> None:
    rows = [with_columns(ROW, model=f"model{n}", speedup=1.0 + n / 10) for n in range(11)]
    out = shown(*rows)
    assert "over 11 of 11 planned trials, 11 models; 8 of 10 between 1.10× and 1.90×" in out
    assert "95 %" not in out.partition("geometric mean")[2]
    few = shown(*rows[:7])
    assert "7 models" in few
    assert "8 of 10" not in few
    assert "more:" not in few
    assert "speedup" not in shown()


@pytest.mark.parametrize("kept", [False, True])
def test_contaminated_trials_are_resumed_unless_they_are_kept(kept: bool) -> None:
    out = shown(counts={"ok": 1, "contaminated": 5}, planned=6, kept=kept)
    assert ("5 contaminated: measured again on resume; --accept-contaminated keeps" in out) != kept
    assert ("resume with: xla-sweeps sweep mine.yaml" in out) != kept
