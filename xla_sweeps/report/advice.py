"""Answers in words, of one pair and of many, and what to do about it. Pure.

The sentences are in `report.sentences`, which the page shares.
"""

from __future__ import annotations

import math

from xla_sweeps.analysis.interval import MOST_TO_SETTLE
from xla_sweeps.analysis.speedup import disagreement
from xla_sweeps.report.figures import digits, interval, percent, round_count, short_duration, times
from xla_sweeps.report.sentences import FAILURES, FLAG_TEXTS, REMARKS, fill
from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.columns import IMPORTED, Verdict
from xla_sweeps.schema.comparisons import by_backend, facts_of, headline_of, is_aa_pair
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.modes import Execution, Mode, mode_of, parse
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.schema.trial import EXAMPLE
from xla_sweeps.system.text import count_noun

SYMBOLS = {
    "faster": "▲",
    "slower": "▼",
    "equivalent": "■",
    "ambiguous": "◆",
    "failed": "✕",
    "not_measured": "‖",
    "none": "○",
}
"""Shown before a verdict's word, which is the one that `--where verdict=…` takes."""

CONTAMINATED = "~ contaminated by other load on the machine: measure it again"
"""Meaning of the mark `~`."""

WAITS = "h the device waits for the host: a larger batch_size says more about the device"
"""Meaning of the mark `h`."""

OF_THROUGHPUT = (
    "speedup compares throughput (many calls, one wait); of single calls: latency_speedup in csv"
)
"""Meaning of the column `speedup`, where rows have that of single calls too."""

SAME = 0.005
"""Two figures that differ by less say the same."""


def answer(row: ComparisonRow) -> str:
    """A sentence with the speedup, its interval and the replicates, and a sentence of advice."""
    if row.provenance.origin == IMPORTED:
        return _imported_words(row)
    verdict, speedup = row.speedup.verdict, row.speedup.value or math.nan
    if verdict.is_missing:
        return _failure_words(row)
    if verdict is Verdict.NONE:
        return _alone(row)
    if is_aa_pair(row.baseline.mode, row.candidate.mode):
        return _aa(row)
    candidate, baseline = _names(row)
    method = f"model.{mode_of(row.candidate.mode).entry} "
    other = baseline.removeprefix(method) if candidate.startswith(method) else baseline
    text = fill(
        verdict,
        candidate=candidate,
        baseline=baseline if verdict in (Verdict.EQUIVALENT, Verdict.AMBIGUOUS) else other,
        speedup=times(1 / speedup if verdict is Verdict.SLOWER else speedup),
        interval=_sure(row),
        floor=percent(row.speedup.floor),
        switch=mode_of(row.baseline.mode).switch + REMARKS.get(row.trial.scenario, ""),
        advice=_pays_back(row) if verdict is Verdict.FASTER else _open(row),
    )
    return " ".join([capitalize(text) + _latency(row), *caveats(row)])


def _latency(row: ComparisonRow) -> str:
    """A sentence on single calls; "" without them, and where the blocks were such calls."""
    value, low, high = row.speedup.latency, row.speedup.latency_low, row.speedup.latency_high
    if not (value and low and high and has_two_speedups(row)):
        return ""
    if low <= 1 <= high:
        return f" One call at a time it is too little to tell ({interval(low, high)})."
    direction = "faster"
    if high < 1:
        value, low, high, direction = 1 / value, 1 / high, 1 / low, "slower"
    return f" One call at a time it is {times(value)} {direction} ({interval(low, high)})."


def has_two_speedups(row: ComparisonRow) -> bool:
    """True if single calls have a speedup of their own: blocks are not such calls."""
    return row.speedup.latency not in (None, row.speedup.value)


def count_calls(count: float, scenario: str) -> str:
    """`5,400 calls`, by the scenario's name of a call."""
    return f"{round_count(count)} {facts_of(scenario).call}s"


def name_of(label: str) -> str:
    """A mode's readable name; a second copy is named as such."""
    mode, copy = parse(label)
    return mode.called if copy == 1 else f"a second copy of {mode.called}"


def _names(row: ComparisonRow) -> tuple[str, str]:
    """The names of candidate and baseline, "" for none; of two backends, with whose they are."""
    labels = [label for label in (row.candidate.mode, row.baseline.mode) if label]
    names = list(map(name_of, labels))
    if len(by_backend(labels)) > 1:
        titles = [backend_named(mode_of(label).backend).title for label in labels]
        names = [
            name if title in name else f"{title}'s {name}"
            for title, name in zip(titles, names, strict=True)
        ]
    return names[0], "".join(names[1:])


