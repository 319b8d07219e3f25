"""Comparisons of the W&B report: within one setting, each question once, in words."""

from __future__ import annotations

from typing import Any

from report_rows import FACTS, pair, text_of

from xla_sweeps.report.wandb_report.text import commonest, environment, setting_title


def test_no_mean_mixes_devices_sizes_or_batches() -> None:
    """The two settings of A differ so much that any mean over both is 1×."""
    rows = [
        pair(1, 4.0, device="A"),
        pair(2, 4.0, device="A"),
        pair(1, 0.25, device="A", resolution_px=384),
        pair(2, 2.0, device="B"),
        pair(1, 0.125, device="B", batch_size=32),
        pair(3, 8.0, device="B", batch_size=32),
        pair(4, 8.0, device="B", batch_size=32),
    ]
    texts = {key: text_of(key, rows) for key in ("answer", "where")}
    assert "faster than graph in 5 of 7 configurations, slower in 2.\n" in texts["answer"]
    for setting, speedup, models in (
        ("A, 224 px, batch 4, float32", "4.00×", 2),
        ("B, 224 px, batch 32, float32", "2.00×", 3),
    ):
        assert (
            f"- {setting}: XLA is typically {speedup} as fast as graph (geometric mean over "
            f"{models} models)."
        ) in texts["answer"]
    assert texts["answer"].count("typically") == 2
    assert texts["where"].splitlines() == [
        "- B, 224 px, batch 32, float32: ResNetV1 (2.00×)",
        "- A, 224 px, batch 4, float32: ResNetV1 (4.00×)",
    ]


def test_the_commonest_setting_is_that_with_the_most_pairs_of_each_device() -> None:
    rows = [pair(1), pair(2, batch_size=32), pair(3, batch_size=32), pair(4, device="A")]
    counts = {setting_title(setting): len(mine) for setting, mine in commonest(rows).items()}
    assert counts == {
        "Some CPU, 224 px, batch 32, float32": 2,
        "A, 224 px, batch 4, float32": 1,
    }


def test_a_question_that_was_asked_again_counts_once() -> None:
    rows = [pair(1, 2.0), pair(1, 4.0, trial_id="f" * 16, effort="publish", replicates=6)]
    text = text_of("answer", rows)
    assert "faster than graph in 1 of 1 configuration. XLA is typically 4.00×" in text
    assert "2.00×" not in text


def test_the_header_says_what_was_measured_when_and_with_which_software() -> None:
    software: dict[str, Any] = {
        "software": "TensorFlow 2.21.0",
        "driver": "550.54",
        "environment_flags": "",
    }
    rows = [
        pair(1, **software, measured_at="2026-11-05T10:00:00+00:00"),
        pair(2, **software, device="B", measured_at="2026-11-01T10:00:00+00:00"),
        pair(3, **software, status="interrupted", measured_at=""),
        pair(4, origin="imported", device="published elsewhere"),
    ]
    text = environment(rows, FACTS)
    assert "- software: TensorFlow 2.21.0" in text
    assert "- driver: 550.54" in text
    assert "- devices: B; Some CPU" in text
    assert "- measured: 2026-11-01 to 2026-11-05" in text
    assert "- trials: 3" in text
    assert "- left out: 1 comparison that did not finish" in text


def test_the_report_says_how_to_turn_xla_on_and_explains_its_words() -> None:
    text = text_of("answer", [pair()])
    assert "with XLA (`xla`: `jit_compile=True`)" in text
    assert "without (`graph`: `tf.function(jit_compile=False)`)" in text
    assert "python -m xla_sweeps model=NAME`" in text
    for word in ("*configuration*", "*Graph mode*"):
        assert word in text


def test_published_figures_are_in_no_count() -> None:
    theirs = pair(1, 3.0, origin="imported", device="A100")
    text = text_of("answer", [pair(1), theirs])
    assert "in 1 of 1 configuration" in text
    assert "A100" not in text
    ranked = text_of("fastest", [pair(1), theirs])
    assert "| 224 px, batch 4 | A100, published | net1 |" in ranked
    assert "| 224 px, batch 4 | Some | net1 |" in ranked


def test_what_only_the_page_has_is_named() -> None:
    text = text_of("everything", [pair()])
    assert "`dashboard.html` among the summary run's artifacts" in text
    assert "what failed and why" in text
