"""Answer of `advise`: the setting to use, the gain over what is in use, its cost, what to write."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.analysis.guard import Change
from xla_sweeps.analysis.race import Setting, Way
from xla_sweeps.config.settings import Settings
from xla_sweeps.report.advice import name_of, throughput_unit
from xla_sweeps.report.figures import call_time, number, percent, size, times
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.modes import DEFAULT_BACKEND, Execution, facts_of, mode_of
from xla_sweeps.schema.overrides import key_of, override_value
from xla_sweeps.system.text import count_noun, displayable

SHOWN = 5
"""Ways that are shown of those that led, and of those that are no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The result of a race.

    Attributes:
        now: what is in use.
        ahead: ways that the race could not tell from the best, the fastest first.
        changes: of finalists, the change of seconds per sample from `now`, in fresh processes.
        out: ways that can be no answer.
        measured: number of settings tried; `left`: not tried for lack of time.
        limited: whether there is a limit on latency or memory.
        overrides: the options of every trial.
    """

    now: Way
    ahead: Sequence[Way]
    changes: Mapping[tuple[Setting, str], Change]
    out: Sequence[Way]
    settings: Settings
    measured: int
    left: int
    limited: bool
    overrides: Sequence[str]
    again: str

    @property
    def best(self) -> Way | None:
        """The fastest finalist by its pairs, if faster than what is in use; None for none.

        Where what is in use breaks a limit, or fails, it need not be faster.
        """
        faster = [
            way
            for way in self.ahead
            if (change := self.changes.get(way.name))
            and (self.now.why_not or change.verdict is Verdict.FASTER)
        ]
        return min(faster, key=lambda way: self.changes[way.name].change, default=None)

    @property
    def stays(self) -> bool:
        """True if what is in use is the best: nothing leads it, or no finalist is faster."""
        others = [way for way in self.ahead if way.name != self.now.name]
        settled = (Verdict.SLOWER, Verdict.EQUIVALENT)
        judged = [way for way in others if way.name in self.changes]
        return (
            not self.now.why_not
            and judged == others
            and all(self.changes[way.name].verdict in settled for way in others)
        )

    @property
    def is_sure(self) -> bool:
        """True if there is an answer: another way, or to stay."""
        return self.best is not None or self.stays


def words_of(setting: Setting) -> list[str]:
    """The overrides of a setting."""
    return [f"{key}={override_value(value)}" for key, value in setting]


def text_of(advice: Advice) -> str:
    """The answer as text, the sentence first."""
    lines = [*textwrap.wrap(answer_of(advice), width=80), ""]
    if best := advice.best:
        costs = enumerate(_costs(advice.now, best))
        lines += [f"{'' if place else 'costs':8}{line}" for place, line in costs]
        code = _code(advice, best)
        lines += [f"{'' if place else 'write':8}{line}" for place, line in enumerate(code)]
        words = [word for word in advice.overrides if key_of(word) not in ("modes", "jit")]
        words += [*words_of(best.setting), f"modes=[{best.mode}]"]
        lines += [f"run     {shlex.join(['python', '-m', 'xla_sweeps', *words])}"]
    lines += ["", *_race(advice)]
    return "".join(f"{displayable(line)}\n" for line in lines)


def answer_of(advice: Advice) -> str:
    """The answer in a sentence or two."""
    now = _name(advice, advice.now)
    if best := advice.best:
        change = advice.changes[best.name]
        gain, low, high = (1 / (1 + one) for one in (change.change, change.high, change.low))
        sure = f"{percent(change.confidence)}: {times(low)} to {times(high)}"
        pairs = count_noun(change.pairs, "pair")
        text = f"Use {_name(advice, best)}: {times(gain)} the samples/s of {now} ({sure}, {pairs} "
        text += "of fresh processes)."
        others = [
            _name(advice, way)
            for way in advice.ahead
            if way.name in advice.changes
            and way.name != best.name
            and advice.changes[way.name].low <= change.high
            and advice.changes[way.name].verdict is Verdict.FASTER
        ]
        text += f" Not told apart from it: {', '.join(others)}." if others else ""
        why_not = advice.now.why_not
        return f"{text} {now.capitalize()} is no answer: {why_not}." if why_not else text
    if not advice.ahead:
        kept = "keeps the limits and agrees" if advice.limited else "agrees"
        return f"Nothing that was tried {kept}: see why below."
    if advice.stays:
        return f"Stay with {now}: nothing that was tried is faster by more than 5 %."
    leader = next(way for way in advice.ahead if way.name != advice.now.name)
    return (
        f"Not known yet: {_name(advice, leader)} may be faster than {now}, but pairs of fresh "
        "processes do not show it so far. A larger --budget settles it, or a quieter machine."
    )


def _name(advice: Advice, way: Way) -> str:
    """A way's name: mode, batch size and what else differs from what is in use."""
    setting, now = dict(way.setting), dict(advice.now.setting)
    parts = [name_of(way.mode)]
    if batch := setting.pop("batch_size", None):
        parts.append(f"batch size {batch}")
    parts += [f"{key}={value}" for key, value in setting.items() if value != now[key]]
    return ", ".join(parts)


