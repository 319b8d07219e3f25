"""Execution modes and scenarios: what is called, how it is executed, what is compared with what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Entry(StrEnum):
    """The way a model is called: what a person writes, whatever compiles it."""

    MODEL = "model"
    """`model(x)`, `x` on the device."""
    FUNCTION = "function"
    """A `tf.function`, its inputs on the device; while training, of one whole step."""
    HOST = "host"
    """The model or a `tf.function` on a NumPy batch: copies to and from the device included."""
    PREDICT = "predict"
    """`model.predict`."""
    PREDICT_ON_BATCH = "predict_on_batch"
    """`model.predict_on_batch`."""
    TRAIN_ON_BATCH = "train_on_batch"
    """`model.train_on_batch`."""
    FIT = "fit"
    """`model.fit`."""
    INPUT = "input"
    """The input pipeline alone."""


class ExecutionMode(StrEnum):
    """How one and the same model is executed. A name does not end in `_` and digits."""

    EAGER = "eager"
    """`model(x)`, or a training step line by line, without a graph."""
    DEFAULT = "default"
    """`tf.function(jit_compile=None)`: TensorFlow's default."""
    GRAPH = "graph"
    """`tf.function(jit_compile=False)`: the baseline of the headline speedup."""
    XLA = "xla"
    """`tf.function(jit_compile=True)`."""
    AUTOCLUSTER = "autocluster"
    """`tf.function` with the graph optimizer's XLA auto-clustering switched on."""
    CALL_HOST = "call_host"
    """`model(x)` on a NumPy batch, as people write it."""
    GRAPH_HOST = "graph_host"
    """`graph`, from NumPy to NumPy."""
    XLA_HOST = "xla_host"
    """`xla`, from NumPy to NumPy."""
    PREDICT = "predict"
    """`model.predict` of a model that was not compiled: Keras chooses whether to use XLA."""
    PREDICT_AUTO = "predict_auto"
    """`model.predict` after `compile(jit_compile="auto")`."""
    PREDICT_GRAPH = "predict_graph"
    """`model.predict` after `compile(jit_compile=False)`."""
    PREDICT_XLA = "predict_xla"
    """`model.predict` after `compile(jit_compile=True)`."""
    PREDICT_GRAPH_STEPS = "predict_graph_steps"
    """`predict_graph` with all batches of a call as one execution: `steps_per_execution`."""
    PREDICT_XLA_STEPS = "predict_xla_steps"
    """`predict_xla` with all batches of a call as one execution: `steps_per_execution`."""
    PREDICT_ON_BATCH = "predict_on_batch"
    """`model.predict_on_batch` of a model that was not compiled."""
    PREDICT_ON_BATCH_AUTO = "predict_on_batch_auto"
    PREDICT_ON_BATCH_GRAPH = "predict_on_batch_graph"
    PREDICT_ON_BATCH_XLA = "predict_on_batch_xla"
    TRAIN_ON_BATCH_AUTO = "train_on_batch_auto"
    """`model.train_on_batch` after `compile(jit_compile="auto")`."""
    TRAIN_ON_BATCH_GRAPH = "train_on_batch_graph"
    TRAIN_ON_BATCH_XLA = "train_on_batch_xla"
    INPUT = "input"
    """The input pipeline alone: its batches are made and thrown away."""
    FIT_EAGER = "fit_eager"
    """`model.fit` after `compile(run_eagerly=True)`."""
    FIT_AUTO = "fit_auto"
    """`model.fit` after `compile(jit_compile="auto")`."""
    FIT_GRAPH = "fit_graph"
    FIT_XLA = "fit_xla"


