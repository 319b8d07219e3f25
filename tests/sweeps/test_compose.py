"""Definitions composed into trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import ROOT

from xla_sweeps.config.compose import compose_config, group_choices
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import identify, settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import flatten, overrides
from xla_sweeps.schema.trial import request_id
from xla_sweeps.sweeps.anchors import ANCHOR, DEVICE_ANCHOR
from xla_sweeps.sweeps.compose import Composer, compose_all
from xla_sweeps.sweeps.definition import load_sweep
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.search import expand
from xla_sweeps.system import devices, environment

pytestmark = pytest.mark.usefixtures("composed_once")

SLOT = Slot(name="cpu", device=devices.devices()[-1])


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `pictures` of forty files in the current one."""
    for number in range(40):
        path = tmp_path / "pictures" / "class" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff\xda\xff\xd9")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda path: str(path.name)
)
@pytest.mark.usefixtures("pictures")
def test_every_shipped_definition_composes_into_trials(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda module: True)  # JAX and PyTorch
    sweep = load_sweep(path)
    assert sweep.warnings == ()
    assert path.read_text().startswith("# "), "a line that says what it is for"
    composer = Composer([], slots=[SLOT], environ={})
    assert sweep.method in ("grid", "random")
    assert len({composer.task(values).key for values in expand(sweep)}) == sweep.trials


@given(
    st.sampled_from([name for name in group_choices("model") if name != "local"]),
    st.sampled_from(
        [
            {},
            {"jit": None},
            {"batch_size": 1, "seed": 3},
            {"onednn": True, "threads": {"intra": 2}},
            {"effort": "standard"},
            {"effort": {"block_s": 0.1}},
        ]
    ),
)
@settings(max_examples=8, deadline=None)  # each composes twice by Hydra
def test_a_composed_trial_is_the_same_as_of_hydra(model: str, values: dict[str, Any]) -> None:
    chosen = {"model": model, **values}
    composer = Composer(["weights=random"], slots=[SLOT], environ={})
    words = [*overrides(flatten(chosen)), "weights=random"]
    composed = settings_of(
        compose_config(words), explicit={word.partition("=")[0] for word in words}, environ={}
    )
    for task in (composer.task(chosen), composer.of_words(words)):
        assert list(task.words) == words
        assert task.trial_ids == (identify(composed, environment.environment()),)
        assert task.request_id == request_id(composed.trial)


@pytest.mark.parametrize("word", ["model.variant=Own", "seed=${batch_size}", "++seed=4"])
def test_what_only_hydra_can_set_counts_in_every_trial(word: str) -> None:
    composer = Composer([word], slots=[SLOT], environ={})
    task = composer.task({"model": "resnet50", "batch_size": 2})
    composed = settings_of(compose_config(["model=resnet50", "batch_size=2", word]), environ={})
    assert task.request_id == request_id(composed.trial)


def test_one_trial_of_several_numbers_of_replicates_has_the_most() -> None:
    composer = Composer(["model=resnet50"], slots=[SLOT], environ={})
    trials = [{"effort.replicates": count} for count in (1, 3, 2)]
    (planned,) = compose_all(composer, trials, lines={}, where="s.yaml")
    assert planned.replicates == 3
    assert "effort.replicates=3" in planned.words


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("scenario: fit\nsteps_per_execution: ${batches}\n", ["+experiment=own"]),
        ("model: {variant: Own}\n", ["+experiment=own"]),
        ("", ["++model.variant=Own"]),
    ],
)
def test_a_trial_of_ones_own_files_is_the_one_that_its_command_measures(
    file: str, words: list[str], trusted: bool, tmp_path: Path
) -> None:
    if "$" in file and not trusted:
        pytest.skip("refused")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_text(f"# @package _global_\n{file}")
    folder = OwnFolder(tmp_path, trusted=trusted)
    composer = Composer(words, slots=None, environ={}, config_dir=folder)
    for batches in (4, 8):
        asked = ["model=mnist_mlp", "scenario=fit", f"batches={batches}", *words]
        task = composer.of_words(asked)
        composed = compose_config(asked, config_dir=folder)
        expected = settings_of(composed, explicit={"batches"}, environ={}).trial
        assert task.request_id == request_id(expected)


def test_all_trials_go_to_the_folder_that_their_sweep_reads() -> None:
    place = "results_dir='r/${now:%f}'"  # microseconds
    composer = Composer([place, "seed=3"], slots=None, environ={})
    word = f"results_dir={composer.base()['results_dir']}"
    assert "$" not in word
    assert composer.task({"model": "resnet50"}).words == ("model=resnet50", word, "seed=3")


@pytest.mark.parametrize("data", [("scenario=fit", "data=pictures"), ("scenario=fit",)])
@pytest.mark.usefixtures("pictures")
def test_the_batches_of_an_epoch_follow_from_their_size(data: tuple[str, ...]) -> None:
    given = dict(word.split("=") for word in data)
    for composer, values in (
        (Composer(data, slots=[SLOT], environ={}), {}),
        (Composer([], slots=[SLOT], environ={}), given),
    ):
        for size in (4, 8, 16):
            words = [*data, f"batch_size={size}"]
            expected = settings_of(compose_config(words), explicit={*given, "batch_size"}).trial
            task = composer.task({**values, "batch_size": size})
            assert task.request_id == request_id(expected)
            assert composer.of_words(words).request_id == request_id(expected)
    over = Composer(data, slots=[SLOT], environ={})
    if len(data) > 1:
        with pytest.raises(ConfigError, match="batch_size=64: data=pictures has 40 pictures"):
            over.task({"batch_size": 64})


def test_a_sweep_shows_its_own_progress_whatever_a_trial_says_of_it() -> None:
    composer = Composer([], slots=[SLOT], environ={})
    values = {"model": "resnet50", "ui": "quiet"}
    for task in (composer.task(values), composer.of_words(overrides(values))):
        assert task.words == ("model=resnet50",)


def test_a_number_of_the_command_line_wins_in_every_trial() -> None:
    composer = Composer(["seed=3"], slots=[SLOT], environ={})
    alone = Composer([], slots=[SLOT], environ={})
    for batch_size in (1, 2, 4):
        task = composer.task({"model": "resnet50", "batch_size": batch_size, "seed": 9})
        assert task.words == ("model=resnet50", f"batch_size={batch_size}", "seed=3")
        values = {"model": "resnet50", "batch_size": batch_size, "seed": 3}
        assert task.key == alone.task(values).key


def test_the_anchors_of_a_gpu_are_aa_pairs_of_two_models() -> None:
    asked = [compose_config([*words, "device=cpu"]) for words in (ANCHOR, DEVICE_ANCHOR)]
    trials = [settings_of(document).trial for document in asked]
    assert {trial.modes for trial in trials} == {("graph", "graph_2")}
    assert [trial.model.name for trial in trials] == ["mobilenet_v2", "resnet50"]
