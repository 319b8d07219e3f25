"""No sentence claims a difference that intervals leave open: it says so, and what settles it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from factories import make_record
from report_rows import SWEEP, pair
from shown import text_shown

from xla_sweeps.analysis.overview import by_device, overview
from xla_sweeps.analysis.predict_cost import Cost
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report import study
from xla_sweeps.report.advice import answer
from xla_sweeps.report.overall import overall_answer
from xla_sweeps.report.terminal import predict_cost
from xla_sweeps.report.terminal.sweep_summary import show_sweep
from xla_sweeps.report.terminal.tables import _pace
from xla_sweeps.report.wandb_report.text import sections
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.row import ComparisonRow

CLAIM = re.compile(
    r"\bis (?:\S+ )?(?:faster|slower)\b|\btypically\b|geometric mean speedup"
    r"|costs (?:less|more)|sets the pace|takes longer|times as fast as|\bmost in\b"
    r"|\d× (?:faster|slower)"
)


def open_pair(number: int = 1, speedup: float = 1.67, **changes: Any) -> ComparisonRow:
    """XLA against graph, where the interval holds 1."""
    bounds = {"speedup_low": 0.4, "speedup_high": 6.0, "verdict": Verdict.AMBIGUOUS}
    rates = {"throughput_samples_per_s": 100 * speedup, "throughput_low": 20.0}
    return pair(number, speedup, **{**bounds, **rates, "throughput_high": 600.0, **changes})


def said_by_sweep() -> str:
    rows = [open_pair(number) for number in range(4)]
    text = text_shown(show_sweep, "s", rows=rows, counts={}, planned=4, **SWEEP)
    return text[text.index("◆ 4 ambiguous") :]


def said_by_devices() -> str:
    rows = [open_pair(number, device=f"D{number}") for number in range(3)]
    return overall_answer(overview(rows), by_device(rows))


def said_by_report() -> str:
    rows = [open_pair(number, 1.0 + number, family=f"F{number}") for number in range(4)]
    return "\n".join(section["text"] for section in sections(rows, 3)[:3])


def said_by_study(rows: Sequence[ComparisonRow]) -> str:
    (made,) = [table for table in study.of_rows(rows) if table.key == "distribution"]
    return made.finding


def said_by_fit() -> str:
    sides = [
        replace(open_pair().candidate, throughput_low=low, throughput_high=high)
        for low, high in ((1320.0, 1890.0), (654.0, 4366.0))
    ]
    return f"Its input alone: {_pace(('input', sides[0]), ('step', sides[1]))}."


LATENCY: dict[str, Any] = {"latency_speedup_low": 0.7, "latency_speedup_high": 2.4}

SAID: dict[str, Callable[[], str]] = {
    "answer": lambda: answer(open_pair(latency_speedup=1.3, **LATENCY, replicates_to_settle=4.0)),
    "overview": lambda: overall_answer(overview([open_pair(n, 2.0 + n) for n in range(9)])),
    "one": lambda: overall_answer(overview([open_pair()])),
    "devices": said_by_devices,
    "sweep": said_by_sweep,
    "report": said_by_report,
    "study": lambda: said_by_study([open_pair(n, 1.0 + n) for n in range(4)]),
    "fit": said_by_fit,
}
"""What is said of comparisons that are all open."""


class Open:
    """A size at which nothing is told from anything."""

    batches = 1
    references: ClassVar = {str(Mode.PREDICT_GRAPH): str(Mode.GRAPH_HOST), str(Mode.GRAPH_HOST): ""}

    def __init__(self, batch_size: int, ratio: float) -> None:
        self.batch_size, self.ratio = batch_size, ratio

    def has_both(self, one: str, other: str) -> bool:
        return True

    def pair(self, one: str, other: str) -> tuple[Interval, Interval]:
        sign = 1 if other == str(Mode.GRAPH_HOST) else -1
        ends = sorted((sign * (self.ratio - 2), sign * (self.ratio + 2)))
        return (
            Interval(estimate=-3.0, low=-4.0, high=-2.0),
            Interval(estimate=sign * self.ratio, low=ends[0], high=ends[1]),
        )


@pytest.mark.parametrize("ratios", [(-0.5, -0.7), (-0.5, 0.6)], ids=["one side", "both sides"])
def test_predict_cost_claims_nothing_that_its_table_leaves_open(ratios: tuple[float, ...]) -> None:
    sizes: Any = [Open(8 * (1 + place), ratio) for place, ratio in enumerate(ratios)]
    interval = Interval(estimate=0.01, low=-0.1, high=0.2)
    costs = [
        Cost(
            label=str(Mode.PREDICT_GRAPH),
            batch_size=size.batch_size,
            batches=1,
            seconds=Interval(estimate=0.1, low=0.05, high=0.2),
            reference=str(Mode.GRAPH_HOST),
            overhead=interval,
        )
        for size in sizes
    ]
    labels = [str(Mode.PREDICT_GRAPH), str(Mode.GRAPH_HOST)]
    text = " ".join(predict_cost.answers(sizes, costs, labels))
    check(text)
    check(" ".join(predict_cost.answer(sizes, costs, labels)))
    assert "at batch 8, 16" in text


def check(text: str) -> None:
    assert not CLAIM.search(text), text
    assert re.search("(?i)too little to tell|not known yet|ambiguous", text), text
    assert "replicate" in text, "what settles it"


@pytest.mark.parametrize("said", SAID)
def test_a_comparison_whose_intervals_overlap_is_no_claim(said: str) -> None:
    check(SAID[said]())


def test_what_is_clear_is_said_still() -> None:
    rows = [pair(number, 2.0) for number in range(4)]
    assert CLAIM.search(overall_answer(overview(rows)))
    mixed = overall_answer(overview([*rows[:2], open_pair(7)]))
    assert "faster than graph in 2 of 3 configurations, not known yet in 1." in mixed
    assert "typically" in mixed
    record = make_record({"graph": 0.2, "xla": 0.1}, noise=0.01)
    assert CLAIM.search(answer(summarize([record]).comparisons[0]))


def test_equal_ends_and_one_device_are_said_once() -> None:
    said = said_by_study([pair(1, 2.0), pair(2, 1.0)])
    assert said == "The fastest model is 2.00 times as fast as the slowest, in 1 setting."
