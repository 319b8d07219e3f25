"""The user's own model: paths, what is refused, and what counts as the same model."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from composed import complaint_of
from factories import TRIAL
from keras_files import input_layer, layer, write_keras_file

from xla_sweeps.config.local_model import user_model_spec
from xla_sweeps.schema.trial import InputSpec, ModelSpec, trial_id


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_keras_file(tmp_path / "net.keras")
    (tmp_path / "mine.py").write_text("def build(): ...\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "models.py").write_text("def build(): ...\n")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"graph")
    return tmp_path


def spec(path: str, document: dict[str, Any] | None = None, **changes: Any) -> ModelSpec:
    asked: dict[str, Any] = {"model": document or {"name": "local"}, "path": path}
    asked["import"] = changes.pop("module", None)
    defaults = {"trust_code": True, "resolution": None, "input_spec": None}
    return user_model_spec({**asked, **defaults, **changes})


def refusal(path: str, **changes: Any) -> str:
    return complaint_of(spec, path, **changes)


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
    facts = (model.family, model.source, model.weights, model.resolution_px)
    assert facts == ("local", "local", "own", None)


def test_the_user_may_set_its_name_and_task() -> None:
    named = {"variant": "MyNet", "family": "Mine", "task": "classification"}
    model = spec("net.keras", {"name": "local", **named})
    assert (model.name, model.family, model.task) == tuple(named.values())


WEIGHTS = (
    "files are weights or a pickled module; write a function that builds the module and loads "
    "them: path=net.py:build backend=torch"
)


@pytest.mark.parametrize("path", ["net.keras", "saved", "mine:build"])
def test_untrusted_code_is_not_run(path: str) -> None:
    assert refusal(path, trust_code=False).endswith("add trust_code=true if you trust it")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gone.keras", "path=gone.keras: no such file, folder or module:function"),
        ("pkg", "path=pkg: not a SavedModel, it has no saved_model.pb"),
        ("mine.py", "path=mine.py: give the function that builds the model: path=mine.py:build"),
        ("mine:biuld", "unknown function of mine.py 'biuld'. Did you mean 'build'? Allowed: bu"),
        ("mine:Nets.build", "unknown function of mine.py 'Nets.build'. Did you mean 'build'"),
        ("mine.py:nope", "unknown function of mine.py 'nope'. Allowed: build."),
        ("broken:build", "path=broken:build: broken.py, line 1: not valid Python: "),
        ("deep.py:build", "path=deep.py:build: deep.py: not valid Python: nested too deeply"),
        ("net.weights.h5", "path=net.weights.h5: holds weights without a model; write a function"),
        ("text.h5", "path=text.h5: not a Keras file: it does not begin as HDF5 does"),
        ("cut.keras", "path=cut.keras: not a Keras file: it is no ZIP, or it is cut off"),
        ("net.pt", f"path=net.pt: .pt {WEIGHTS}; allowed: "),
        ("net.PTH", f"path=net.PTH: .PTH {WEIGHTS}; allowed: "),
        ("net.safetensors", f"path=net.safetensors: .safetensors {WEIGHTS}; allowed: "),
        ("net.onnx", "path=net.onnx: .onnx files are not read; convert the model to Keras; allo"),
        ("net.txt", "path=net.txt: a model file ends in .keras, .h5, .hdf5; allowed: "),
        ("gone:build", "path=gone:build: no module 'gone' in the current folder"),
        ("gone.py:build", "path=gone.py:build: no such file: gone.py"),
    ],
)
def test_a_path_that_is_not_a_model_is_refused_with_what_is_accepted(
    path: str, reason: str, here: Path
) -> None:
    hdf5 = b"\x89HDF\r\n\x1a\n"
    for name, content in (
        ("broken.py", b"def build(:"),
        ("deep.py", b"-" * 100_000 + b"1"),
        ("net.weights.h5", hdf5 + b"layers" * 400_000),
        ("text.h5", b"no model"),
        ("cut.keras", (here / "net.keras").read_bytes()[:-9]),
        *((name, b"x") for name in ("net.pt", "net.PTH", "net.safetensors", "net.onnx")),
        ("net.txt", b"x"),
    ):
        (here / name).write_bytes(content)
    assert refusal(path).startswith(reason)


def test_a_file_of_a_whole_model_and_names_that_reading_cannot_tell_are_accepted(
    here: Path,
) -> None:
    whole = b"\x89HDF\r\n\x1a\n" + b"x" * (2**20 - 14) + b"model_config" + b"x" * 2**20
    (here / "net.h5").write_bytes(whole)
    assert spec("net.h5").recipe["kind"] == "keras"
    unclear = "from pkg import *", "def __getattr__(name): ...", "import os as build", "build = 1"
    for text in unclear:
        (here / "mine.py").write_text(text)
        assert spec("mine:build").recipe["kind"] == "function"


def test_custom_layers_that_no_module_has_are_named_before_anything_starts(here: Path) -> None:
    config = {"layers": [layer("Dense", "keras.layers"), layer("Scale", "my_layers")]}
    write_keras_file(here / "net.keras", config=config)
    line = "path=net.keras: unknown layer 'Scale' of the module my_layers; give the module or file"
    assert refusal("net.keras") == f"{line} that has it: add import=my_layers.py"
    assert refusal("net.keras", module="mine").endswith("import=mine.py does not have it")
    (here / "mine.py").write_text("class Scale: ...")
    assert spec("net.keras", module="mine").recipe["import"] == "mine"
    (here / "mine.py").write_text("import pkg.models")
    assert spec("net.keras", module="mine").recipe["import"] == "mine"
    (here / "my_layers.py").write_text("")
    assert spec("net.keras").recipe["kind"] == "keras"


def test_inputs_of_open_sizes_are_refused_with_the_inputs_to_paste(here: Path) -> None:
    photo = input_layer("photo", None, None, 3)
    layers = [input_layer("ids", None), photo, input_layer("inner", None)]
    inputs = [["ids", 0, 0], ["photo", 0, 0]]
    config = {"class_name": "Functional", "config": {"layers": layers, "input_layers": inputs}}
    write_keras_file(here / "net.keras", config=config)
    assert refusal("net.keras", resolution=32) == (
        "path=net.keras: the input ids (free) has free sizes; give every input, with your sizes: "
        "'input_spec=[{name:ids,shape:[128],dtype:float32},"
        "{name:photo,shape:[224,224,3],dtype:float32}]'"
    )
    config = {"class_name": "Sequential", "config": {"layers": [photo]}}
    write_keras_file(here / "net.keras", config=config)
    assert "the input photo (free, free, 3) has free sizes; give resolution=224, or every" in (
        refusal("net.keras")
    )
    assert spec("net.keras", resolution=32).resolution_px == 32


def test_the_first_size_of_new_shapes_stands_for_one_that_an_input_leaves_open(here: Path) -> None:
    layers = [input_layer("ids", None, dtype="int32")]
    config = {"class_name": "Sequential", "config": {"layers": layers}}
    write_keras_file(here / "net.keras", config=config)
    for shapes in (["b7", 64, 80], "b7 64 80"):
        assert spec("net.keras", shapes=shapes).recipe["free_size"] == 64
    assert "free_size" in spec("net.keras", shapes=64).recipe  # which is refused later
    assert "free sizes" in refusal("net.keras", shapes=True)
    assert "the input ids (free) has free sizes" in refusal("net.keras", shapes=["b7", "b3"])
    assert "the input ids (free) has free sizes" in refusal("net.keras", shapes=["no shape"])
    asked = [{"shape": [9], "dtype": "int32"}]
    assert "free_size" not in spec("net.keras", shapes=[64, 80], input_spec=asked).recipe


def test_finding_a_function_runs_no_code(here: Path) -> None:
    (here / "mine.py").write_text("raise SystemExit('imported')\ndef build(): ...\n")
    (here / "pkg" / "__init__.py").write_text("raise SystemExit('imported')\n")
    for place in ("mine", "pkg.models"):
        assert spec(f"{place}:build").recipe["kind"] == "function"


def test_the_same_content_elsewhere_is_the_same_trial_and_another_content_is_not(
    here: Path,
) -> None:
    def identity(path: str) -> str:
        return trial_id(replace(TRIAL, model=spec(path, {"name": "local", "variant": "x"})), {})

    write_keras_file(here / "copy.keras")
    before = identity("net.keras")
    assert identity("copy.keras") == before
    write_keras_file(here / "net.keras", b"trained longer")
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
        ([{"shape": [4], "type": "int32"}], "unknown key of input_spec[0] 'type'. Did you mean '"),
        ([{"shape": [4], "dtype": "float31"}], "unknown dtype in input_spec[0] 'float31'. Did you"),
        ([{"shape": [None, 4]}], "input_spec[0].shape[0]: Expected `int`, got `null`"),
        ([{"shape": [0]}], "input_spec[0].shape=[0]: expected integers of at least 1"),
        ([{"shape": [4], "high": math.inf}], "input_spec[0].high=inf: expected a number up to"),
        ([{"shape": [4], "low": 3, "high": 3}], "input_spec[0]: low=3 must be below high=3"),
        ([{"shape": [4], "high": "many"}], "input_spec[0].high: Expected `float`, got `str`"),
        ([{"shape": [4], "name": "a"}, {"shape": [4]}], "input_spec: name every input, each diff"),
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


LAYOUTS = {
    "own.py:build": {"own.py": "from deep import SIZE\ndef build(): ..."},
    "own:build": {"own.py": "def build():\n    import deep"},
    "nets/model.py:build": {
        "nets/model.py": "from .parts import blocks\ndef build(): ...",
        "nets/parts/__init__.py": "",
        "nets/parts/blocks.py": "from deep import SIZE",
    },
    "src/net.py:build": {"src/net.py": "from deep import *\ndef build(): ..."},
    "src/beside.py:build": {
        "src/beside.py": "import middle\ndef build(): ...",
        "src/middle.py": "import deep",
    },
}


@pytest.mark.parametrize("path", LAYOUTS)
def test_the_modules_that_a_source_imports_are_part_of_the_identity(path: str, here: Path) -> None:
    for name, text in {**LAYOUTS[path], "deep.py": "import math\nSIZE = 8"}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    first = spec(path).recipe["fingerprint"]
    assert spec(path).recipe["fingerprint"] == first
    (here / "other.py").write_text("")
    assert spec(path).recipe["fingerprint"] == first
    (here / "deep.py").write_text("import math\nSIZE = 9")
    assert spec(path).recipe["fingerprint"] != first


def test_libraries_are_no_part_of_the_identity(here: Path) -> None:
    (here / "own.py").write_text("import json, numpy, xla_sweeps.cli.main\ndef build(): ...")
    content = hashlib.sha256((here / "own.py").read_bytes()).digest()
    alone = hashlib.sha256(content).hexdigest()[:16]
    assert spec("own.py:build").recipe["fingerprint"] == f"{alone}:build"
