"""Scenarios: what one timed call does, the modes of each, and what is compared with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TypeVar

from xla_sweeps.schema.modes import (
    DEFAULT_BACKEND,
    Entry,
    Execution,
    Mode,
    by_backend,
    by_role,
    label_of,
    mode_of,
    parse,
)

Value = TypeVar("Value")

_M, _X = Mode, Execution


class Scenario(StrEnum):
    """Work of one timed call; `SCENARIOS` declares each."""

    CALL = "call"
    DETECT = "detect"
    PREDICT = "predict"
    TRAIN_STEP = "train_step"
    FIT = "fit"
    COLD_START = "cold_start"
    NEW_SHAPES = "new_shapes"


_WORKER_MODE = "xla_sweeps.trial.contender:WorkerMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFacts:
    """Facts of a scenario.

    Attributes:
        default: those measured unless `modes` says otherwise, before `jit` chooses the candidate.
        jit: the candidate of each value of `jit` in lower case, as Hydra, W&B and people write it.
            Those of `false` and `true` are what the scenario's headline compares.
        write: what a Keras user writes, and where, with `jit_compile={switch}` in it.
        named_by: the ways of calling that tell the scenario by their name.
        is_epoch: whether a call is an epoch, with its own input.
        why_lacking: reason why a backend has no mode of it; "" where each has some.
        contender: the class of what takes turns in rounds (`trial.contender`).
    """

    meaning: str
    modes: tuple[Mode, ...]
    default: tuple[Mode, ...]
    jit: Mapping[str, Mode]
    call: str = "call"
    write: str = "tf.function(model, jit_compile={switch}), called instead of model(x)"
    named_by: tuple[Entry, ...] = ()
    trains: bool = False
    takes_batches: bool = False
    is_epoch: bool = False
    why_lacking: str = ""
    contender: str = _WORKER_MODE

    @property
    def starts_processes(self) -> bool:
        """True if a call is no call of a worker, but takes the seconds that a process does."""
        return self.contender != _WORKER_MODE


def _jit(*, true: Mode, false: Mode, null: Mode, auto: Mode) -> dict[str, Mode]:
    return {"true": true, "false": false, "null": null, "none": null, "auto": auto}


def _modes_of(*entries: Entry) -> tuple[Mode, ...]:
    """All modes that call in one of these ways."""
    return tuple(mode for mode in Mode if mode.entry in entries)


_FORWARD = ScenarioFacts(
    meaning="the forward pass",
    modes=(_M.EAGER, _M.DEFAULT, _M.GRAPH, _M.XLA, _M.AUTOCLUSTER),
    default=(_M.EAGER, _M.GRAPH, _M.XLA),
    jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT, auto=_M.AUTOCLUSTER),
)

SCENARIOS: Mapping[Scenario, ScenarioFacts] = {
    Scenario.CALL: replace(
        _FORWARD,
        modes=(
            *(*_FORWARD.modes, _M.JAX_EAGER, _M.JAX_XLA),
            *(_M.TORCH_EAGER, _M.TORCH_COMPILE, _M.TORCH_EXPORT),
            *(
                _M.TORCH_COMPILE_REDUCE_OVERHEAD,
                _M.TORCH_COMPILE_MAX_AUTOTUNE,
                _M.TORCH_COMPILE_DYNAMIC,
            ),
        ),
    ),
    Scenario.DETECT: replace(
        _FORWARD,
        meaning="a detector's forward pass, decoding and non-max suppression",
        write="tf.function(jit_compile={switch}) on the function that calls and decodes",
        why_lacking="the detectors decode their boxes in TensorFlow",
    ),
    Scenario.PREDICT: ScenarioFacts(
        meaning="Keras's predict, and what people call instead",
        modes=(*_FORWARD.modes, *_modes_of(Entry.HOST, Entry.PREDICT, Entry.PREDICT_ON_BATCH)),
        default=(
            *(_M.CALL_HOST, _M.GRAPH_HOST, _M.XLA_HOST),
            *(_M.PREDICT, _M.PREDICT_GRAPH, _M.PREDICT_XLA),
        ),
        jit=_jit(
            true=_M.PREDICT_XLA,
            false=_M.PREDICT_GRAPH,
            null=_M.PREDICT_AUTO,
            auto=_M.PREDICT_AUTO,
        ),
        write="model.compile(jit_compile={switch}) before model.predict",
        named_by=(Entry.PREDICT, Entry.PREDICT_ON_BATCH),
        takes_batches=True,
    ),
    Scenario.TRAIN_STEP: ScenarioFacts(
        meaning="one step: forward pass, loss, gradients, optimizer",
        modes=(
            *(_M.EAGER, _M.GRAPH, _M.XLA, *_modes_of(Entry.TRAIN_ON_BATCH)),
            *(_M.JAX_EAGER, _M.JAX_XLA, _M.TORCH_EAGER, _M.TORCH_COMPILE),
        ),
        default=(_M.GRAPH, _M.XLA, _M.TRAIN_ON_BATCH_GRAPH, _M.TRAIN_ON_BATCH_XLA),
        jit=_jit(
            true=_M.XLA,
            false=_M.GRAPH,
            null=_M.TRAIN_ON_BATCH_AUTO,
            auto=_M.TRAIN_ON_BATCH_AUTO,
        ),
        call="step",
        write="model.compile(..., jit_compile={switch}), or @tf.function on your own step",
        trains=True,
    ),
    Scenario.FIT: ScenarioFacts(
        meaning="Keras's fit, with its input pipeline",
        modes=(_M.INPUT, _M.GRAPH, _M.XLA, *_modes_of(Entry.FIT, Entry.FIT_NUMPY)),
        default=(_M.INPUT, _M.GRAPH, _M.XLA, _M.FIT_GRAPH, _M.FIT_XLA),
        jit=_jit(true=_M.FIT_XLA, false=_M.FIT_GRAPH, null=_M.FIT_AUTO, auto=_M.FIT_AUTO),
        call="epoch",
        write="model.compile(..., jit_compile={switch}) before model.fit",
        named_by=(Entry.FIT, Entry.FIT_NUMPY),
        trains=True,
        takes_batches=True,
        is_epoch=True,
        why_lacking="its input pipeline is TensorFlow's tf.data",
    ),
    Scenario.COLD_START: ScenarioFacts(
        meaning="from the start of a process to its first answer",
        modes=(
            *(_M.DEFAULT, _M.GRAPH, _M.XLA, _M.SAVED_GRAPH, _M.SAVED_XLA),
            *(_M.JAX_XLA, _M.TORCH_COMPILE, _M.TORCH_EXPORT),
        ),
        default=(_M.GRAPH, _M.XLA, _M.SAVED_XLA),
        jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT, auto=_M.DEFAULT),
        call="start",
        write="tf.function(model, jit_compile={switch}), in a process that is started to answer",
        contender="xla_sweeps.trial.cold_start:ColdStart",
    ),
    Scenario.NEW_SHAPES: replace(
        _FORWARD,
        meaning="the first call of each of several shapes, and a later one",
        modes=(
            *(_M.EAGER, _M.DEFAULT, _M.GRAPH, _M.GRAPH_DYNAMIC, _M.XLA),
            *(_M.JAX_EAGER, _M.JAX_XLA, _M.TORCH_EAGER, _M.TORCH_COMPILE),
            _M.TORCH_COMPILE_DYNAMIC,
        ),
        default=(_M.GRAPH, _M.GRAPH_DYNAMIC, _M.XLA),
        jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT, auto=_M.DEFAULT),
        call="stream",
        write="tf.function(model, jit_compile={switch}), where each shape is called once or twice",
    ),
}
"""The scenarios, and what each measures, compares and is called: the one place that says so."""

TAKING_BATCHES = tuple(scenario for scenario, facts in SCENARIOS.items() if facts.takes_batches)
"""Those of which one call may take several batches."""

STARTING = next(scenario for scenario, facts in SCENARIOS.items() if facts.starts_processes)
"""The one of which a call starts a process."""

TRAINING = tuple(scenario for scenario, facts in SCENARIOS.items() if facts.trains)
"""Those that change the weights."""

JIT_CANDIDATES = SCENARIOS[Scenario.CALL].jit
"""The values of `jit`, each with the candidate of a forward pass."""

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


def by_scenario(values: Iterable[Value], *, key: Callable[[Value], str]) -> dict[str, list[Value]]:
    """The values of each scenario, which `key` gives, the commonest first."""
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    names = by_count(name for name, group in groups.items() for _ in group)
    return {name: groups[name] for name in names}


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
