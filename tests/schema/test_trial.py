"""The identities of a trial."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest
from factories import EFFORT, TRIAL

from xla_sweeps.schema.trial import (
    Data,
    Precision,
    Runtime,
    Training,
    Trial,
    _affecting,
    request_id,
    trial_id,
)

DATA = Data(path="/pictures", pictures=10, fingerprint="a" * 16)

IDENTITY = {"device": "Some CPU", "tensorflow": "2.21.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTrial(Trial):
    """A trial of a version with one more option."""

    added: str = "a"


def test_trials_that_may_be_pooled_share_an_identity() -> None:
    later = replace(TRIAL, memory_limit_bytes=1, timeouts=replace(TRIAL.timeouts, compile_s=9))
    assert trial_id(later, IDENTITY) == trial_id(TRIAL, IDENTITY)
    longer = replace(TRIAL, effort=replace(EFFORT, sustained_s=30))
    assert trial_id(longer, IDENTITY) == trial_id(TRIAL, IDENTITY)
    for other in (replace(EFFORT, duplicates=4), replace(EFFORT, replicates=7)):
        again = replace(TRIAL, effort=other)
        assert trial_id(again, IDENTITY) == trial_id(TRIAL, IDENTITY)
        assert request_id(again) == request_id(TRIAL)
    assert len(trial_id(TRIAL, IDENTITY)) == 16


def test_options_of_other_scenarios_leave_the_identity_of_a_call_as_it_was() -> None:
    effort = replace(EFFORT, warmup_s=0.5, warmup_cap_s=5, warmup_cap_calls=0)
    assert trial_id(replace(TRIAL, effort=effort), IDENTITY) == "766550da098fd6ab"


@pytest.mark.parametrize(
    "other",
    [
        replace(TRIAL, batch_size=8),
        replace(TRIAL, batches=2),
        replace(TRIAL, steps_per_execution=2),
        replace(TRIAL, modes=("eager", "graph", "xla")),
        replace(TRIAL, effort=replace(EFFORT, block_s=0.05)),
        replace(TRIAL, model=replace(TRIAL.model, resolution_px=192)),
        replace(TRIAL, precision=Precision.MIXED_BFLOAT16),
        replace(TRIAL, tf32=True),
        replace(TRIAL, runtime=Runtime(onednn=False)),
        replace(TRIAL, runtime=Runtime(intra_threads=1)),
        replace(TRIAL, runtime=Runtime(xla_flags={"xla_cpu_enable_fast_math": "true"})),
        replace(TRIAL, device="gpu:0"),
        replace(TRIAL, training=Training()),
        replace(TRIAL, training=Training(optimizer="adam")),
        replace(TRIAL, training=Training(data=DATA)),
    ],
)
def test_whatever_affects_the_numbers_changes_the_identity(other: Trial) -> None:
    assert trial_id(other, IDENTITY) != trial_id(TRIAL, IDENTITY)


def test_of_pictures_the_content_counts_and_not_the_path() -> None:
    ids = [
        trial_id(replace(TRIAL, training=Training(data=data)), IDENTITY)
        for data in (
            DATA,
            replace(DATA, path="/elsewhere"),
            replace(DATA, fingerprint="b" * 16),
            replace(DATA, pictures=9),
            replace(DATA, drop_remainder=True),
        )
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_an_epoch_has_at_most_as_many_samples_as_there_are_pictures() -> None:
    epoch = replace(TRIAL, batch_size=4, batches=3, training=Training(data=DATA))
    assert epoch.samples == 10
    assert replace(epoch, batches=2).samples == 8
    assert replace(epoch, training=Training()).samples == 12


def test_a_new_option_at_its_default_keeps_the_ids_of_earlier_versions() -> None:
    later = LaterTrial(**{each.name: getattr(TRIAL, each.name) for each in fields(TRIAL)})
    assert _affecting(later) == _affecting(TRIAL)
    assert _affecting(replace(later, added="b")) == {**_affecting(TRIAL), "added": "b"}


def test_another_machine_or_version_changes_the_identity() -> None:
    assert trial_id(TRIAL, {**IDENTITY, "tensorflow": "2.20.0"}) != trial_id(TRIAL, IDENTITY)


def test_the_request_is_the_same_on_every_device_and_the_trial_is_not() -> None:
    elsewhere = replace(TRIAL, device="gpu:3")
    other_index = replace(TRIAL, device="gpu:5")
    assert request_id(elsewhere) == request_id(TRIAL)
    assert trial_id(elsewhere, {}) == trial_id(other_index, {}) != trial_id(TRIAL, {})
