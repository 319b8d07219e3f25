"""Execution modes and scenarios: what is called, how it is executed, what is compared with what."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache


class ExecutionMode(StrEnum):
    """How one and the same model is executed."""

    EAGER = "eager"
    DEFAULT = "default"
    """`tf.function(jit_compile=None)`: TensorFlow's default."""
    GRAPH = "graph"
    """`tf.function(jit_compile=False)`: the baseline of the headline speedup."""
    XLA = "xla"
    """`tf.function(jit_compile=True)`."""
    AUTOCLUSTER = "autocluster"
    """`tf.function` with the graph optimizer's XLA auto-clustering switched on."""


JIT_CANDIDATES = {
    "true": ExecutionMode.XLA,
    "false": ExecutionMode.GRAPH,
    "null": ExecutionMode.DEFAULT,
    "none": ExecutionMode.DEFAULT,
    "auto": ExecutionMode.AUTOCLUSTER,
}
"""The candidate mode of each value of `jit` in lower case, as Hydra, W&B and people write it."""


class Scenario(StrEnum):
    """What one timed call does."""

    CALL = "call"
    """The forward pass: `model(x, training=False)`."""
    DETECT = "detect"
    """The forward pass of a detector, its boxes decoded, and non-max suppression."""


def baseline_of(modes: Sequence[str]) -> str:
    """The headline baseline among the labels: the first of graph, default and eager.

    Else the first label. With eager and graph alone, graph is the candidate and eager the baseline.
    """
    if set(modes) == {ExecutionMode.EAGER, ExecutionMode.GRAPH}:
        return str(ExecutionMode.EAGER)
    for mode in (ExecutionMode.GRAPH, ExecutionMode.DEFAULT, ExecutionMode.EAGER):
        if mode in modes:
            return str(mode)
    return str(modes[0])


def headline_candidates(modes: Sequence[str]) -> tuple[str, ...]:
    """The labels that the headline baseline is compared with; `eager` only if alone."""
    baseline = baseline_of(modes)
    others = tuple(mode for mode in modes if mode != baseline)
    return tuple(mode for mode in others if mode_of(mode) != ExecutionMode.EAGER) or others


def label_modes(modes: Sequence[ExecutionMode]) -> tuple[str, ...]:
    """Distinct labels for modes that may repeat: `graph, graph` becomes `graph, graph_2`."""
    labels: list[str] = []
    for position, mode in enumerate(modes):
        earlier = list(modes[:position]).count(mode)
        labels.append(f"{mode}_{earlier + 1}" if earlier else str(mode))
    return tuple(labels)


def mode_of(label: str) -> ExecutionMode:
    """The execution mode behind a label: `graph_2` is `graph`."""
    return ExecutionMode(label.split("_")[0])


@cache
def is_aa_pair(first: str, second: str) -> bool:
    """Whether two labels are copies of one mode, so that their true speedup is exactly 1.

    "" is no mode: the baseline of one that was measured alone.
    """
    return "" not in (first, second) and first != second and mode_of(first) == mode_of(second)