def throughput_unit(task: str, resolution_px: int) -> str:
    """Unit of a model's throughput: images/s, clips/s, or samples/s of other inputs."""
    if task == "video":
        return "clips/s"
    return "images/s" if resolution_px and task != EXAMPLE else "samples/s"


def _sure(row: ComparisonRow) -> str:
    """The interval, inverted for a slowdown, and the number of replicates."""
    verdict, low, high = row.speedup.verdict, row.speedup.low or 0.0, row.speedup.high or math.inf
    if verdict is Verdict.SLOWER:
        low, high = 1 / high, 1 / low
    return fill(
        "interval",
        bounds=interval(low, high),
        replicates=count_noun(row.speedup.replicates, "replicate"),
    )


def _pays_back(row: ComparisonRow) -> str:
    mode, extra = mode_of(row.candidate.mode), row.speedup.compile_s_extra
    use, calls = fill("use", switch=mode.switch), row.speedup.break_even_calls
    if extra is None or calls is None:
        return use
    told = f"{use}; " if mode.entry.is_method else ""
    if calls <= 1:
        return told + fill("pays back at once")
    low, high = row.speedup.break_even_low, row.speedup.break_even_high
    between = "" if low is None or high is None else f" ({interval(low, high, round_count)})"
    amount = f"{count_calls(calls, row.trial.scenario)}{between}"
    return told + fill("pays back", seconds=short_duration(extra), amount=amount)


def _open(row: ComparisonRow) -> str:
    """The differences that are excluded, and how many more replicates would settle the rest."""
    more = row.speedup.replicates_to_settle or math.inf
    if more > MOST_TO_SETTLE:
        replicates = fill("many", count=MOST_TO_SETTLE)
    else:
        replicates = fill(
            "one more" if more == 1 else "more",
            replicates=count_noun(int(more), "more replicate"),
            count=int(more),
            time=short_duration(more * (row.provenance.replicate_s or 0.0)),
        )
    return fill(
        "open",
        excluded=_excluded_bound(row),
        replicates=replicates,
        floor=percent(row.speedup.floor),
    )


def _excluded_bound(row: ComparisonRow) -> str:
    bound = row.speedup.excluded_above or math.inf
    text = times(1 + bound) if bound >= 1 else percent(bound)
    return fill("excluded", bound=text)


def _aa(row: ComparisonRow) -> str:
    low, high = row.speedup.low or 0.0, row.speedup.high or math.inf
    apart = ", each in a process of its own," if row.trial.copies == "apart" else ""
    text = f"A/A: two copies of {name_of(row.baseline.mode)}{apart} measure "
    text += f"{times(row.speedup.value)} ({_sure(row)})"
    is_open = row.speedup.verdict is Verdict.AMBIGUOUS
    if not is_open:
        text += f", {percent(abs((row.speedup.value or 1.0) - 1))} apart"
    if is_open or low <= 1 <= high or row.speedup.verdict is Verdict.EQUIVALENT:
        return f"{text}, as expected. {_excluded_bound(row)}."
    return (
        f"{text}, although they are the same: this machine adds differences of that size. "
        "Run `xla-sweeps doctor`."
    )


def _alone(row: ComparisonRow) -> str:
    rate = digits(row.candidate.throughput_samples_per_s)
    unit = throughput_unit(row.trial.task, row.trial.resolution_px)
    text = (
        f"{name_of(row.candidate.mode)} alone ran at {rate} {unit}. For a speedup, measure a "
        f"baseline too, as in modes=[{','.join(headline_of(row.trial.scenario))}]."
    )
    return " ".join([capitalize(text), *caveats(row)])


def _imported_words(row: ComparisonRow) -> str:
    """A published result; its uncertainty is unknown, so no mode is recommended."""
    speedup, candidate = row.speedup.value, name_of(row.candidate.mode)
    difference = row.speedup.absolute_samples_per_s
    if speedup is None and difference is not None:
        more = f"{digits(difference)} samples/s more"
        text = f"published, not measured here: {candidate} runs {more} than eager execution."
    elif speedup is None:
        ran = row.candidate if row.candidate.throughput_samples_per_s else row.baseline
        rate = f"{name_of(ran.mode)} ran at {digits(ran.throughput_samples_per_s)} samples/s"
        text = f"published, not measured here: {rate}; the other mode was not published."
    else:
        text = fill(
            "published",
            candidate=candidate,
            baseline=name_of(row.baseline.mode),
            speedup=times(max(speedup, 1 / speedup)),
            direction="faster" if speedup >= 1 else "slower",
        )
    notes = {" Note: {}.": row.provenance.note, " To measure it here: {}": row.provenance.command}
    said = [template.format(note) for template, note in notes.items() if note]
    return "".join([capitalize(text), *said])


