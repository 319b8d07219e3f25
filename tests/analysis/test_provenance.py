"""The provenance of a row: versions, telemetry, and the command that repeats the trial."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from composed import settings
from factories import TRIAL, make_record

from xla_sweeps.analysis import provenance
from xla_sweeps.schema.environment_options import ENVIRONMENT
from xla_sweeps.schema.options import OPTIONS
from xla_sweeps.schema.overrides import asked_of
from xla_sweeps.schema.record import GpuSpan
from xla_sweeps.schema.trial import Data, InputSpec, Runtime, Training


@pytest.mark.parametrize(
    "words",
    [
        ["model=resnet50"],
        ["model=resnet50", "resolution=160", "batch_size=1", "jit=false"],
        ["model=mobilenet_v2", "scenario=fit", "jit=null", "precision=mixed_bfloat16", "seed=3"],
        ["model=mobilenet_v2", "scenario=predict", "modes=[predict_xla,predict_xla,call_host]"],
        ["model=vit_b16", "source=keras_hub", "effort=standard"],
    ],
)
def test_the_command_repeats_the_words_that_asked_for_the_trial(words: list[str]) -> None:
    first = settings(*words)
    record = make_record(trial=first.trial, words=tuple(words))
    command = provenance.command_of(record)
    assert shlex.split(command) == ["python", "-m", "xla_sweeps", *words]
    assert settings(*shlex.split(command)[3:]).trial == first.trial
    assert provenance.command_of(replace(record, words=("model=vgg16",))) == ""


def test_a_trial_says_every_option_that_defines_it() -> None:
    defining = {option.name for option in OPTIONS if option not in ENVIRONMENT}
    assert {*asked_of(TRIAL), "jit", "backend"} == defining, "a new option: say it in asked_of"


def test_an_option_is_read_from_a_trial_as_it_was_asked_for() -> None:
    model = replace(
        TRIAL.model,
        source="local",
        recipe={"kind": "keras", "path": "net.keras", "import": "my_layers"},
        keras=2,
        inputs=(InputSpec(shape=(4,)),),
    )
    data = Data(path="/pictures", pictures=100, fingerprint="0", drop_remainder=True)
    own = replace(
        TRIAL,
        model=model,
        training=Training(optimizer="adam", learning_rate=0.1, data=data),
        runtime=Runtime(onednn=False, intra_threads=1, xla_flags={"xla_a": True}),
    )
    asked = asked_of(own)
    spec = {"shape": [4], "dtype": "float32", "low": 0.0, "high": 255.0}
    assert (asked["model"], asked["path"], asked["import"]) == ("local", "net.keras", "my_layers")
    assert (asked["trust_code"], asked["input_spec"], asked["keras"]) == (True, [spec], 2)
    assert (asked["data"], asked["drop_remainder"]) == ("/pictures", True)
    assert (asked["optimizer"], asked["learning_rate"]) == ("adam", 0.1)
    assert (asked["threads"], asked["xla_flags"]) == ({"intra": 1, "inter": None}, {"xla_a": True})


def test_names_in_a_command_are_quoted_for_the_shell() -> None:
    words = ("model=local", "path='it\\'s; rm -rf x.keras'", "trust_code=true")
    config = {"source": "local", "path": "it's; rm -rf x.keras", "batch_size": 4}
    command = provenance.command_of(make_record(config=config, words=words))
    assert shlex.split(command) == ["python", "-m", "xla_sweeps", *words]


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "GOMP_SPINCOUNT", "TF_CUDNN_RESET_RND"])
def test_a_command_sets_the_variables_that_identify_a_trial_and_load_nothing(name: str) -> None:
    flags = {name: "1", "LD_PRELOAD": "/evil.so"}
    command = provenance.command_of(make_record(environment={"flags": flags}))
    assert command.startswith(f"{name}=1 python -m xla_sweeps ")


def test_versions_are_those_that_were_loaded() -> None:
    facts = {
        "packages": {"tensorflow": "2.20.0", "keras": "3.1"},
        "loaded": {"tensorflow": "2.21.0", "cuda": "12.5", "cudnn": "9"},
    }
    on_cpu, on_gpu = (
        make_record(environment=facts, device={"kind": kind, "name": "X"})
        for kind in ("cpu", "gpu")
    )
    assert provenance.software_of(on_cpu) == "TensorFlow 2.21.0, Keras 3.1"
    assert provenance.software_of(on_gpu) == "TensorFlow 2.21.0, Keras 3.1, CUDA 12.5, cuDNN 9"


def test_telemetry_is_the_extremes_over_processes() -> None:
    readings = ((1410.0, 40.0, 655.0), (1200.0, 61.0, None), (1100.0, 66.0, None))
    first, second, third = (
        GpuSpan(rounds=(0, 9), elapsed_s=1.0, sm_mhz=clock, celsius=heat, watts=watts)
        for clock, heat, watts in readings
    )
    records = [
        make_record(contamination={"foreign_cores": 0.1}, gpu=(first, second)),
        make_record(contamination={"foreign_cores": 0.4}, gpu=(third,)),
    ]
    assert provenance.telemetry_of(records) == {
        "sm_clock_mhz_low": 1100.0,
        "sm_clock_mhz_high": 1410.0,
        "temperature_high": 66.0,
        "watts_high": 655.0,
        "foreign_cores": 0.4,
    }
    assert set(provenance.telemetry_of([make_record()]).values()) == {None}


@pytest.mark.parametrize("value", [["a", 1], None, {}, "ab"])
def test_telemetry_that_is_no_number_is_not_there(value: Any) -> None:
    record = make_record(contamination={"foreign_cores": value})
    assert set(provenance.telemetry_of([record]).values()) == {None}
