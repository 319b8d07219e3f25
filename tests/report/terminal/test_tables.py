"""Tables in the terminal: they fit any width, escape names, and use the right stream."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changed_rows import with_columns
from factories import CONFIG, MODEL, config_of, failed_outcome, make_outcome, make_record
from report_rows import pair
from shown import rows_text, text_shown, trial_text

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.config import catalog
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.row_cells import row_names
from xla_sweeps.report.terminal.console import complain
from xla_sweeps.report.terminal.models import show_model
from xla_sweeps.report.terminal.progress import TrialProgress
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import (
    Agreement,
    Energy,
    Failure,
    Flagged,
    Metered,
    ModeOutcome,
    Phase,
    Status,
)
from xla_sweeps.schema.record import Record
from xla_sweeps.system.installation import how_to_install

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\u202ed\x9be\ud800f\x00"

SUMMARY = summarize([make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)])


@pytest.fixture(autouse=True)
def _some_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(params=[80, 100, 140])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.mark.parametrize(
    ("agreed", "cell"),
    [
        (Agreement(rmse_rel=2e-4, top1_match=None, ok=True, allowed=4e-4), "yes 2e-4 of 4e-4"),
        (Agreement(rmse_rel=2e-4, top1_match=None, ok=False, allowed=1e-4), "NO 2e-4 of 1e-4"),
        (Agreement(rmse_rel=8e-6, top1_match=None, ok=False, allowed=1e-4), "NO 8e-6 "),
    ],
)
def test_the_table_says_how_far_a_mode_is_from_eager_and_what_was_allowed(
    agreed: Agreement, cell: str
) -> None:
    record = make_record({"graph": 0.2, "xla": 0.1})
    modes = {**record.modes, "xla": replace(record.modes["xla"], agreement=agreed)}
    text = trial_text(replace(record, modes=modes))
    (line,) = (line for line in text.splitlines() if line.startswith(" xla "))
    assert cell in line
    assert (" of " in line) is (" of " in cell)


def test_a_trials_end_fits_the_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    out = trial_text(SUMMARY, record="results/records/0.json")
    assert capsys.readouterr().err == ""
    assert max(map(len, out.splitlines())) <= width
    text = " ".join(out.split())
    for part in (
        "ResNet50 224 px · batch 4 · 25.6 M params · 3.86 GMACs · Some CPU",
        "eager",
        "graph",
        "xla",
        "▲ XLA is 2.0",
        "record results/records/0.json",
        "eager → graph 2.0",
        "yes 1e-6",
    ):
        assert part in text, part


def test_what_keras_made_of_its_setting_stands_in_the_table(width: int) -> None:
    chosen = {"predict": False, "predict_graph": False, "predict_on_batch_auto": True}
    modes = {
        label: make_outcome(1.234, effective={"jit_compile": jit}) for label, jit in chosen.items()
    }
    call_s, config = dict.fromkeys(chosen, 1.234), config_of("predict", *chosen)
    lines = trial_text(make_record(call_s, modes=modes, config=config)).splitlines()
    assert max(map(len, lines)) <= width
    assert any("batch 4 · predict" in line for line in lines)
    shown = {line.split()[0]: line.split()[1:3] for line in lines if line.split()[:1]}
    for label, jit in chosen.items():
        assert shown[label] == ["yes" if jit else "no", "3.24"]
    assert "XLA" not in trial_text(SUMMARY).splitlines()[2]


def test_rows_never_rely_on_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = rows_text(*SUMMARY.comparisons)
    assert "▲ faster" in out
    assert "\x1b" not in out
    assert "*" not in out


def test_an_interrupted_trial_is_not_shown_as_failed() -> None:
    failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
    lost: dict[str, Any] = {"status": Status.INTERRUPTED, "failure": failure}
    modes = {name: ModeOutcome(**lost) for name in ("graph", "xla")}
    summary = summarize([make_record(modes=modes, rounds=(), **lost)])
    out = trial_text(summary) + rows_text(*summary.comparisons)
    assert "‖ XLA against graph was interrupted before there was enough to compare." in out
    assert "‖ interrupted" in out
    assert "✕" not in out


def test_contaminated_rows_have_a_mark_of_their_own() -> None:
    row = with_columns(SUMMARY.comparisons[0], replicates=3)
    out = rows_text(row, with_columns(row, model="vgg16", status=Status.CONTAMINATED))
    ends = {line.split()[0]: line.split()[-1] for line in out.splitlines() if line.strip()}
    assert (ends["resnet50"], ends["vgg16"]) == ("3", "3~")
    assert "~ contaminated by other load" in out
    assert "*" not in out
    assert "~" not in rows_text(row)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_is_shown_in_the_word_that_a_filter_takes(verdict: Verdict) -> None:
    row = with_columns(SUMMARY.comparisons[0], verdict=verdict, status=Status.TIMEOUT)
    line = next(line for line in rows_text(row).splitlines() if "resnet50" in line)
    assert (f" {verdict} " in line) == (not verdict.is_missing)
    assert (" timeout " in line) == verdict.is_missing


def test_rows_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = with_columns(SUMMARY.comparisons[0], model="efficientnetv2s", verdict=Verdict.AMBIGUOUS)
    out = rows_text(row, with_columns(row, candidate="autocluster", baseline="default"))
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out, "a word is cut"
    assert " replicates " in out
    number = with_columns(row, model="m" * 50, throughput_samples_per_s=12345.6, status="timeout")
    for narrow in (80, 60, 40):
        monkeypatch.setenv("COLUMNS", str(narrow))
        failed = with_columns(number, verdict="failed", device="NVIDIA A100-SXM4-80GB")
        out = rows_text(row, failed)
        assert "…" not in out
        assert f" {row.speedup.value:.2f}× " in out
        assert (max(map(len, out.splitlines())) <= 80) or narrow < 80
        assert "12,346" in out


WORDS = (
    *("torch_compile_reduce_overhead", "torch_compile_max_autotune", "graph,xla,torch_export"),
    *("call_host,graph_host,predict_graph", "deit_small_distilled_patch16_224", "A100-SXM4-80GB"),
)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_that_fits_breaks_no_word_and_cuts_no_status(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    long: dict[str, Any] = {"candidate": WORDS[0], "baseline": WORDS[1]}
    long["throughput_samples_per_s"] = 1234567.0
    for status in Status:
        lines = rows_text(
            pair(1, model=WORDS[4], status=status, verdict="failed", modes=WORDS[2], **long),
            pair(1, model=WORDS[4], modes=WORDS[3], **long),
            pair(1, model=WORDS[4], device=f"NVIDIA {WORDS[5]}", **long),
        ).splitlines()
        assert max(map(len, lines)) <= columns
        assert any(f"✕ {status} " in f"{line} " for line in lines)
        parts = {part for line in lines for part in line.split()}
        pieces = {piece for word in WORDS for piece in re.findall("[^,_-]+", word)}
        assert {piece for piece in pieces if not any(piece in part for part in parts)} == set()


def test_rows_of_trials_that_differ_do_not_look_alike() -> None:
    first = SUMMARY.comparisons[0]
    again = with_columns(first, trial_id="f" * 16)
    for changes, words in (
        ({"effort": "standard"}, ("(quick)", "(standard)")),
        ({"modes": "graph,xla"}, ("(eager,graph,xla)", "(graph,xla)")),
        ({"precision": "mixed_float16", "modes": "x"}, ("resnet50  ", "(mixed_float16)")),
        ({"tf32": True}, ("resnet50  ", "(TF32)")),
        ({}, (f"({first.trial.trial_id[:8]})", "(ffffffff)")),
        ({"resolution_px": 96}, ("resnet50  ", "resnet50  ")),
    ):
        text = rows_text(first, with_columns(again, **changes))
        lines = [line for line in text.splitlines() if "resnet50" in line]
        assert len(lines) == 2
        assert all(map(str.__contains__, lines, words)), lines
    others = with_columns(again, effort="standard"), with_columns(again, modes="xla")
    out = rows_text(first, *others)
    for told in ("(quick · eager,graph,xla)", "(standard)", "(quick · xla)"):
        assert told in out


def test_variables_that_fill_pages_do_not_fill_the_table() -> None:
    records = [
        make_record(trial_id=name * 16, environment={"flags": {"XLA_FLAGS": name * 60_000}})
        for name in "ab"
    ]
    rows = [summarize([record]).comparisons[0] for record in records]
    told = row_names(rows, with_device=False)
    assert [text[:23] for text in told] == ["resnet50 (XLA_FLAGS=aaa", "resnet50 (XLA_FLAGS=bbb"]
    assert max(map(len, told)) < 100


def test_a_clear_verdict_is_not_hedged_and_an_open_one_is() -> None:
    for call_s, is_open in ((0.1, False), (0.199, True)):
        flags = (Flagged("not_converged"),)
        out = trial_text(make_record({"graph": 0.2, "xla": call_s}, flags=flags))
        assert ("not_converged" in out) is is_open
        assert ("(open: " in out) is is_open
        assert ("(clear: " in out) is not is_open


def test_a_device_that_all_rows_share_is_shown_once() -> None:
    rows = SUMMARY.comparisons
    assert rows_text(*rows).count("Some CPU") == 1
    assert rows_text(*rows, with_columns(rows[0], device="A GPU")).count("(Some)") == 3


def test_devices_have_short_names_unless_two_would_be_alike() -> None:
    first, second = (f"Intel(R) Xeon(R) Processor @ 2.{digit}0GHz" for digit in "18")
    devices = (first, "AMD EPYC 9654 96-Core Processor", "NVIDIA A100-SXM4-40GB")
    rows = [with_columns(SUMMARY.comparisons[0], device=each) for each in (*devices, second)]
    shown = rows_text(*rows[:3])
    for short in ("(Xeon)", "(EPYC 9654)", "(A100-SXM4-40GB)"):
        assert f"resnet50 {short}" in shown
    shown = rows_text(*rows)
    for name in (first, second, "EPYC 9654"):
        assert f"resnet50 ({name})" in shown


def test_hostile_names_and_messages_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    xla = failed_outcome(Status.CRASHED, HOSTILE + "[bold]x[/bold]")
    model = replace(MODEL, variant=HOSTILE, name=HOSTILE)
    record = make_record(modes={"graph": make_outcome(0.2), "xla": xla}, model=model)
    out = trial_text(record, record=HOSTILE) + rows_text(*summarize([record]).comparisons)
    with TrialProgress(ui="plain") as screen:
        screen.trial_started(HOSTILE, replicates=1, log=Path("log"))
        screen.stage(0, "build", None, HOSTILE)
        screen.warn(HOSTILE)
        screen.replicate_done(0, "crashed", HOSTILE)
    complain(ConfigError(HOSTILE))
    told = "".join([out, *capsys.readouterr()])
    for character in "\x1b\x07\u202e\x9b\x00\ud800":
        assert character not in told
    assert "[bold]x[/bold]" in out


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"task": "video"}, "clips/s"),
        ({"resolution_px": 0}, "samples/s"),
        ({"task": "example"}, "samples/s"),
        ({"task": "example", "resolution_px": 400}, "ResNet50 size 400 · batch 4"),
        ({"task": "example", "inputs": ("[400, 16] float32",)}, "ResNet50 400 × 16 · batch 4"),
        ({"task": "example", "inputs": ("\x1b[31mx",)}, "ResNet50 size 224 · batch 4"),
        ({"source": "hub", "replica_of": "https://tfhub.dev/x/1"}, "hub, random weights"),
        ({"params": 2_312, "macs": 830_400}, "2.3 k params · 830.4 k MACs"),
        ({"macs": 27_300_000}, "· 27.3 M MACs"),
        ({"macs": 65_500, "macs_note": "at least: …"}, "· ≥ 65.5 k MACs"),
    ],
)
def test_a_trial_shows_what_its_model_is(changes: dict[str, Any], shown: str) -> None:
    out = trial_text(make_record(noise=0.01, model=replace(MODEL, **changes)))
    assert shown in out
    assert " 0 px" not in out


def test_a_model_is_shown_with_each_of_its_sources() -> None:
    models = (catalog.load_catalog()[name] for name in ("resnet50", "seq_conv_lstm"))
    out = "".join(text_shown(show_model, model) for model in models)
    for part in (
        "ResNet50 · ResNetV1 · classification · 224 px",
        "keras: ResNet50",
        "keras_cv: ImageClassifier",
        how_to_install("keras-hub"),
        "nothing more",
        "xla-sweeps model=resnet50 source=applications",
        "LSTM and Conv1D · Example · example · size 400",
    ):
        assert part in out, part


WRONG = failed_outcome(Status.WRONG_RESULT, "the call never reads w")
SKIPPED = failed_outcome(Status.SKIPPED, "not reached: path=x: no 'build'")


@pytest.mark.parametrize(
    ("record", "said", "unsaid"),
    [
        pytest.param(
            make_record(modes={"graph": WRONG, "xla": WRONG, "eager": make_outcome()}),
            ["✕ graph, xla: wrong_result: the call never reads w"],
            [],
            id="a reason that several modes share",
        ),
        pytest.param(
            make_record(
                {"graph": 0.2},
                modes={
                    "graph": make_outcome(0.2),
                    "xla": failed_outcome(Status.UNSUPPORTED_OP, "no kernel for Foo", "use Bar"),
                },
            ),
            [
                "✕ xla: unsupported_op: no kernel for Foo (use Bar)",
                "✕ XLA cannot run this model: no kernel for Foo.",
            ],
            [],
            id="a failed mode with its reason and hint",
        ),
        pytest.param(
            make_record(
                flags=(
                    Flagged("not_converged"),
                    Flagged("warmup_not_stationary", "eager"),
                    Flagged("warmup_not_stationary", "xla"),
                )
            ),
            ["! warmup_not_stationary: ", "(eager, xla)"],
            [],
            id="flags of several modes in one line",
        ),
        pytest.param(
            make_record({}, modes={"graph": SKIPPED, "xla": SKIPPED}, rounds=()),
            ["path=x: no 'build'", "log there"],
            ["not reached", "p50 ms"],
            id="a trial that never started",
        ),
        pytest.param(
            make_record(config={**CONFIG, "keras": 2, "precision": "mixed_bfloat16"}),
            ["ResNet50 224 px · batch 4 · Keras 2 · mixed_bfloat16 · 25.6 M params"],
            ["alone"],
            id="the Keras and the precision that were asked for",
        ),
        pytest.param(
            make_record({"xla": 0.1}, config={**CONFIG, "modes": ["xla"]}),
            [
                "○ XLA alone ran at 40 images/s. For a speedup, measure a baseline too, as in "
                "modes=[graph,xla].",
                "40.0",
            ],
            [],
            id="one mode alone",
        ),
    ],
)
def test_the_end_of_a_trial_says(record: Record, said: list[str], unsaid: list[str]) -> None:
    text = " ".join(trial_text(record, log="there").split())
    for part in said:
        assert text.count(part) == 1, part
    for part in unsaid:
        assert part not in text, part


def test_the_energy_of_each_mode_stands_beside_the_idle_power(width: int) -> None:
    def metered(joules: float, calls: int) -> tuple[Metered, ...]:
        return (Metered(joules=joules, elapsed_s=5.0, calls=calls),) * 3

    modes = {
        "graph": make_outcome(0.2, energy=metered(400, 100)),
        "xla": make_outcome(0.1, energy=metered(400, 200)),
    }
    energy = Energy(counter="GPU", idle=metered(100, 0))
    lines = trial_text(make_record(modes=modes, energy=energy)).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert re.search(r"energy graph 1\.0+ \(.*\) xla 0\.5 \(.*\) J a sample, each alone; GPU", text)
    assert "idle 20.0" in text
    missing = trial_text(make_record(energy=Energy(problem="no counter")))
    assert "energy not available: no counter" in " ".join(missing.split())
