"""A worker's desk in this process, on the engine that the first argument names."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import keras
import msgspec
from factories import TRIAL

from xla_sweeps.backends.keras import sources
from xla_sweeps.backends.keras.sources import OWN, LoadedModel
from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import InputSpec, ReplicateJob, Training
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import diagnose_exception, error_text
from xla_sweeps.worker.replicate import Replicate

ENGINE = sys.argv[1]

_MODES: dict[str, dict[str, tuple[str, ...]]] = {
    "tensorflow": {
        "call": ("eager", "graph", "xla"),
        "train_step": ("eager", "graph", "xla", "train_on_batch_xla"),
        "predict": ("eager", "call_host", "predict_graph", "predict_xla"),
        "new_shapes": ("eager", "graph", "graph_dynamic", "xla"),
    },
    "jax": {
        "call": ("jax_eager", "jax_xla"),
        "train_step": ("jax_eager", "jax_xla"),
        "predict": ("jax_predict_eager", "jax_predict_xla"),
        "new_shapes": ("jax_eager", "jax_xla"),
    },
    "torch": {
        "call": ("torch_eager", "torch_compile", "torch_export"),
        "train_step": ("torch_eager", "torch_compile"),
        "predict": ("torch_predict_eager", "torch_predict_compile", "torch_predict_compile_2"),
        "new_shapes": ("torch_eager", "torch_compile", "torch_compile_dynamic"),
    },
}

MODES = _MODES[ENGINE]

_PACKAGE = f"xla_sweeps.backends.{ENGINE}"

FRAMEWORK: Any = pkgutil.resolve_name(
    f"{_PACKAGE}.{pkgutil.resolve_name(f'{_PACKAGE}.worker:FRAMEWORK')}"
)

SHAPE = (8, 8, 3)

PLANTED = 1e-3
"""A relative error of outputs, or of gradients."""

BRIEF = replace(
    TRIAL.effort,
    always_reference=True,
    warmup_calls=3,
    warmup_s=0.0,
    warmup_cap_s=0.01,
    warmup_cap_calls=5,
)


def network(*more: Callable[[], Any]) -> Any:
    """A small classifier with further layers in the middle."""
    inputs = keras.Input(SHAPE)
    values = keras.layers.Conv2D(4, 3, activation="relu")(inputs)
    for make in more:
        values = make()(values)
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(inputs, keras.layers.Dense(5)(values))


class Desk:
    """A worker's desk that has set up a model, and what it heard."""

    def __init__(
        self,
        make: Callable[[], Any],
        scenario: str = "call",
        *,
        modes: Sequence[str] = (),
        library: str = "keras",
        **changes: Any,
    ) -> None:
        modes = modes or MODES[scenario]
        self.trial = replace(
            TRIAL,
            model=replace(
                TRIAL.model,
                name="tiny",
                library=library,
                weights="own" if library == OWN else "random",
                inputs=(InputSpec(shape=SHAPE, low=-1, high=1),),
            ),
            scenario=Scenario(scenario),
            training=Training() if scenario == "train_step" else None,
            batch_size=2,
            modes=tuple(modes),
            effort=BRIEF,
        )
        self.trial = replace(self.trial, **changes)
        self.heard: list[Any] = []
        self.replicate = Replicate(FRAMEWORK, self.heard.append, title=ENGINE)
        job = ReplicateJob(trial=self.trial, replicate=0, modes=self.trial.modes, order_seed=1)
        self._load = mock.patch.object(
            sources, "load", side_effect=lambda spec, **_: self._loaded(make())
        )
        with self._load:
            self.replicate.answer(protocol.SetUp(job=job))
        self.bench: Any = self.replicate._model

    def _loaded(self, model: Any) -> LoadedModel:
        inputs = self.trial.model.inputs
        if isinstance(model, keras.Model):
            model(keras.ops.zeros((2, *SHAPE)))
            return LoadedModel.of_keras(model, inputs)
        return LoadedModel(forward=model, inputs=inputs, variables=[], rebuildable=False)

    def answer(self, request: protocol.Request) -> Any:
        with self._load:
            return self.replicate.answer(request)

    def outcomes(self) -> dict[str, Any]:
        """Prepare all modes, then warm up and time those that are usable, as the parent asks."""
        outcomes: dict[str, ModeOutcome] = {}
        usable = [mode for mode in self.trial.modes if self._prepare(mode, outcomes)]
        for mode in usable:
            outcomes[mode] = self.answer(protocol.WarmUp(mode=mode)).outcome
        for mode in usable:
            block = self.answer(protocol.TimeBlock(mode=mode, calls=2, settle=True)).block
            assert block.calls == 2 < block.elapsed_ns
        return {mode: msgspec.to_builtins(outcome) for mode, outcome in outcomes.items()}

    def statuses(self) -> dict[str, str]:
        """The status of each mode."""
        return {mode: each["status"] for mode, each in self.outcomes().items()}

    def _prepare(self, mode: str, outcomes: dict[str, ModeOutcome]) -> bool:
        """Whether a mode is ready to be measured; its outcome, also where it is not."""
        try:
            ready = self.answer(protocol.Prepare(mode=mode))
        except Exception as error:
            stages = [each.phase for each in self.heard if isinstance(each, protocol.Stage)]
            kind, text, backend = type(error).__name__, error_text(error), backend_named(ENGINE)
            status, failure = diagnose_exception(stages[-1], kind, text, backend=backend)
            outcomes[mode] = ModeOutcome(status=status, failure=failure)
            return False
        outcomes[mode] = ready.outcome
        return bool(ready.outcome.status is not Status.MODE_NOT_EFFECTIVE)

    def measured(self) -> Any:
        """The outcomes of all modes, and what is known of the model at the end."""
        outcomes = self.outcomes()
        calls = {mode: 2 for mode, each in outcomes.items() if each["status"] == "ok"}
        spoilt = self.answer(protocol.Finish(calls=calls)).spoilt
        return {"modes": outcomes, "macs": self.bench.facts.macs, "spoilt": list(spoilt)}
