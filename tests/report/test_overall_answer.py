"""The answer over many pairs: the word, the counts and the sentences behind it."""

from __future__ import annotations

import pytest
from changed_rows import with_columns
from headline_rows import row

from xla_sweeps.analysis.overview import by_device, overview
from xla_sweeps.report.overall import overall_answer
from xla_sweeps.schema.columns import Verdict


@pytest.mark.parametrize(
    ("speedups", "word"),
    [
        ([2.0] * 3, "Yes."),
        ([2.0] * 4 + [0.9], "Usually yes."),
        ([2.0] * 4 + [0.5], "Usually yes."),
        ([2.0, 2.0, 0.01], "Mixed."),
        ([2.0] * 4 + [None], "Usually yes."),
        ([0.5] * 3, "No."),
        ([0.5] * 5 + [0.999], "Usually no."),
        ([0.5, 2.0], "Mixed."),
        ([1.0] * 4, "Not known yet."),
        ([None, None, 2.0], "Mostly it fails."),
        ([None, None], "It fails."),
    ],
)
def test_the_answer_follows_the_verdicts_and_counts_failures(
    speedups: list[float | None], word: str
) -> None:
    rows = [row(value, model=f"net{number}") for number, value in enumerate(speedups)]
    assert overall_answer(overview(rows)).startswith(word)


def test_devices_that_disagree_are_not_pooled() -> None:
    rows = [
        row(speedup, device=device, model=f"net{number}")
        for device, speedups in {
            "NVIDIA A100-SXM4-40GB": (1.5, 1.4),
            "AMD EPYC 9654 96-Core Processor": (1.2, 1.1),
            "Tesla T4": (0.6, 0.7),
            "NVIDIA V100": (0.5, 2.0),
        }.items()
        for number, speedup in enumerate(speedups)
    ]
    text = overall_answer(overview(rows), by_device(rows))
    assert text.startswith(
        "It depends on the device. Yes on EPYC 9654 (1.15×) and A100-SXM4-40GB (1.45×), no on T4 "
        "(0.65×), mixed on V100 (1 faster, 1 slower)."
    )
    assert "typically" not in text
    alike = [one for one in rows if one.trial.device.startswith(("AMD", "NVIDIA A"))]
    pooled = overall_answer(overview(alike))
    assert pooled == overall_answer(overview(alike), by_device(alike))
    assert pooled.endswith("1.10× to 1.50× of graph; over 2 unlike settings there is no mean.")


def test_devices_that_are_mixed_each_are_mixed_together_as_on_the_page() -> None:
    """Models differ less than devices: pooled, the sign of the mean decided nothing."""
    rows = [
        row(speedup, device=device, model=f"net{number}")
        for device in ("NVIDIA A100", "NVIDIA T4")
        for number, speedup in enumerate([1.1] * 6 + [0.2] * 4)
    ]
    assert overall_answer(overview(rows), by_device(rows)).startswith("Mixed.")


def test_devices_of_one_short_name_are_told_apart() -> None:
    names = [f"Intel(R) Xeon(R) CPU @ {clock}GHz" for clock in ("2.20", "2.00")]
    rows = [row(speedup, device=name) for name, speedup in zip(names, (1.5, 0.5), strict=True)]
    text = overall_answer(overview(rows), by_device(rows))
    assert all(f"{name} (" in text for name in names), text


def test_pairs_that_are_equally_fast_hardly_matter() -> None:
    rows = [row(1.0, model=f"net{number}", verdict=Verdict.EQUIVALENT) for number in range(4)]
    assert overall_answer(overview(rows)).startswith("It hardly matters.")


@pytest.mark.parametrize(("models", "said"), [(7, False), (8, True)])
def test_the_answer_says_where_most_lie_from_eight_models_on(models: int, said: bool) -> None:
    text = overall_answer(overview([row(1.0 + n / 10, model=f"net{n}") for n in range(models)]))
    assert (", 8 of 10 between 1.07× and 1.63×." in text) == said
    assert "95 %" not in text


def test_the_answer_never_promises_more_than_was_compared() -> None:
    assert overall_answer(overview([])) == "Nothing was compared yet."
    assert (
        overall_answer(overview([row(None), row(None)]))
        == "It fails. XLA is faster than graph in 0 of 2 configurations, failed in 2."
    )
    lost = with_columns(row(None), verdict=Verdict.NOT_MEASURED)
    assert overall_answer(overview([lost])) == "Nothing was compared yet, 1 not measured."
    both = overall_answer(overview([row(2.0), lost]))
    assert both.startswith("Yes. XLA is faster than graph in 1 of 1 configuration, 1 not measured.")
    alone = overall_answer(overview([row(2.0)]))
    assert alone.startswith(
        "Yes. XLA is faster than graph in 1 of 1 configuration. XLA is typically 2.00×"
    )
    assert "never pay" in overall_answer(
        overview([row(0.5, break_even_calls=None, compile_s_extra=1.0)])
    )
    counted = {"faster", "slower", "equivalent", "ambiguous", "failed"}
    assert {str(word) for word in Verdict} == {*counted, "none", "not_measured"}


def test_pairs_of_unlike_settings_have_a_range_and_no_mean_and_no_cost() -> None:
    unlike = ((2.0, 1), (1.5, 8), (4.0, 8))
    rows = [row(speedup, model=f"net{speedup}", batch_size=batch) for speedup, batch in unlike]
    sums = overview(rows)
    assert (sums.geomean, sums.median_extra_compile_s, sums.settings) == (None, None, 2)
    assert overall_answer(sums) == (
        "Yes. XLA is faster than graph in 3 of 3 configurations. XLA runs at 1.50× to 4.00× of "
        "graph; over 2 unlike settings there is no mean."
    )
    alike = overview([one for one in rows if one.trial.batch_size == 8])
    assert alike.geomean == pytest.approx((1.5 * 4.0) ** 0.5, rel=1e-2)
