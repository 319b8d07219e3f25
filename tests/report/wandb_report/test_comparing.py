"""Comparisons of the W&B report: within one setting, each question once, in words."""

from __future__ import annotations

from typing import Any

from report_rows import FACTS, pair, text_of

from xla_sweeps.report.wandb_report.settings import commonest
from xla_sweeps.report.wandb_report.text import environment


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
    texts = {key: text_of(key, rows) for key in ("answer", "where", "compare")}
    assert "faster than graph in 5 of 7 pairs, slower in 2.\n" in texts["answer"]
    for setting, speedup, models in (
        ("A, 224 px, batch 4, float32", "4.00×", 2),
        ("B, 224 px, batch 32, float32", "2.00×", 3),
    ):
        assert (
            f"- {setting}: XLA is typically {speedup} as fast as graph (geometric mean over "
            f"{models} models)."
        ) in texts["answer"]
    assert texts["answer"].count("typically") == 2
    assert "### A, 224 px, batch 4, float32" in texts["where"]
    assert "| 2 | 2 | 0 | 4.00× | 0% |" in texts["where"]
    assert "| 3 | 3 | 0 | 2.00× | 33% |" in texts["where"]
    assert texts["where"].count("×") == 2
    assert "| A | 224 | 4 | float32 | 2 | 2 | 0 | 4.00× | 0% | — |" in texts["compare"]
    assert "| A | 384 | 4 | float32 | 1 | 1 | 0 | 0.25× | 100% | — |" in texts["compare"]
    assert "| B | 224 | 4 | float32 | 1 | 1 | 0 | 2.00× | 0% | — |" in texts["compare"]
    assert "No model was measured in every row" in texts["compare"]


def test_settings_are_compared_over_the_models_that_all_have() -> None:
    rows = [
        pair(1, 2.0),
        pair(2, 8.0),
        pair(1, 4.0, batch_size=32),
        pair(3, 0.5, batch_size=32),
    ]
    text = text_of("compare", rows)
    assert "measured in every row (1 model): compare rows by that one" in text
    assert "| 224 | 4 | float32 | 2 | 2 | 0 | 4.00× | 0% | 2.00× |" in text
    assert "| 224 | 32 | float32 | 2 | 2 | 0 | 1.41× | 50% | 4.00× |" in text
    assert "one device" in text_of("compare", rows[:2])


def test_the_commonest_setting_is_that_with_the_most_pairs_of_each_device() -> None:
    rows = [pair(1), pair(2, batch_size=32), pair(3, batch_size=32), pair(4, device="A")]
    pairs = {str(setting): len(mine) for setting, mine in commonest(rows).items()}
    assert pairs == {
        "Some CPU, 224 px, batch 32, float32": 2,
        "A, 224 px, batch 4, float32": 1,
    }


def test_a_question_that_was_asked_again_counts_once() -> None:
    rows = [pair(1, 2.0), pair(1, 4.0, trial_id="f" * 16, effort="publish", replicates=6)]
    text = text_of("answer", rows)
    assert "faster than graph in 1 of 1 pair. XLA is typically 4.00×" in text
    assert "**All 1 pairs" in text
    assert "2.00×" not in text


def test_rows_of_one_name_say_what_tells_them_apart() -> None:
    rows = [pair(1, 2.0), pair(1, 4.0, precision="mixed_float16")]
    text = text_of("answer", rows)
    assert r"| net1 · mixed\_float16 |" in text
    assert "| net1 · float32 |" in text


def test_contaminated_and_preliminary_figures_look_so() -> None:
    clean = {"preliminary": False}
    rows = [pair(1, 2.0, **clean), pair(2, 3.0, **clean, status="contaminated")]
    text = text_of("answer", rows)
    assert r"| 3.00×\~ |" in text
    assert "| 2.00× |" in text
    assert "contaminated by other load" in text
    assert "preliminary" not in text


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
    assert "| software | TensorFlow 2.21.0 |" in text
    assert "| driver | 550.54 |" in text
    assert "| devices | B; Some CPU |" in text
    assert "| measured | 2026-11-01 to 2026-11-05 |" in text
    assert "| trials | 3 |" in text
    assert "| left out | 1 comparison that did not finish |" in text


def test_the_report_says_how_to_turn_xla_on_and_explains_its_words() -> None:
    text = text_of("answer", [pair()])
    assert "with XLA (`xla`: `jit_compile=True`)" in text
    assert "without (`graph`: `tf.function(jit_compile=False)`)" in text
    assert "python -m xla_sweeps model=NAME`" in text
    for word in ("*pair*", "*Graph mode*"):
        assert word in text


def test_published_figures_are_in_no_count() -> None:
    theirs = pair(1, 3.0, origin="imported", device="A100", preliminary=False)
    text = text_of("answer", [pair(1), theirs])
    assert "in 1 of 1 pair" in text
    assert "A100" not in text


def test_what_only_the_page_has_is_named() -> None:
    text = text_of("everything", [pair()])
    assert "`dashboard.html` among the summary run's artifacts" in text
    assert "what failed and why" in text
