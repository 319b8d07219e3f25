"""Match the trials of two results folders, and compare what measured them. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from xla_sweeps.analysis import provenance
from xla_sweeps.analysis.pool import Pool
from xla_sweeps.schema import options
from xla_sweeps.schema.overrides import asked_of, runtime_text
from xla_sweeps.schema.record import ModelFacts, Record, build_of, newest
from xla_sweeps.schema.row import (
    QUESTION,
    SETTINGS,
    ComparisonRow,
    Figure,
    ModeState,
    TrialSummary,
    value_of,
    words_of,
)
from xla_sweeps.schema.trial import REPLICATES, Runtime, request_id, size_text

_APART = ("source", "effort", "modes")
"""Facts that tell trials apart without their key, where names do not."""

_IN_NAMES = tuple(
    name for name in SETTINGS if name not in ("resolution_px", "runtime", "device", "path")
)
"""Columns of the question in a trial's name after its model and size; the rest stands apart."""

_VALUES_SHOWN = 4

FIGURES = ("speedup", "call")
"""Names of the figures that are compared."""

DEFAULTS = "TensorFlow's defaults"

ARROW = " → "
"""Between the devices of both sides, where they differ."""


class ComparedTrial(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One trial as a comparison needs it: few bytes, as there may be ten thousand.

    Attributes:
        asked: equal for trials that were asked for in the same words, anywhere.
        otherwise: equal for trials that differ in the options of TensorFlow itself alone.
        pairs: candidate and baseline of each headline comparison that has a speedup.
        environment: names and values of what measured it, as JSON: most trials share one.
        figures, floor, floor_across, flags: as they follow from all trials.
    """

    trial_id: str
    asked: str
    otherwise: str
    runtime: str
    name: str
    facts: Mapping[str, str]
    model: str
    family: str
    scenario: str
    device: str
    samples: int
    started_at: str
    modes: tuple[ModeState, ...]
    pairs: frozenset[tuple[str, str]]
    environment: str
    figures: tuple[Figure, ...] = ()
    floor: float = 0.0
    floor_across: float = 0.0
    flags: tuple[str, ...] = ()


def compared_trial(records: Sequence[Record], trial: TrialSummary) -> ComparedTrial:
    """A trial as a comparison needs it, without what follows from all trials."""
    modes, rows = trial.modes, trial.comparisons
    kept = newest(records, build_of)[0]
    last = kept[-1]
    model = next((one.model for one in reversed(records) if one.model.params), last.model)
    effort = last.trial.effort
    usual = effort.replicates in (0, REPLICATES.get(effort.name, 1))  # another number counted once
    return ComparedTrial(
        trial_id=last.trial_id,
        asked=last.request_id if usual else request_id(last.trial),
        otherwise=request_id(replace(last.trial, runtime=Runtime())),
        runtime=runtime_text(last.trial),
        name=_name(model, rows[:1]),
        facts=_facts(last, model.source, modes),
        model=model.name,
        family=model.family,
        scenario=str(last.trial.scenario),
        device=str(kept[0].device.get("name", "")),
        samples=last.trial.samples,
        started_at=max(one.started_at for one in kept),
        modes=tuple(
            ModeState(label=one.label, status=one.status, failure=one.failure) for one in modes
        ),
        pairs=frozenset(
            (row.candidate.mode, row.baseline.mode)
            for row in rows
            if row.headline and row.speedup.value is not None
        ),
        environment=msgspec.json.encode(
            list(dict.fromkeys(pair for one in kept for pair in _environment(one)))
        ).decode(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One set of results, with its title, the pools of its trials and its anchor records."""

    title: str
    trials: Sequence[ComparedTrial]
    pools: Mapping[str, Pool] = field(default_factory=dict)
    anchors: Mapping[str, Sequence[Record]] = field(default_factory=dict)


Pair = tuple[str, str, ComparedTrial, ComparedTrial]
"""Name and device, for a person, and the trial on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The trials that are on both sides, and the names of those on one."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]


def match(first: Side, second: Side) -> Matched:
    """Match trials by what was asked, and by device where both sides have several.

    Of several versions on a side the latest counts. What is left is matched with other flags,
    threads or libraries of TensorFlow, where a side has one set of them.
    """
    sides = (first.trials, second.trials)
    a, b = map(_latest, sides)
    notes = [
        f"{side.title}: {more} trial{'s were' if more > 1 else ' was'} measured again with other "
        "versions; the latest count"
        for side, trials, latest in zip((first, second), sides, (a, b), strict=True)
        if (more := len(trials) - sum(map(len, latest.values())))
    ]
    several = all(len({device for here in side.values() for device in here}) > 1 for side in (a, b))
    pairs: list[tuple[ComparedTrial, ComparedTrial]] = []
    for asked, here in a.items():
        there = b.get(asked, {})
        same = [(here[device], there[device]) for device in here if device in there]
        pairs += same or ([] if several else itertools.product(here.values(), there.values()))
    every = [[trial for here in side.values() for trial in here.values()] for side in (a, b)]
    pairs += _other_runtimes(*every, but=pairs, same_device=several)
    matched = {id(trial) for pair in pairs for trial in pair}
    names = _names([*every[0], *every[1]])
    only_a, only_b = (
        [
            f"{_name_pair(names[id(one)], one, one)} on {one.device}"
            for one in side
            if id(one) not in matched
        ]
        for side in every
    )
    return Matched(
        pairs=tuple((_name_pair(names[id(x)], x, y), _devices(x, y), x, y) for x, y in pairs),
        only_a=tuple(only_a),
        only_b=tuple(only_b),
        notes=tuple(notes),
    )


def _other_runtimes(
    first: Sequence[ComparedTrial],
    second: Sequence[ComparedTrial],
    *,
    but: Sequence[tuple[ComparedTrial, ComparedTrial]],
    same_device: bool,
) -> list[tuple[ComparedTrial, ComparedTrial]]:
    """Pairs of what is not matched that differ in the options of TensorFlow itself alone."""
    matched = {id(trial) for pair in but for trial in pair}
    groups: dict[str, tuple[list[ComparedTrial], list[ComparedTrial]]] = defaultdict(
        lambda: ([], [])
    )
    for number, side in enumerate((first, second)):
        for trial in side:
            if id(trial) not in matched:
                groups[trial.otherwise][number].append(trial)
    return [
        (x, y)
        for sides in groups.values()
        if min(len({trial.runtime for trial in side}) for side in sides) == 1
        for x, y in itertools.product(*sides)
        if x.runtime != y.runtime and (x.device == y.device or not same_device)
    ]


def environment_of(pairs: Sequence[Pair]) -> tuple[tuple[str, str, str], ...]:
    """`(what, A's, B's)` of what measured the matched trials; several values are listed."""
    sides: list[dict[str, set[str]]] = []
    for trials in ([a for _, _, a, _ in pairs], [b for *_, b in pairs]):
        values: dict[str, set[str]] = defaultdict(set)
        for environment in dict.fromkeys(trial.environment for trial in trials):
            for what, value in msgspec.json.decode(environment):
                values[what].add(value)
        sides.append(values)
    return tuple(
        (what, _list_values(sides[0][what]), _list_values(sides[1][what]))
        for what in dict.fromkeys([*sides[0], *sides[1]])
    )


def _latest(trials: Sequence[ComparedTrial]) -> dict[str, dict[str, ComparedTrial]]:
    """The trial measured last on each device, by request."""
    newest_by_request: dict[str, dict[str, ComparedTrial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.started_at):
        newest_by_request.setdefault(trial.asked, {})[trial.device] = trial
    return newest_by_request


def _name(model: ModelFacts, rows: Sequence[ComparisonRow]) -> str:
    size = size_text(model.task, model.resolution_px)
    words = [f"{model.name} {size}" if size else model.name]
    for row in rows:
        words += words_of({name: value_of(row, name) for name in _IN_NAMES})
    return ", ".join(words)


def _facts(record: Record, source: str, modes: Sequence[ModeState]) -> dict[str, str]:
    asked = asked_of(record.trial)
    return {
        "source": source,
        "effort": record.trial.effort.name,
        "modes": "+".join(mode.label for mode in modes),
        **{
            name: f"{name} {asked[name]}"
            for name in options.IDENTIFYING
            if name not in {*QUESTION, *_APART} - {"path"} and asked[name] not in (None, "")
        },
    }


def _names(trials: Sequence[ComparedTrial]) -> dict[int, str]:
    """A name for each trial; where two requests would share one, what tells them apart is added."""
    groups: dict[str, list[ComparedTrial]] = defaultdict(list)
    for trial in trials:
        groups[trial.name].append(trial)
    names = {}
    for name, group in groups.items():
        telling = [
            fact
            for fact in group[0].facts
            if len({trial.asked for trial in group}) > 1
            and len({trial.facts.get(fact) for trial in group}) > 1
        ]
        for trial in group:
            names[id(trial)] = ", ".join([name, *(trial.facts.get(fact, "") for fact in telling)])
    return names


def _name_pair(name: str, a: ComparedTrial, b: ComparedTrial) -> str:
    """A pair's name with the options of TensorFlow itself, where a side sets any."""
    runtimes = dict.fromkeys((a.runtime, b.runtime))
    told = " → ".join(runtime or DEFAULTS for runtime in runtimes)
    return name if told == DEFAULTS else f"{name}, {told}"


def _devices(a: ComparedTrial, b: ComparedTrial) -> str:
    return a.device if a.device == b.device else f"{a.device}{ARROW}{b.device}"


def _environment(record: Record) -> Iterator[tuple[str, str]]:
    facts = record.environment
    packages = facts.get("packages") or {}
    loaded = facts.get("loaded") or {}
    cpu = facts.get("cpu") or {}
    values = {
        "device": record.device.get("name"),
        "driver": provenance.driver_of(record),
        **{name: loaded.get(name) or packages.get(name) for name in packages},
        **({name: loaded.get(name) for name in ("cuda", "cudnn")} if record.on_gpu else {}),
        "flags": provenance.flags_of(record) or "none",
        "runtime": runtime_text(record.trial) or DEFAULTS,
        "threads": loaded.get("intra_op_threads"),
        "oneDNN": loaded.get("onednn"),
        **{f"loaded {name}": value for name, value in (loaded.get("libraries") or {}).items()},
        "effective precision": record.effective(record.model),
        "TF32": record.trial.tf32,
        "host": facts.get("host"),
        "CPU": cpu.get("name"),
        "CPU model": cpu.get("model"),
        "instruction sets": cpu.get("instruction_sets"),
        "cores": cpu.get("cores"),
        "governor": cpu.get("governor"),
        "operating system": facts.get("os"),
        "Python": facts.get("python"),
        "xla_sweeps": " ".join(str(facts[key]) for key in ("xla_sweeps", "git") if facts.get(key)),
    }
    return ((what, str(value)) for what, value in values.items() if value not in (None, ""))


def _list_values(values: set[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - _VALUES_SHOWN} more" if len(ordered) > _VALUES_SHOWN else ""
    return ", ".join(ordered[:_VALUES_SHOWN]) + more