class Scenario(StrEnum):
    """What one timed call does."""

    CALL = "call"
    """The forward pass: `model(x, training=False)`."""
    DETECT = "detect"
    """The forward pass of a detector, its boxes decoded, and non-max suppression."""
    PREDICT = "predict"
    """The forward pass through Keras's own `predict`, and what people call instead."""
    TRAIN_STEP = "train_step"
    """One step of training on a batch: forward pass, loss, gradients, optimizer."""
    FIT = "fit"
    """Training through `fit`, with its input pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioModes:
    """The execution modes of a scenario.

    Attributes:
        entry: the way of calling that the headline is about: its graph mode is the baseline, its
            XLA mode the candidate.
        modes: all that can be asked for.
        default: those measured unless `modes` says otherwise, before `jit` chooses the candidate.
        call: what people call one timed call.
    """

    entry: Entry
    modes: tuple[ExecutionMode, ...]
    default: tuple[ExecutionMode, ...]
    call: str = "call"


_M = ExecutionMode

_FORWARD = ScenarioModes(
    entry=Entry.FUNCTION,
    modes=(_M.EAGER, _M.DEFAULT, _M.GRAPH, _M.XLA, _M.AUTOCLUSTER),
    default=(_M.EAGER, _M.GRAPH, _M.XLA),
)

SCENARIOS: Mapping[Scenario, ScenarioModes] = {
    Scenario.CALL: _FORWARD,
    Scenario.DETECT: _FORWARD,
    Scenario.PREDICT: ScenarioModes(
        entry=Entry.PREDICT,
        modes=(
            *_FORWARD.modes,
            *(_M.CALL_HOST, _M.GRAPH_HOST, _M.XLA_HOST),
            *(_M.PREDICT, _M.PREDICT_AUTO, _M.PREDICT_GRAPH, _M.PREDICT_XLA),
            *(_M.PREDICT_GRAPH_STEPS, _M.PREDICT_XLA_STEPS),
            *(_M.PREDICT_ON_BATCH, _M.PREDICT_ON_BATCH_AUTO),
            *(_M.PREDICT_ON_BATCH_GRAPH, _M.PREDICT_ON_BATCH_XLA),
        ),
        default=(
            *(_M.CALL_HOST, _M.GRAPH_HOST, _M.XLA_HOST),
            *(_M.PREDICT, _M.PREDICT_GRAPH, _M.PREDICT_XLA),
        ),
    ),
    Scenario.TRAIN_STEP: ScenarioModes(
        entry=Entry.FUNCTION,
        modes=(
            *(_M.EAGER, _M.GRAPH, _M.XLA),
            *(_M.TRAIN_ON_BATCH_AUTO, _M.TRAIN_ON_BATCH_GRAPH, _M.TRAIN_ON_BATCH_XLA),
        ),
        default=(_M.GRAPH, _M.XLA, _M.TRAIN_ON_BATCH_GRAPH, _M.TRAIN_ON_BATCH_XLA),
        call="step",
    ),
    Scenario.FIT: ScenarioModes(
        entry=Entry.FIT,
        modes=(
            *(_M.INPUT, _M.GRAPH, _M.XLA),
            *(_M.FIT_EAGER, _M.FIT_AUTO, _M.FIT_GRAPH, _M.FIT_XLA),
        ),
        default=(_M.INPUT, _M.GRAPH, _M.XLA, _M.FIT_GRAPH, _M.FIT_XLA),
        call="epoch",
    ),
}
"""The scenarios, and what each measures and compares: the one place that says so."""

TRAINING = (Scenario.TRAIN_STEP, Scenario.FIT)
"""The scenarios that change the weights."""

_ENTRIES: Mapping[ExecutionMode, Entry] = {
    _M.EAGER: Entry.MODEL,
    _M.CALL_HOST: Entry.HOST,
    _M.GRAPH_HOST: Entry.HOST,
    _M.XLA_HOST: Entry.HOST,
    _M.INPUT: Entry.INPUT,
}

KERAS_METHODS = (Entry.PREDICT_ON_BATCH, Entry.PREDICT, Entry.TRAIN_ON_BATCH, Entry.FIT)
"""Keras's own methods, a longer name before one that it begins with."""

_BASELINES = (_M.FIT_GRAPH, _M.PREDICT_GRAPH, _M.GRAPH, _M.DEFAULT, _M.EAGER)
"""In this order: the labels of a trial belong to one scenario."""

_JIT = {"true": "xla", "false": "graph", "null": "auto", "none": "auto", "auto": "auto"}
"""The last word of Keras's mode for each value of `jit`."""

JIT_CANDIDATES = {
    "true": ExecutionMode.XLA,
    "false": ExecutionMode.GRAPH,
    "null": ExecutionMode.DEFAULT,
    "none": ExecutionMode.DEFAULT,
    "auto": ExecutionMode.AUTOCLUSTER,
}
"""The candidate mode of each value of `jit` in lower case, as Hydra, W&B and people write it."""


@cache
def entry_of(mode: ExecutionMode) -> Entry:
    """The way of calling of a mode."""
    keras = next((entry for entry in KERAS_METHODS if mode.startswith(entry)), Entry.FUNCTION)
    return _ENTRIES.get(mode, keras)


def candidate_of(scenario: Scenario, jit: str) -> ExecutionMode:
    """The candidate that a value of `jit`, in lower case, chooses in a scenario."""
    known = SCENARIOS[scenario]
    if known.entry is not Entry.FUNCTION:
        return ExecutionMode(f"{known.entry}_{_JIT[jit]}")
    found = JIT_CANDIDATES[jit]
    return found if found in known.modes else ExecutionMode.TRAIN_ON_BATCH_AUTO


