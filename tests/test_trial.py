"""Labels, baselines and the identity of a trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_sweeps.trial import (
    Effort,
    ExecutionMode,
    ModelSpec,
    Precision,
    Timeouts,
    Trial,
    baseline_of,
    headline_candidates,
    is_aa_pair,
    label_modes,
    mode_of,
    trial_id,
)

EFFORT = Effort(
    name="quick", replicates=1, rounds_min=10, rounds_look=10, rounds_max=20, target_half_width=0.01, block_s=0.03,
    mode_cap_s=30, warmup_calls=5, warmup_s=0.5, warmup_cap_s=5, latency_calls=100, latency_cap_s=2,
    settle_s=10, hopeless_ends=False,
)  # fmt: skip
TRIAL = Trial(
    model=ModelSpec(
        name="resnet50", family="ResNetV1", variant="ResNet50", task="classification", source="applications",
        library="keras", constructor="ResNet50", resolution_px=224, native_resolution_px=224,
    ),
    modes=("eager", "graph", "xla"), batch_size=4, precision=Precision.FLOAT32, tf32=False, seed=0, device="cpu",
    scenario="call", effort=EFFORT, memory_limit_bytes=2**33,
    timeouts=Timeouts(build_s=1, trace_s=1, compile_s=1, warmup_s=1, measure_s=1),
)  # fmt: skip
IDENTITY = {"device": "Some CPU", "tensorflow": "2.21.0"}


def test_a_mode_given_twice_gets_labels_of_its_own() -> None:
    labels = label_modes([ExecutionMode.GRAPH, ExecutionMode.XLA, ExecutionMode.GRAPH, ExecutionMode.GRAPH])
    assert labels == ("graph", "xla", "graph_2", "graph_3")
    assert [mode_of(label) for label in labels] == ["graph", "xla", "graph", "graph"]
    assert is_aa_pair("graph", "graph_2")
    assert not is_aa_pair("graph", "xla")
    assert not is_aa_pair("graph", "graph")


@pytest.mark.parametrize(
    ("modes", "baseline", "candidates"),
    [
        (("eager", "graph", "xla"), "graph", ("xla",)),
        (("eager", "graph"), "eager", ("graph",)),
        (("graph", "eager"), "eager", ("graph",)),
        (("graph", "graph_2"), "graph", ("graph_2",)),
        (("eager", "xla"), "eager", ("xla",)),
        (("xla", "eager"), "eager", ("xla",)),
        (("xla", "default"), "default", ("xla",)),
        (("eager", "default", "graph", "xla", "autocluster"), "graph", ("default", "xla", "autocluster")),
    ],
)
def test_the_headline_baseline_is_graph_mode_where_it_is_measured(
    modes: tuple[str, ...], baseline: str, candidates: tuple[str, ...]
) -> None:
    assert baseline_of(modes) == baseline
    assert headline_candidates(modes) == candidates


def test_trials_that_may_be_pooled_share_an_identity() -> None:
    later = replace(TRIAL, memory_limit_bytes=1, timeouts=replace(TRIAL.timeouts, compile_s=9))
    assert trial_id(later, IDENTITY) == trial_id(TRIAL, IDENTITY)
    assert len(trial_id(TRIAL, IDENTITY)) == 16


@pytest.mark.parametrize(
    "other",
    [
        replace(TRIAL, batch_size=8),
        replace(TRIAL, modes=("graph", "xla")),
        replace(TRIAL, effort=replace(EFFORT, block_s=0.05)),
        replace(TRIAL, model=replace(TRIAL.model, resolution_px=192)),
        replace(TRIAL, precision=Precision.MIXED_BFLOAT16),
        replace(TRIAL, tf32=True),
        replace(TRIAL, device="gpu:0"),
    ],
)
def test_whatever_affects_the_numbers_changes_the_identity(other: Trial) -> None:
    assert trial_id(other, IDENTITY) != trial_id(TRIAL, IDENTITY)


def test_another_machine_or_version_changes_the_identity() -> None:
    assert trial_id(TRIAL, {**IDENTITY, "tensorflow": "2.20.0"}) != trial_id(TRIAL, IDENTITY)
