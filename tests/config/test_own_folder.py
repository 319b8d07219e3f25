"""A repository of one's own: its experiments, and what a folder that is trusted may set."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig

from xla_sweeps.config.compose import (
    compose_config,
    compose_run,
    own_entries,
    sweeper_params,
    without_own_files,
)
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import GROUPS
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.schema.trial import Trial, as_typed
from xla_sweeps.sweeps.compose import Composer

nightly = partial(pytest.param, marks=pytest.mark.exhaustive)

GLOBAL = "# @package _global_\n"

MINE = """\
# @package _global_
defaults: [override /model: local, override /tracker: none]
path: net.py:build
trust_code: true
input_spec: [{shape: [8]}]
results_dir: mine
batch_size: 2
tracker: {group: "${batch_size}"}
hydra:
  run: {dir: there}
  sweeper:
    params: {batch_size: "1,8", jit: "true,null"}
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnFolder:
    """A repository with an experiment that names files, and a good one beside it."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def build(): ...\n")
    write("experiment/mine", MINE)
    write("experiment/small", f"{GLOBAL}batch_size: 2\n")
    return OwnFolder(Path("conf"))


def write(name: str, text: str) -> None:
    path = Path("conf", f"{name}.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def trial(*words: str, folder: OwnFolder | None = None) -> Trial:
    words = ("device=cpu", *words)
    composed = compose_config(words, config_dir=folder)
    return settings_of(composed, explicit=keys_of(words), environ={}).trial


def test_a_file_that_is_not_composed_refuses_nothing(conf: OwnFolder) -> None:
    write("hydra/launcher/own", "_target_: x\n")
    write("broken", "a: [1\n")
    (conf.path / "link.yaml").symlink_to("nowhere")
    assert trial("+experiment=small", folder=conf).batch_size == 2
    with pytest.raises(ConfigError, match=r"mine\.yaml:3: path names .*: --trust-config DIR"):
        trial("+experiment=mine", folder=conf)


def test_a_folder_that_is_trusted_sets_what_a_person_may_type(conf: OwnFolder) -> None:
    folder = replace(conf, trusted=True)
    typed = ["+experiment=mine", "batch_size=3", "device=cpu"]
    document = compose_config(typed, config_dir=folder)
    asked = settings_of(document, environ={})
    assert asked.trial.model.recipe["path"] == "net.py:build"
    assert (asked.tracker.name, asked.tracker.group) == ("none", "3")
    assert asked.results_dir == Path("mine")
    _, run = compose_run(typed, config_dir=folder)
    assert run(lambda config: HydraConfig.get().run.dir) == "there"
    params = sweeper_params(["+experiment=mine", "jit=false"], folder)
    assert params == ["batch_size=1,8"], "what is typed wins"
    assert sweeper_params(["+experiment=small"], conf) == []
    words = without_own_files(typed, document, folder)
    assert {"model=local", "path=net.py:build", "trust_code=true"} < {*words}
    assert settings_of(compose_config(words), environ={}).trial == asked.trial


@pytest.mark.parametrize(
    "group",
    [group if group in ("tracker", "jit", "scenario") else nightly(group) for group in GROUPS],
)
def test_every_option_with_choices_is_a_group_and_what_is_typed_wins(
    group: str, conf: OwnFolder
) -> None:
    choice, other = GROUPS[group][-1], GROUPS[group][0]
    write("experiment/x", f"{GLOBAL}defaults: [{{override /{group}: '{choice}'}}]\n")

    def chosen(*words: str) -> str:
        value: Any = compose_config(["+experiment=x", *words], config_dir=conf)[group]
        return as_typed(value["name"] if isinstance(value, dict) else value)

    assert chosen() == choice
    assert chosen(f"{group}={other}") == other
    write("experiment/x", f"{GLOBAL}{group}: '{choice}'\n")
    assert chosen(f"{group}={other}") == other, "whatever a file sets"


def test_a_tracker_of_ones_own_is_a_file(conf: OwnFolder) -> None:
    write("tracker/team", "name: wandb\nproject: ours\n")
    tracker = compose_config(["tracker=team"], config_dir=conf)["tracker"]
    assert (tracker["name"], tracker["project"]) == ("wandb", "ours")
    with pytest.raises(ConfigError, match=r"unknown tracker 'taem'\. .* wandb_offline, wandb"):
        trial("tracker=taem", folder=conf)


@pytest.mark.parametrize(
    ("value", "text"), [("false", "'false'"), ("null", "'null'"), ("", "'null'")]
)
def test_a_choice_that_yaml_reads_as_no_text_is_named(
    value: str, text: str, conf: OwnFolder
) -> None:
    write("experiment/x", f"{GLOBAL}defaults:\n  - override /jit: {value}\n")
    with pytest.raises(
        ConfigError, match=f"x.yaml:3: defaults: override /jit: expected a string: {text}"
    ):
        trial("+experiment=x", folder=conf)


def test_a_file_of_ones_own_may_be_the_first(conf: OwnFolder) -> None:
    write("plain", "defaults: [config, override model: resnet50, _self_]\nbatch_size: 16\n")
    asked = trial("seed=3", folder=replace(conf, primary="plain"))
    assert (asked.model.name, asked.batch_size, asked.seed) == ("resnet50", 16, 3)
    write("plain", "batch_size: 16\n")
    with pytest.raises(ConfigError, match="is missing; add config to the defaults of the"):
        trial(folder=replace(conf, primary="plain"))
    with pytest.raises(ConfigError, match="--config-name=nope: no such file in conf"):
        trial(folder=replace(conf, primary="nope"))


def test_an_entry_that_builds_on_another_is_one_for_all(conf: OwnFolder) -> None:
    alpha = "sources: {applications: {arguments: {alpha: 0.35}}}"
    write("model/half", f"defaults: [mobilenet_v2]\nname: half\n{alpha}\n")
    write("model/wrong", "name: wrong\n")
    entries, problems = own_entries(conf)
    recipe = entries["half"].sources["applications"].recipe
    assert recipe == trial("model=half", folder=conf).model.recipe
    assert problems == ["model=wrong cannot be used: model=wrong: sources is empty"]
    with pytest.raises(ConfigError, match=r"unknown model 'hlaf'\. Did you mean 'half'\?"):
        trial("model=hlaf", folder=conf)


def test_a_file_of_a_group_is_one_for_sweeps_too(conf: OwnFolder) -> None:
    write("tracker/team", "name: wandb\nproject: ours\n")
    composer = Composer((), slots=None, config_dir=replace(conf, trusted=True))
    settings = composer.settings(["model=resnet50", "tracker=team"])
    assert (settings.tracker.name, settings.tracker.project) == ("wandb", "ours")
    write("source/mine", f"{GLOBAL}source: applications\n")
    spec = composer.settings(["model=resnet50", "source=mine"]).trial.model
    assert spec.source == "applications"
    with pytest.raises(ConfigError, match=r"unknown source 'hubb'\. Did you mean 'hub'"):
        composer.settings(["model=resnet50", "source=hubb"])
