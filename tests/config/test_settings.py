"""Settings: how each wrong request is refused, and the trial that each right one gives."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from composed import complaint, complaint_of, settings
from keras_files import write_keras_file

from xla_sweeps.config import catalog
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.scenario import candidate_mode
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.errors import ConfigError, DeviceError
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.options import BY_NAME
from xla_sweeps.schema.overrides import asked_of
from xla_sweeps.schema.trial import Precision, request_id
from xla_sweeps.system.devices import cpu_name
from xla_sweeps.system.environment import uses_wandb
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.trial.tracking import run_header

pytestmark = pytest.mark.usefixtures("composed_once")

CATALOG = catalog.load_catalog()


@pytest.mark.parametrize("name", ["resnet50", "vit_b16", "vgg16_backbone"])
def test_a_model_composes_into_a_trial_from_every_source(name: str) -> None:
    first, *others = CATALOG[name].sources
    for source, given in ((first, []), *((source, [f"source={source}"]) for source in others)):
        check_model(settings(f"model={name}", *given), name, source)


@pytest.mark.exhaustive
def test_every_models_file_gives_a_trial_from_every_source() -> None:
    """As Hydra composes it, which takes a tenth of a second for each."""
    composed = compose_config(["device=cpu"])
    for name, entry in CATALOG.items():
        model = yaml.safe_load((catalog.conf_dir() / "model" / f"{name}.yaml").read_text())
        for source in entry.sources:
            document = composed | {"model": model, "source": source}
            asked = settings_of(document, explicit={"model", "source"}, environ={})
            check_model(asked, name, source)


def check_model(asked: Settings, name: str, source: str) -> None:
    model = asked.trial.model
    assert (model.name, model.source) == (name, source)
    assert model.resolution_px == CATALOG[name].resolution


@pytest.mark.parametrize("name", ["effort", "tracker"])
def test_every_choice_composes(name: str) -> None:
    for choice in BY_NAME[name].choices:
        assert settings(f"{name}={choice}")


def test_a_users_model_has_the_same_name_everywhere(tmp_path: Path) -> None:
    write_keras_file(tmp_path / "net.keras")
    own = ["model=local", f"path={tmp_path}/net.keras", "trust_code=true"]
    checked = settings(*own)
    assert checked.trial.model.name == "net"
    assert checked.trial.model.resolution_px is None
    assert settings(*own, "model.variant=MyNet").trial.model.variant == "MyNet"
    facts: dict[str, Any] = {"device_kind": "cpu", "device_name": "Some CPU", "environment": {}}
    facts |= {"trial_id": "0", "results_dir": tmp_path}
    header = run_header(checked.trial, checked.tracker, **facts)
    assert header.name == "net b4 xla Some CPU"


def test_a_saved_model_in_a_handles_place_is_run_only_if_it_is_trusted(tmp_path: Path) -> None:
    asked = ["model=mixer_b16", f"weights={tmp_path}"]
    assert "can run any code; add trust_code=true" in complaint(*asked)
    assert settings(*asked, "trust_code=true").trial.model.weights == str(tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        "mnist_mlp",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("tiny_dense", "seq_conv", "seq_conv_lstm")
        ),
    ],
)
def test_an_example_made_of_layers_takes_a_precision(model: str) -> None:
    for scenario in ("call", "predict"):
        asked = settings(f"model={model}", "precision=mixed_bfloat16", f"scenario={scenario}")
        assert asked.trial.precision is Precision.MIXED_BFLOAT16
        assert "dtype_fixed" not in asked.trial.model.recipe


def test_a_source_that_is_not_installed_is_refused_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "xla_sweeps.system.environment.is_installed", lambda module: module != "keras_cv"
    )
    assert complaint("model=yolo_v8_m") == (
        f"source=keras_cv: keras_cv is not installed; install it: {how_to_install('keras-cv')}"
    )
    assert settings("model=resnet50").trial.model.source == "applications"


@pytest.mark.exhaustive
def test_every_scenario_composes() -> None:
    for scenario in Scenario:
        model = "yolo_v8_xs" if scenario is Scenario.DETECT else "resnet50"
        assert settings(f"model={model}", f"scenario={scenario}").trial.scenario is scenario


def test_each_mode_alone_is_measured_at_publish_or_as_asked() -> None:
    assert settings("effort=publish").trial.effort.sustained_s == 30
    assert settings("effort=quick").trial.effort.sustained_s == 0
    assert settings("effort=publish", "effort.sustained_s=0").trial.effort.sustained_s == 0
    assert settings("effort.sustained_s=2").trial.effort.sustained_s == 2


def test_the_default_is_a_quick_trial_of_eager_graph_and_xla() -> None:
    trial = settings().trial
    assert trial.model.name == "mobilenet_v2"
    assert trial.modes == ("eager", "graph", "xla")
    facts = (trial.batch_size, trial.precision, trial.effort.name, trial.device)
    assert facts == (4, "float32", "quick", "cpu")


@pytest.mark.parametrize(
    ("override", "modes"),
    [
        ("jit=true", ("eager", "graph", "xla")),
        ("jit=True", ("eager", "graph", "xla")),
        ("jit=false", ("eager", "graph")),
        ("jit=False", ("eager", "graph")),
        ("jit=null", ("eager", "graph", "default")),
        ("jit=None", ("eager", "graph", "default")),
        ("jit=auto", ("eager", "graph", "autocluster")),
        ("modes=[graph,graph]", ("graph", "graph_2")),
        ("modes=[xla]", ("xla",)),
        ("modes='graph, xla'", ("graph", "xla")),
    ],
)
def test_jit_chooses_the_candidate_and_modes_overrides_it(
    override: str, modes: tuple[str, ...]
) -> None:
    assert settings(override).trial.modes == modes


@pytest.mark.parametrize("value", ["maybe", 1, 0, 1.0, "yes", [True]])
def test_any_other_jit_is_refused(value: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"allowed are true \(xla\), false \(graph\), null \(default\) and auto"
    ):
        candidate_mode(value)


def test_repeating_an_override_with_the_same_value_is_not_a_conflict() -> None:
    assert settings("batch_size=8", "batch_size=8").trial.batch_size == 8


def test_a_trial_says_what_asks_for_it() -> None:
    asked = asked_of(settings("model=resnet50", "jit=auto").trial)
    assert (asked["resolution"], asked["source"]) == (224, "applications")
    assert asked["modes"] == ["eager", "graph", "autocluster"]


@pytest.mark.parametrize(
    ("overrides", "environ", "name"),
    [
        ([], {}, "none"),
        (["tracker.group=g", "tracker.tags=[aa]"], {}, "none"),
        (["tracker.entity=me"], {}, "wandb_offline"),
        ([], {"WANDB_API_KEY": "k"}, "wandb_offline"),
        ([], {"WANDB_DIR": "here"}, "wandb_offline"),
        (["tracker=none"], {"WANDB_MODE": "online"}, "none"),
        (["tracker=wandb"], {"WANDB_MODE": "offline"}, "wandb"),
        ([], {"WANDB_MODE": "online"}, "wandb"),
        ([], {"WANDB_SWEEP_ID": "abc"}, "wandb"),
        ([], {"WANDB_SWEEP_ID": "abc", "WANDB_MODE": "offline"}, "wandb_offline"),
        ([], {"WANDB_MODE": "disabled"}, "none"),
    ],
)
def test_runs_are_tracked_for_those_who_use_wandb(
    overrides: list[str], environ: dict[str, str], name: str, tmp_path: Path
) -> None:
    environ = {"HOME": str(tmp_path), **environ}
    assert settings(*overrides, environ=environ).tracker.name == name


def test_a_user_without_a_home_folder_uses_no_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    assert settings(environ={}).tracker.name == "none"


def test_a_home_folder_that_may_not_be_read_uses_no_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    assert not uses_wandb({"HOME": str(tmp_path)})


@pytest.mark.parametrize("path", [".netrc", ".config/wandb/settings"])
def test_a_login_asks_for_wandb(path: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("machine api.wandb.ai\n  login user\n  password k\n")
    assert settings(environ={"HOME": str(tmp_path)}).tracker.name == "wandb_offline"


def test_a_tracker_that_is_not_wandbs_may_have_a_project_that_wandb_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_own = {**BY_NAME["tracker"].choices, "summary_file": ""}
    monkeypatch.setitem(BY_NAME, "tracker", replace(BY_NAME["tracker"], choices=with_own))
    environ = {"WANDB_BASE_URL": "https://me:secret@wandb.example.org"}
    asked = settings("tracker=summary_file", "tracker.project=sweeps", environ=environ)
    assert (asked.tracker.name, asked.tracker.project) == ("summary_file", "sweeps")


OF_WANDB = {
    **{"project": "WANDB_PROJECT", "entity": "WANDB_ENTITY", "group": "WANDB_RUN_GROUP"},
    **{"run_name": "WANDB_NAME", "notes": "WANDB_NOTES", "job_type": "WANDB_JOB_TYPE"},
}


@pytest.mark.parametrize("key", OF_WANDB)
def test_an_option_of_the_tracker_comes_before_wandbs_own_variable(key: str) -> None:
    environ = {OF_WANDB[key]: "theirs"}
    for words, value in ([], "theirs"), ([f"tracker.{key}=mine"], "mine"):
        asked = settings(*words, environ=environ)
        assert getattr(asked.tracker, key) == value


def test_wandbs_tags_come_behind_ones_own() -> None:
    environ = {"WANDB_TAGS": "b, c,,a"}
    assert settings("tracker.tags=[a]", environ=environ).tracker.tags == ("a", "b", "c")


@pytest.mark.parametrize("word", ["tracker=none", "tracker.name=none", "++tracker=none"])
def test_a_tracker_and_its_project_go_together_in_any_order(word: str) -> None:
    for words in ([word, "tracker.project=mine"], ["tracker.project=mine", word]):
        tracker = settings(*words, "tracker.tags=[a,b]").tracker
        assert (tracker.name, tracker.project, tracker.tags) == ("none", "mine", ("a", "b"))


def test_a_file_of_a_users_folder_sets_source_and_tracker(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nsource: keras_hub\ntracker: {name: none, project: p}\n"
    )
    composed = compose_config(
        ["+experiment=mine", "model=resnet50", "device=cpu"], config_dir=OwnFolder(tmp_path)
    )
    asked = settings_of(composed, explicit={"tracker"}, environ={})
    assert asked.trial.model.source == "keras_hub"
    assert (asked.tracker.name, asked.tracker.project) == ("none", "p")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name: [1, 2\nfamily: x\n", ":2: not valid YAML: "),
        ("a: &x 1\nb: *x\n", ":2: YAML aliases are not allowed"),
        ("a: " + "[" * 40 + "]" * 40, ":1: nested deeper than 32 levels"),
        ("a: " + "x" * 2**20, "larger than 1 MiB"),
        ("_target_: os.system\n", "_target_ in"),
        ("name: ${oc.env:WANDB_API_KEY}\n", "mine.yaml:1: '${oc.env:WANDB_API_KEY}' holds a $"),
        ("name: ${oc.decode:x}\n", "holds a $"),
    ],
)
def test_a_bad_file_in_a_users_folder_is_reported_with_its_path(
    tmp_path: Path, text: str, reason: str
) -> None:
    place = tmp_path / "model" / "mine.yaml"
    place.parent.mkdir()
    place.write_text(text)
    said = complaint_of(compose_config, ["model=mine"], config_dir=OwnFolder(tmp_path))
    assert reason in said
    assert str(place) in said or reason[0] != ":"


def test_a_syntax_error_in_the_configuration_is_reported_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    shutil.copytree(catalog.conf_dir(), tmp_path / "conf")
    (tmp_path / "conf" / "effort" / "quick.yaml").write_text("name: quick\nrounds_min: [1\n")
    monkeypatch.setattr(catalog, "conf_dir", lambda: tmp_path / "conf")
    with pytest.raises(ConfigError, match=r"quick\.yaml:\d+: not valid YAML"):
        compose_config([])


def test_a_device_that_is_not_the_accelerator_asked_for_is_refused() -> None:
    with pytest.raises(
        DeviceError,
        match=r"accelerator=H100: cpu is .*; run this trial on a machine with one, or remove the "
        "option",
    ):
        settings("accelerator=H100")
    assert settings(f"accelerator={cpu_name()[:3]}").device.name == cpu_name()


@pytest.mark.parametrize(
    ("overrides", "modes"),
    [
        (("scenario=train_step", "jit=auto"), "graph train_on_batch_auto"),
        (("scenario=fit", "jit=auto"), "input graph xla fit_graph fit_auto"),
        (("scenario=predict", "jit=false"), "call_host graph_host xla_host predict predict_graph"),
        (("scenario=predict", "modes=[predict_xla,predict_xla]"), "predict_xla predict_xla_2"),
    ],
)
def test_each_scenario_has_modes_of_its_own(overrides: tuple[str, ...], modes: str) -> None:
    chosen = settings(*overrides).trial.modes
    assert set(modes.split()) <= set(chosen)
    assert "eager" not in chosen


def test_copies_apart_are_measured_by_processes_of_their_own() -> None:
    trial = settings("modes=[graph,xla,graph]", "copies=apart").trial
    assert trial.workers == (("graph", "xla"), ("graph_2",))
    together = settings("modes=[graph,xla,graph]").trial
    assert together.workers == (("graph", "xla", "graph_2"),)
    assert request_id(trial) != request_id(together)
    assert complaint("modes=[graph,xla]", "copies=apart") == (
        "copies=apart: no mode of modes=[graph,xla] is given twice; use an A/A pair, as in "
        "modes=[graph,graph]"
    )


def test_processes_whose_weights_do_not_fit_together_are_refused_before_they_start() -> None:
    words = ["model=vgg16", "modes=[graph,graph]", "copies=apart", "device=cpu"]
    document = compose_config(words)
    small = replace(settings(*words).device, memory_bytes=2**30)
    assert complaint_of(settings_of, document, device=small) == (
        "copies=apart: 2 processes with the weights of vgg16 need at least 1.8 GiB, cpu has 1.0 "
        "GiB; use copies=together"
    )
    settings_of(document, device=replace(small, memory_bytes=16 * 2**30))


def test_one_predict_gets_several_batches_and_an_epoch_has_eight_or_as_many_as_asked() -> None:
    trial = settings("scenario=predict", "batches=8", "modes=[predict,predict_xla_steps]").trial
    assert (trial.batches, trial.samples) == (8, 32)
    assert settings("scenario=fit").trial.batches == 8
    assert settings("scenario=fit", "batches=1").trial.batches == 1


def test_keras_2_builds_what_keras_applications_has() -> None:
    assert settings("keras=2").trial.model.library == "tf_keras"
    assert request_id(settings("keras=3").trial) == request_id(settings().trial)
    assert request_id(settings("model=regnetx_002", "keras=2").trial) == request_id(
        settings("model=regnetx_002").trial
    )
    assert complaint("source=keras_hub", "model=vit_b16", "keras=2") == (
        "keras=2: vit_b16 from source=keras_hub is not built by tf_keras; it has the models of "
        "source=applications and source=examples"
    )


def test_a_model_without_predict_is_told_so() -> None:
    assert complaint("model=vit_b16", "source=hub", "scenario=predict") == (
        "scenario=predict: vit_b16 from source=hub is no Keras model, so it has no predict; use "
        "scenario=call"
    )
