"""Every setting of a trial is part of the question that its rows answer, or has a reason not to be.

A setting that changes what is measured and is no column would make one measurement hide another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest
from factories import TRIAL, make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.labels import TELLING, told_apart
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.row import QUESTION, columns_of, value_of
from xla_sweeps.schema.trial import Data, InputSpec, Precision, Training, Trial

NOT_ASKED: Mapping[str, str] = {
    "effort": "how long and how precisely, not what: the replicates of the most are preferred",
    "timeouts": "when a hanging stage is ended",
    "memory_limit_bytes": "when a growing process is ended",
    "seed": "other random numbers, of which the same work is done",
    "training.learning_rate": "a factor of each update: the same work",
    "training.data.pictures": "what the folder held then: its newest measurement answers",
    "training.data.fingerprint": "what the folder held then: its newest measurement answers",
    "model.family": "follows from the model",
    "model.variant": "follows from the model",
    "model.task": "follows from the model",
    "model.library": "follows from source and version of Keras",
    "model.recipe": "follows from model and source; the path of a model of one's own is asked",
    "model.native_resolution_px": "follows from the model",
    "model.published_params": "what others say of the model",
    "model.published_gmacs": "what others say of the model",
    "model.inputs.low": "other values, of which the same work is done",
    "model.inputs.high": "other values, of which the same work is done",
    "model.inputs.name": "how the model calls the input",
}
"""Settings, with what is below them, that are no part of the question; and why."""

CATALOG = replace(
    TRIAL,
    scenario=Scenario.FIT,
    modes=("fit_graph", "fit_xla"),
    training=Training(data=Data(path="/pictures", pictures=100, fingerprint="a" * 16)),
)
OWN = replace(
    CATALOG,
    model=replace(
        TRIAL.model,
        source="local",
        library="local",
        resolution_px=None,
        weights="own",
        recipe={"path": "/own/a.keras", "fingerprint": "b" * 16},
    ),
)

CHANGED: Mapping[str, Any] = {
    "modes": ("graph", "xla"),
    "precision": Precision.MIXED_FLOAT16,
    "scenario": Scenario.TRAIN_STEP,
    "copies": "apart",
    "device": "gpu:0",
    "runtime.onednn": False,
    "runtime.xla_flags": {"xla_a": True},
    "runtime.tf_xla_flags": {"tf_xla_a": True},
    "training.data": None,
    "shapes": ("b4", "b3"),
    "model.recipe": {"path": "/own/b.keras", "fingerprint": "b" * 16},
}
"""Other values of settings of which a value cannot be told from the present one."""


def nested(hint: Any) -> type | None:
    """The dataclass that a field holds: itself, one or none, or several."""
    kinds = [hint, *get_args(hint)]
    return next((kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)), None)


def settings(kind: type = Trial, above: str = "") -> Iterator[str]:
    """The path of every field of a trial, and of the dataclasses in it."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        path = f"{above}{one.name}"
        inner = nested(hints[one.name])
        if inner and path not in NOT_ASKED:
            yield from settings(inner, f"{path}.")
        else:
            yield path


def changed(holder: Any, path: str, whole: str) -> Any:
    """The dataclass with another value at a path."""
    name, _, rest = path.partition(".")
    value = getattr(holder, name)
    if rest and isinstance(value, tuple):
        new: Any = tuple(changed(one, rest, whole) for one in value)
    elif rest:
        new = changed(value, rest, whole)
    else:
        new = CHANGED.get(whole, another(value))
    return replace(holder, **{name: new})


def another(value: Any) -> Any:
    """A value of the same type."""
    if is_dataclass(value) and not isinstance(value, type):
        (first, *_) = fields(value)
        return replace(value, **{first.name: another(getattr(value, first.name))})
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, tuple):
        return (*value, 3)
    return 3 if value is None else f"{value}x"


def question(trial: Trial) -> tuple[Any, ...]:
    device = {"kind": trial.device.partition(":")[0], "name": f"A {trial.device}"}
    model = ModelFacts.of(trial.model)
    times = dict(zip(trial.modes, (0.2, 0.1), strict=True))
    (row, *_) = summarize([make_record(times, trial=trial, model=model, device=device)]).comparisons
    return tuple(value_of(row, name) for name in QUESTION)


@pytest.mark.parametrize("setting", list(settings()))
def test_every_setting_is_asked_or_has_a_reason_not_to_be(setting: str) -> None:
    bases = [CATALOG, OWN, replace(CATALOG, device="gpu:0")]
    given = replace(OWN.model, inputs=(InputSpec(shape=(224, 224, 3)),))
    bases.append(replace(OWN, model=given))
    is_asked = any(question(changed(base, setting, setting)) != question(base) for base in bases)
    own_path = setting == "model.recipe"
    reason = next((NOT_ASKED[one] for one in NOT_ASKED if f"{setting}.".startswith(f"{one}.")), "")
    assert is_asked is (own_path or not reason), (
        f"Trial.{setting}: make it an asked column (schema/trial_columns.py), or list the reason"
    )


def test_each_reason_is_of_a_setting() -> None:
    paths = set(settings())
    assert set(NOT_ASKED) <= paths
    assert all(NOT_ASKED.values())
    assert set(CHANGED) <= paths | {"training.data", "training"}


def test_the_list_of_settings_has_those_of_nested_dataclasses() -> None:
    assert {"tf32", "model.inputs.shape", "runtime.onednn", "training.data.path"} <= set(settings())


def test_a_trial_in_tf32_is_another_question_and_is_named_so() -> None:
    gpu = replace(TRIAL, device="gpu:0")
    records = [
        make_record(
            trial=replace(gpu, tf32=tf32),
            trial_id=f"{tf32:016}",
            device={"kind": "gpu", "name": "NVIDIA H100"},
            model=replace(make_record().model, macs_by_type={"f32": 9}),
        )
        for tf32 in (False, True)
    ]
    rows = [summarize([record]).comparisons[0] for record in records]
    assert [row.trial.tf32 for row in rows] == [False, True]
    assert [row.trial.effective_precision for row in rows] == ["f32", "tf32"]
    columns = columns_of(rows)
    assert told_apart(columns, ("model", "device"), TELLING) == ["", "TF32"]


def test_the_effective_precision_is_tf32_only_where_it_was_in_force() -> None:
    facts = replace(make_record().model, macs_by_type={"f16": 98, "f32": 2})
    half = replace(TRIAL, tf32=True, precision=Precision.MIXED_FLOAT16, device="gpu:0")
    on_gpu = make_record(trial=half, model=facts, device={"kind": "gpu", "name": "H100"})
    assert on_gpu.effective(facts) == "f16 98 %, f32 2 %"
    on_cpu = make_record(trial=replace(TRIAL, tf32=True), model=facts)
    assert (on_cpu.uses_tf32, on_cpu.effective(facts)) == (False, "f16 98 %, f32 2 %")
