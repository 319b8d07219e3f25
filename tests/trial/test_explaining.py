"""The process of an explanation: when it starts, and what remains where it does not finish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.explanation import Explanation, State, Trap, TrapName
from xla_sweeps.system import environment
from xla_sweeps.system.leases import LEASES, Leases, whole_replicate
from xla_sweeps.trial import explaining, workers


def test_what_a_dead_process_did_not_say_is_not_available_with_the_reason() -> None:
    seen = Trap(name=TrapName.DROPPED_CHECKS, state=State.FOUND, what="seen")
    early = {"roofline": "an earlier reason"}
    known = Explanation(model="net", device="CPU", refusals=(), traps=(seen,), missing=early)
    whole = known.complete("SIGABRT")
    assert whole.compiler is None
    assert (whole.missing["compiler"], whole.missing["roofline"]) == ("SIGABRT", *early.values())
    assert "refusals" not in whole.missing
    assert {trap.name for trap in whole.traps} == set(TrapName)
    assert whole.traps[0] == seen
    assert {trap.state for trap in whole.traps[1:]} == {State.UNKNOWN}


def test_it_waits_for_a_measurement_on_the_device_which_compiling_would_disturb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def start(*_arguments: Any, **_options: Any) -> None:
        events.append("starts")

    tmp_path.chmod(0o700)
    monkeypatch.setenv(LEASES, str(tmp_path))
    monkeypatch.setattr(workers, "start", start)
    settings = settings_of(compose_config(["model=resnet50", "device=cpu"]), explicit=set())
    measuring = Leases(whole_replicate(settings.device), holder="vgg16")
    assert not measuring.take()

    def wait(holder: str) -> None:
        events.append(holder.split(" (pid")[0])
        measuring.close()

    explaining.explain(settings, trace=True, on_stage=lambda stage: None, on_wait=wait)
    assert events == ["vgg16", "starts"]


def test_what_explaining_needs_is_named_before_a_process_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda module: module != "google.protobuf")
    settings = settings_of(compose_config(["model=mnist_mlp", "backend=jax"]))
    with pytest.raises(ConfigError, match=r"explain on JAX needs protobuf: .*install protobuf"):
        explaining.require_explainer(settings)
