"""The answer in words: the exact sentence of every verdict."""

from __future__ import annotations

from typing import Any

import pytest
from changed_rows import with_columns
from factories import make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.advice import answer, flag_notes, name_of
from xla_sweeps.report.sentences import FLAG_TEXTS
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Flag, Status

ROW = with_columns(
    summarize([make_record()]).comparisons[0],
    speedup=1.38,
    speedup_low=1.34,
    speedup_high=1.42,
    throughput_samples_per_s=None,
    compile_s_extra=12.3,
    break_even_calls=5412.0,
    break_even_low=4900.0,
    break_even_high=6020.0,
)


def judged(
    verdict: Verdict, speedup: float, low: float, high: float, **more: object
) -> dict[str, object]:
    """Columns of a verdict on a speedup with its interval."""
    bounds = {"speedup": speedup, "speedup_low": low, "speedup_high": high}
    return {"verdict": verdict, **bounds, **more}


def opened(
    speedup: float, low: float, high: float, above: float, replicates: float, **more: object
) -> dict[str, object]:
    """Columns of a difference that is open: what is excluded, and what would settle it."""
    left = {"excluded_above": above, "replicates_to_settle": replicates}
    return judged(Verdict.AMBIGUOUS, speedup, low, high, **left, **more)


FASTER = "XLA is 1.38× faster than graph (clear: 95 % 1.34–1.42, 1 replicate)"

AT_ONCE = f"{FASTER}; preparation takes no longer."
"""The sentence where XLA pays back in the first call."""

BACK = "; its 12 s of compilation pay back after 5,400 calls (4,900–6,000)."

QUIETER = (
    "more than 100 replicates, or a quieter machine (`xla-sweeps doctor`), would settle whether "
    "there is one above 1 %."
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, f"{FASTER}{BACK}"),
        (
            {"replicates": 3, "break_even_calls": 0.0},
            AT_ONCE.replace("1 replicate", "3 replicates"),
        ),
        (
            judged(Verdict.SLOWER, 0.25, 0.2, 0.5),
            "XLA is 4.00× slower than graph (clear: 95 % 2.00–5.00, 1 replicate). Keep "
            "tf.function(jit_compile=False) for this model on this device.",
        ),
        (
            judged(Verdict.EQUIVALENT, 1.001, 0.998, 1.004),
            "XLA and graph are equally fast to within 1 % (clear: 95 % 0.998–1.004, 1 replicate)."
            " Choose by compile time and memory, not by speed.",
        ),
        (
            opened(1.02, 0.98, 1.06, 0.054, 39.0, replicate_s=40.0),
            "XLA against graph is ambiguous: 1.020× (open: 95 % 0.980–1.060, 1 replicate). A "
            "difference above 5.4 % is excluded; about 39 more replicates (effort.replicates=39, "
            "26 min) would settle whether there is one above 1 %.",
        ),
        (
            opened(1.011, 0.98, 1.042, 0.037, 101.0),
            "XLA against graph is ambiguous: 1.011× (open: 95 % 0.980–1.042, 1 replicate). A "
            f"difference above 3.7 % is excluded; {QUIETER}",
        ),
        (
            opened(0.54, 0.148, 2.004, 3.45, 101.0),
            "XLA against graph is ambiguous: 0.54× (open: 95 % 0.15–2.00, 1 replicate). A "
            f"difference above 4.45× is excluded; {QUIETER}",
        ),
        (
            {"latency_speedup": 0.95, "latency_speedup_low": 0.8, "latency_speedup_high": 1.1},
            f"{FASTER}{BACK} One call at a time it is too little to tell (0.80–1.10).",
        ),
        (
            {"candidate": "autocluster", "baseline": "default"}
            | dict.fromkeys(("break_even_calls", "compile_s_extra")),
            "Auto-clustering is 1.38× faster than the default (jit_compile=None) (clear: 95 % "
            '1.34–1.42, 1 replicate); use tf.config.optimizer.set_jit("autoclustering").',
        ),
        (
            {"status": Status.CONTAMINATED, "speedup_raw": 1.3},
            f"{FASTER}{BACK} Measured beside other load: rely on the ratio, not on the times (all "
            "rounds: 1.30×).",
        ),
        (
            {"status": Status.CONTAMINATED, "speedup_raw": 1.381, "break_even_calls": 0.5},
            f"{AT_ONCE} Measured beside other load: rely on the ratio, not on the times.",
        ),
        (
            {"host_bound": True, "break_even_calls": 0.5},
            f"{AT_ONCE} The device waits for the host here: a larger batch_size says more about "
            "the device, unless the time of single calls is the question.",
        ),
        (
            {"flags": ("slow_on_new_inputs:eager", "slow_on_new_inputs:xla")}
            | {"break_even_calls": 0.5},
            f"{AT_ONCE} It was timed on inputs that it had seen before: on new ones XLA takes "
            "more than 1.5 times as long.",
        ),
        (
            {"flags": ("contains_xla",), "break_even_calls": 0.5},
            f"{AT_ONCE} Note that graph contains XLA too, in parts of the model.",
        ),
        (
            judged(Verdict.EQUIVALENT, 1.001, 0.998, 1.004)
            | {"candidate": "graph_2", "excluded_above": 0.0038},
            "A/A: two copies of graph measure 1.001× (95 % 0.998–1.004, 1 replicate),"
            " 0.1 % apart, as expected. A difference above 0.38 % is excluded.",
        ),
        (
            judged(Verdict.FASTER, 1.05, 1.03, 1.07, candidate="graph_2"),
            "A/A: two copies of graph measure 1.05× (95 % 1.030–1.070, 1 replicate), "
            "5 % apart, although they are the same: this machine adds differences of that size. "
            "Run `xla-sweeps doctor`.",
        ),
    ],
)
def test_each_verdict_has_its_own_sentence(changes: dict[str, object], sentence: str) -> None:
    assert answer(with_columns(ROW, **changes)) == sentence


