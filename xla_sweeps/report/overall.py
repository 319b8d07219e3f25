"""Sentences on many pairs: answers, costs, devices, folders, load. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from xla_sweeps.analysis.overview import Overview
from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.analysis.trust import Trust
from xla_sweeps.report.advice import capitalize, count_calls, name_of
from xla_sweeps.report.figures import percent, short_duration, times
from xla_sweeps.report.labels import join_words, short_devices
from xla_sweeps.report.sentences import AGREEING, NOTHING, OTHERWISE, RULES, SETTLE_ALL, fill
from xla_sweeps.schema.comparisons import is_told_by
from xla_sweeps.system.text import count_noun

DEVICES_NAMED = 4
"""Maximum number of devices that an answer names for each word."""


def overall_answer(overview: Overview, devices: Mapping[str, Overview] | None = None) -> str:
    """Advice on turning the candidate on, over all pairs; devices that differ are not pooled."""
    typical = "" if device_words(devices or {}) else typically(overview)
    costs = _costs(overview) if len(devices or {}) < 2 else ""
    words = [overall_counts(overview, devices), typical, costs]
    return " ".join(filter(None, words))


def published_words(speedups: Sequence[float]) -> str:
    """A sentence on the speedups that the study published; "" without any."""
    if not speedups:
        return ""
    faster = sum(speedup > 1 for speedup in speedups)
    return (
        f"As published, XLA is faster than eager execution in {faster} of "
        f"{count_noun(len(speedups), 'configuration')} ({times(min(speedups))} to "
        f"{times(max(speedups))}), from single measurements, so the uncertainty is unknown."
    )


def folders_words(folders: Mapping[str, int]) -> str:
    """A sentence on which of several results folders the answer counts; "" for one."""
    if len(folders) < 2:
        return ""
    names = [fill("of folder", count=count, results=name) for name, count in folders.items()]
    return f"{fill('folders', folders=join_words(names))}."


def device_words(devices: Mapping[str, Overview]) -> str:
    """A sentence with the word of each device; "" where all devices agree."""
    groups: dict[str, list[str]] = {}
    short = short_devices(devices)
    for device, overview in devices.items():
        name = short[device]
        if said := _device_figure(overview):
            name = f"{name} ({said})"
        groups.setdefault(overall_word(overview), []).append(name)
    if len(groups) < 2 or any({*groups} <= {*alike} for alike in AGREEING):
        return ""
    order = [*(rule.word for rule in RULES), OTHERWISE]
    parts = []
    for word in sorted(groups, key=order.index):
        names, more = groups[word][:DEVICES_NAMED], len(groups[word]) - DEVICES_NAMED
        names += [f"{more} more"] if more > 0 else []
        parts.append(f"{word.lower().rstrip('.')} on {join_words(names)}")
    return capitalize(", ".join(parts)) + "."


def _device_figure(overview: Overview) -> str:
    """A device's counts where it is mixed, its mean where its pairs are alike, else their range."""
    if overall_word(overview) == OTHERWISE:
        return f"{overview.faster} faster, {overview.slower} slower"
    if overview.has_mean:
        return times(overview.geomean)
    clear = overview.faster + overview.slower + overview.equivalent > overview.ambiguous
    return range_words(overview.low, overview.high) if clear and overview.settings > 1 else ""


def range_words(low: float | None, high: float | None) -> str:
    """The lowest and the highest speedup: `0.87× to 4.01×`; "" for none."""
    if low is None or high is None:
        return ""
    return " to ".join(dict.fromkeys((times(low), times(high))))


