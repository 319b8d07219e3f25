"""Flags of the installed TensorFlow."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from xla_sweeps.config import runtime
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.backend import Backend, default_backend

pytestmark = pytest.mark.tf


def test_tensorflow_lists_its_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SWEEPS_CACHE", str(tmp_path))
    runtime.listed_flags.cache_clear()
    kinds = runtime.listed_flags(default_backend(), "XLA_FLAGS")
    assert kinds["xla_cpu_enable_fast_math"] == "bool"
    assert kinds["xla_cpu_prefer_vector_width"] == "int"
    assert kinds["xla_dump_to"] == "str"
    (kept,) = (tmp_path / "flags").iterdir()
    assert msgspec.json.decode(kept.read_bytes()) == kinds


@pytest.mark.exhaustive
def test_a_flag_that_the_list_leaves_out_is_taken_only_if_tensorflow_takes_it(
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
    assert not runtime.accepts(default_backend(), "XLA_FLAGS", "xla_gpu_no_such_flag", "true")