def _costs(now: Way, way: Way) -> Iterator[str]:
    """Costs of a way beside what is in use: compiling, memory, the time of one call."""
    if way.compile_s is not None:
        yield f"{call_time(way.compile_s)} to trace and compile{_was(now.compile_s, call_time)}"
    if (way.memory_bytes or 0) >= 2**20:
        yield f"{size(way.memory_bytes)} of memory{_was(now.memory_bytes, size)}"
    if way.latency_ms is not None:
        before = None if now.latency_ms is None else now.latency_ms / 1000
        took = call_time(way.latency_ms / 1000)
        yield f"90 % of calls take up to {took}{_was(before, call_time)}"


def _was(value: float | None, write: Any) -> str:
    return "" if value is None else f" (now {write(value)})"


def _code(advice: Advice, way: Way) -> Iterator[str]:
    """The lines of code that turn a way on."""
    setting, now, mode = dict(way.setting), dict(advice.now.setting), mode_of(way.mode)
    scenario = advice.settings.trial.scenario
    if mode.backend != mode_of(advice.now.mode).backend:
        yield f'os.environ["KERAS_BACKEND"] = "{mode.backend}"  # before `import keras`'
    if (precision := setting.get("precision")) and precision != now["precision"]:
        yield f'keras.mixed_precision.set_global_policy("{precision}")  # before the model is made'
    plain = mode.backend == DEFAULT_BACKEND and not mode.steps
    if way.mode == advice.now.mode:
        pass  # it is in use
    elif plain and mode.execution in (Execution.GRAPH, Execution.XLA):
        yield facts_of(scenario).write.format(switch=mode.execution is Execution.XLA)
    else:
        yield mode.switch
    if (batch := setting.get("batch_size")) and batch != now["batch_size"]:
        yield f"batch_size = {batch}"
    for key, value in setting.items():
        if key not in ("backend", "precision", "batch_size") and value != now[key]:
            yield f"{key} = {value}  # docs/options.md"


def _race(advice: Advice) -> Iterator[str]:
    """Lines on the leaders of the race, on what is no answer, and on how far it went."""
    model = advice.settings.trial.model
    unit = throughput_unit(model.task, model.resolution_px or 0)
    tried = count_noun(advice.measured, "setting")
    yield f"race    {tried} tried, one process each; these cannot be told from the best there:"
    for way in advice.ahead[:SHOWN]:
        bounds = f"{number(way.low)} to {number(way.high)}"
        yield f"        {_name(advice, way)}: {number(way.rate)} {unit} ({bounds})"
    if len(advice.ahead) > SHOWN:
        yield f"        and {len(advice.ahead) - SHOWN} more"
    if advice.left:
        yield f"        {count_noun(advice.left, 'setting')} more not tried: the budget is used up"
    for way in advice.out[:SHOWN]:
        name = _name(advice, way) if way.mode else " ".join(words_of(way.setting))
        yield f"out     {name}: {way.why_not}"
    if len(advice.out) > SHOWN:
        yield f"out     and {len(advice.out) - SHOWN} more"
    yield f"again   {advice.again}"


def document_of(advice: Advice) -> dict[str, Any]:
    """The answer as plain data: `gain` is samples/s over what is in use, with its bounds."""
    best = advice.best
    change = advice.changes[best.name] if best else None
    bounds = (change.change, change.high, change.low) if change else ()
    return {
        "answer": answer_of(advice),
        "is_sure": advice.is_sure,
        "now": _plain(advice.now),
        "best": _plain(best) if best else None,
        "gain": [1 / (1 + one) for one in bounds],
        "pairs": change.pairs if change else 0,
        "write": list(_code(advice, best)) if best else [],
        "ahead": [_plain(way) for way in advice.ahead],
        "out": [{**_plain(way), "why_not": way.why_not} for way in advice.out],
        "settings_tried": advice.measured,
        "settings_left": advice.left,
        "command": advice.again,
    }


def _plain(way: Way) -> dict[str, Any]:
    figures = {
        name: None if value is None or math.isnan(value) else value
        for name, value in (
            *(("samples_per_s", way.rate), ("low", way.low), ("high", way.high)),
            *(("latency_ms", way.latency_ms), ("memory_bytes", way.memory_bytes)),
            ("compile_s", way.compile_s),
        )
    }
    return {"mode": way.mode, "setting": dict(way.setting), **figures}
