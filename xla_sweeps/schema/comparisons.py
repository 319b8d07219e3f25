"""Comparisons: what a scenario is about, and what is compared among the labels of a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

from xla_sweeps.schema.modes import (
    DEFAULT_BACKEND,
    SCENARIOS,
    Entry,
    Execution,
    Mode,
    Role,
    Scenario,
    ScenarioFacts,
    is_mode,
    label_of,
    mode_of,
    parse,
)

Value = TypeVar("Value")

_M, _X = Mode, Execution

_EAGER, _GRAPH = _M.EAGER.role, _M.GRAPH.role

_BASELINES = (
    *(
        facts.jit["false"].role
        for facts in SCENARIOS.values()
        if facts.jit["false"].entry.is_method
    ),
    *(_GRAPH, _M.DEFAULT.role, _EAGER),
)
"""Baselines in the order of their choice: the labels of a trial belong to one scenario."""


def facts_of(scenario: str) -> ScenarioFacts:
    """Facts of a scenario; of `call` for one that this version does not know, or ""."""
    return SCENARIOS[Scenario(scenario) if scenario in SCENARIOS else Scenario.CALL]


def headline_of(scenario: str) -> tuple[str, str]:
    """(baseline, candidate) that a scenario is about: graph mode and XLA of its way of calling."""
    jit = facts_of(scenario).jit
    return str(jit["false"]), str(jit["true"])


def is_told_by(scenario: str, label: str) -> bool:
    """True if a scenario needs no word beside a mode: it is `call`, or the mode names it."""
    facts = facts_of(scenario)
    return scenario in ("", Scenario.CALL) or mode_of(label).entry in facts.named_by


def by_count(scenarios: Iterable[str]) -> list[str]:
    """The scenarios among these, the commonest first; those that tie as in `SCENARIOS`."""
    counts = Counter(scenarios)
    declared = [str(name) for name in SCENARIOS if name in counts]
    return sorted(dict.fromkeys([*declared, *counts]), key=lambda name: -counts[name])


def by_scenario(values: Sequence[Value], *, key: Callable[[Value], str]) -> dict[str, list[Value]]:
    """The values of each scenario, which `key` gives, the commonest first."""
    groups: dict[str, list[Value]] = {name: [] for name in by_count(map(key, values))}
    for value in values:
        groups[key(value)].append(value)
    return groups


_BY_NAME_ALONE = (_X.REDUCED, _X.TUNED, _X.DYNAMIC)


def implied_modes(
    scenario: Scenario, jit: str, backend: str = DEFAULT_BACKEND, *, own: bool = True
) -> tuple[Mode, ...]:
    """The modes that `jit` asks for: the scenario's, with its candidate; all of a small backend.

    Of a forward pass on PyTorch not `torch.compile`, which captures no model of Keras whole, unless
    the model is the user's own.
    """
    facts = SCENARIOS[scenario]
    if backend != DEFAULT_BACKEND:
        whole = not own and _M.TORCH_EXPORT in facts.modes
        hidden = (*_BY_NAME_ALONE, *([_X.COMPILED] if whole else []))
        modes = (mode for mode in facts.modes if mode.backend == backend)
        return tuple(mode for mode in modes if mode.execution not in hidden)
    usual, chosen = facts.jit["true"], facts.jit[jit]
    return tuple(dict.fromkeys(chosen if mode is usual else mode for mode in facts.default))


def baseline_of(modes: Sequence[str]) -> str:
    """The headline baseline among the labels: graph mode of what the scenario is about.

    Else the default, eager, or the first label. With eager and graph alone, graph is the candidate
    and eager the baseline.
    """
    labels = by_role(modes)
    if len(modes) == 2 and labels.keys() == {_EAGER, _GRAPH}:
        return labels[_EAGER]
    return next((labels[role] for role in _BASELINES if role in labels), str(modes[0]))


def headline_candidates(modes: Sequence[str]) -> tuple[str, ...]:
    """The labels that decide when measuring ends, each compared with the headline baseline.

    Those that are called in the same way as the baseline; else all but eager; else all. XLA first.
    """
    baseline = baseline_of(modes)
    others = tuple(mode for mode in modes if mode != baseline)
    entry = mode_of(baseline).entry
    alike = tuple(mode for mode in others if mode_of(mode).entry is entry)
    if not alike or entry is Entry.MODEL:
        alike = tuple(mode for mode in others if mode_of(mode).role != _EAGER) or others
    return tuple(sorted(alike, key=lambda mode: mode_of(mode).execution is not Execution.XLA))


@cache
def headline_pairs(modes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(baseline, candidate) of every headline comparison; none of a mode alone."""
    if len(modes) < 2:
        return ()
    baseline = baseline_of(modes)
    return tuple((baseline, candidate) for candidate in headline_candidates(modes))


@cache
def comparison_pairs(modes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(baseline, candidate) of every comparison: the headline's first.

    Then the other modes with the headline baseline, XLA with graph mode of each way of calling, and
    every mode with eager of its backend.
    """
    if len(modes) < 2:
        return ()
    baseline = baseline_of(modes)
    eagers = [by_role(labels).get(_EAGER, "") for labels in by_backend(modes).values()]
    pairs = list(headline_pairs(modes))
    pairs += [(baseline, label) for label in modes if label not in (baseline, *eagers)]
    for label in modes:
        mode, copy = parse(label)
        if mode.without_xla and (graph := label_of(mode.without_xla, copy)) in modes:
            pairs.append((graph, label))
    for eager, labels in zip(eagers, by_backend(modes).values(), strict=True):
        pairs += [(eager, label) for label in labels if eager and label != eager]
    return tuple(dict.fromkeys(pairs))


def label_modes(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Distinct labels for modes that may repeat: `graph, graph` becomes `graph, graph_2`."""
    return tuple(
        label_of(mode, list(modes[: position + 1]).count(mode))
        for position, mode in enumerate(modes)
    )


@cache
def is_aa_pair(first: str, second: str) -> bool:
    """True if two labels, none of them "", are copies of one mode: their true speedup is 1."""
    return "" not in (first, second) and first != second and mode_of(first) is mode_of(second)


def by_backend(modes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The labels of each backend, in the order given; the default backend's first."""
    groups: dict[str, tuple[str, ...]] = {}
    for label in modes:
        backend = mode_of(label).backend
        groups[backend] = (*groups.get(backend, ()), label)
    return dict(sorted(groups.items(), key=lambda group: group[0] != DEFAULT_BACKEND))


def by_role(modes: Iterable[str]) -> dict[Role, str]:
    """The labels of the first backend that are no further copies, by what their modes are."""
    first = next(iter(by_backend(filter(is_mode, modes)).values()), ())
    labels = [(label, *parse(label)) for label in first]
    return {mode.role: str(label) for label, mode, copy in labels if copy == 1}