def overall_counts(overview: Overview, devices: Mapping[str, Overview] | None = None) -> str:
    """The answer's first sentences, without a mean: a word and the counts, or devices' words."""
    if not overview.pairs:
        left = overview.not_measured
        return f"{NOTHING}{f', {left} not measured' if left else ''}."
    if apart := device_words(devices or {}):
        return f"{fill('by device')} {apart}"
    candidate, baseline = name_of(overview.candidate), name_of(overview.baseline)
    pairs = count_noun(overview.pairs, "configuration")
    is_open = overview.ambiguous == overview.pairs
    text = f"{candidate} is faster than {baseline} in {overview.faster} of {pairs}"
    if is_open:
        text = f"{candidate} against {baseline}: too little to tell in {pairs}; {SETTLE_ALL}"
    counts = {
        "slower in {}": overview.slower,
        "not known yet in {}": 0 if is_open else overview.ambiguous,
        "failed in {}": overview.failed,
        "{} not measured": overview.not_measured,
    }
    text += "".join(f", {part.format(count)}" for part, count in counts.items() if count)
    told = is_told_by(overview.scenario, overview.candidate)
    words = {overall_word(each) for each in (devices or {}).values()} or {overall_word(overview)}
    word = words.pop() if len(words) == 1 else next(one[1] for one in AGREEING if words <= {*one})
    return f"{word} {text}{'' if told else f', in scenario {overview.scenario}'}."


def typically(overview: Overview) -> str:
    """A sentence with the geometric mean, and where most pairs lie; of unlike pairs their range."""
    candidate, baseline = name_of(overview.candidate), name_of(overview.baseline)
    if overview.settings > 1:
        ends = range_words(overview.low, overview.high)
        unlike = f"over {overview.settings} unlike settings there is no mean"
        return f"{candidate} runs at {ends} of {baseline}; {unlike}." if ends else ""
    if not overview.has_mean:
        return ""
    text = f"{candidate} is typically {times(overview.geomean)} as fast as {baseline}"
    if overview.models > 1:
        text += f" (geometric mean over {overview.models:,} models)"
    spread = spread_words(overview.spread_low, overview.spread_high)
    return f"{', '.join(filter(None, (text, spread)))}."


def spread_words(low: float | None, high: float | None) -> str:
    """A spread as it is shown: `8 of 10 between 0.10× and 1.19×`; "" for none."""
    if low is None or high is None:
        return ""
    return f"8 of 10 between {times(low)} and {times(high)}"


def overall_word(overview: Overview) -> str:
    """The answer in a word or three."""
    turn = 0.0 if overview.geomean is None else math.log(overview.geomean)
    return next(
        (
            rule.word
            for rule in RULES
            if getattr(overview, rule.verdict) / overview.pairs >= rule.share
            and (not rule.sign or overview.geomean is None or rule.sign * turn > 0)
        ),
        OTHERWISE,
    )


def trust_words(tested: Trust) -> str:
    """Sentences on the A/A pairs that differ, whether that can be chance, and the floor."""
    together, apart = tested.within, tested.across
    text = (
        f"{together[0] + apart[0]} of {together[1] + apart[1]} A/A pairs differ by more than "
        f"{percent(MIN_FLOOR)} ({together[0]} of {together[1]} in the same processes, {apart[0]} "
        f"of {apart[1]} across processes); 5 % may. Verdicts count differences above "
        f"{percent(tested.floor)}"
    )
    if not tested.untrusted:
        return f"{text}."
    return (
        f"untrusted: {text} (p = {tested.p_value:.1g}). Do not rely on these verdicts: this "
        "machine makes equal modes look different. Run `xla-sweeps doctor`."
    )


def _costs(overview: Overview) -> str:
    extra, calls = overview.median_extra_compile_s, overview.median_break_even_calls
    if extra is None or not overview.priced:
        return ""
    if extra <= 0:
        return f"{fill('no longer')}."
    text = fill("compiling", seconds=short_duration(extra))
    if calls is None:
        return f"{text}{fill('most' if overview.priced > 1 else 'one never')}."
    amount = count_calls(calls, overview.scenario)
    text += fill("half" if overview.priced > 1 else "one", amount=amount)
    never = fill("never", count=overview.never) if overview.never else ""
    return f"{text}{never}."


def busy_words(contaminated: Iterable[bool]) -> str:
    """How many results are contaminated, as sweep, dashboard, W&B and predict-cost say it."""
    each = list(contaminated)
    return f"~ {fill('busy', count=sum(each), all=len(each))}." if any(each) else ""
