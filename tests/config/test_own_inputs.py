"""A batch of the user's own in a file: what it asks for, and what is refused in one line."""

from __future__ import annotations

import errno
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xla_sweeps.config import own_inputs
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import InputSpec

MARK = "was run"


class Harmful:
    """Leaves a mark where it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(MARK),)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("one.npy", np.array([[1.0, np.nan], [3.0, -5.0], [2.0, 2.0]], np.float32))
    np.savez("two.npz", ids=np.arange(6).reshape(3, 2), mask=np.ones((3, 4), bool))
    np.savez("unlike.npz", np.zeros((2, 3)), np.zeros((4, 3)))
    np.savez("empty.npz")
    np.save("texts.npy", np.array(["a"]))
    np.save("number.npy", np.float32(1))
    np.save("code.npy", np.array([Harmful()], object), allow_pickle=True)
    Path("text.npy").write_text("hello")
    Path("folder.npy").mkdir()


def apply(path: str, explicit: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
    document = {"inputs": path, "input_spec": None, "batch_size": 4, **given}
    return dict(own_inputs.apply(document, explicit))


def test_a_file_gives_shapes_types_ranges_and_the_batch_size() -> None:
    made = apply("one.npy")
    assert made["batch_size"] == 3
    assert made["input_spec"] == [{"shape": [2], "dtype": "float32", "low": -8.0, "high": 4.0}]
    assert own_inputs.read_specs(apply("two.npz")["input_spec"]) == (
        InputSpec(shape=(2,), dtype="int64", low=0, high=6, name="ids"),
        InputSpec(shape=(4,), dtype="bool", low=1, high=2, name="mask"),
    )


class Called:
    """Takes what its `call` takes, as a layer of Keras."""

    def __call__(self, *inputs: Any, **named: Any) -> None:
        pass


class Sized:
    """Builds a model of a size."""

    def __call__(self, width: int = 32, resolution: Any = None) -> None:
        pass


class Several:
    """Takes any number of inputs."""

    def __call__(self, *parts: Any) -> None:
        pass


class Builder:
    """Builds a model."""

    def __call__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Called(), True),
        (Builder(), False),
        (Sized(), False),
        (Several(), True),
        (Called, False),
        (Called().__call__, False),
        (partial(lambda size: None, size=3), False),
        (cache(lambda size=3: None), False),
        (lambda batch: batch, True),
    ],
)
def test_an_object_with_a_call_is_the_model_unless_it_needs_nothing(
    code: Any, expected: bool
) -> None:
    assert own_inputs.needs_inputs(code) is expected


def test_values_go_to_the_inputs_of_their_names() -> None:
    inputs = (InputSpec(shape=(4,), name="mask"), InputSpec(shape=(2,), name="ids"))
    mask, ids = own_inputs.values_of("two.npz", inputs)
    assert mask.all()
    assert ids.max() == 5


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.npy", "no such file"),
        ("folder.npy", "expected a .npy or .npz file"),
        ("text.npy", "expected a .npy or .npz file"),
        ("code.npy", "expected a .npy or .npz file"),
        ("empty.npz", "holds no array"),
        ("texts.npy", "text, which XLA does not take; measure what follows TextVectorization"),
        ("number.npy", "expected numbers with the batch as first dimension"),
        ("unlike.npz", "different batch sizes: 2, 4"),
    ],
)
def test_what_is_no_batch_is_refused(path: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        apply(path)
    assert "\n" not in str(raised.value)
    assert not Path(MARK).exists()


def test_a_file_that_may_not_be_read_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("numpy.load", refuse)
    with pytest.raises(ConfigError, match=r"=one\.npy: Permission denied"):
        apply("one.npy")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="different batch sizes: 3, 8"):
        apply("one.npy", ("batch_size",), batch_size=8)
    with pytest.raises(ConfigError, match=r"samples of shape \[2\]; input_spec asks for \[5\]"):
        own_inputs.values_of("one.npy", (InputSpec(shape=(5,)),))
