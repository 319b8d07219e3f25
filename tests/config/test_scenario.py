"""Training of a trial, and its pictures: the result of each request, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import command
from composed import cases, complaint, settings
from keras_files import input_layer, write_keras_file

from xla_sweeps.config.catalog import CatalogEntry, load_catalog
from xla_sweeps.config.scenario import remarks_of
from xla_sweeps.schema.overrides import asked_of, data_name
from xla_sweeps.schema.trial import Training

pytestmark = pytest.mark.usefixtures("composed_once")


def test_only_what_trains_has_an_optimizer() -> None:
    adam = settings("scenario=train_step", "optimizer=adam", "learning_rate=0.01")
    assert adam.trial.training == Training(optimizer="adam", learning_rate=0.01)
    call = settings()
    assert call.trial.training is None
    asked = asked_of(call.trial)
    assert asked["optimizer"] is asked["learning_rate"] is None


def takes_pictures(entry: CatalogEntry) -> bool:
    return entry.frames is None and "examples" not in entry.sources


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


def own_file(folder: Path, *shapes: list[int | None]) -> tuple[str, ...]:
    """A Keras file in the current folder with inputs of these shapes."""
    names = [f"x{number}" for number in range(len(shapes))]
    layers = [input_layer(name, *shape) for name, shape in zip(names, shapes, strict=True)]
    inside = {"layers": layers, "input_layers": [[name, 0, 0] for name in names]}
    write_keras_file(folder / "m.keras", config={"class_name": "Functional", "config": inside})
    return "model=local", "trust_code=true", "path=m.keras"


@pytest.mark.parametrize(
    ("shapes", "more", "found"),
    [
        ([[32, 32, 3]], (), None),
        ([[None, None, 3]], ("resolution=48",), None),
        ([[16]], (), "[16]"),
        ([[32, 48, 3]], (), "[32, 48, 3]"),
        ([[32, 32, 1]], (), "[32, 32, 1]"),
        ([[32, 32, 3], [4]], (), "[32, 32, 3], [4]"),
        ([[16]], ("input_spec=[{shape:[8,8,3]}]",), None),
        ([[8, 8, 3]], ("input_spec=[{shape:[16]}]",), "[16]"),
    ],
)
@pytest.mark.usefixtures("pictures")
def test_a_model_of_ones_own_takes_pictures_if_its_file_says_so(
    tmp_path: Path, shapes: list[list[int | None]], more: tuple[str, ...], found: str | None
) -> None:
    words = (*own_file(tmp_path, *shapes), *more, *FIT)
    if found is None:
        assert settings(*words).trial.data is not None
    else:
        assert complaint(*words).startswith(
            "data=pics: m does not take pictures: expected one input [side, side, 3], "
            f"found {found}; use another model"
        )


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize(
    "name", [entry.name for entry in load_catalog().values() if not takes_pictures(entry)]
)
def test_a_model_of_the_catalog_that_takes_no_pictures_is_refused(name: str) -> None:
    said = complaint(f"model={name}", *FIT)
    assert said.startswith(f"data=pics: {name} does not take pictures: ") or "no loss" in said


def test_a_refused_request_for_pictures_leaves_nothing(pictures: Path) -> None:
    words = ("model=mnist_mlp", *FIT, "device=cpu", "tracker=wandb_offline")
    done = command(*words, cwd=pictures.parent, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "data=pics: mnist_mlp does not take pictures" in line
    assert {path.name for path in pictures.parent.iterdir()} == {"pics"}


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


REFUSED = """
data=pics -> data=pics: scenario=call trains nothing; add scenario=fit or remove data
scenario=train_step data=pics
  -> data=pics: a step of scenario=train_step trains on values that are drawn; use scenario=fit
scenario=fit data=pix
  -> data=pix: there is no such file or folder; expected *.tfrecord files, or a folder for
scenario=fit data=sinthetic
  -> data=sinthetic: there is no such file; did you mean data=synthetic?
scenario=fit data=empty -> data=empty: holds no picture: expected *.tfrecord files
scenario=fit data=pics batch_size=11
  -> batch_size=11: data=pics has 10 pictures; use batch_size=10 or less
scenario=fit data=pics batches=4
  -> batches=4: data=pics has 3 batches of 4; use batches=3 or less
scenario=fit data=pics batches=3 drop_remainder=true
  -> batches=3: data=pics has 2 batches of 4; use batches=2 or less
scenario=fit data=pics modes=[fit_graph,fit_numpy_graph]
  -> modes: fit_numpy_graph trains on arrays in memory, not on the files of data; use fit_graph,
scenario=fit data=pics modes=[fit_numpy]
  -> modes: fit_numpy trains on arrays in memory, not on the files of data; use fit_auto,
scenario=fit data=pics drop_remainder=2 -> drop_remainder=2:
scenario=fit drop_remainder=true
  -> drop_remainder=true: only an epoch over pictures has a smaller last batch; add data=
drop_remainder=true
  -> drop_remainder=true: scenario=call trains nothing; add scenario=fit or remove drop
"""


@pytest.mark.parametrize(("overrides", "reason"), cases(REFUSED))
def test_what_does_not_fit_the_pictures_is_refused_in_one_line(
    pictures: Path, overrides: list[str], reason: str
) -> None:
    (pictures.parent / "empty").mkdir()
    message = complaint(*overrides)
    assert message.startswith(reason)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("effort", "says"), [("quick", "effort=starts"), ("publish", ""), ("starts", "")]
)
@pytest.mark.parametrize("scenario", ["cold_start", "new_shapes"])
def test_an_effort_that_is_too_short_for_calls_of_seconds_is_remarked(
    scenario: str, effort: str, says: str
) -> None:
    trial = settings(f"scenario={scenario}", f"effort={effort}").trial
    remarks = " ".join(remarks_of({}, trial))
    assert says in remarks
    assert bool(remarks) is bool(says)
    assert remarks_of({}, settings(f"effort={effort}").trial) == []


@pytest.mark.parametrize(
    ("given", "shapes"),
    [
        ("shapes=[224,256]", ("224", "256")),
        ("shapes=[b32,b32,b7]", ("b32", "b32", "b7")),
        ("shapes='b8 b3'", ("b8", "b3")),  # as a W&B run has it
        ("batch_size=8", ("b8", "b7")),
        ("batch_size=1", ("b1", "b2")),
    ],
)
def test_shapes_are_a_list_or_a_text_or_the_batch_size_and_one_less(
    given: str, shapes: tuple[str, ...]
) -> None:
    assert settings("scenario=new_shapes", given).trial.shapes == shapes