def _failure_words(row: ComparisonRow) -> str:
    (candidate, baseline), keep = _names(row), FAILURES["hint"]
    if baseline:
        keep = FAILURES["keep"].format(switch=mode_of(row.baseline.mode).switch)
    reason = row.failure.message or f"status {row.status}"
    template = FAILURES.get(str(row.status), FAILURES[""])
    if row.failure.mode == row.baseline.mode != "" and "{failed}" not in template:
        template = FAILURES["baseline"]
    text = template.format(
        candidate=candidate,
        failed=name_of(row.failure.mode or row.candidate.mode),
        tried=f"{candidate} against {baseline}" if baseline else candidate,
        reason=reason.removeprefix("not reached: ").removesuffix("."),
        keep=keep,
    )
    return capitalize(text)


def caveats(row: ComparisonRow) -> list[str]:
    """Sentences on what limits a row's figures, as terminal, W&B and page say them."""
    verdict, texts = row.speedup.verdict, list[str]()
    if row.provenance.origin == IMPORTED or verdict.is_missing:
        return texts
    if row.status is Status.CONTAMINATED:
        value, raw = row.speedup.value, row.speedup.raw
        apart = value and raw and abs(raw / value - 1) > SAME
        also = f" (all rounds: {times(raw)})" if apart else ""
        text = "The measurement is contaminated: repeat it before you rely on it"
        if verdict.is_clear:
            text = "Measured beside other load: rely on the ratio, not on the times"
        texts.append(f"{text}{also}.")
    if ratio := disagreement(row):
        texts.append(
            f"The throughputs alone say {times(ratio)}: the speedup compares modes round by round, "
            "so that slow phases of the machine count less. Rely on it."
        )
    if row.speedup.host_bound:
        texts.append(
            "The device waits for the host here: a larger batch_size says more about the device, "
            "unless the time of single calls is the question."
        )
    modes = [mode_of(label) for label in (row.candidate.mode, row.baseline.mode) if label]
    for label in filter(None, (row.candidate.mode, row.baseline.mode)):
        if str(Flagged(Flag.SLOW_ON_NEW_INPUTS, label)) in row.flags:
            texts.append(
                "It was timed on inputs that it had seen before: on new ones "
                f"{name_of(label)} takes more than 1.5 times as long."
            )
    if row.trial.eager_is_graph and Mode.EAGER.role in [mode.role for mode in modes]:
        texts.append("Eager calls of a saved model run its graph.")
    if Flag.CONTAINS_XLA in row.flags and modes[1:] and modes[1].execution is not Execution.XLA:
        called = name_of(row.baseline.mode)
        texts.append(f"Note that {called} contains XLA too, in parts of the model.")
    return texts


def all_caveats(row: ComparisonRow) -> str:
    """The caveats with a note of the flags, which the terminal lists below the modes."""
    notes = "" if row.speedup.verdict.is_missing else "; ".join(flag_notes(row))
    return " ".join([*caveats(row), *([f"Note: {notes}."] if notes else [])])


_SAID = (Flag.CONTAINS_XLA, Flag.EAGER_IS_GRAPH, Flag.SLOW_ON_NEW_INPUTS, Status.CONTAMINATED)
"""Flags that `caveats` has sentences for."""


def flag_notes(row: ComparisonRow) -> list[str]:
    """The meaning of each flag of the two modes, once, with the modes that have it."""
    sides = ("", row.candidate.mode, row.baseline.mode)
    modes: dict[str, list[str]] = {}
    for flagged in map(Flagged.parse, row.flags):
        said = flagged.flag in _SAID
        is_open = flagged.flag == Flag.NOT_CONVERGED and row.speedup.verdict.is_clear
        if flagged.mode in sides and not said and not is_open:
            modes.setdefault(flagged.flag, []).extend(filter(None, [flagged.mode]))
    return [
        FLAG_TEXTS.get(flag, flag) + (f" ({', '.join(map(name_of, labels))})" if labels else "")
        for flag, labels in modes.items()
    ]


def capitalize(text: str) -> str:
    """The text as a sentence; `model.predict` stays as it is written in code."""
    return text if text.startswith("model") else text[0].upper() + text[1:]
