"""Training of a trial, and its pictures: the result of each request, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from composed import complaint, settings

from xla_sweeps.schema.overrides import asked_of, data_name
from xla_sweeps.schema.trial import Training


def test_only_what_trains_has_an_optimizer() -> None:
    adam = settings("scenario=train_step", "optimizer=adam", "learning_rate=0.01")
    assert adam.trial.training == Training(optimizer="adam", learning_rate=0.01)
    call = settings()
    assert call.trial.training is None
    asked = asked_of(call.trial)
    assert asked["optimizer"] is asked["learning_rate"] is None


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `pics` of ten pictures in the current one."""
    for number in range(10):
        path = tmp_path / "pics" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff\xda" + b"x" * number + b"\xff\xd9")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pics"


FIT = ("scenario=fit", "data=pics")


@pytest.mark.parametrize(
    ("overrides", "batches", "samples"),
    [
        ((), 3, 10),
        (("drop_remainder=true",), 2, 8),
        (("batches=2",), 2, 8),
        (("batches=1",), 1, 4),
        (("batch_size=5",), 2, 10),
        (("batch_size=10",), 1, 10),
    ],
)
def test_an_epoch_over_pictures_is_all_of_them_or_as_many_batches_as_asked(
    pictures: Path, overrides: tuple[str, ...], batches: int, samples: int
) -> None:
    composed = settings(*FIT, *overrides)
    assert (composed.trial.batches, composed.trial.samples) == (batches, samples)
    assert data_name(composed.trial).startswith("pics")
    assert composed.trial.training is not None
    assert composed.trial.training.data is not None
    assert composed.trial.training.data.path == str(pictures)


def test_a_trial_without_pictures_says_so() -> None:
    fit = settings("scenario=fit")
    asked = asked_of(fit.trial)
    assert (asked["data"], asked["drop_remainder"]) == ("synthetic", None)
    assert fit.trial.training == Training()
    call = settings("data=synthetic")
    assert asked_of(call.trial)["data"] is None


def test_fit_executes_as_many_steps_at_once_as_are_asked() -> None:
    assert settings("scenario=fit").trial.steps_per_execution == 1
    assert settings("scenario=fit", "steps_per_execution=8").trial.steps_per_execution == 8
    assert settings("steps_per_execution=1").trial.steps_per_execution == 1


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (
            ["scenario=fit", "steps_per_execution=9"],
            "steps_per_execution=9: an epoch is 8 batches; use steps_per_execution=8 or less",
        ),
        (
            ["scenario=fit", "steps_per_execution=2", "modes=[graph,xla]"],
            "steps_per_execution=2: no mode of modes=[graph,xla] calls fit; add fit_graph or",
        ),
        (
            ["scenario=train_step", "steps_per_execution=2"],
            "steps_per_execution=2: a call of scenario=train_step calls no fit; add scenario=fit "
            "or remove steps_per_execution",
        ),
        (
            ["scenario=predict", "batches=4", "steps_per_execution=2"],
            "steps_per_execution=2: a call of scenario=predict calls no fit; use the modes "
            "predict_graph_steps and predict_xla_steps or remove steps_per_execution",
        ),
        (["scenario=fit", "steps_per_execution=0"], "steps_per_execution=0: "),
    ],
)
def test_steps_that_nothing_executes_at_once_are_refused(overrides: list[str], reason: str) -> None:
    assert reason in complaint(*overrides)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["data=pics"], "data=pics: scenario=call trains nothing; add scenario=fit or remove data"),
        (
            ["scenario=train_step", "data=pics"],
            "data=pics: a step of scenario=train_step trains on values that are drawn; use "
            "scenario=fit",
        ),
        (
            ["scenario=fit", "data=pix"],
            "data=pix: there is no such file or folder; `xla-sweeps make-data pix` makes a small",
        ),
        (
            ["scenario=fit", "data=sinthetic"],
            "data=sinthetic: there is no such file or folder; did you mean data=synthetic?",
        ),
        (["scenario=fit", "data=empty"], "data=empty: holds no picture: expected *.tfrecord files"),
        (
            [*FIT, "batch_size=11"],
            "batch_size=11: data=pics has 10 pictures; use batch_size=10 or less",
        ),
        ([*FIT, "batches=4"], "batches=4: data=pics has 3 batches of 4; use batches=3 or less"),
        (
            [*FIT, "batches=3", "drop_remainder=true"],
            "batches=3: data=pics has 2 batches of 4; use batches=2 or less",
        ),
        (
            [*FIT, "modes=[fit_graph,fit_numpy_graph]"],
            "modes: fit_numpy_graph trains on arrays in memory, not on the files of data; use "
            "fit_graph, or remove data",
        ),
        (
            [*FIT, "modes=[fit_numpy]"],
            "modes: fit_numpy trains on arrays in memory, not on the files of data; use fit_auto,",
        ),
        ([*FIT, "drop_remainder=2"], "drop_remainder=2: "),
        (
            ["scenario=fit", "drop_remainder=true"],
            "drop_remainder=true: only an epoch over pictures has a smaller last batch; add data=",
        ),
        (
            ["drop_remainder=true"],
            "drop_remainder=true: scenario=call trains nothing; add scenario=fit or remove drop",
        ),
    ],
)
def test_what_does_not_fit_the_pictures_is_refused_in_one_line(
    pictures: Path, overrides: list[str], reason: str
) -> None:
    (pictures.parent / "empty").mkdir()
    message = complaint(*overrides)
    assert message.startswith(reason)
    assert "\n" not in message
