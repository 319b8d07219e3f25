"""Answer of `advise`: the setting to use, its gain over what is in use, its cost, what to write."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from xla_sweeps.analysis.race import Advice, Setting, Way
from xla_sweeps.report.advice import capitalize, name_of, throughput_unit
from xla_sweeps.report.figures import call_time, confidence, number, size, times
from xla_sweeps.schema.comparisons import facts_of, headline_of
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import Trial
from xla_sweeps.system.text import count_noun, displayable

SHOWN = 5
"""Ways that are shown of those that led, and of those that are no answer."""

WIDTH, LABEL = 80, 8

NAMED = ("backend", "precision", "batch_size", "steps_per_execution")
"""Options that a line of code sets."""


def text_of(advice: Advice, trial: Trial, *, run: str, again: str) -> str:
    """The answer as text, the sentence first; `run` measures it alone, `again` resumes."""
    best, scenario = advice.best, str(trial.scenario)
    unit = throughput_unit(trial.model.task, trial.model.resolution_px or 0)
    lines = [*textwrap.wrap(answer_of(advice, unit), WIDTH, break_on_hyphens=False), ""]
    if best:
        lines += _label_lines("costs", _costs(advice.now, best))
        code = enumerate(_code(advice.now, best, scenario))
        lines += [f"{'' if place else 'write':{LABEL}}{line}" for place, line in code]
        lines += [f"{'run':{LABEL}}{run}"]
    lines += ["", *_label_lines("race", _race(advice, unit)), *_label_lines("out", _out(advice))]
    lines += [f"{'again':{LABEL}}{again}"]
    return "".join(f"{displayable(line)}\n" for line in lines)


def _label_lines(label: str, texts: Iterator[str]) -> Iterator[str]:
    """Lines of at most `WIDTH` columns, the first with the label."""
    for place, text in enumerate(texts):
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{'' if place else label:{LABEL}}",
            subsequent_indent=" " * (LABEL + 2),
            break_on_hyphens=False,
        )


def answer_of(advice: Advice, unit: str) -> str:
    """The answer in a sentence or two; `unit` is that of a throughput."""
    now, best = _name(advice, advice.now), advice.best
    if best and (change := advice.finals.changes.get(best.name)):
        gain, low, high = (1 / (1 + one) for one in (change.change, change.high, change.low))
        sure = f"{confidence(change.confidence)}: {times(low)} to {times(high)}"
        pairs = count_noun(change.pairs, "pair")
        text = f"Use {_name(advice, best)}: {times(gain)} the {unit} of {now} ({sure}, {pairs} of "
        text += "fresh processes)."
        if rivals := [_name(advice, way) for way in advice.rivals]:
            text += f" Not told apart from it: {', '.join(rivals)}."
        return text + _why_not_now(advice)
    if best:
        bounds = f"{number(best.low)} to {number(best.high)}"
        text = f"Use {_name(advice, best)}: {number(best.rate)} {unit} ({bounds}, one process)."
        return text + _why_not_now(advice)
    if not advice.stays and not advice.may_be_faster:
        kept = "agrees and keeps the limits" if advice.limited else "runs and agrees"
        return f"Nothing that was tried {kept}."
    if advice.stays:
        return f"Stay with {now}: nothing that was tried is surely faster by more than 5 %."
    other = _name(advice, advice.may_be_faster[0])
    return (
        f"Not known yet: {other} may be faster than {now}, but pairs of fresh processes do not "
        "show it so far. Give a larger --budget, or a quieter machine."
    )


def _why_not_now(advice: Advice) -> str:
    why = advice.now.why_not
    return f" {capitalize(_name(advice, advice.now))} is no answer: {why}." if why else ""


def _name(advice: Advice, way: Way) -> str:
    """A way's name: mode, batch size and what else differs from what is in use."""
    setting, now = dict(way.setting), dict(advice.now.setting)
    parts = [name_of(way.mode)] if way.mode else []
    if batch := setting.pop("batch_size", None):
        parts.append(f"batch size {batch}")
    if way.mode:
        setting.pop("backend", None)  # the mode's name says whose it is
    parts += [f"{key}={value}" for key, value in setting.items() if value != now[key]]
    return ", ".join(parts) or "what is in use"


