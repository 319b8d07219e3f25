"""Match the trials of two results folders, and compare what measured them. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xla_sweeps.analysis import provenance
from xla_sweeps.analysis.pool import Pool
from xla_sweeps.schema import options
from xla_sweeps.schema.column import Part
from xla_sweeps.schema.overrides import asked_of, runtime_text
from xla_sweeps.schema.record import Record, build_of, newest
from xla_sweeps.schema.row import COLUMNS, QUESTION, TrialBrief, value_of
from xla_sweeps.schema.trial import Runtime, request_id, size_text

_APART = ("source", "effort", "modes")
"""Facts that tell trials apart without their key, where names do not."""

_IN_NAMES = tuple(
    name
    for name, column in COLUMNS.items()
    if column.asked
    and column.asked.part is Part.SETTING
    and name not in ("resolution_px", "runtime", "device")
)
"""Columns of the question in a trial's name after its model and size; the rest stands apart."""

_VALUES_SHOWN = 4

DEFAULTS = "TensorFlow's defaults"

ARROW = " → "
"""Between the devices of both sides, where they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One set of results, as `rows.briefs` gives it, and its title.

    `pools` has what other trials say of each trial, `anchors` the records of the anchor trials.
    """

    title: str
    records: Mapping[str, Sequence[Record]]
    summaries: Mapping[str, TrialBrief]
    pools: Mapping[str, Pool] = field(default_factory=dict)
    anchors: Mapping[str, Sequence[Record]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTrial:
    """One trial of a side.

    Attributes:
        asked: equal for trials that were asked for in the same words, on whatever device and
            versions.
        runtime: the options of TensorFlow itself that it sets, or "".
        otherwise: equal for trials that differ in these alone.
        facts: what tells it from others, by name.
    """

    asked: str
    runtime: str
    otherwise: str
    device: str
    records: tuple[Record, ...]
    summary: TrialBrief
    facts: Mapping[str, str]


Pair = tuple[str, str, MatchedTrial, MatchedTrial]
"""Name and device, for a person, and the trial on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The trials that are on both sides, and the names of those on one."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]


def match(first: Side, second: Side) -> Matched:
    """Match trials by what was asked.

    By device too where both sides have several, else across machines.

    Where one side measured the same with several versions, the latest counts. What is left on both
    sides is matched with other flags, threads or libraries of TensorFlow, where a side has one set
    of them.
    """
    sides = (_trials(first, second), _trials(second, first))
    a, b = map(_latest, sides)
    notes = [
        f"{side.title}: {more} trials were measured again with other versions; the latest count"
        for side, trials, latest in zip((first, second), sides, (a, b), strict=True)
        if (more := len(trials) - sum(map(len, latest.values())))
    ]
    several = all(len({device for here in side.values() for device in here}) > 1 for side in (a, b))
    pairs: list[tuple[MatchedTrial, MatchedTrial]] = []
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
            f"{_named(names[id(one)], one, one)} on {one.device}"
            for one in side
            if id(one) not in matched
        ]
        for side in every
    )
    return Matched(
        pairs=tuple((_named(names[id(x)], x, y), _devices(x, y), x, y) for x, y in pairs),
        only_a=tuple(only_a),
        only_b=tuple(only_b),
        notes=tuple(notes),
    )


def _other_runtimes(
    first: Sequence[MatchedTrial],
    second: Sequence[MatchedTrial],
    *,
    but: Sequence[tuple[MatchedTrial, MatchedTrial]],
    same_device: bool,
) -> list[tuple[MatchedTrial, MatchedTrial]]:
    """Pairs of what is not matched that differ in the options of TensorFlow itself alone."""
    matched = {id(trial) for pair in but for trial in pair}
    groups: dict[str, tuple[list[MatchedTrial], list[MatchedTrial]]] = defaultdict(lambda: ([], []))
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
    sides = [
        _environment(record for trial in trials for record in trial.records)
        for trials in ([a for _, _, a, _ in pairs], [b for *_, b in pairs])
    ]
    return tuple(
        (what, _listed(sides[0][what]), _listed(sides[1][what]))
        for what in dict.fromkeys([*sides[0], *sides[1]])
    )


def _trials(side: Side, other: Side) -> list[MatchedTrial]:
    """The trials of a side; an early record gets the request id of the same question."""
    lasts = [
        source.records[trial_id][-1] for source in (side, other) for trial_id in source.summaries
    ]
    early = any(not record.request_id for record in lasts)
    asked = {
        _question(record): record.request_id for record in lasts if early and record.request_id
    }
    trials = []
    for trial_id, summary in side.summaries.items():
        records = tuple(newest(side.records[trial_id], build_of)[0])
        question = "" if records[-1].request_id else _question(records[-1])
        trials.append(
            MatchedTrial(
                asked=records[-1].request_id or asked.get(question, question),
                runtime=runtime_text(records[-1].trial),
                otherwise=_question(records[-1], runtime=Runtime()),
                device=summary.trial.device,
                records=records,
                summary=summary,
                facts=_facts(records[-1], summary),
            )
        )
    return trials


def _latest(trials: Sequence[MatchedTrial]) -> dict[str, dict[str, MatchedTrial]]:
    """The trial measured last on each device, by request."""
    newest_by_request: dict[str, dict[str, MatchedTrial]] = {}
    by_time = sorted(trials, key=lambda trial: max(one.started_at for one in trial.records))
    for trial in by_time:
        newest_by_request.setdefault(trial.asked, {})[trial.device] = trial
    return newest_by_request


def _question(record: Record, *, runtime: Runtime | None = None) -> str:
    """Equal for records of the same request; the model counts as it was built.

    Args:
        record: of the trial.
        runtime: options of TensorFlow itself in place of the trial's.
    """
    trial, built = record.trial, record.model
    model = replace(
        trial.model, name=built.name, source=built.source, resolution_px=built.resolution_px
    )
    return request_id(replace(trial, model=model, runtime=runtime or trial.runtime))


def _facts(record: Record, summary: TrialBrief) -> dict[str, str]:
    asked = asked_of(record.trial)
    return {
        "source": summary.model.source,
        "effort": record.trial.effort.name,
        "modes": "+".join(mode.label for mode in summary.modes),
        **{
            name: f"{name} {asked[name]}"
            for name in options.IDENTIFYING
            if name not in (*QUESTION, *_APART) and asked[name] not in (None, "")
        },
    }


def _names(trials: Sequence[MatchedTrial]) -> dict[int, str]:
    """A name for each trial; where two requests would share one, what tells them apart is added."""
    groups: dict[str, list[MatchedTrial]] = defaultdict(list)
    for trial in trials:
        model = trial.summary.model
        size = size_text(model.task, model.resolution_px)
        words = [f"{model.name} {size}" if size else model.name]
        for row in trial.summary.comparisons[:1]:
            words += [
                asked.write(value)
                for name in _IN_NAMES
                if (asked := COLUMNS[name].asked) and (value := value_of(row, name)) != ""
                if str(value) != asked.usual
            ]
        groups[", ".join(words)].append(trial)
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


def _named(name: str, a: MatchedTrial, b: MatchedTrial) -> str:
    """A pair's name with the options of TensorFlow itself, where a side sets any."""
    runtimes = dict.fromkeys((a.runtime, b.runtime))
    told = " → ".join(runtime or DEFAULTS for runtime in runtimes)
    return name if told == DEFAULTS else f"{name}, {told}"


def _devices(a: MatchedTrial, b: MatchedTrial) -> str:
    return a.device if a.device == b.device else f"{a.device}{ARROW}{b.device}"


def _environment(records: Iterable[Record]) -> dict[str, set[str]]:
    values_by_fact: dict[str, set[str]] = defaultdict(set)
    for record in records:
        facts = record.environment
        packages = facts.get("packages") or {}
        loaded = facts.get("loaded") or {}
        cpu = facts.get("cpu") or {}
        values = {
            "device": record.device.get("name"),
            "driver": provenance.driver_of(record),
            **{name: loaded.get(name) or packages.get(name) for name in packages},
            **(
                {name: loaded.get(name) for name in ("cuda", "cudnn")}
                if record.device.get("kind") == "gpu"
                else {}
            ),
            "flags": provenance.flags_of(record) or "none",
            "runtime": runtime_text(record.trial) or DEFAULTS,
            "threads": loaded.get("intra_op_threads"),
            "oneDNN": loaded.get("onednn"),
            **{f"loaded {name}": value for name, value in (loaded.get("libraries") or {}).items()},
            "effective precision": record.model.precision,
            "TF32": record.trial.tf32,
            "host": facts.get("host"),
            "process": provenance.process_of([record]),
            "CPU": cpu.get("name"),
            "CPU model": cpu.get("model"),
            "instruction sets": cpu.get("instruction_sets"),
            "cores": cpu.get("cores"),
            "governor": cpu.get("governor"),
            "operating system": facts.get("os"),
            "Python": facts.get("python"),
            "xla_sweeps": " ".join(
                str(facts[key]) for key in ("xla_sweeps", "git") if facts.get(key)
            ),
        }
        for what, value in values.items():
            if value not in (None, ""):
                values_by_fact[what].add(str(value))
    return values_by_fact


def _listed(values: set[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - _VALUES_SHOWN} more" if len(ordered) > _VALUES_SHOWN else ""
    return ", ".join(ordered[:_VALUES_SHOWN]) + more