PREDICT = {"scenario": "predict", "candidate": "predict_xla", "baseline": "predict_graph"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            "model.predict with XLA is 1.38× faster than without XLA (clear: 95 % 1.34–1.42, 1 "
            "replicate); use compile(jit_compile=True); its 12 s of compilation pay back after "
            "5,400 calls (4,900–6,000).",
        ),
        (
            judged(Verdict.SLOWER, 0.25, 0.2, 0.5),
            "model.predict with XLA is 4.00× slower than without XLA (clear: 95 % 2.00–5.00, 1 "
            "replicate). Keep compile(jit_compile=False) for this model on this device.",
        ),
        (
            {"verdict": Verdict.EQUIVALENT, "candidate": "predict"},
            "model.predict without compile and model.predict without XLA are equally fast to "
            "within 1 % (clear: 95 % 1.34–1.42, 1 replicate). Choose by compile time and "
            "memory, not by speed.",
        ),
        (
            {"candidate": "predict_xla_2", "baseline": "predict_xla"},
            "A/A: two copies of model.predict with XLA measure 1.38× (95 % 1.34–1.42, 1 "
            "replicate), 38 % apart, although they are the same: this machine adds "
            "differences of that size. Run `xla-sweeps doctor`.",
        ),
        (
            {"baseline": "", "verdict": Verdict.NONE, "throughput_samples_per_s": 12.5},
            "model.predict with XLA alone ran at 12.5 images/s. For a speedup, measure a baseline "
            "too, as in modes=[predict_graph,predict_xla].",
        ),
        (
            {"scenario": "train_step", "candidate": "xla", "baseline": "graph"},
            f"{FASTER}{BACK}".replace("calls", "steps"),
        ),
        (
            {"scenario": "fit", "candidate": "fit_auto", "baseline": "fit_graph"},
            'model.fit after compile(jit_compile="auto") is 1.38× faster than without XLA (clear: '
            '95 % 1.34–1.42, 1 replicate); use compile(jit_compile="auto"); its 12 s '
            "of compilation pay back after 5,400 epochs (4,900–6,000).",
        ),
    ],
)
def test_sentences_hold_for_keras_and_training(changes: dict[str, object], sentence: str) -> None:
    assert answer(with_columns(ROW, **{**PREDICT, **changes})) == sentence


def test_a_second_copy_of_a_mode_is_named_as_such() -> None:
    assert name_of("predict_xla_2") == "a second copy of model.predict with XLA"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"status": status},
            "XLA cannot run this model: R. Keep tf.function(jit_compile=False), or see the hint.",
        )
        for status in (Status.UNSUPPORTED_OP, Status.DYNAMIC_SHAPE)
    ]
    + [
        (
            {"status": Status.WRONG_RESULT, "failed_mode": mode},
            f"{name} does not compute what eager execution computes, so its speed is meaningless: "
            "R.",
        )
        for mode, name in (("", "XLA"), ("xla", "XLA"), ("graph", "Graph"))
    ]
    + [
        (
            {"status": Status.NONDETERMINISTIC},
            "XLA cannot be verified, because the model is not deterministic: R.",
        ),
        ({"status": Status.UNVERIFIABLE}, "XLA cannot be verified, so no speedup is given: R."),
        ({"status": Status.MODE_NOT_EFFECTIVE}, "XLA was not in force, so there is no result: R."),
        (
            {"status": Status.RETRACED},
            "A mode was traced again while it was measured, so its speed is withheld: R.",
        ),
        (
            {"status": Status.OOM_GPU},
            "XLA against graph ran out of memory: R. Try batch_size=1 or a smaller resolution.",
        ),
        (
            {"status": Status.OOM_GPU, "candidate": "jax_xla", "failed_mode": "graph"},
            "JAX with XLA could not be compared: graph failed: R.",
        ),
        ({"status": Status.TIMEOUT}, "XLA against graph timed out: R."),
        (
            {"status": Status.INTERRUPTED},
            "XLA against graph was interrupted before there was enough to compare. Rerun to "
            "resume.",
        ),
        ({"status": Status.CRASHED}, "XLA against graph could not be measured: R."),
    ],
)
def test_each_failure_has_its_own_sentence_and_names_the_mode(
    changes: dict[str, Any], sentence: str
) -> None:
    lost = {"verdict": Verdict.FAILED, "speedup": None, "failure_message": "R"}
    assert answer(with_columns(ROW, **{**lost, **changes})) == sentence


@pytest.mark.parametrize("flag", [*Flag, Status.CONTAMINATED])
def test_every_flag_is_explained(flag: str) -> None:
    assert FLAG_TEXTS[flag] != flag


def test_the_flags_of_both_modes_are_said_once_with_their_modes() -> None:
    flags = ("inputs_differ:graph", "inputs_differ:xla", "drift", "inputs_differ:eager")
    notes = flag_notes(with_columns(ROW, flags=flags))
    assert len(notes) == 2
    assert notes[0].endswith("(graph, XLA)")


def test_the_eager_mode_of_a_saved_model_is_flagged_as_a_graph() -> None:
    row = with_columns(ROW, baseline="eager", eager_is_graph=True)
    assert answer(row).endswith("Eager calls of a saved model run its graph.")
    assert "saved model" not in answer(with_columns(ROW, eager_is_graph=True))
