"""Flags of the installed TensorFlow, and a trial's flags on their way to it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from factories import TRIAL

from xla_sweeps.config import runtime
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.backend import Backend, default_backend
from xla_sweeps.schema.trial import Runtime
from xla_sweeps.trial.workers import worker_environment

pytestmark = pytest.mark.tf


def test_tensorflow_lists_its_flags_and_takes_none_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SWEEPS_CACHE", str(tmp_path))
    runtime.listed_flags.cache_clear()
    kinds = runtime.listed_flags(default_backend(), "XLA_FLAGS")
    assert kinds["xla_cpu_enable_fast_math"] == "bool"
    assert kinds["xla_cpu_prefer_vector_width"] == "int"
    assert kinds["xla_dump_to"] == "str"
    (kept,) = (tmp_path / "flags").iterdir()
    assert msgspec.json.decode(kept.read_bytes()) == kinds
    assert not runtime.accepts(default_backend(), "XLA_FLAGS", "xla_gpu_no_such_flag", "true")


@pytest.mark.exhaustive
def test_a_flag_that_the_list_leaves_out_is_taken_if_tensorflow_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut_off = {"xla_cpu_prefer_vector_width": "int"}
    monkeypatch.setattr(runtime, "listed_flags", lambda backend, variable: cut_off)
    runtime.accepts.cache_clear()
    asked: list[str] = []
    ask = runtime._ask

    def noted(backend: Backend, variable: str, value: str) -> tuple[int, str]:
        asked.append(value)
        return ask(backend, variable, value)

    monkeypatch.setattr(runtime, "_ask", noted)
    words = ["device=cpu", "xla_flags.xla_cpu_enable_fast_math=true"]
    settings = settings_of(compose_config(words), environ={})
    assert settings.trial.runtime.xla_flags == {"xla_cpu_enable_fast_math": True}
    assert asked == ["--xla_cpu_enable_fast_math=true"]


def test_a_trials_options_are_in_force_in_its_process(tmp_path: Path) -> None:
    asked = settings_of(compose_config(["device=cpu", f"results_dir={tmp_path}"]), environ={})
    runtime = Runtime(
        xla_flags={"xla_cpu_enable_fast_math": "true"},
        intra_threads=5,
        inter_threads=3,
        onednn=False,
    )
    child = worker_environment(replace(TRIAL, runtime=runtime), asked.device)
    code = (
        "import json; from xla_sweeps.backends.tensorflow import devices; "
        "print(json.dumps(devices.loaded_environment()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **child}, capture_output=True, check=True
    )
    settings = msgspec.json.decode(done.stdout.splitlines()[-1])
    assert (settings["intra_op_threads"], settings["inter_op_threads"]) == (5, 3)
    assert settings["onednn"] is False
    assert settings["xla_flags"].split()[-1] == "--xla_cpu_enable_fast_math=true"