def _costs(now: Way, way: Way) -> Iterator[str]:
    """Costs of a way beside what is in use: compiling, memory, the time of one call."""
    if way.compile_s is not None:
        yield f"{call_time(way.compile_s)} to compile{_was(now.compile_s, call_time)}"
    if (way.memory_bytes or 0) >= 2**20:
        yield f"{size(way.memory_bytes)} of memory{_was(now.memory_bytes, size)}"
    if way.latency_ms is not None:
        before = None if now.latency_ms is None else now.latency_ms / 1000
        took = call_time(way.latency_ms / 1000)
        yield f"90 % of calls take up to {took}{_was(before, call_time)}"


def _was(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else f" (now {write(value)})"


def _code(now: Way, way: Way, scenario: str) -> Iterator[str]:
    """The lines of code that turn a way on, where it differs from what is in use."""
    changed = {key: value for key, value in way.setting if value != dict(now.setting)[key]}
    mode = mode_of(way.mode)
    if mode.backend != mode_of(now.mode).backend:
        yield f'os.environ["KERAS_BACKEND"] = "{mode.backend}"  # before `import keras`'
    if precision := changed.get("precision"):
        yield f'keras.mixed_precision.set_global_policy("{precision}")  # before the model is made'
    if way.mode != now.mode:
        baseline, candidate = headline_of(scenario)
        if way.mode in (baseline, candidate):
            yield facts_of(scenario).write.format(switch=way.mode == candidate)
        else:
            yield mode.switch
    if batch := changed.get("batch_size"):
        yield f"batch_size = {batch}"
    if steps := changed.get("steps_per_execution"):
        yield f"model.compile(..., steps_per_execution={steps})"
    options = [f"{key}={value}" for key, value in changed.items() if key not in NAMED]
    if options:
        yield f"# and what these options set (docs/options.md): {' '.join(options)}"


def _race(advice: Advice, unit: str) -> Iterator[str]:
    """Lines on the leaders of the race, and on how far it went."""
    tried = f"{count_noun(advice.tried, 'setting')} tried, one process each"
    if advice.unfinished:
        tried += "; others were not, for lack of time"
    yield tried
    if advice.ahead:
        yield "Not told apart from the best there:"
    for way in advice.ahead[:SHOWN]:
        bounds = f"{number(way.low)} to {number(way.high)}"
        yield f"  {_name(advice, way)}: {number(way.rate)} {unit} ({bounds})"
    if len(advice.ahead) > SHOWN:
        yield f"  and {len(advice.ahead) - SHOWN} more"
    if dirty := advice.finals.contaminated:
        pairs = count_noun(advice.finals.pairs, "pair")
        yield f"Other programs used the machine in {dirty} of {pairs}."


def _out(advice: Advice) -> Iterator[str]:
    """Lines on what is no answer."""
    broken = [
        f"{_name(advice, way)}: {advice.finals.broken[way.name]}"
        for way in advice.ahead
        if way.name in advice.finals.broken
    ]
    every = [*broken, *(f"{_name(advice, way)}: {way.why_not}" for way in advice.out)]
    yield from every[:SHOWN]
    if len(every) > SHOWN:
        yield f"and {len(every) - SHOWN} more"


def document_of(advice: Advice, trial: Trial, *, run: str, again: str) -> dict[str, Any]:
    """The answer as plain data: `gain` is samples/s over what is in use, with its bounds."""
    best, scenario = advice.best, str(trial.scenario)
    unit = throughput_unit(trial.model.task, trial.model.resolution_px or 0)
    change = advice.finals.changes.get(best.name) if best else None
    bounds = (change.change, change.high, change.low) if change else ()
    return {
        "answer": answer_of(advice, unit),
        "is_sure": advice.is_sure,
        "now": _plain(advice.now),
        "best": _plain(best) if best else None,
        "gain": [1 / (1 + one) for one in bounds],
        "pairs": change.pairs if change else 0,
        "contaminated_pairs": advice.finals.contaminated,
        "write": list(_code(advice.now, best, scenario)) if best else [],
        "run": run,
        "ahead": [_plain(way) for way in advice.ahead],
        "out": [{**_plain(way), "why_not": way.why_not} for way in advice.out],
        "settings_tried": advice.tried,
        "unfinished": advice.unfinished,
        "command": again,
    }


def _plain(way: Way) -> dict[str, Any]:
    setting: Setting = way.setting
    figures = {
        name: None if value is None or math.isnan(value) else value
        for name, value in (
            *(("samples_per_s", way.rate), ("low", way.low), ("high", way.high)),
            *(("latency_ms", way.latency_ms), ("memory_bytes", way.memory_bytes)),
            ("compile_s", way.compile_s),
        )
    }
    return {"mode": way.mode, "setting": dict(setting), **figures}