def headline_of(scenario: str) -> tuple[str, str]:
    """(baseline, candidate) that a scenario is about: graph mode and XLA of its way of calling.

    Those of `call` for a scenario that this version does not know.
    """
    known = known_scenario(scenario)
    return str(candidate_of(known, "false")), str(candidate_of(known, "true"))


def call_of(scenario: str) -> str:
    """What people call one timed call: `call`, or `step` and `epoch` of training."""
    return SCENARIOS[known_scenario(scenario)].call


def by_count(scenarios: Iterable[str]) -> list[str]:
    """The scenarios among these, the commonest first; those that tie as in `SCENARIOS`."""
    counts = Counter(scenarios)
    known = [str(name) for name in SCENARIOS if name in counts]
    return sorted(dict.fromkeys([*known, *counts]), key=lambda name: -counts[name])


def known_scenario(scenario: str) -> Scenario:
    """The scenario of that name; `call` for one that this version does not know, or ""."""
    return Scenario(scenario) if scenario in SCENARIOS else Scenario.CALL


def implied_modes(scenario: Scenario, jit: str) -> tuple[ExecutionMode, ...]:
    """The modes that `jit`, in lower case, asks for: the scenario's, with its candidate."""
    default = SCENARIOS[scenario].default
    usual, chosen = candidate_of(scenario, "true"), candidate_of(scenario, jit)
    return tuple(dict.fromkeys(chosen if mode is usual else mode for mode in default))


def baseline_of(modes: Sequence[str]) -> str:
    """The headline baseline among the labels: graph mode of what the scenario is about.

    Else the default, eager, or the first label. With eager and graph alone, graph is the candidate
    and eager the baseline.
    """
    if set(modes) == {ExecutionMode.EAGER, ExecutionMode.GRAPH}:
        return str(ExecutionMode.EAGER)
    return next((str(mode) for mode in _BASELINES if mode in modes), str(modes[0]))


def headline_candidates(modes: Sequence[str]) -> tuple[str, ...]:
    """The labels that decide when measuring ends, each compared with the headline baseline.

    Those that are called in the same way as the baseline; else all but eager; else all. XLA first:
    where one figure is shown, it is that one's.
    """
    baseline = baseline_of(modes)
    others = tuple(mode for mode in modes if mode != baseline)
    entry = entry_of(mode_of(baseline))
    alike = tuple(mode for mode in others if entry_of(mode_of(mode)) is entry)
    if not alike or entry is Entry.MODEL:
        alike = tuple(m for m in others if mode_of(m) is not ExecutionMode.EAGER) or others
    return tuple(sorted(alike, key=lambda mode: "xla" not in mode))


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
    every mode with eager.
    """
    if len(modes) < 2:
        return ()
    baseline, eager = baseline_of(modes), str(ExecutionMode.EAGER)
    found = list(headline_pairs(modes))
    found += [(baseline, mode) for mode in modes if mode not in (baseline, eager)]
    twins = [(mode.replace("xla", "graph"), mode) for mode in modes if "xla" in mode]
    found += [pair for pair in twins if pair[0] in modes]
    found += [(eager, mode) for mode in modes if eager in modes and mode != eager]
    return tuple(dict.fromkeys(found))


def label_modes(modes: Sequence[ExecutionMode]) -> tuple[str, ...]:
    """Distinct labels for modes that may repeat: `graph, graph` becomes `graph, graph_2`."""
    labels: list[str] = []
    for position, mode in enumerate(modes):
        earlier = list(modes[:position]).count(mode)
        labels.append(f"{mode}_{earlier + 1}" if earlier else str(mode))
    return tuple(labels)


_COPY = re.compile(r"_\d+$")

_NAMES = frozenset(map(str, ExecutionMode))


@cache
def mode_of(label: str) -> ExecutionMode:
    """The execution mode behind a label: `graph_2` is `graph`.

    Raises:
        ValueError: there is no such mode.
    """
    return ExecutionMode(_COPY.sub("", label))


def is_mode(label: str) -> bool:
    """Whether a label names a mode of this version, or a copy of one."""
    return _COPY.sub("", label) in _NAMES


@cache
def is_aa_pair(first: str, second: str) -> bool:
    """Whether two labels are copies of one mode, so that their true speedup is exactly 1.

    "" is no mode: the baseline of one that was measured alone.
    """
    return "" not in (first, second) and first != second and mode_of(first) == mode_of(second)
