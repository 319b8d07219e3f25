"""The user's own model: paths, what is refused, and what counts as the same model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import TRIAL

from xla_sweeps.config.local_model import user_model_spec
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import InputSpec, ModelSpec, trial_id


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.keras").write_bytes(b"weights")
    (tmp_path / "mine.py").write_text("def build(): ...\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "models.py").write_text("def build(): ...\n")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"graph")
    return tmp_path


def spec(path: str | None, document: dict[str, Any] | None = None, **changes: Any) -> ModelSpec:
    asked: dict[str, Any] = {"model": document or {"name": "local"}, "path": path}
    asked["import"] = changes.pop("module", None)
    defaults = {"trust_code": True, "resolution": None, "input_spec": None}
    return user_model_spec({**asked, **defaults, **changes})


def refusal(path: str | None, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        spec(path, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "kind", "variant"),
    [
        ("net.keras", "keras", "net"),
        ("saved", "saved_model", "saved"),
        ("saved/", "saved_model", "saved"),
        ("mine:build", "function", "mine:build"),
        ("mine.py:build", "function", "mine:build"),
        ("pkg.models:build", "function", "pkg.models:build"),
        ("json:dumps", "function", "json:dumps"),
    ],
)
def test_a_path_is_a_file_a_folder_or_a_function(path: str, kind: str, variant: str) -> None:
    model = spec(path)
    assert model.recipe["kind"] == kind
    assert model.variant == model.name == variant
    assert (model.family, model.source, model.weights, model.resolution_px) == (
        "local",
        "local",
        "own",
        None,
    )


def test_the_user_may_set_its_name_and_task() -> None:
    model = spec(
        "net.keras",
        {"name": "local", "variant": "MyNet", "family": "Mine", "task": "classification"},
    )
    assert (model.name, model.family, model.task) == ("MyNet", "Mine", "classification")


@pytest.mark.parametrize("path", ["net.keras", "saved", "mine:build"])
def test_untrusted_code_is_not_run(path: str) -> None:
    assert refusal(path, trust_code=False).endswith("add trust_code=true if you trust it")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (None, "model=local: name it, as in path=my_model.keras"),
        ("gone.keras", "path=gone.keras: no such file, folder or module:function"),
        ("pkg", "path=pkg: not a SavedModel, it has no saved_model.pb"),
        ("mine.py", "path=mine.py: a model file ends in .keras, .h5, .hdf5"),
        ("gone:build", "path=gone:build: no module 'gone' in the current folder"),
        ("gone.py:build", "path=gone.py:build: no such file: gone.py"),
    ],
)
def test_a_path_that_is_not_a_model_is_refused_with_what_is_accepted(
    path: str | None, reason: str
) -> None:
    assert refusal(path).startswith(reason)


def test_finding_a_function_runs_no_code(here: Path) -> None:
    (here / "mine.py").write_text("raise SystemExit('imported')\n")
    (here / "pkg" / "__init__.py").write_text("raise SystemExit('imported')\n")
    assert (
        spec("mine:build").recipe["kind"] == spec("pkg.models:build").recipe["kind"] == "function"
    )


def test_the_same_content_elsewhere_is_the_same_trial_and_another_content_is_not(
    here: Path,
) -> None:
    def identity(path: str) -> str:
        return trial_id(replace(TRIAL, model=spec(path, {"name": "local", "variant": "x"})), {})

    (here / "copy.keras").write_bytes(b"weights")
    before = identity("net.keras")
    assert identity("copy.keras") == before
    (here / "net.keras").write_bytes(b"trained longer")
    assert identity("net.keras") != before
    folder = identity("saved")
    (here / "saved" / "variables").write_bytes(b"1")
    assert identity("saved") != folder
    (here / "mine.py").write_text("def build(): ...\ndef other(): ...\n")
    assert identity("mine:build") != identity("mine:other")


def test_inputs_are_as_the_user_specifies() -> None:
    given = [
        {"shape": [224, 224, 3], "name": "image"},
        {"shape": 16, "dtype": "int32", "high": 1000, "name": "ids"},
    ]
    assert spec("net.keras", input_spec=given).inputs == (
        InputSpec(shape=(224, 224, 3), name="image"),
        InputSpec(shape=(16,), dtype="int32", high=1000.0, name="ids"),
    )
    assert spec("net.keras", input_spec={"shape": []}).inputs == (InputSpec(shape=()),)
    assert spec("net.keras").inputs == ()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("big", "input_spec=big: give one mapping for each input"),
        ([], "input_spec=[]: give one mapping for each input"),
        ([{"dtype": "int32"}], "input_spec[0]={'dtype': 'int32'}: give a shape without the batch"),
        (
            [{"shape": [4], "type": "int32"}],
            "unknown key of input_spec[0] 'type'. Did you mean 'dtype'?",
        ),
        (
            [{"shape": [4], "dtype": "float31"}],
            "unknown dtype in input_spec[0] 'float31'. Did you mean 'float32'?",
        ),
        ([{"shape": [None, 4]}], "input_spec[0].shape[0]: Expected `int`, got `null`"),
        ([{"shape": [0]}], "input_spec[0].shape=[0]: expected integers of at least 1"),
        ([{"shape": [4], "high": math.inf}], "input_spec[0].high=inf: expected a number up to"),
        ([{"shape": [4], "low": 3, "high": 3}], "input_spec[0]: low=3 must be below high=3"),
        ([{"shape": [4], "high": "many"}], "input_spec[0].high: Expected `float`, got `str`"),
        (
            [{"shape": [4], "name": "a"}, {"shape": [4]}],
            "input_spec: name every input, each differently, or none",
        ),
    ],
)
def test_a_malformed_input_is_reported_with_its_place_and_reason(given: Any, reason: str) -> None:
    assert refusal("net.keras", input_spec=given).startswith(reason)


def test_the_module_of_custom_layers_is_part_of_a_keras_files_identity(here: Path) -> None:
    plain, first = spec("net.keras"), spec("net.keras", module="mine")
    assert spec("net.keras", module="mine.py").recipe["fingerprint"] == first.recipe["fingerprint"]
    (here / "mine.py").write_text("def build(): return 1\n")
    changed = spec("net.keras", module="mine")
    ids = [trial_id(replace(TRIAL, model=model), {}) for model in (plain, first, changed)]
    assert len(set(ids)) == 3
    assert refusal("mine:build", module="mine").startswith("import=mine: applies to a .keras file")
    assert refusal("net.keras", module="nosuch").startswith("import=nosuch: no module 'nosuch'")
    assert "add trust_code=true" in refusal("net.keras", module="mine", trust_code=False)
